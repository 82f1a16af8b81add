"""`auto`: the default estimator of a project. What it chooses, what it says, and whether its error bars hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.linalg import eigh

from steelyard.estimators import WLS, Auto, Consistent
from steelyard.estimators.auto import physical_bodies
from steelyard.findings import Finding
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Rotor
from steelyard.physical.consistency import link_columns, pseudo_inertia
from steelyard.physical.constraints import Constraints
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, coloured, model_of, motion_of, silent, truth_of

TRUE = arm(3)
RATE = 200.0


def off_by(robot: Robot, share: float, rng: np.random.Generator) -> Robot:
    """The robot of a file whose bodies are too heavy or too light by so much (standard deviation)."""
    bodies = [link.inertia for link in robot.links]
    scales = 1.0 + share * rng.standard_normal(len(bodies))
    links = zip(robot.links, bodies, scales, strict=True)
    return replace(robot, links=tuple(replace(link, inertia=s * body) for link, body, s in links if body is not None))


def problem_of(
    file: Robot, noise: float = 1.0, seconds: float = 7.5, seed: int = 1, rng: np.random.Generator | None = None
) -> Problem:
    """A log of the true arm with coloured noise [N·m], with the model of a file."""
    true, model = model_of(TRUE), model_of(file)
    motion = motion_of(TRUE, int(seconds * RATE), RATE, seed)
    effort = true.torque(*motion[:3], truth_of(true))
    effort = effort + noise * coloured(rng or np.random.default_rng(seed), effort.shape, 0.8)
    run = Samples.from_arrays("run", model.robot.joint_names, RATE, *motion[:3], effort)
    return Problem(model, [run], lowpass_hz=8.0, decimate=10)


def choice(result: Identification) -> Finding:
    (found,) = [finding for finding in result.findings if finding.code == "estimator-choice"]
    return found


def error(result: Identification, seed: int = 99) -> float:
    """‖τ − Wθ̂‖/‖τ‖ of the true arm on another motion."""
    true = model_of(TRUE)
    motion = motion_of(TRUE, 2000, RATE, seed)
    torque = true.torque(*motion[:3], truth_of(true))
    predicted = true.torque(*motion[:3], np.nan_to_num(result.theta))
    return float(np.linalg.norm(torque - predicted) / np.linalg.norm(torque))


# --- What it chooses --------------------------------------------------------------------------------------------------


def test_with_nominal_inertias_it_is_consistent_with_a_prior_by_evidence() -> None:
    problem = problem_of(off_by(TRUE, 0.15, np.random.default_rng(0)))
    information = observe(problem)
    result = identify(problem, Auto(), information)
    same = identify(problem, Consistent("evidence", constraints=Constraints(nonnegative=("Ia",))), information)
    np.testing.assert_array_equal(result.value, same.value)
    np.testing.assert_array_equal(result.std, same.std)
    assert result.estimator == "auto"
    assert result.estimator_options == {}
    assert result.certificate is not None
    assert result.certificate.holds
    assert result.standard is not None
    found = choice(result)
    assert (found.severity, found.message) == (
        "info",
        "estimator auto used consistent: physical bodies, with the inertias of the robot file as the prior",
    )
    assert "prior-weight" in {finding.code for finding in result.findings}


def test_without_nominal_inertias_friction_alone_has_a_prior() -> None:
    problem = problem_of(silent(TRUE))
    information = observe(problem)
    result = identify(problem, Auto(), information)
    (weight,) = [finding for finding in result.findings if finding.code == "prior-weight"]
    assert "Fv" in weight.message
    assert "inertias" not in weight.message
    assert result.certificate is not None
    assert result.certificate.holds
    found = choice(result)
    assert (found.severity, found.message) == (
        "info",
        "estimator auto used consistent: physical bodies, with the size of the efforts as the prior",
    )


def test_a_model_without_drives_has_no_prior_at_all() -> None:
    """No inertias in the file and no friction in the model: physical bodies are all that is left."""
    drives = problem_of(silent(TRUE), noise=0.0)
    (piece,) = drives.runs[0].open()
    bare = Model(TRUE, [Rotor()])
    effort = bare.torque(piece.q, piece.v, piece.a, truth_of(bare))
    run = Samples.from_arrays("run", TRUE.joint_names, RATE, piece.q, piece.v, piece.a, effort)
    result = identify(Problem(Model(silent(TRUE), [Rotor()]), [run], decimate=5), Auto())
    assert choice(result).severity == "info"
    np.testing.assert_allclose(result.value, result.base.map @ truth_of(bare), rtol=1e-6, atol=1e-6)


def backwards(rotor: float, joints: tuple[str, ...] = TRUE.joint_names) -> Identification:
    """A robot whose friction drives its joints, with negative rotor inertias [kg.m2] in some of them."""
    drives = [replace(j.drive, viscous=-2.0, rotor=rotor if j.name in joints else 0.3) for j in TRUE.joints]
    true = replace(TRUE, joints=tuple(replace(j, drive=d) for j, d in zip(TRUE.joints, drives, strict=True)))
    model, motion = model_of(true), motion_of(TRUE, 3000, RATE, 3)
    effort = model.torque(*motion[:3], truth_of(model))
    effort = effort + 0.1 * np.random.default_rng(0).standard_normal(effort.shape)
    run = Samples.from_arrays("run", TRUE.joint_names, RATE, *motion[:3], effort)
    return identify(Problem(model_of(silent(TRUE)), [run], lowpass_hz=8.0, decimate=10), Auto())


def standard_of(result: Identification) -> dict[str, float]:
    assert result.standard is not None
    return dict(zip(result.base.layout.names, result.standard.tolist(), strict=True))


def test_friction_may_have_any_sign_and_rotors_may_not() -> None:
    result = backwards(rotor=-0.001)
    found = standard_of(result)
    for k in (1, 2, 3):
        assert found[f"joint{k}.Fv"] == pytest.approx(-2.0, rel=0.1)
        assert found[f"joint{k}.Ia"] >= 0.0
    assert choice(result).severity == "info"
    assert "negative-drive-parameter" in {finding.code for finding in result.findings}


def test_a_rotor_that_the_data_contradict_has_no_bound_and_is_named() -> None:
    """Efforts measured behind the gears do not contain the rotor: bodies must not be bent to make up for it."""
    result = backwards(rotor=-0.3, joints=("joint2",))
    found = standard_of(result)
    assert found["joint2.Ia"] < -0.2
    assert found["joint1.Ia"] >= 0.0
    assert found["joint3.Ia"] >= 0.0
    assert result.certificate is not None
    assert result.certificate.holds
    told = choice(result)
    assert (told.severity, told.where) == ("warning", "joint2")
    assert "remove the term rotor from joint2" in (told.fix or "")


def thinnest(result: Identification) -> float:
    """The smallest λ of P v = λ P₀ v over all links: 1 where the bodies are those of the robot file."""
    layout, standard = result.base.layout, result.standard
    assert standard is not None
    assert layout.nominal is not None
    pairs = [(standard[own], layout.nominal[own]) for own in link_columns(layout).values()]
    return min(eigh(pseudo_inertia(x), pseudo_inertia(x0), eigvals_only=True)[0] for x, x0 in pairs)


def test_bodies_keep_a_share_of_those_of_the_file() -> None:
    """Noise that asks for rods does not get them, and the prediction is as good."""
    problem = problem_of(off_by(TRUE, 0.15, np.random.default_rng(0)), noise=20.0, seconds=5.0)
    information = observe(problem)
    kept, thin = (identify(problem, estimator, information) for estimator in (Auto(), physical_bodies(share=0.0)))
    assert thinnest(thin) < 0.2
    assert thinnest(kept) > 0.3 * (1.0 - 1e-6)
    assert error(kept) < 1.02 * error(thin)
    assert "bodies held at 30% of the file's in some direction: link" in choice(kept).message


def test_a_file_that_the_data_contradict_holds_no_body() -> None:
    heavy = tuple(replace(link, inertia=8.0 * link.inertia) for link in TRUE.links if link.inertia is not None)
    problem = problem_of(replace(TRUE, links=heavy), noise=0.1, seconds=20.0)
    result = identify(problem, Auto())
    told = choice(result)
    assert told.severity == "warning"
    assert "bodies may be thinner than those of the robot file" in told.message
    assert "check the inertias of the robot file" in told.fix
    assert thinnest(result) < 0.2
    assert error(result) < 0.05


# --- wls instead ------------------------------------------------------------------------------------------------------


def test_where_that_fails_it_is_wls_and_warns() -> None:
    links = list(TRUE.links)
    assert links[1].inertia is not None
    links[1] = replace(links[1], inertia=-links[1].inertia)
    problem = problem_of(replace(TRUE, links=tuple(links)))
    information = observe(problem)
    result = identify(problem, Auto(), information)
    plain = identify(problem, WLS(), information)
    np.testing.assert_array_equal(result.value, plain.value)
    np.testing.assert_array_equal(result.std, plain.std)
    assert (result.estimator, result.certificate) == ("auto", None)
    found = choice(result)
    assert found.severity == "warning"
    assert found.message.startswith("estimator auto used wls, since physical bodies could not be fitted: ")
    assert "gives a negative link2.M" in found.message


def test_a_single_block_of_time_is_enough_for_its_prior() -> None:
    """Evidence leaves nothing out: unlike cross-validation it works on what cannot be divided."""
    problem = problem_of(TRUE)
    result = identify(problem, Auto(), observe(problem).total())
    assert choice(result).severity == "info"
    assert "100% of the rows" in next(f.message for f in result.findings if f.code == "prior-weight")


# --- Whether it is any good -------------------------------------------------------------------------------------------


@cache
def repeated(share: float | None, count: int = 25) -> tuple[tuple[Identification, Identification], ...]:
    """Noisy short logs by `auto` and `wls`, each with another file that is off by `share`; None: without inertias."""
    rng, out = np.random.default_rng(5), []
    for seed in range(count):
        file = silent(TRUE) if share is None else off_by(TRUE, share, rng)
        problem = problem_of(file, 5.0, seed=seed, rng=rng)
        information = observe(problem)
        out.append((identify(problem, Auto(), information), identify(problem, WLS(), information)))
    return tuple(out)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.2, None])
def test_error_bars_cover_files_that_are_off(share: float | None) -> None:
    """95 % intervals contain the truth in 98 % (file off by 10 %), 97 % (20 %) and 96 % (no file) of the cases."""
    true = truth_of(model_of(TRUE))
    inside, relative = [], []
    for result, _ in repeated(share):
        low, high = result.interval(0.95)
        truth = result.base.map @ true
        inside.append((truth >= low) & (truth <= high))
        relative.append((result.value - truth) / result.std)
    assert np.mean(inside) >= 0.93
    assert np.sqrt(np.mean(np.square(relative))) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("share", "gain"), [(0.1, 0.5), (0.2, 0.5), (None, 0.9)])
def test_it_predicts_better_than_wls(share: float | None, gain: float) -> None:
    """The median error on another motion, as a fraction of that of `wls`."""
    errors = np.array([[error(result) for result in pair] for pair in repeated(share)])
    assert np.median(errors[:, 0]) < gain * np.median(errors[:, 1])
