"""`consistent`: robots that can exist, against cvxpy, against the truth, and against what may not change the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import EstimationError, SteelyardError
from steelyard.estimators import WLS, Consistent, ConsistentGains, Estimate, Gains, named_estimator
from steelyard.estimators.consistent import consistent_gains
from steelyard.estimators.consistent.consistent import Choice
from steelyard.estimators.consistent.priors import REGULARISERS, pull
from steelyard.estimators.consistent.slack import SLACK
from steelyard.estimators.estimator import options_of
from steelyard.estimators.least_squares import joint_deviations
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Offset, Rotor, Viscous
from steelyard.motion.random import random_fourier
from steelyard.physical.cones import Answer, ConeScales
from steelyard.physical.consistency import check_links, link_columns, pseudo_inertia
from steelyard.physical.constraints import Constraints
from steelyard.physical.nearest import nearest_feasible, own_or_nearest, scatter
from steelyard.physical.prior import Widths, column_widths, nominal_prior, with_friction
from steelyard.project.documents import text
from steelyard.project.result_file import document, read_result
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.report.numerals import share
from steelyard.report.page import render
from steelyard.report.tables.bodies import cost_text
from steelyard.signals.samples import Samples
from testbed.command import Run
from testbed.simulated import PENDULUM, arm, log_of, model_of, samples_of, silent, truth_of
from testbed.trees import random_inertia, random_pose, random_state, random_tree, with_link_frame

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


class Case(NamedTuple):
    """A model whose file may be wrong, its base parameters and data; truth (C,); root (b, b) of the information."""

    model: Model
    base: BaseParameters
    information: Information
    truth: Array

    @property
    def weights(self) -> Array:
        return 1.0 / joint_deviations(self.information, self.base)

    @property
    def rows(self) -> Array:
        return stacked(self.information, self.base.kept, self.weights)

    def distance(self, value: Array) -> float:
        """How far base values are from the truth in the metric of the information, in σ."""
        return float(np.linalg.norm(self.rows[:, :-1] @ (value - self.base.map @ self.truth)))


def shaken(robot: Robot, rng: np.random.Generator) -> Robot:
    """The same mechanism with other bodies and rotors, as of a robot file that is wrong."""
    links = tuple(replace(link, inertia=random_inertia(rng)) for link in robot.links)
    joints = tuple(
        replace(joint, drive=replace(joint.drive, rotor=float(rng.uniform(0.01, 1.0)))) for joint in robot.joints
    )
    return replace(robot, links=links, joints=joints)


def case_of(robot: Robot, rng: np.random.Generator, noise: float, file: Robot | None = None, count: int = 300) -> Case:
    """Random states of a robot, each joint's effort with white noise of so much of its size; `file` is what we know."""
    true, model = model_of(robot), model_of(file or robot)
    states = random_state(rng, robot, count)
    effort = true.torque(*states, truth_of(true))
    effort = effort + noise * effort.std(axis=1, keepdims=True) * rng.standard_normal(effort.shape)
    run = Samples.from_arrays("run", robot.joint_names, 100.0, *states, effort)
    return Case(model, base_parameters(model), observe(Problem(model, [run])), truth_of(true))


def certificate_of(estimate: Estimate) -> dict[str, float]:
    assert estimate.certificate is not None
    return estimate.certificate.smallest


def standard_of(estimate: Estimate) -> Array:
    assert estimate.standard is not None
    return estimate.standard


# --- The truth --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15)
@given(seeds, st.integers(1, 4))
def test_a_possible_truth_is_recovered_whatever_the_file_says(rng: np.random.Generator, joints: int) -> None:
    robot = random_tree(rng, joints)
    case = case_of(robot, rng, 0.0, shaken(robot, rng))
    found = Consistent().estimate(None, case.base, case.information)
    chi = case.base.map @ case.truth
    np.testing.assert_allclose(found.value, chi, rtol=1e-5, atol=1e-6 * np.abs(chi).max())
    np.testing.assert_allclose(case.base.map @ standard_of(found), found.value, rtol=1e-12, atol=1e-12)
    assert min(certificate_of(found).values()) >= 0.0
    assert check_links(case.model.layout, standard_of(found), 1e-12).consistent


@pytest.mark.slow
@settings(max_examples=15)
@given(seeds, st.integers(2, 5), st.sampled_from([0.05, 0.5]))
def test_never_further_from_the_truth_than_least_squares(rng: np.random.Generator, joints: int, noise: float) -> None:
    """It is a projection onto a convex set that the truth lies in."""
    robot = random_tree(rng, joints)
    case = case_of(robot, rng, noise, shaken(robot, rng))
    plain, found = (kind.estimate(None, case.base, case.information) for kind in (WLS(), Consistent()))
    assert found.certificate is not None
    assert found.certificate.holds
    assert case.distance(found.value) <= case.distance(plain.value) * (1.0 + 1e-5)
    assert found.certificate.cost >= -1e-9
    residual = np.linalg.norm(case.rows @ np.append(-found.value, 1.0))
    least = np.linalg.norm(case.rows @ np.append(-plain.value, 1.0))
    assert residual / least - 1.0 == pytest.approx(found.certificate.cost, abs=1e-9)
    np.testing.assert_array_equal(found.covariance, plain.covariance)


