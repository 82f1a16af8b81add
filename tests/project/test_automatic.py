"""Settling: what a project leaves open becomes numbers, is told, and gives the same answers when it is read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.formats.robots import read_robot
from steelyard.identification.first_fit import with_load
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import (
    DEFAULT_TERMS,
    Coulomb,
    Dahl,
    LoadFriction,
    Stribeck,
    Term,
    named_terms,
    on_joints,
    rich_terms,
)
from steelyard.motion.random import random_fourier
from steelyard.project.automatic import resolve_auto
from steelyard.project.checks import check
from steelyard.project.project import Project, ProjectSpec, read_project
from steelyard.project.result_file import read_document, read_result
from steelyard.project.run import run
from testbed.command import Run
from testbed.pendulum import csv
from testbed.simulated import PENDULUM as ROBOT
from testbed.simulated import late_samples_of, model_of, truth_of

RATE = 200.0
CHANNELS = """
[channels]
time = { column = "t", unit = "s" }

[channels.q]
columns = ["q_joint1", "q_joint2"]
unit = "rad"

[channels.effort]
columns = ["tau_joint1", "tau_joint2"]
unit = "N.m"
"""
# what the tests of one choice say about the others
STATED = 'cutoff_hz = 20.0\nlowpass_hz = 8.0\ndecimate = 6\nderivatives = "differences"\n'


def columns_of(t: Array, q: Array, effort: Array) -> dict[str, Array]:
    return {"t": t, "q_joint1": q[0], "q_joint2": q[1], "tau_joint1": effort[0], "tau_joint2": effort[1]}


def log_of(robot: Robot, seed: int, late: Sequence[float] = (0.0, 0.0), count: int = 5000) -> dict[str, Array]:
    """A log of the nominal robot whose efforts lag so many samples."""
    model = model_of(robot)
    (piece,) = late_samples_of(model, truth_of(model), late, count, RATE, seed, noise=0.2).open()
    return columns_of(np.arange(count) / RATE, piece.q, piece.effort)


def written(folder: Path, top: str = "", prepare: str = "", late: Sequence[float] = (0.0, 0.0)) -> Path:
    """A project of two logs, one to identify and one to validate, that says no more than it is given."""
    (folder / "pendulum.toml").write_text(ROBOT, "utf-8")
    robot = read_robot(folder / "pendulum.toml")
    (folder / "one.csv").write_text(csv(log_of(robot, 1, late)), "utf-8")
    (folder / "two.csv").write_text(csv(log_of(robot, 2, late, 3000)), "utf-8")
    runs = '\n[[run]]\nlog = "one.csv"\n\n[[run]]\nlog = "two.csv"\nrole = "validate"\n'
    project = folder / "project.toml"
    project.write_text(f'robot = "pendulum.toml"\n{top}\n[prepare]\n{prepare}{CHANNELS}{runs}', "utf-8")
    return project


def codes(findings) -> list[str]:
    return [finding.code for finding in findings]


# --- Everything left open ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_left_open_becomes_numbers(steelyard: Run, tmp_path: Path) -> None:
    """The result says what was chosen; reading its project again, and validating from it, gives the same scores."""
    project = read_project(written(tmp_path, late=(2.0, 2.0)))
    assert project.spec.terms == "default"
    assert {project.spec.prepare.cutoff_hz, project.spec.prepare.lowpass_hz} == {"auto"}
    done = run(project, tmp_path / "out")
    prepare = done.document["project"]["prepare"]
    assert 0.0 < prepare["lowpass_hz"] < prepare["cutoff_hz"] < 0.5 * RATE
    assert prepare["derivatives"] in ("differences", "smoother")
    assert [RATE * d for d in prepare["delay"]] == pytest.approx([2.0, 2.0], abs=0.2)
    told = {finding["code"]: finding for finding in done.document["findings"]}
    assert {"cutoffs", "derivatives", "delays"} <= set(told)
    assert all(told[code]["severity"] == "info" for code in ("cutoffs", "derivatives", "delays"))
    assert (
        done.identification.base.layout.names
        == Model(project.robot(), named_terms(rich_terms(project.robot()))).layout.names
    )

    # settled once, it is settled
    spec = msgspec.convert(json.loads(json.dumps(done.document["project"])), ProjectSpec)
    again = resolve_auto(Project(spec, project.path))
    assert again.project.spec == spec
    assert again.findings == ()
    model = again.project.model()
    problem = with_load(again.project.problem(model, again.runs))
    np.testing.assert_array_equal(identify(problem, again.project.estimator()).value, done.identification.value)

    unseen = read_result(tmp_path / "out").unseen
    assert unseen is not None
    judged = steelyard("validate", tmp_path / "out", tmp_path / "two.csv", "--json").document
    assert judged["filtered"]["relative_error"]["total"] == pytest.approx(unseen.total, rel=1e-9)
    for joint, rows in unseen.rows.items():
        assert judged["filtered"]["rows"][joint] == rows
        assert judged["filtered"]["rmse"][joint] == pytest.approx(unseen.rmse[joint], rel=1e-9)


def test_what_is_stated_is_left_alone(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, 'terms = "plain"', STATED + 'delay = "none"\nrest = 0.05\n', (2.0, 2.0)))
    explicit = resolve_auto(project)
    assert explicit.findings == ()
    assert explicit.project.spec.prepare == project.spec.prepare
    assert explicit.project.model().terms == project.model().terms
    assert explicit.selection is None
    problem = explicit.project.problem(explicit.project.model(), explicit.runs)
    assert problem.delay == ()
    assert (problem.lowpass_hz, problem.decimate, problem.rest) == (8.0, 6, 0.05)


def test_none_leaves_a_filter_out(tmp_path: Path) -> None:
    """No cut-off for the positions has no smoother, no parallel filter has no delays: both are told or plain to see."""
    project = read_project(written(tmp_path, 'terms = "plain"', 'cutoff_hz = "none"\nlowpass_hz = "none"\n'))
    explicit = resolve_auto(project)
    prepare = explicit.project.spec.prepare
    assert (prepare.cutoff_hz, prepare.lowpass_hz, prepare.derivatives) == ("none", "none", "differences")
    assert prepare.delay == [0.0, 0.0]
    assert codes(explicit.findings) == ["derivatives"]
    assert explicit.project.problem(explicit.project.model(), explicit.runs).lowpass_hz is None
    assert explicit.project.preparation().cutoff_hz is None


def test_the_smoother_is_tried_only_where_it_may_differ(tmp_path: Path) -> None:
    """On an even clock without velocities it is the same filter: no pass over the rows is spent on it."""
    stated = "cutoff_hz = 20.0\nlowpass_hz = 8.0\ndelay = 0.0\n"
    even = resolve_auto(read_project(written(tmp_path, 'terms = "plain"', stated)))
    assert even.project.spec.prepare.derivatives == "differences"
    assert "the smoother is the same" in next(f.message for f in even.findings if f.code == "derivatives")
    log = log_of(read_robot(tmp_path / "pendulum.toml"), 1)
    log["t"] = log["t"] + 1e-3 * np.sin(np.arange(len(log["t"])))
    (tmp_path / "one.csv").write_text(csv(log), "utf-8")
    uneven = resolve_auto(read_project(tmp_path / "project.toml"))
    assert "held-out rows" in next(f.message for f in uneven.findings if f.code == "derivatives")


def test_delays_may_be_left_to_others(tmp_path: Path) -> None:
    explicit = resolve_auto(read_project(written(tmp_path, prepare=STATED, late=(2.0, 2.0))), delays=False)
    assert explicit.project.spec.prepare.delay == "auto"
    assert explicit.findings == ()


def test_too_short_a_log_is_settled_without_trials(tmp_path: Path) -> None:
    """Neither the smoother nor delays can be tried on one block of time: differences, no delay, and both are told."""
    file = written(tmp_path, 'terms = ["viscous"]', "cutoff_hz = 20.0\nlowpass_hz = 8.0\ndecimate = 30\n")
    robot = read_robot(tmp_path / "pendulum.toml")
    log = log_of(robot, 1, count=400)
    log["t"] = log["t"] + 1e-3 * np.sin(np.arange(400))  # on an even clock there is nothing to try
    (tmp_path / "one.csv").write_text(csv(log), "utf-8")
    explicit = resolve_auto(read_project(file))
    assert explicit.project.spec.prepare.derivatives == "differences"
    assert explicit.project.spec.prepare.delay == [0.0, 0.0]
    told = {finding.code: finding.message for finding in explicit.findings}
    assert "could not be tested" in told["derivatives"]
    assert told["delays"].startswith("delays were not estimated: ")


# --- Delays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ('"none"', ()),
        ("0.01", (0.01, 0.01)),
        ("[0.01, -0.02]", (0.01, -0.02)),
        ("{ joint2 = -0.02, joint1 = 0.01 }", (0.01, -0.02)),
    ],
)
def test_stated_delays(tmp_path: Path, stated: str, wanted: tuple[float, ...]) -> None:
    project = read_project(written(tmp_path, prepare=f"{STATED}delay = {stated}\n"))
    explicit = resolve_auto(project)
    assert explicit.project.spec.prepare.delay == project.spec.prepare.delay
    problem = explicit.project.problem(explicit.project.model(), explicit.runs)
    assert tuple(problem.delay) == wanted
    assert codes(explicit.findings) == []


@pytest.mark.slow
def test_a_delay_is_corrected_in_the_fit_and_in_the_scores(tmp_path: Path) -> None:
    late = (2.0, 2.0)
    apart = {}
    for asked in ("auto", "none"):
        project = written(tmp_path, 'terms = "plain"', f'{STATED}delay = "{asked}"\n', late)
        apart[asked] = run(read_project(project), tmp_path / asked)
    delay = apart["auto"].document["project"]["prepare"]["delay"]
    assert [RATE * d for d in delay] == pytest.approx(late, abs=0.2)
    straight = run(read_project(written(tmp_path, 'terms = "plain"', STATED)), tmp_path / "straight").identification
    for score in ("relative_error", "unseen"):
        mended, crooked, wanted = (
            getattr(x, score).total for x in (apart["auto"].identification, apart["none"].identification, straight)
        )
        assert crooked > 1.5 * wanted
        assert mended == pytest.approx(wanted, rel=0.1)


# --- Terms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ('"plain"', named_terms(DEFAULT_TERMS)),
        ('"default"', named_terms((*DEFAULT_TERMS, "power-law", "load", "dahl"))),
        ('["coulomb", "dahl"]', (Coulomb(), Dahl())),
        (
            '["coulomb", { name = "dahl", options = { length = 0.005 }, joints = ["joint2"] }]',
            (Coulomb(), on_joints(Dahl(0.005), ["joint2"])),
        ),
    ],
)
def test_terms_of_a_project(tmp_path: Path, stated: str, wanted: tuple[Term, ...]) -> None:
    assert read_project(written(tmp_path, f"terms = {stated}")).model().terms == wanted


def six_motions(folder: Path, top: str = "") -> Project:
    """Six slow motions of a robot with a Stribeck effect in its first joint."""
    (folder / "pendulum.toml").write_text(ROBOT.replace("velocity = 4.0", "velocity = 0.6"), "utf-8")
    robot = read_robot(folder / "pendulum.toml")
    model = Model(robot, [*named_terms(DEFAULT_TERMS), on_joints(Stribeck(0.1), ["joint1"])])
    theta = np.nan_to_num(np.array([column.nominal or 0.0 for column in model.layout.columns]))
    theta[model.layout.index("joint1.Fs100")] = 3.0
    t = np.arange(3000) / 100.0
    for k in range(6):
        rng = np.random.default_rng(k)
        motion = random_fourier(robot, 5, 0.1, 30.0, rng).at(t)
        effort = model.torque(*motion[:3], theta) + 0.1 * rng.standard_normal((2, 3000))
        (folder / f"log{k}.csv").write_text(csv(columns_of(t, motion[0], effort)), "utf-8")
    runs = "".join(f'\n[[run]]\nlog = "log{k}.csv"\n' for k in range(6))
    file = folder / "project.toml"
    stated = '[prepare]\ncutoff_hz = 20.0\nlowpass_hz = 5.0\nderivatives = "differences"\ndelay = "none"\n'
    file.write_text(f'robot = "pendulum.toml"\nselect = true\n{top}\n{stated}{CHANNELS}{runs}', "utf-8")
    return read_project(file)


@pytest.mark.slow
@pytest.mark.parametrize("top", ["", "sign_width = 0.01\nripple_cycles = { joint1 = 50.0, joint2 = 80.0 }"])
def test_selected_terms_are_stored_and_rebuild_the_model(tmp_path: Path, top: str) -> None:
    project = six_motions(tmp_path, top)
    done = run(project, tmp_path / "out")
    data = read_document(tmp_path / "out")
    taken = {(t["label"], t["joint"]) for t in data["selection"]["trials"] if t["verdict"] == "taken"}
    assert ("stribeck 0.1", "joint1") in taken
    assert data["selection"]["refused"] is None
    assert len(data["selection"]["folds"]) == 6
    assert "selected-terms" in [finding["code"] for finding in data["findings"]]
    spec = msgspec.convert(data["project"], ProjectSpec)
    assert spec.select is False
    again = Project(spec, project.path).model()
    assert again.terms == resolve_auto(project).project.model().terms
    assert again.layout.names == done.identification.base.layout.names
    assert any(name.startswith("joint1.Fs") for name in again.layout.names)
    assert all(isinstance(t["std"], float) for t in data["selection"]["trials"])


def test_a_selection_that_is_refused_keeps_the_terms_and_says_so(tmp_path: Path) -> None:
    done = run(read_project(written(tmp_path, "select = true", STATED + 'delay = "none"\n')), tmp_path / "out")
    assert "1 independent motion in 1 runs" in done.document["selection"]["refused"]
    names = done.identification.base.layout.names
    assert {"joint1.Fp50", "joint1.Fl", "joint2.Fd2"} <= set(names)


def test_selection_is_off_unless_asked_for(tmp_path: Path) -> None:
    done = run(read_project(written(tmp_path, 'terms = "plain"', STATED + 'delay = "none"\n')), tmp_path / "out")
    assert done.document["selection"] is None


@pytest.mark.slow
def test_a_sharp_sign_stays_sharp_beside_a_sign_width(tmp_path: Path) -> None:
    """Written down after selection and read again, a width of zero is not replaced by the project's sign_width."""
    stated = '["rotor", "viscous", { name = "coulomb", options = { width = 0.0 } }, "offset", "load"]'
    project = six_motions(tmp_path, f"sign_width = 0.05\nterms = {stated}")
    assert Coulomb(0.0) in project.model().terms
    chosen = resolve_auto(project).project.model().terms
    assert Coulomb(0.0) in chosen
    assert {term.width for term in chosen if isinstance(term, LoadFriction) and term.exponent == 1.0} <= {0.05}


