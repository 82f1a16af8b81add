"""The lamps follow from the numbers: good data, weak motion, wrong units, over-fit, bodies that cannot exist, another
robot."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators import WLS, Consistent, Estimator
from steelyard.export.file_fit.rows import moved_to
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.terms import Rotor, named_terms
from steelyard.physical.certificates import judged_set
from steelyard.regression.problem import Problem
from steelyard.report.lamps import TARGETS, Lamp, LampLimits, ResultFiles, lamps
from steelyard.report.numerals import share
from steelyard.signals.samples import Samples
from testbed.command import Run

ROOT = Path(__file__).resolve().parents[2]
RATE = 100.0


@cache
def model() -> Model:
    return Model(read_robot("planar2r"), named_terms(["viscous", "coulomb", "offset"]))


def truth() -> Array:
    """The robot file's bodies with friction."""
    theta = model().layout.nominal
    assert theta is not None
    values = theta.copy()
    for k, column in enumerate(model().layout.columns):
        values[k] = {"Fv": 1.5, "Fc": 2.0, "off": 0.3}.get(column.symbol, values[k])
    return values


def run(
    name: str,
    seed: int,
    theta: Array,
    seconds: float = 30.0,
    speed: float = 1.0,
    noise: float = 0.1,
    of: Model | None = None,
) -> Samples:
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    w = 2 * np.pi * speed * rng.uniform(0.1, 0.7, (2, 4, 1))
    phase, size = rng.uniform(0.0, 6.0, (2, 4, 1)), 0.7 / speed
    q = size * np.sin(w * t + phase).sum(axis=1)
    v = size * (w * np.cos(w * t + phase)).sum(axis=1)
    a = -size * (w**2 * np.sin(w * t + phase)).sum(axis=1)
    effort = (of or model()).torque(q, v, a, theta) + noise * rng.standard_normal(q.shape)
    return Samples.from_arrays(name, model().robot.joint_names, RATE, q, v, a, effort)


def fitted(
    fit: Samples, other: Samples | None = None, estimator: Estimator | None = None, decimate: int = 4
) -> Identification:
    problem = Problem(model(), [fit], decimate=decimate)
    held_out = None if other is None else problem.with_runs([other])
    return identify(problem, estimator or Consistent(), held_out=held_out)


@cache
def good() -> Identification:
    return fitted(run("a", 1, truth()), run("b", 2, truth()))


def answers(found: tuple[Lamp, ...]) -> list[str]:
    return [one.answer for one in found]


def test_good_data() -> None:
    found = lamps(good())
    assert answers(found)[0] == "yes"
    assert answers(found)[1] in ("yes", "with care")
    assert answers(found)[2] == "yes"
    assert good().unseen is not None
    assert f"{good().judged.relative:.2%}" in found[0].reason
    assert found[0].command == "steelyard twin project-run"
    assert found[2].command == "steelyard export project-run --to urdf"


def test_without_an_unseen_run_other_motion_is_predicted_with_care() -> None:
    found = lamps(replace(good(), unseen=None, unseen_nominal=None))
    assert answers(found)[0] == "with care"
    assert found[0].command == "steelyard validate project-run OTHER-LOG.csv"
    found = lamps(replace(good(), unseen=None, unseen_nominal=None, expected=None))
    assert answers(found)[0] == "not known"
    assert found[2].answer == "with care"


def test_a_repetition_of_the_fitted_motion_is_no_unseen_motion() -> None:
    """Another recording of the same motion, with noise of its own."""
    again = replace(run("b", 1, truth(), noise=0.11), role="validate")
    repeated = fitted(run("a", 1, truth()), again)
    assert repeated.judged.repeated
    assert "on a repetition of the fitted motion" in repeated.judged.text
    for target in TARGETS:
        found = lamps(repeated, LampLimits(target=target))
        assert (found[0].answer, found[2].answer) == ("with care", "with care")
        assert "on a repetition of the fitted motion; no other motion was scored" in found[0].reason
        assert "not on unseen motion" in found[2].reason
        assert found[0].command == found[2].command == "steelyard validate project-run OTHER-LOG.csv"


def test_weak_motion_asks_for_another() -> None:
    weak = fitted(run("a", 1, truth(), seconds=3.0, speed=0.3), run("b", 2, truth()), WLS(), decimate=8)
    found = lamps(weak)
    assert weak.judged.needs_more_motion
    assert found[2].answer != "yes"
    assert f"{weak.judged.rows_each:.2g} rows per parameter are few" in found[2].reason
    assert any(one.command == "steelyard excite --given project-run --out motion.csv" for one in found)


def test_wrong_units_are_not_explained() -> None:
    degrees = run("a", 1, truth())
    pieces = [
        piece._replace(q=np.degrees(piece.q), v=np.degrees(piece.v), a=np.degrees(piece.a)) for piece in degrees.open()
    ]
    wrong = replace(degrees, open=lambda: iter(pieces))
    result = fitted(wrong, estimator=WLS())
    found = lamps(result)
    assert found[0].answer != "yes"
    assert f"Relative error {share(result.judged.relative)}" in found[0].reason
    assert found[0].command == "steelyard check project.toml"
    assert found[2].answer != "yes"


def test_an_over_fit_does_not_transfer() -> None:
    over = fitted(run("a", 1, truth(), seconds=1.2, noise=20.0), run("b", 2, truth(), noise=20.0), WLS(), decimate=10)
    judged = over.judged
    assert judged.relative > 1.5 * judged.fitted
    found = lamps(over, LampLimits(unseen_care=10.0, unseen=10.0, joint=10.0, transfer=1.5))
    assert found[0].answer in ("no", "with care")
    assert "times that of the fit" in found[0].reason or "without a fit" in found[0].reason