def test_least_squares_that_is_possible_is_kept() -> None:
    case = case_of(arm(3), np.random.default_rng(3), 0.01, count=2000)
    plain, found = (kind.estimate(None, case.base, case.information) for kind in (WLS(), Consistent()))
    assert nearest_feasible(case.base, plain.value).possible
    np.testing.assert_allclose(found.value, plain.value, rtol=1e-10, atol=1e-10)
    assert found.certificate is not None
    assert abs(found.certificate.cost) < 1e-12


# --- cvxpy ------------------------------------------------------------------------------------------------------------


def oracle(case: Case, regulariser: str, weight: float, limits: Callable[[Any, Any], list[Any]]) -> Array:
    """The same problem written out in cvxpy: θ (C,)."""
    cp: Any = pytest.importorskip("cvxpy")
    layout, widths = case.base.layout, Widths()
    prior = with_friction(nominal_prior(layout, widths), case.information, widths.friction)
    assert np.isfinite(prior.width).all()
    x = cp.Variable(len(layout))
    basis = [pseudo_inertia(unit) for unit in np.eye(10)]
    bodies = {
        name: sum(x[int(c)] * e for c, e in zip(columns, basis, strict=True))
        for name, columns in link_columns(layout).items()
    }
    cost = cp.sum_squares(case.rows[:, :-1] @ case.base.map @ x - case.rows[:, -1])
    drive = [k for k, column in enumerate(layout.columns) if column.kind == "term"]
    pulled = range(len(layout)) if regulariser == "euclidean" else drive
    cost += weight * sum(((x[k] - prior.reference[k]) / prior.width[k]) ** 2 for k in pulled)
    for name, body in bodies.items() if regulariser != "euclidean" else ():
        nominal = pseudo_inertia(prior.reference[link_columns(layout)[name]])
        values, vectors = np.linalg.eigh(nominal)
        root = (vectors / np.sqrt(values)) @ vectors.T
        ratio = root @ body @ root
        if regulariser == "pull-back":
            cost += weight / widths.inertia**2 * cp.sum_squares(ratio - np.eye(4))
        else:
            cost += 2.0 * weight / widths.inertia**2 * (cp.trace(ratio) - cp.log_det(ratio) - 4.0)
    cones = [body >> 0 for body in bodies.values()]
    cones += [x[k] >= 0 for k in drive if layout.columns[k].symbol in ("Ia", "Fv", "Fc")]
    cp.Problem(cp.Minimize(cost), [*cones, *limits(x, layout)]).solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return np.asarray(x.value)


@pytest.fixture(scope="module")
def noisy() -> Case:
    """Three joints, half of the effort noise, a file that is off: least squares leaves what is possible."""
    rng = np.random.default_rng(11)
    robot = arm(3)
    links = tuple(
        replace(
            link, inertia=inertial_vector(mass, np.array([0.1, -0.05, 0.1]), 0.02 * mass * np.diag([1.0, 1.2, 1.5]))
        )
        for link, mass in zip(robot.links, (4.0, 4.0, 1.0), strict=True)
    )
    return case_of(robot, rng, 0.5, replace(robot, links=links), count=150)


@pytest.mark.slow
@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_cvxpy_agrees(noisy: Case, regulariser: str, weight: float) -> None:
    plain = WLS().estimate(None, noisy.base, noisy.information)
    assert not nearest_feasible(noisy.base, plain.value).possible
    found = named_estimator("consistent", {"weight": weight, "regulariser": regulariser}).estimate(
        None, noisy.base, noisy.information
    )
    wanted = noisy.base.map @ oracle(noisy, regulariser, weight, lambda x, layout: [])
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_slack_is_the_strongest_prior_of_the_bodies_that_hardly_costs(noisy: Case) -> None:
    def misfit(weight: float | Choice) -> tuple[float, float]:
        found = Consistent(weight, "pull-back").estimate(None, noisy.base, noisy.information)
        assert found.certificate is not None
        return float(np.linalg.norm(noisy.rows @ np.append(-found.value, 1.0))), found.certificate.weight

    size, weight = misfit("slack")
    least = Consistent().estimate(None, noisy.base, noisy.information).value
    allowed = (1.0 + SLACK) * float(np.linalg.norm(noisy.rows @ np.append(-least, 1.0)))
    assert 1e-3 < weight < 1e6
    assert 0.98 * allowed < size <= allowed * (1.0 + 1e-3)  # the smallest weight has a little of the prior already
    # a number pulls the drives too, to what the file and the efforts say of them
    assert misfit(2.0 * weight)[0] > allowed


HULL = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.3], [0.05, 0.05, 0.05]])
AXES = np.array([[0.04, 0.01, 0.0], [0.0, 0.05, 0.0], [0.01, 0.0, 0.03]])


def limits(x: Any, layout: Any) -> list[Any]:
    """Bounds, a box, an ellipsoid, a hull (as a convex combination) and the total mass, in cvxpy's words."""
    import cvxpy as cp

    def moment(link: str) -> tuple[Any, Any]:
        columns = [layout.index(f"{link}.{symbol}") for symbol in ("MX", "MY", "MZ", "M")]
        return x[columns[:3]], x[columns[3]]

    (_, one), (two, two_mass), (three, three_mass) = moment("link1"), moment("link2"), moment("link3")
    share = cp.Variable(len(HULL))
    return [
        one >= 3.0, one <= 3.5,
        two[0] >= 0.2 * two_mass,
        cp.norm(np.linalg.inv(AXES) @ (two - np.array([0.2, 0.0, 0.1]) * two_mass)) <= two_mass,
        three == HULL.T @ share, cp.sum(share) == three_mass, share >= 0,
        one + two_mass + three_mass == 11.0,
    ]  # fmt: skip