@pytest.mark.slow
def test_crossvalidate_lets_the_other_runs_choose(steelyard: Run, tmp_path: Path) -> None:
    """Six motions: each is scored by terms that the other five chose; stretches of time cannot judge a choice."""
    project = six_motions(tmp_path)
    told = steelyard("crossvalidate", project.path, "--folds", "runs", "--json")
    assert told.code == 0
    chosen = json.loads(told.out)
    assert len(chosen["folds"]) == 6
    without = tmp_path / "without.toml"
    without.write_text(project.path.read_text("utf-8").replace("select = true", ""), "utf-8")
    plain = json.loads(steelyard("crossvalidate", without, "--folds", "runs", "--json").out)
    assert chosen["pooled"]["total"] < plain["pooled"]["total"]
    refused = steelyard("crossvalidate", project.path, "--folds", "5")
    assert refused.code == 2
    assert "use --folds runs" in refused.err


@pytest.mark.slow
def test_episodes_of_one_file_are_different_runs(tmp_path: Path) -> None:
    """Both clocks start at zero and the file is the same: they are two motions all the same."""
    (tmp_path / "pendulum.toml").write_text(ROBOT, "utf-8")
    robot = read_robot(tmp_path / "pendulum.toml")
    logs = [log_of(robot, seed) for seed in (1, 2)]
    frames = [
        pl.DataFrame(
            {
                "timestamp": log["t"],
                "episode_index": np.full(len(log["t"]), k),
                "frame_index": np.arange(len(log["t"])),
                "observation.state": np.stack([log["q_joint1"], log["q_joint2"]], axis=1),
                "observation.effort": np.stack([log["tau_joint1"], log["tau_joint2"]], axis=1),
            }
        )
        for k, log in enumerate(logs)
    ]
    pl.concat(frames).write_parquet(tmp_path / "data.parquet")
    runs = "".join(f'\n[[run]]\nlog = "data.parquet"\nname = "e{k}"\nepisode = {k}\n' for k in (0, 1))
    channels = CHANNELS.replace('"t"', '"timestamp"')
    for label, signal in (("q", "state"), ("tau", "effort")):
        for j in (0, 1):
            channels = channels.replace(f'"{label}_joint{j + 1}"', f'"observation.{signal}[{j}]"')
    file = tmp_path / "project.toml"
    file.write_text(f'robot = "pendulum.toml"\nterms = "plain"\n[prepare]\n{STATED}{channels}{runs}', "utf-8")
    done = run(read_project(file), tmp_path / "out")
    assert [record.name for record in done.identification.runs] == ["e0", "e1"]
    assert done.identification.relative_error.total < 0.1
    # the check reads the same episodes
    assert check(read_project(file)).runs