def test_another_robot_in_the_unseen_run() -> None:
    theta = truth()
    for name in ("link2.M", "link2.MX", "link2.ZZ"):
        theta[model().layout.index(name)] *= 1.25
    result = fitted(run("a", 1, truth()), run("b", 2, theta))
    moved, found = result.judged, lamps(result, LampLimits(unseen=10.0, unseen_care=10.0))
    assert moved.relative > 2.0 * moved.fitted
    assert found[0].answer == "with care"
    times = f"{moved.relative / moved.fitted:.1f} times that of the fit ({share(moved.fitted)}; limit 2)"
    assert times in found[0].reason
    assert found[0].command == "steelyard crossvalidate project.toml"
    assert lamps(result)[0].answer != "yes"


def test_a_robot_file_that_is_right_already_is_not_better_than_the_fit() -> None:
    """Its error is smaller by the noise of the fit; the reason once compared 1.93 % with 1.93 %."""
    right = good()
    assert right.unseen is not None
    for factor, answer in ((0.99, "yes"), (0.8, "no")):
        nominal = replace(right.unseen, total=factor * right.unseen.total)
        assert lamps(replace(right, unseen_nominal=nominal))[0].answer == answer


def test_a_simulation_is_told_that_the_error_is_that_of_the_model() -> None:
    assert "Relative error of the model " in lamps(good())[2].reason
    assert "its export scores the file itself" in lamps(good())[2].reason
    assert "of the model" not in lamps(good(), LampLimits(target="feed-forward"))[2].reason


def test_bodies_that_cannot_exist() -> None:
    theta = truth()
    theta[model().layout.index("joint1.Fc")] = -2.0
    found = lamps(fitted(run("a", 1, theta), run("b", 2, theta), WLS()))
    assert found[1].answer == "no"
    assert "joint1.Fc" in found[1].reason
    assert found[1].command == "steelyard identify project.toml --estimator consistent"
    assert found[2].answer == "no"
    assert lamps(fitted(run("a", 1, theta), run("b", 2, theta), WLS()), LampLimits(target="payload"))[2].answer == "yes"


def test_rotors_below_zero_are_removed_and_not_bounded() -> None:
    """Joint torque sensors do not measure the rotors; the finding lists what the lamp lists."""
    rotors = Model(model().robot, [Rotor(), *model().terms])
    theta = moved_to(rotors.layout, truth(), model().layout)
    for name in ("joint1.Ia", "joint2.Ia"):
        theta[rotors.layout.index(name)] = -2.0
    problem = Problem(rotors, [run("a", 1, theta, of=rotors)], decimate=4)
    result = identify(problem, WLS())
    assert result.standard is not None
    names = [name for name, _ in judged_set(result.base.layout, result.standard, result.drive_std).negative]
    assert "joint2.Ia" in names
    (finding,) = (one for one in result.findings if one.code == "negative-drive-parameter")
    assert [name for name in rotors.layout.names if f"{name} = " in finding.message] == names
    line = 'terms = ["viscous", "coulomb", "offset"]'
    lamp = lamps(result, None, ResultFiles("arm.toml", "arm-run", rotorless=line))[1]
    assert lamp.answer == "no"
    assert f"remove the term rotor: write {line} in arm.toml" in lamp.reason
    assert lamp.command == "steelyard identify arm.toml"


def test_limits_and_target_are_those_of_the_project() -> None:
    error = good().judged.relative
    assert lamps(good(), LampLimits(unseen=0.5 * error))[0].answer == "with care"
    assert lamps(good(), LampLimits(unseen_care=0.5 * error))[0].answer == "no"
    assert lamps(good(), LampLimits(simulation=0.5 * error))[2].answer == "no"
    assert lamps(good(), LampLimits(known=1.1))[2].answer == "with care"
    assert lamps(good(), LampLimits(target="feed-forward"))[2].question == "Good enough for feed-forward"
    with pytest.raises(ValueError, match="unseen must be a positive number"):
        LampLimits(unseen=0.0)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"target": "dancing"}, LampLimits)


def test_commands_quote_paths_and_use_the_robot_file() -> None:
    files = ResultFiles("my arm.toml", "my arm-run", "arm.urdf")
    found = lamps(good(), None, files)
    assert found[2].command == "steelyard export 'my arm-run' --to urdf --source arm.urdf"
    mjcf = lamps(good(), None, ResultFiles(robot="arm.xml"))
    assert mjcf[2].command == "steelyard export project-run --to mjcf --source arm.xml"


def test_the_documented_limits_are_the_defaults() -> None:
    text = (ROOT / "docs" / "lamps.md").read_text("utf-8")
    (block,) = [part.split("```")[0] for part in text.split("```toml\n")[1:]]
    assert msgspec.convert(tomllib.loads(block)["lamps"], LampLimits) == LampLimits()
    assert set(tomllib.loads(block)["lamps"]) == set(LampLimits.__struct_fields__)


def test_a_project_with_an_unknown_limit_names_the_valid_ones(steelyard: Run, project: Path) -> None:
    project.write_text(project.read_text("utf-8") + "\n[lamps]\nunsen = 0.1\n", "utf-8")
    told = steelyard("identify", project)
    assert told.code == 2
    assert "Did you mean 'unseen'" in told.err