LIMITS = Constraints(
    masses={"link1": (3.0, 3.5)},
    boxes={"link2": ([0.2, -np.inf, -np.inf], [np.inf] * 3)},
    ellipsoids={"link2": ([0.2, 0.0, 0.1], AXES)},
    hulls={"link3": HULL},
    total_mass=11.0,
)


def test_cvxpy_agrees_on_everything_that_may_be_known(noisy: Case) -> None:
    found = Consistent(weight=1.0, constraints=LIMITS).estimate(None, noisy.base, noisy.information)
    wanted = noisy.base.map @ oracle(noisy, "euclidean", 1.0, limits)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    assert_met(noisy.model, standard_of(found))


def assert_met(model: Model, theta: Array) -> None:
    masses, centres = {}, {}
    for name, columns in link_columns(model.layout).items():
        masses[name], centres[name] = theta[columns[9]], theta[columns[6:9]] / theta[columns[9]]
    assert 3.0 - 1e-7 <= masses["link1"] <= 3.5 + 1e-7
    assert sum(masses.values()) == pytest.approx(11.0, rel=1e-7)
    assert centres["link2"][0] >= 0.2 - 1e-6
    assert np.linalg.norm(np.linalg.solve(AXES, centres["link2"] - [0.2, 0.0, 0.1])) <= 1.0 + 1e-6
    assert np.all(centres["link3"] >= -1e-6)
    assert centres["link3"].sum() <= 0.3 + 1e-6


def test_reconstruction_meets_the_same_constraints(noisy: Case) -> None:
    """Base values of a set that meets them have one; those of another are a stated distance away."""
    theta = standard_of(Consistent(weight=1.0, constraints=LIMITS).estimate(None, noisy.base, noisy.information))
    inside = nearest_feasible(noisy.base, noisy.base.map @ theta, constraints=replace(LIMITS, tolerance=1e-6))
    assert inside.possible
    assert_met(noisy.model, inside.theta)
    outside = nearest_feasible(
        noisy.base, noisy.base.map @ noisy.truth, np.full(len(noisy.base), 0.1), constraints=LIMITS
    )
    assert not outside.possible
    assert outside.distance_sigma > 1.0
    assert_met(noisy.model, outside.theta)


@pytest.mark.parametrize("seed", [0, 5])
def test_a_search_that_ends_badly_is_not_the_nearest(seed: int) -> None:
    """On the boundary the first way to the minimum breaks down; the estimate itself bounds what may come out."""
    case = case_of(read_robot("tx40"), np.random.default_rng(seed), 0.02, count=200)
    own, nominal = Consistent().estimate(None, case.base, case.information), truth_of(case.model)
    widths = column_widths(case.model.layout, nominal, Widths())
    widths = np.where(np.isfinite(widths) & (widths > 0.0), widths, 10.0)
    found = nearest_feasible(case.base, own.value, widths=widths)
    assert found.possible
    assert found.prior_distance < 1.02 * np.linalg.norm((standard_of(own) - nominal) / widths)


def test_base_values_and_estimate_have_the_same_nearest_set() -> None:
    """One measure of how far a set is from the file's: in estimator, reconstruction and export."""
    case = case_of(arm(3), np.random.default_rng(3), 0.01, shaken(arm(3), np.random.default_rng(0)), count=2000)
    own = Consistent().estimate(None, case.base, case.information)
    assert own.certificate is not None
    assert own.certificate.moved_sigma < 1e-6
    np.testing.assert_allclose(nearest_feasible(case.base, own.value).theta, standard_of(own), rtol=1e-3, atol=1e-4)
    plain = nearest_feasible(case.base, own.value, widths=np.ones(len(case.model.layout)))
    assert np.abs(plain.theta - standard_of(own)).max() > 0.1


def test_a_certified_set_is_what_its_result_stands_for(noisy: Case) -> None:
    """Also where another set with the same base values is nearer to the file; not where its base values are others."""
    own = Consistent(weight=1.0, regulariser="entropic").estimate(None, noisy.base, noisy.information)
    spread = own.covariance_classical
    told = own_or_nearest(noisy.base, own.value, standard_of(own), spread)
    np.testing.assert_array_equal(told.theta, standard_of(own))
    assert (told.possible, told.distance_sigma, told.status) == (True, 0.0, "Own")
    assert not told.findings
    assert own_or_nearest(noisy.base, 1.01 * own.value, standard_of(own), spread).status != "Own"
    assert own_or_nearest(noisy.base, own.value, -standard_of(own), spread).status != "Own"
    assert own_or_nearest(noisy.base, own.value, None, spread).status != "Own"


@pytest.mark.parametrize(
    "limits",
    [
        Constraints(masses={"link2": (0.0, 0.0)}),
        Constraints(
            boxes={"link2": ([0.1] * 3, [0.2] * 3)}, ellipsoids={"link2": ([-1.0] * 3, [0.1] * 3)}
        ),
    ],
)  # fmt: skip
def test_a_body_that_must_vanish_leaves_the_others_near_the_file(limits: Constraints, noisy: Case) -> None:
    """Nothing has room inside such constraints: what is only least far in σ has masses of any size."""
    free = WLS().estimate(None, noisy.base, noisy.information)
    found = nearest_feasible(noisy.base, free.value, free.covariance_classical, constraints=limits)
    assert not found.possible
    masses = {name: found.theta[columns[9]] for name, columns in link_columns(noisy.model.layout).items()}
    assert masses["link2"] == pytest.approx(0.0, abs=1e-6)
    assert max(masses.values()) < 100.0
    assert [finding.code for finding in found.findings] == ["base-not-physical"]