# --- Mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "prepare", "said"),
    [
        ("", 'cutoff_hz = "fast"', 'prepare.cutoff_hz must be "auto", "none" or a frequency in Hz, not \'fast\''),
        ("", 'lowpass_hz = "slow"', 'prepare.lowpass_hz must be "auto", "none" or a frequency in Hz, not \'slow\''),
        ("", STATED + 'delay = "later"', 'prepare.delay must be "auto", "none" or seconds, not \'later\''),
        ("", STATED + "delay = [0.1]", "delay lists [0.1] for 2 joints"),
        ("", STATED + "delay = { joint1 = 0.1 }", "prepare.delay gives no value for joint2"),
        ("", STATED + "delay = { elbow = 0.1 }", "'elbow'"),
        ("", 'cutoff_hz = 20.0\nlowpass_hz = 8.0\nderivatives = "magic"', "magic"),
        ("", STATED + "delay = 1000.0", "is longer than the longest run"),
        ("", "cutoff_hz = 20.0\nlowpass_hz = 0.0", "prepare.lowpass_hz must be a positive frequency in Hz, not 0.0"),
        ("", "cutoff_hz = nan\nlowpass_hz = 8.0", "prepare.cutoff_hz must be a positive frequency in Hz, not nan"),
        ("", STATED + "rest_share = 0.0", "`rest_share` in [prepare] must be above 0 and at most 1"),
        ('terms = ["viscous", { name = "dahl", joints = [] }]', STATED, "Term 'dahl' is on no joint"),
        ("ripple_cycles = -3.0", STATED, "ripple_cycles must be positive [per joint turn], not -3.0"),
        ("select = true\nripple_cycles = [100.0, nan]", STATED, "ripple_cycles must be positive"),
        ('terms = "rich"', STATED, "Unknown set of terms 'rich'"),
        ('terms = [{ name = "dal" }]', STATED, "Unknown term 'dal'. Did you mean 'dahl'?"),
        ('terms = [{ name = "dahl", options = { size = 1.0 } }]', STATED, "Term 'dahl': Unknown option 'size'"),
        ('terms = [{ name = "dahl", joints = ["elbow"] }]', STATED, "Term 'dahl': Unknown joint 'elbow'"),
        ('terms = [{ name = "dahl", joint = "joint1" }]', STATED, "joint"),
        ("select = true\nripple_cycles = { joint1 = 50.0 }", STATED, "ripple_cycles gives no value for joint2"),
    ],
)  # fmt: skip
def test_mistakes_are_told(tmp_path: Path, top: str, prepare: str, said: str) -> None:
    with pytest.raises(SteelyardError) as told:
        run(read_project(written(tmp_path, top, prepare + "\n")), tmp_path / "out")
    assert said in str(told.value)
    assert not (tmp_path / "out").exists()