def test_a_search_that_comes_no_nearer_is_told(noisy: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = lambda asked, *_: Answer(asked.reference - 1e6, "Solved", 0)  # noqa: E731
    monkeypatch.setattr("steelyard.physical.nearest._searched", lost)
    value = -(noisy.base.map @ noisy.truth)
    found = nearest_feasible(noisy.base, value, np.ones(len(noisy.base)))
    assert found.violation <= 1e-8
    assert [finding.code for finding in found.findings] == ["base-not-physical", "solver-inaccurate"]


# --- What may not change the answer -----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=8)
@given(seeds, st.sampled_from([1e-3, 1e3]))
def test_heavier_by_a_factor(rng: np.random.Generator, factor: float) -> None:
    """Efforts and file in another unit of mass: the same robot, as many times heavier."""
    robot = random_tree(rng, 3)
    file = shaken(robot, rng)
    state = rng.bit_generator.state
    one = case_of(robot, rng, 0.3, file)
    rng.bit_generator.state = state
    other = case_of(heavier(robot, factor), rng, 0.3, heavier(file, factor))
    for estimator in (Consistent(), Consistent(weight=1.0), Consistent(weight=1.0, regulariser="entropic")):
        light, heavy = (
            estimator.estimate(None, one.base, one.information),
            estimator.estimate(None, other.base, other.information),
        )
        assert light.certificate is not None
        assert heavy.certificate is not None
        assert heavy.certificate.cost == pytest.approx(light.certificate.cost, rel=1e-3, abs=1e-3)
        # to reduced accuracy the solver may stop at another set that fits as well
        if {light.certificate.status, heavy.certificate.status} <= {"Solved", "Closed form"}:
            scale = np.maximum(np.abs(light.value), np.sqrt(np.diagonal(light.covariance_classical)))
            assert np.max(np.abs(heavy.value / factor - light.value) / scale) < 1e-2


def heavier(robot: Robot, factor: float) -> Robot:
    links = [replace(link, inertia=factor * np.asarray(link.inertia)) for link in robot.links]
    joints = [
        replace(joint, drive=replace(joint.drive, rotor=factor * (joint.drive.rotor or 0.0))) for joint in robot.joints
    ]
    return replace(robot, links=tuple(links), joints=tuple(joints))


@settings(max_examples=8)
@given(seeds, st.sampled_from(["pull-back", "entropic"]))
def test_a_metric_of_bodies_does_not_depend_on_their_frames(rng: np.random.Generator, regulariser: Any) -> None:
    robot = random_tree(rng, 3)
    file, moved, state = shaken(robot, rng), random_pose(rng), rng.bit_generator.state
    one = case_of(robot, rng, 0.3, file)
    rng.bit_generator.state = state
    other = case_of(with_link_frame(robot, 1, moved), rng, 0.3, with_link_frame(file, 1, moved))
    here, there = (
        Consistent(weight=10.0, regulariser=regulariser).estimate(None, case.base, case.information)
        for case in (one, other)
    )
    # the torques are those of one robot: same rows, another basis
    back = one.rows[:, :-1] @ here.value, other.rows[:, :-1] @ there.value
    np.testing.assert_allclose(np.linalg.norm(back[0]), np.linalg.norm(back[1]), rtol=1e-4)
    assert here.certificate is not None
    assert there.certificate is not None
    assert here.certificate.moved_sigma == pytest.approx(there.certificate.moved_sigma, rel=1e-3, abs=1e-3)


# --- The prior --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_a_heavy_prior_is_the_file(noisy: Case, regulariser: Any) -> None:
    found = Consistent(weight=1e6, regulariser=regulariser).estimate(None, noisy.base, noisy.information)
    nominal = noisy.base.layout.nominal
    assert nominal is not None
    bodies = [k for k, column in enumerate(noisy.base.layout.columns) if column.kind == "link"]
    np.testing.assert_allclose(standard_of(found)[bodies], nominal[bodies], atol=0.05)


@pytest.mark.parametrize("how", ["cross-validation", "l-curve"])
def test_the_weight_is_chosen_and_told(how: Any) -> None:
    model = model_of(arm(2))
    problem = Problem(model, [samples_of(model, 3000, noise=3.0)], lowpass_hz=8.0, decimate=6)
    result = identify(problem, Consistent(weight=how, regulariser="pull-back"))
    assert result.certificate is not None
    assert 1e-6 <= result.certificate.weight <= 1e4
    assert any(finding.code == "prior-weight" for finding in result.findings)
    assert result.certificate.holds
    assert "nominal" in result.standard_rule


def test_a_file_that_cannot_exist_is_mended_before_it_pulls() -> None:
    robot = read_robot("tx40")
    assert robot.terms is not None
    model = Model(robot)
    problem = Problem(model, [samples_of(model, 1500, noise=0.5)], decimate=3)
    result = identify(problem, Consistent(weight=1.0, regulariser="entropic"))
    mended = next(finding for finding in result.findings if finding.code == "prior-repaired")
    assert "link3" in mended.message
    assert "link4" not in mended.message
    assert result.certificate is not None
    assert result.certificate.holds


def test_without_a_file_friction_alone_has_a_prior() -> None:
    """The heavier the prior, the smaller friction and offsets; the bodies take over what the data determine."""
    robot = silent(arm(2))
    true = model_of(arm(2))
    (piece,) = samples_of(true, 1500, noise=1.0).open()
    run = Samples.from_arrays("run", robot.joint_names, 200.0, *piece[2:6])
    problem = Problem(model_of(robot), [run])
    result = identify(problem, Consistent())
    assert result.certificate is not None
    assert result.certificate.holds
    layout = problem.model.layout
    drives = np.array([column.kind == "term" and column.symbol != "Ia" for column in layout.columns])
    pulled = pull(layout, observe(problem), ConeScales({}, np.ones(len(layout))), Widths(), "entropic")
    np.testing.assert_array_equal(pulled.prior.has_prior, drives)
    assert not pulled.prior.reference.any()
    assert pulled.bodies == {}
    light, heavy, heaviest = (identify(problem, Consistent(weight=w)) for w in (1e-6, 1e3, 1e9))
    for found in (light, heavy, heaviest):
        assert found.certificate is not None
        assert found.certificate.holds
    # a light prior changes nothing, a heavy one removes friction
    np.testing.assert_allclose(light.value, result.value, atol=1e-3 * np.abs(result.value).max())
    width = pulled.prior.width[drives]
    size = [np.linalg.norm(found.theta[drives] / width) for found in (light, heavy, heaviest)]
    assert size[0] > size[1] > 100.0 * size[2]
    assert light.relative_error.total < heaviest.relative_error.total


# --- Poor motion, payloads, loops, gains ------------------------------------------------------------------------------


def test_what_the_motion_does_not_show_has_a_value_and_no_error_bar() -> None:
    model = model_of(arm(3))
    (piece,) = samples_of(model, 2000, noise=0.5).open()
    q, v, a, effort = (x.copy() for x in piece[2:6])
    q[1], v[1], a[1] = 0.4, 0.0, 0.0
    effort = model.torque(q, v, a, truth_of(model)) + np.random.default_rng(0).standard_normal(q.shape)
    result = identify(
        Problem(model, [Samples.from_arrays("run", model.robot.joint_names, 200.0, q, v, a, effort)]), Consistent()
    )
    told = next(finding for finding in result.findings if finding.code == "not-excited")
    assert "joint2.Fv" in told.message
    assert np.isfinite(result.value).all()
    assert np.isnan(result.std[~result.excited]).all()
    assert not result.excited.all()
    assert result.certificate is not None
    assert result.certificate.holds
    assert document(result)["counts"]["excited"] == result.excited.sum()


BODY = inertial_vector(2.0, np.array([0.05, 0.1, -0.08]), 0.01 * np.diag([1.0, 1.2, 1.6]))


@pytest.mark.parametrize("known", [(), ("M",), INERTIAL])
def test_payloads_are_bodies_too(known: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)
    stated = {symbol: float(x) for symbol, x in zip(INERTIAL, BODY, strict=True) if symbol in known}
    model = Model(arm(2), (), payloads=[Payload("load", known=stated)])
    theta = np.append(truth_of(Model(arm(2), ())), BODY)
    runs = []
    for load in ("none", "load"):
        states = random_state(rng, model.robot, 60)
        effort = model.torque(*states, theta, load=load)
        effort = effort + 5.0 * rng.standard_normal(effort.shape)
        runs.append(Samples.from_arrays(load, model.robot.joint_names, 100.0, *states, effort, load=load))
    result = identify(Problem(model, runs), Consistent())
    assert result.certificate is not None
    assert result.certificate.holds
    assert set(result.certificate.smallest) == {"link1", "link2", "load"}
    assert result.standard is not None
    for symbol, x in stated.items():
        assert result.standard[model.layout.index(f"load.{symbol}")] == x
    exact = nearest_feasible(result.base, result.base.map @ result.standard, constraints=Constraints(tolerance=1e-6))
    assert exact.possible
    assert exact.theta[model.layout.index("load.M")] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fivebar"])
def test_robots_with_loops(name: str) -> None:
    model = Model(read_robot(name), ())
    problem = Problem(model, [looped_run(model, 4.0)])
    plain, result = identify(problem, WLS()), identify(problem, Consistent())
    assert result.certificate is not None
    assert result.certificate.holds
    assert result.relative_error.total <= plain.relative_error.total * 1.05
    clean = identify(Problem(model, [looped_run(model, 0.0)]), Consistent())
    np.testing.assert_allclose(clean.value, clean.base.map @ truth_of(model), rtol=1e-5, atol=1e-6)
    exact = nearest_feasible(clean.base, clean.base.map @ truth_of(model), prior=np.zeros(len(model.layout)))
    assert exact.possible
    np.testing.assert_allclose(exact.base_values, clean.base.map @ truth_of(model), atol=1e-8)


def looped_run(model: Model, noise: float) -> Samples:
    assert model.looped is not None
    home = model.looped.closure.home[model.robot.axis_index]
    t = np.arange(800) / 200.0
    rng = np.random.default_rng(2)
    size, speed = rng.uniform(0.05, 0.15, (len(home), 3)), rng.uniform(2.0, 9.0, (len(home), 3))
    q = home[:, None] + np.einsum("jk,jkt->jt", size, np.sin(speed[..., None] * t))
    v = np.einsum("jk,jkt->jt", size * speed, np.cos(speed[..., None] * t))
    a = -np.einsum("jk,jkt->jt", size * speed**2, np.sin(speed[..., None] * t))
    effort = model.torque(q, v, a, truth_of(model))
    effort = effort + noise * effort.std() * rng.standard_normal(effort.shape)
    return Samples.from_arrays("run", model.robot.axis_names, 200.0, q, v, a, effort)


@pytest.mark.slow
def test_gains_and_bodies_together() -> None:
    """Less likely than what gains finds, likelier than its parameters made physical with its gains held."""
    rng = np.random.default_rng(8)
    stated = {symbol: float(x) for symbol, x in zip(INERTIAL, BODY, strict=True)}
    slender = inertial_vector(
        3.0, np.array([0.1, 0.0, 0.2]), np.diag([0.02, 0.02, 1e-5])
    )  # half of the noise is outside
    robot = replace(arm(2), links=tuple(replace(link, inertia=slender) for link in arm(2).links))
    model = Model(robot, (), payloads=[Payload("load", known=stated)])
    theta, gains, runs = np.append(np.tile(slender, 2), BODY), np.array([[20.0], [5.0]]), []
    for load in ("none", "load"):
        states = random_state(rng, robot, 200)
        effort = model.torque(*states, theta, load=load) / gains
        effort = effort + 0.3 * effort.std(axis=1, keepdims=True) * rng.standard_normal(effort.shape)
        runs.append(Samples.from_arrays(load, robot.joint_names, 100.0, *states, effort, load=load))
    problem = Problem(model, runs, motor_rows=True)
    information = observe(problem)
    free, found = (identify(problem, kind, information) for kind in (Gains(), ConsistentGains()))
    assert not nearest_feasible(free.base, free.value, free.std).possible
    assert found.certificate is not None
    assert found.certificate.holds
    assert free.gains is not None
    assert found.gains is not None
    held = Consistent().estimate(None, free.base, information.scaled(free.gains.factor).without_known())

    def residuals(value: Array, factor: Array) -> Array:
        """‖e_j − (W_j χ + K_j)/g_j‖² of every joint."""
        out = []
        for j, (columns, triangle) in enumerate(zip(information.columns, information.joint_triangles, strict=True)):
            own = triangle.r[:, : len(columns)] @ free.base.theta(value)[columns] + information.known(triangle.r)
            out.append(float(np.sum((triangle.r[:, len(columns)] - own / factor[j]) ** 2)))
        return np.array(out)

    least = residuals(free.value, free.gains.factor)
    joint = np.sum(residuals(found.value, found.gains.factor) / least)
    apart = np.sum(residuals(held.value, free.gains.factor) / least)
    assert 2.0 < joint < apart


@pytest.mark.slow
@pytest.mark.parametrize(("moves", "codes"), [(1e-6, set[str]()), (0.5, {"gains-not-converged"})])
def test_gains_that_move_by_less_than_their_error_have_settled(
    moves: float, codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that swings by a part of every gain never ends; whether that matters is for σ to say."""
    robot, rng, runs = arm(2), np.random.default_rng(8), []
    model = Model(robot, (), payloads=[Payload("load", known=dict(zip(INERTIAL, map(float, BODY), strict=True)))])
    for load in ("none", "load"):
        states = random_state(rng, robot, 200)
        effort = model.torque(*states, np.append(truth_of(Model(robot, ())), BODY), load=load)
        effort = effort + 0.1 * effort.std(axis=1, keepdims=True) * rng.standard_normal(effort.shape)
        runs.append(Samples.from_arrays(load, robot.joint_names, 100.0, *states, effort, load=load))
    swing = cycle([1.0 + moves, 1.0])
    plain = consistent_gains._gains
    monkeypatch.setattr(consistent_gains, "_gains", lambda *args: next(swing) * plain(*args))
    found = identify(Problem(model, runs, motor_rows=True), ConsistentGains())
    assert {finding.code for finding in found.findings} & {"gains-not-converged"} == codes


# --- Options, files, the command --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "crossvalidation"}, "Did you mean 'cross-validation'"),
        ({"weight": -1.0}, "positive"),
        ({"weight": float("nan")}, "positive"),
        ({"regulariser": "entropy"}, "Did you mean 'entropic'"),
        ({"weighting": "wsl"}, "Did you mean 'wls'"),
        ({"constraints": {"mass": 1.0}}, "constraints takes margin, tolerance"),
        ({"constraints": {"total_mass": -1.0}}, "total mass"),
        ({"constraints": {"ellipsoids": {"link1": [[0.0, 0.0, 0.0], [0.1, 0.0, 0.1]]}}}, "half-axes"),
        ({"constraints": {"ellipsoids": {"link1": [0.0, 0.0, 0.0]}}}, "half-axes"),
        ({"constraints": {"hulls": {"link1": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]}}}, "volume"),
        ({"constraints": {"masses": {"link1": [3.0, 2.0]}}}, "lower ≤ upper"),
        ({"constraints": {"masses": {"link1": 3.0}}}, "Mass bounds of 'link1'"),
        ({"constraints": {"masses": {"link1": ["a", 2.0]}}}, "Mass bounds of 'link1'"),
        ({"constraints": {"masses": {"link1": [1e300, 1e305]}}}, "Mass bounds of 'link1'"),
        ({"constraints": {"boxes": {"link1": 3.0}}}, "The box of 'link1'"),
        ({"constraints": {"boxes": {"link1": [[0.0, 0.0], [1.0, 1.0, 1.0]]}}}, "The box of 'link1'"),
        ({"constraints": {"hulls": {"link1": 3.0}}}, "The hull of 'link1'"),
        ({"constraints": {"hulls": {"link1": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]}}}, "The hull of 'link1'"),
        ({"constraints": {"margin": 1e200}}, "margin"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SteelyardError, match=message):
        named_estimator("consistent", options)


def test_constraints_that_no_robot_meets_are_told(noisy: Case) -> None:
    impossible = Constraints(masses={"link1": (3.0, 4.0), "link2": (1.0, 2.0), "link3": (1.0, 2.0)}, total_mass=20.0)
    with pytest.raises(EstimationError, match="No standard set satisfies"):
        Consistent(constraints=impossible).estimate(None, noisy.base, noisy.information)
    with pytest.raises(SteelyardError, match="Unknown link 'link9'"):
        Consistent(constraints=Constraints(masses={"link9": (0.0, 1.0)})).estimate(None, noisy.base, noisy.information)


def test_options_come_back_from_disk() -> None:
    limits = Constraints(
        masses={"link1": (2.0, None)}, ellipsoids={"link2": (np.zeros(3), np.full(3, 0.5))}, total_mass=9.0
    )
    model = model_of(arm(2))
    result = identify(Problem(model, [samples_of(model, 600, noise=0.5)]), Consistent(constraints=limits))
    data = json.loads(text(document(result)))
    again = named_estimator("consistent", data["estimator_options"])
    assert options_of(again) == result.estimator_options
    assert data["certificate"]["smallest"].keys() == {"link1", "link2"}
    del data["certificate"]  # as an older version wrote it
    assert data["standard_rule"].startswith("least squares over physical robots")


PROJECT = """\
robot = "pendulum.toml"
terms = ["rotor", "viscous", "coulomb", "offset"]

[estimator]
name = "consistent"
options.weight = 1.0
options.regulariser = "entropic"
options.constraints = { masses = { link2 = [1.0, 3.0] }, total_mass = 7.0 }

[channels]
time = { column = "t", unit = "s" }
q = { columns = ["q_joint1", "q_joint2"], unit = "rad" }
effort = { columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }

[[run]]
log = "log.csv"
"""


@pytest.mark.slow
def test_project_command_and_report(steelyard: Run, tmp_path: Path) -> None:
    (tmp_path / "pendulum.toml").write_text(PENDULUM, "utf-8")
    (tmp_path / "project.toml").write_text(PROJECT, "utf-8")
    model = Model(read_robot(tmp_path / "pendulum.toml"), model_of(arm(2)).terms)
    columns = log_of(model, 1500, noise=0.3)
    lines = [",".join(columns), *(",".join(f"{x:.9g}" for x in row) for row in np.column_stack(list(columns.values())))]
    (tmp_path / "log.csv").write_text("\n".join(lines), "utf-8")
    told = steelyard("identify", tmp_path / "project.toml", "--out", tmp_path / "run", "--table", "--json")
    assert told.code == 0
    data = json.loads(told.out)
    assert data["certificate"]["weight"] == 1.0
    assert all(x >= 0.0 for x in data["certificate"]["smallest"].values())
    assert data["standard_values"]["link1.M"] + data["standard_values"]["link2.M"] == pytest.approx(7.0, rel=1e-6)
    assert "Certified: 2 of 2 bodies can exist" in told.err
    result = read_result(tmp_path / "run")
    page = render(result, (), "pendulum")
    assert "Every body can exist" in page
    told = steelyard("consistency", tmp_path / "run", "--json")
    judged = json.loads(told.out)
    assert (told.code, judged["feasibility"]["set"]) == (0, "own")
    assert judged["feasibility"]["theta"] == data["standard_values"]
    assert "own standard set" in told.err
    assert '<section id="bodies">' in page
    assert '<section id="bodies">' not in render(replace(result, certificate=None), (), "pendulum")


@pytest.mark.parametrize("name", ["tx40", "ur10e"])
def test_a_joint_that_stands_still_does_not_blind_the_search(name: str) -> None:
    """Least squares alone has values of any size there; the truth fits, so nothing may fit much worse."""
    robot, rng = read_robot(name), np.random.default_rng(1)
    model = Model(robot, [Rotor(), Viscous(), Coulomb(), Offset()])
    truth = model.layout.nominal
    assert truth is not None
    motion = np.stack(random_fourier(robot, 4, 0.1, 10.0, rng).at(np.arange(1000) / 100))
    motion[:, 1] = 0.0
    q, v, a = motion
    effort = model.torque(q, v, a, truth)
    noise = 0.02 * np.sqrt(np.mean(effort**2, axis=1, keepdims=True))
    effort += noise * rng.standard_normal(effort.shape)
    run = Samples.from_arrays("still", robot.joint_names, 100.0, q, v, a, effort)
    found = identify(Problem(model, [run], rest=0.0), Consistent())
    assert found.certificate is not None
    assert found.certificate.holds
    assert found.relative_error.total < 0.025
    assert found.standard is not None
    assert np.abs(found.standard).max() < 100.0


# --- What it cost -----------------------------------------------------------------------------------------------------


def test_rotors_that_want_to_be_negative_are_dear_and_named(tmp_path: Path) -> None:
    """Joint torque sensors sit behind the gears: what takes the place of a rotor there may have either sign."""
    model, rng = model_of(arm(3)), np.random.default_rng(2)
    theta = truth_of(model).copy()
    theta[model.layout.index("joint3.Ia")] = -0.5
    states = random_state(rng, model.robot, 300)
    effort = model.torque(*states, theta)
    effort = effort + np.array([[2.0], [1.0], [0.05]]) * rng.standard_normal(effort.shape)
    problem = Problem(model, [Samples.from_arrays("run", model.robot.joint_names, 100.0, *states, effort)])
    plain, result = identify(problem, WLS()), identify(problem, Consistent())
    certificate = result.certificate
    assert certificate is not None
    assert certificate.cost_unweighted is not None
    # the residual that is minimised is in units of each joint's σ, relative errors are not: two prices, both told
    assert certificate.cost > 2.0 * certificate.cost_unweighted
    after, before = result.relative_error.total, plain.relative_error.total
    assert after / before - 1.0 == pytest.approx(certificate.cost_unweighted, rel=1e-6)
    words = cost_text(result)
    assert words == f"weighted residual {certificate.cost:+.2%}, relative error {share(before)} → {share(after)}"
    assert words in " ".join(render(result, (), "arm").split())
    dear = next(finding for finding in result.findings if finding.code == "constraints-costly")
    assert f"{certificate.cost:+.2%}, unweighted {certificate.cost_unweighted:+.2%}" in dear.message
    assert "joint torque sensors" in (dear.fix or "")
    # far more than noise, in the σ of the command `consistency` too, which judges the values without constraints
    boundary = next(finding for finding in result.findings if finding.code == "constraints-active")
    judged = nearest_feasible(plain.base, plain.value, scatter(plain.std, plain.covariance_classical))
    assert certificate.moved_robust is not None
    assert 3.0 < judged.distance_sigma <= certificate.moved_robust * (1.0 + 1e-6)
    assert boundary.severity == judged.findings[0].severity == "warning"
    assert f"robust σ: {certificate.moved_robust:.3g}" in boundary.message
    loose = identify(problem, Consistent(constraints=Constraints(nonnegative=("Fv", "Fc"))))
    assert "constraints-costly" not in {finding.code for finding in loose.findings}
    data = document(result)
    del data["certificate"]["cost_unweighted"]  # as results were written before it
    (tmp_path / "result.json").write_text(text(data), "utf-8")
    assert cost_text(read_result(tmp_path)) == f"weighted residual {certificate.cost:+.2%}"


def test_a_price_without_noise_is_told_in_parts_of_what_efforts_are_worth() -> None:
    """A rotor that is negative by a hair: a residual of next to nothing, against nothing."""
    model = model_of(arm(3))
    theta = truth_of(model).copy()
    theta[model.layout.index("joint3.Ia")] = -1e-5
    states = random_state(np.random.default_rng(2), model.robot, 300)
    run = Samples.from_arrays("run", model.robot.joint_names, 100.0, *states, model.torque(*states, theta))
    problem = Problem(model, [run])
    result = identify(problem, Consistent())
    assert result.certificate is not None
    assert 1e-8 < result.relative_error.total < 1e-4
    assert 0.0 < result.certificate.cost < 0.03
    before = result.certificate.error_before(result.relative_error.total)
    assert before == pytest.approx(identify(problem, WLS()).relative_error.total, abs=1e-9)


def test_a_tolerance_counts_in_the_certificate(noisy: Case) -> None:
    result = Consistent(constraints=Constraints(tolerance=0.1)).estimate(None, noisy.base, noisy.information)
    certificate = result.certificate
    assert certificate is not None
    assert -0.1 <= min(certificate.smallest.values()) < 0.0
    assert certificate.holds
    assert certificate.consistent_bodies == len(certificate.smallest)
    assert "0.1" in certificate.bound_text
    assert set(certificate.smallest) <= set(certificate.boundary)
    # well inside what the tolerance allows is not on the boundary
    inside = (
        Consistent(constraints=Constraints(tolerance=1.0)).estimate(None, noisy.base, noisy.information).certificate
    )
    assert inside is not None
    assert min(inside.smallest.values()) < 0.0
    assert not inside.boundary


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_advice_knows_what_was_done(noisy: Case, regulariser: Any) -> None:
    def fix(estimator: Consistent) -> str:
        findings = estimator.estimate(None, noisy.base, noisy.information).findings
        return " ".join(finding.fix or "" for finding in findings if finding.code == "constraints-active")

    assert "unconstrained" in fix(Consistent())
    assert "a weight with the regulariser entropic" in fix(Consistent())
    pulled = fix(Consistent(weight=1e-3, regulariser=regulariser))
    assert "unconstrained" not in pulled
    assert "a weight with" not in pulled
    assert regulariser not in pulled
    assert (regulariser != "euclidean") or "map" in pulled


def test_masses_that_run_away_are_named() -> None:
    """A light first link: noise makes the nearest robot that can exist a heavy one."""
    rng = np.random.default_rng(132)
    case = case_of(random_tree(rng, 4, chain=True), rng, 0.3)
    masses = {name: float(columns[9]) for name, columns in link_columns(case.model.layout).items()}
    found = Consistent().estimate(None, case.base, case.information)
    theta = standard_of(found)
    far = {n for n, k in masses.items() if not 0.2 <= theta[int(k)] / case.truth[int(k)] <= 5.0}
    assert far
    told = next(finding for finding in found.findings if finding.code == "mass-implausible")
    assert {name for name in masses if f"{name} " in told.message} == far
    bounds = {name: (0.0, 2.0 * float(case.truth[int(k)])) for name, k in masses.items()}
    bounded = Consistent(constraints=Constraints(masses=bounds), weight=1.0).estimate(None, case.base, case.information)
    assert "mass-implausible" not in {finding.code for finding in bounded.findings}
