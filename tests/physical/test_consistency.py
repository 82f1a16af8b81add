"""Can it exist? Links, base values and the command, against P0, against cases solved by hand, and against cvxpy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import EstimationError, ModelError
from steelyard.formats.robots import read_robot
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector, transformed_inertia
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Link, Robot
from steelyard.model.terms import named_terms
from steelyard.physical.cones import status_text
from steelyard.physical.consistency import (
    Consistency,
    check_bodies,
    check_body,
    check_links,
    check_stated,
    com_inertia,
    leading_minors,
    link_columns,
    mass_matrix_floor,
    pivots,
    pseudo_inertia,
    pseudo_inertia_vector,
    robot_bodies,
)
from steelyard.physical.nearest import Constraints, nearest_feasible, scatter
from steelyard.project.documents import text
from steelyard.project.result_file import document, read_result
from steelyard.regression.scores import Score
from steelyard.report.lamps import lamps
from testbed.command import Run
from testbed.trees import random_inertia, random_pose, random_tree, rigid_model

# P0 Table II, column χ^0e, links 2 to 6; M2 is not printed.
TABLE_0E = {
    "link2": "2.71e-2 6.19e-3 -4.05e-2 8.81e-2 3.24e-4 1.31e-1 9.59e-2 6.79e-2 1.62e-1 0",
    "link3": "6.91e-2 -1.95e-4 -1.16e-2 2.24e-2 -2.22e-3 4.20e-2 3.08e-2 -1.15e-1 2.65e-1 4.07",
    "link4": "1.09e-1 2.90e-5 1.35e-3 1.08e-1 -1.17e-3 4.07e-3 -1.27e-2 -7.24e-3 -5.86e-1 3.62",
    "link5": "1.01e-3 0 -1.58e-4 1.00e-3 -3.06e-6 1.01e-3 0 2.39e-3 -1.02e-3 1.02",
    "link6": "3.53e-4 0 0 3.53e-4 0 0 0 0 8.40e-3 2.00e-1",
}
IA_0E = [3.62e-1, 5.07e-1, 9.14e-2, 3.03e-2, 3.46e-2, 1.12e-2]
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def tx40() -> tuple[Model, Array]:
    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or ()))
    theta = model.layout.nominal
    assert theta is not None
    return model, theta


def vector_0e(link: str, mass: float | None = None) -> Array:
    out = np.array([float(x) for x in TABLE_0E[link].split()])
    if mass is not None:
        out[9] = mass
    return out


def theta_0e(mass_2: float = 4.0) -> tuple[Model, Array]:
    model, theta = tx40()
    theta = theta.copy()
    for link, columns in link_columns(model.layout).items():
        if link in TABLE_0E:
            theta[columns] = vector_0e(link, mass_2 if link == "link2" else None)
    theta[model.layout.index("link1.ZZ")] = 3.15e-1
    for k, value in enumerate(IA_0E, 1):
        theta[model.layout.index(f"joint{k}.Ia")] = value
    return model, theta


# --- P0 §V ------------------------------------------------------------------------------------------------------------


def test_cad_reference_of_the_tx40() -> None:
    model, theta = tx40()
    verdict = check_links(model.layout, theta)
    assert verdict["link3"].eigenvalues == pytest.approx([-0.0051, 0.0049, 0.0140], abs=5e-5)
    assert verdict["link3"].verdict == "not physical"
    assert not verdict["link3"].positive_definite
    assert verdict["link3"].needed.eigenvalues == pytest.approx(0.0051, abs=5e-5)
    assert all(verdict[link].verdict == "consistent" for link in ("link4", "link5"))
    assert verdict["link6"].verdict == "on the boundary"
    assert verdict["link6"].eigenvalues == pytest.approx([0.0, 2e-7, 2e-7], abs=1e-12)
    assert not verdict["link6"].positive_definite
    assert verdict["link6"].passes_inertia(0.0)
    assert not verdict.consistent
    assert {finding.code for finding in verdict.findings} == {
        "massless-inertia", "inertia-not-positive", "inertia-on-boundary",
    }  # fmt: skip


def test_a_misprint_explains_link_3() -> None:
    model, theta = tx40()
    theta = theta.copy()
    theta[model.layout.index("link3.XZ")] = -1.16e-3
    assert check_links(model.layout, theta)["link3"].verdict == "consistent"


def test_essential_set_of_the_tx40() -> None:
    assert all(check_body(link, vector_0e(link)).positive_definite for link in ("link3", "link4", "link5"))
    assert check_body("link6", vector_0e("link6")).verdict == "on the boundary"
    link3 = check_body("link3", vector_0e("link3"))
    assert link3.pseudo_smallest == pytest.approx(-0.0087, abs=5e-5)
    assert link3.verdict == "inertia positive but not realisable"


def test_mass_that_link_2_needs() -> None:
    model, reference = tx40()
    cad = reference[link_columns(model.layout)["link2"]]
    for vector, least in ((vector_0e("link2"), 1.85), (cad, 2.45)):  # to 0.05 kg; exactly 1.825 and 2.434
        for mass, positive in ((least - 0.05, False), (least, True)):
            vector = vector.copy()
            vector[9] = mass
            assert check_body("link2", vector).positive_definite is positive
    masses = np.geomspace(0.01, 1e4, 400)
    assert all(not np.linalg.eigvalsh(pseudo_inertia(vector_0e("link2", m)))[0] > 0.0 for m in masses)


def test_mass_matrix_does_not_see_it() -> None:
    """M(q) of the base values is positive definite everywhere although links 1 to 3 are impossible."""
    for model, theta in (tx40(), theta_0e()):
        floor = mass_matrix_floor(model, theta, count=400)
        assert 0.0065 < floor.smallest < 0.0075
        assert floor.positive
        assert not floor.findings
        assert len(floor.q) == 6
    assert mass_matrix_floor(*tx40()) == mass_matrix_floor(*tx40())


def test_mass_matrix_of_a_negative_rotor() -> None:
    model, theta = tx40()
    theta = theta.copy()
    theta[model.layout.index("joint6.Ia")] = -0.02
    floor = mass_matrix_floor(model, theta, rng=np.random.default_rng(3))
    assert floor.smallest < 0.0
    assert np.linalg.eigvalsh(model.mass_matrix(np.array(floor.q)[:, None], theta)[:, :, 0])[0] == pytest.approx(
        floor.smallest
    )
    assert floor.findings[0].code == "mass-matrix-not-positive"
    verdict = check_links(model.layout, theta)
    assert verdict.negative == (("joint6.Ia", -0.02),)
    assert "negative-drive-parameter" in {finding.code for finding in verdict.findings}


# --- Laws -------------------------------------------------------------------------------------------------------------


@given(seeds)
def test_bodies_that_exist_pass(rng: np.random.Generator) -> None:
    link = check_body("body", random_inertia(rng))
    assert link.verdict == "consistent"
    assert link.needed == (0.0, 0.0, 0.0)
    assert min(link.minors) > 0.0


@given(seeds)
def test_moments_of_point_masses(rng: np.random.Generator) -> None:
    """P = Σ m [r; 1][r; 1]ᵀ, and eq. (36) is the inertia about the centre of mass."""
    points, masses = rng.uniform(-0.5, 0.5, (6, 3)), rng.uniform(0.1, 2.0, 6)
    vector = sum(inertial_vector(m, r, np.zeros((3, 3))) for m, r in zip(masses, points, strict=True))
    assert isinstance(vector, np.ndarray)
    lifted = np.column_stack([points, np.ones(6)])
    np.testing.assert_allclose(pseudo_inertia(vector), lifted.T @ (masses[:, None] * lifted), atol=1e-14)
    np.testing.assert_allclose(pseudo_inertia_vector(pseudo_inertia(vector)), vector, atol=1e-14)
    arms = points - masses @ points / masses.sum()
    about = sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True))
    np.testing.assert_allclose(com_inertia(vector), about, atol=1e-14)


@given(seeds)
def test_realisable_means_positive_and_triangle(rng: np.random.Generator) -> None:
    """P ⪰ 0 exactly when M > 0 and the principal moments are positive and satisfy the triangle inequality."""
    turn = random_pose(rng).rotation
    moments = rng.uniform(-0.2, 1.0, 3)
    mass = float(rng.uniform(0.1, 5.0))
    vector = inertial_vector(mass, rng.uniform(-0.3, 0.3, 3), turn @ np.diag(moments) @ turn.T)
    link = check_body("body", vector)
    triangle = bool(2.0 * moments.max() <= moments.sum())
    assert link.passes == (np.linalg.eigvalsh(pseudo_inertia(vector))[0] >= 0.0) == triangle
    assert (link.verdict != "not physical") == bool(moments.min() >= 0.0)
    if link.passes:
        assert moments.min() >= 0.0


@given(seeds, st.floats(0.0, 0.3))
def test_verdict_does_not_depend_on_the_frame(rng: np.random.Generator, tolerance: float) -> None:
    vector = random_inertia(rng)
    vector[:6] += 0.1 * rng.normal(size=6)
    pose = random_pose(rng)
    here, there = (
        check_body("body", vector, tolerance),
        check_body("body", transformed_inertia(vector, pose.rotation, pose.position), tolerance),
    )
    np.testing.assert_allclose(there.eigenvalues, here.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(there.second_moments, here.second_moments, atol=1e-12)
    assert there.verdict == here.verdict


@pytest.mark.slow
@given(seeds)
def test_tolerance_is_monotone_and_sharp(rng: np.random.Generator) -> None:
    vector = random_inertia(rng)
    vector[:6] += 0.2 * rng.normal(size=6)
    passing = [check_body("body", vector, t).passes for t in np.linspace(0.0, 2.0, 21)]
    assert passing == sorted(passing)
    needed = check_body("body", vector).needed
    worst = max(needed.eigenvalues, needed.pseudo_inertia)
    assert check_body("body", vector, worst).passes
    if worst > 0.0:
        assert not check_body("body", vector, 0.999 * worst).passes
        assert check_body("body", vector, worst).verdict == "within tolerance"


@given(seeds)
def test_three_tests_of_definiteness_agree(rng: np.random.Generator) -> None:
    root = rng.normal(size=(3, 3))
    matrix = root @ root.T + rng.uniform(-2.0, 0.5) * np.eye(3)
    positive = bool(np.linalg.eigvalsh(matrix)[0] > 0.0)
    assert bool(pivots(matrix).min() > 0.0) is positive
    assert bool(leading_minors(matrix).min() > 0.0) is positive
    np.testing.assert_allclose(np.cumprod(pivots(matrix)), leading_minors(matrix), rtol=1e-6, atol=1e-12)


def test_pivots_beside_zeros() -> None:
    assert pivots(np.zeros((3, 3))).tolist() == [0.0, 0.0, 0.0]
    assert pivots(np.diag([0.0, 2.0, 0.0])).tolist() == [0.0, 2.0, 0.0]
    hidden = np.array([[0.0, 1.0, 0.0], [1.0, 5.0, 0.0], [0.0, 0.0, 1.0]])
    assert pivots(hidden)[1] == -np.inf
    assert check_body("body", inertial_vector(1.0, np.zeros(3), hidden)).needed.pivots == np.inf


def test_bodies_without_mass() -> None:
    nothing = check_body("frame", np.zeros(10))
    assert (nothing.verdict, nothing.com, nothing.needed) == ("massless", None, (0.0, 0.0, 0.0))
    assert nothing.passes
    for k in range(9):
        vector = np.zeros(10)
        vector[k] = 0.1
        link = check_body("ghost", vector, tolerance=10.0)
        assert link.verdict == "not physical"
        assert link.needed.pseudo_inertia == np.inf
        assert np.all(np.isfinite(link.eigenvalues))
    negative = check_body("anti", -random_inertia(np.random.default_rng(0)), tolerance=10.0)
    assert negative.verdict == "not physical"
    assert Consistency((negative,)).findings[0].code == "negative-mass"


def test_bad_input() -> None:
    model, theta = tx40()
    with pytest.raises(ModelError, match="86 standard parameters"):
        check_links(model.layout, theta[:-1])
    with pytest.raises(ModelError, match="tolerance"):
        check_links(model.layout, theta, tolerance=-1e-3)
    with pytest.raises(ModelError, match="ten finite"):
        check_links(model.layout, np.full(86, np.nan))


# --- Feasibility of base values ---------------------------------------------------------------------------------------


def one_link(*, gravity: tuple[float, float, float] = (0.0, -9.81, 0.0)) -> BaseParameters:
    """A link on a revolute z axis: the base parameters are ZZ, MX and MY."""
    joint = Joint("joint1", "revolute", BASE, Pose(), np.array([0.0, 0.0, 1.0]))
    base = base_parameters(Model(Robot("pendulum", (Link("link1"),), (joint,), gravity=np.array(gravity)), ()))
    assert base.names == ("link1.ZZ", "link1.MX", "link1.MY")
    return base


@pytest.mark.slow
@given(seeds, st.integers(1, 7), st.booleans(), st.sampled_from(["nominal", "none", "shaken"]))
def test_true_base_values_are_possible(rng: np.random.Generator, joints: int, off_axis: bool, prior: str) -> None:
    model, theta = rigid_model(random_tree(rng, joints, off_axis=off_axis))
    base = base_parameters(model)
    assume(np.abs(base.map).max() < 1e3)  # nearly parallel axes: base values of a million, and digits lost with them
    chi = base.map @ theta
    reference = {"nominal": None, "none": np.zeros(len(theta)), "shaken": theta * rng.uniform(0.5, 1.5, len(theta))}
    found = nearest_feasible(base, chi, prior=reference[prior])
    assert found.possible
    assert found.distance_sigma == 0.0
    np.testing.assert_allclose(base.map @ found.theta, chi, rtol=1e-8, atol=1e-8)
    assert min(found.smallest.values()) >= -1e-9
    assert check_links(model.layout, found.theta, 1e-8).consistent
    if prior == "nominal":  # the prior is feasible, so nothing is nearer to it than itself
        np.testing.assert_allclose(found.theta, theta, atol=1e-7)
        assert found.prior_distance < 1e-7


def test_a_prior_far_off_does_not_make_it_impossible() -> None:
    """Robot files hold dummy masses; the size of a link must not be taken from them."""
    model, theta = rigid_model(random_tree(np.random.default_rng(160), 1))
    base = base_parameters(model)
    for seed in range(20):
        prior = np.random.default_rng(seed).normal(size=len(theta))
        prior[9] = 10.0 ** -(1 + seed % 6)
        found = nearest_feasible(base, base.map @ theta, prior=prior)
        assert found.possible
        assert min(found.smallest.values()) >= -1e-9


def test_zero_columns_are_free_without_a_prior() -> None:
    found = nearest_feasible(one_link(), np.array([0.5, 1.0, 0.0]))
    link = check_body("link1", found.theta[:10], 1e-8)
    assert found.possible
    assert link.passes
    assert link.mass >= 2.0 - 1e-6  # ZZ ≥ MX²/M


@pytest.mark.parametrize(("inertia", "wanted"), [(-0.5, 5.0), (-0.01, 0.1)])
def test_distance_of_a_negative_inertia(inertia: float, wanted: float) -> None:
    """Nothing but ZZ ≥ 0 stands in the way: the distance is |ZZ|/σ."""
    found = nearest_feasible(one_link(), np.array([inertia, 0.0, 0.0]), np.array([0.1, 0.1, 0.1]))
    assert not found.possible
    assert found.distance_sigma == pytest.approx(wanted, rel=1e-5)
    assert found.worst == ("link1.ZZ", pytest.approx(wanted, rel=2e-3))
    assert found.base_values == pytest.approx([0.0, 0.0, 0.0], abs=1e-3)
    assert [finding.code for finding in found.findings] == ["base-not-physical"]
    assert found.findings[0].severity == ("warning" if wanted > 3.0 else "info")


def test_distance_with_a_bounded_mass() -> None:
    """M ≤ 2 kg and MX = 0.3 kg.m known exactly ask for ZZ ≥ MX²/M = 0.045 kg.m2."""
    bounds = Constraints(masses={"link1": (0.0, 2.0)})
    sigma = np.array([0.01, 1e-6, 1e-6])
    base = one_link()
    assert nearest_feasible(base, np.array([0.0451, 0.3, 0.0]), sigma, constraints=bounds).possible
    found = nearest_feasible(base, np.array([0.015, 0.3, 0.0]), sigma, constraints=bounds)
    assert not found.possible
    assert found.distance_sigma == pytest.approx(3.0, rel=1e-3)
    assert found.theta[9] == pytest.approx(2.0, rel=1e-3)


def test_correlation_counts() -> None:
    """With ZZ and MX correlated, moving ZZ alone is dearer: d² = min over MX of the full quadratic form."""
    covariance = np.array([[0.01, 0.009, 0.0], [0.009, 0.01, 0.0], [0.0, 0.0, 0.01]])
    box = Constraints(masses={"link1": (0.0, 1.0)}, boxes={"link1": ([0.0] * 3, [0.0] * 3)})  # MX = MY = 0
    found = nearest_feasible(one_link(), np.array([-0.1, 0.0, 0.0]), covariance, constraints=box)
    wanted = np.sqrt(np.array([0.1, 0.0, 0.0]) @ np.linalg.solve(covariance, np.array([0.1, 0.0, 0.0])))
    assert found.distance_sigma == pytest.approx(wanted, rel=1e-5)


def test_masses_and_boxes_are_respected() -> None:
    model, theta = rigid_model(random_tree(np.random.default_rng(5), 4))
    base, links = base_parameters(model), link_columns(model.layout)
    for name, columns in links.items():
        centre, mass = theta[columns[6:9]] / theta[columns[9]], float(theta[columns[9]])
        asked = Constraints(boxes={name: (centre - 0.02, centre + 0.02)}, masses={name: (0.9 * mass, 1.1 * mass)})
        found = nearest_feasible(base, base.map @ theta, prior=np.zeros(len(theta)), constraints=asked)
        assert found.possible
        got = found.theta[columns]
        assert 0.9 * mass - 1e-8 <= got[9] <= 1.1 * mass + 1e-8
        assert np.all(np.abs(got[6:9] / got[9] - centre) <= 0.02 + 1e-7)


def test_margin_keeps_away_from_the_boundary() -> None:
    model, theta = rigid_model(random_tree(np.random.default_rng(8), 3))
    base = base_parameters(model)
    floor = 0.5 * min(check_links(model.layout, theta)[name].pseudo_smallest for name in link_columns(model.layout))
    found = nearest_feasible(base, base.map @ theta, prior=np.zeros(len(theta)), constraints=Constraints(margin=floor))
    assert found.possible
    assert min(found.smallest.values()) >= floor * (1 - 1e-6)


def test_drive_parameters_stay_positive() -> None:
    model, theta = tx40()
    base = base_parameters(model)
    chi = base.map @ theta
    chi[base.names.index("joint3.Fv")] = -0.2
    sigma = np.full(len(base), 0.1)
    found = nearest_feasible(base, chi, sigma)
    assert found.distance_sigma == pytest.approx(2.0, rel=1e-4)
    assert found.worst is not None
    assert found.worst[0] == "joint3.Fv"
    assert nearest_feasible(base, chi, sigma, constraints=Constraints(nonnegative=())).possible


def test_cad_reference_is_possible_though_its_links_are_not() -> None:
    """Base values of the TX-40's CAD set belong to a robot, not to the one that is printed."""
    model, theta = tx40()
    base = base_parameters(model)
    found = nearest_feasible(base, base.map @ theta, widths=np.ones(len(theta)))
    assert found.possible
    assert 0.1 < found.prior_distance < 1.0
    assert check_links(model.layout, found.theta, 1e-8).consistent
    np.testing.assert_allclose(base.map @ found.theta, base.map @ theta, atol=1e-12)


def test_unknown_base_values_are_free() -> None:
    found = nearest_feasible(one_link(), np.array([-0.5, np.nan, 0.0]), np.array([0.1, np.nan, 0.1]))
    assert found.distance_sigma == pytest.approx(5.0, rel=1e-5)
    assert nearest_feasible(one_link(), np.array([np.nan, 0.3, 0.1])).possible


def test_unattainable_limit_is_no_crash() -> None:
    """ZZ = 0 with MX ≠ 0 is approached as M → ∞ and never reached."""
    found = nearest_feasible(one_link(), np.array([0.0, 0.3, 0.0]), np.array([0.1, 0.1, 0.1]))
    assert np.all(np.isfinite(found.theta))
    assert found.distance_sigma < 0.05


def loaded_link(**known: float) -> BaseParameters:
    """`one_link` with a payload on it: the base parameters are ZZ, MX and MY of both, but for what is known."""
    joint = Joint("joint1", "revolute", BASE, Pose(), np.array([0.0, 0.0, 1.0]))
    robot = Robot("pendulum", (Link("link1"),), (joint,), gravity=np.array([0.0, -9.81, 0.0]))
    return base_parameters(Model(robot, (), payloads=[Payload("load", known=known)]))


@pytest.mark.parametrize("moment", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("mass", [0.5, 2.805])
def test_a_stated_mass_is_held(mass: float, moment: float) -> None:
    """ZZ ≥ (MX² + MY²) / M with M stated: min ‖(ZZ, MX − h)‖ is at the root of 2 x³/M² + x − h."""
    base = loaded_link(M=mass)
    chi = np.array([1.0, 0.0, 0.0, 0.0, moment, 0.0])
    assert base.names[3:] == ("load.ZZ", "load.MX", "load.MY")
    found = nearest_feasible(base, chi)
    x = next(r.real for r in np.roots([2.0 / mass**2, 0.0, 1.0, -moment]) if abs(r.imag) < 1e-9)
    assert not found.possible
    assert found.distance_sigma == pytest.approx(np.hypot(x**2 / mass, x - moment), rel=1e-4)
    assert found.theta[base.layout.index("load.M")] == mass
    assert found.worst is not None
    assert found.worst[0].startswith("load.")
    # as heavy as it needs to be, were it not stated
    assert nearest_feasible(loaded_link(), np.array([1.0, 0.0, 0.0, 0.01, moment, 0.0])).possible


@pytest.mark.parametrize("seed", [3, 81])  # 81: the solver's last digits lie outside, where nothing can be clipped
def test_a_mass_stated_too_small_has_a_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot, body = random_tree(rng, int(rng.integers(2, 6))), random_inertia(rng)
    mass = float(body[9] * rng.choice([0.2, 0.5]))
    model = Model(robot, (), payloads=[Payload("load", known={"M": mass})])
    base, nominal = base_parameters(model), model.layout.nominal
    assert nominal is not None
    found = nearest_feasible(base, base.map @ np.append(nominal[:-10], body), np.full(len(base), 0.01))
    assert not found.possible
    assert found.distance_sigma > 0.1
    assert found.violation <= 1e-8
    assert found.theta[-1] == mass
    assert [finding.code for finding in found.findings] == ["base-not-physical"]


def test_a_stated_payload_that_fits_is_possible() -> None:
    body = inertial_vector(3.0, np.array([0.04, -0.02, 0.09]), np.diag([0.02, 0.025, 0.015]))
    model = Model(read_robot("planar2r"), (), payloads=[Payload("load", known={"M": 3.0, "MX": body[6]})])
    base, nominal = base_parameters(model), model.layout.nominal
    assert nominal is not None
    theta = np.append(nominal[:-10], body)
    found = nearest_feasible(base, base.map @ theta)
    assert found.possible
    np.testing.assert_allclose(found.base_values, base.map @ theta, atol=1e-8)
    assert [found.theta[model.layout.index(name)] for name in ("load.M", "load.MX")] == [3.0, body[6]]
    assert check_links(model.layout, found.theta, 1e-8)["load"].passes
    # what is stated counts, whatever the vector says
    assert check_links(model.layout, np.zeros(len(model.layout)))["load"].mass == 3.0


def test_statements_that_no_body_meets_are_told() -> None:
    base = loaded_link(XX=5.0, YY=1.0, ZZ=1.0)
    with pytest.raises(
        EstimationError, match=r"Stated values, which may contradict each other: load\.XX = 5, .*load\.ZZ = 1"
    ):
        nearest_feasible(base, np.array([1.0, 0.0, 0.0, 0.0, 0.0]))
    assert check_stated(base.layout).links == ()
    whole = dict(zip(INERTIAL, [5.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], strict=True))
    base = loaded_link(**whole)
    assert nearest_feasible(base, np.array([1.0, 0.0, 0.0])).possible  # of the robot nothing is wrong
    assert not check_stated(base.layout).consistent


def test_scatter_keeps_robust_bars_and_classical_correlations() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    classical = root @ root.T
    std = rng.uniform(1.0, 2.0, 4)
    mixed = scatter(std, classical)
    np.testing.assert_allclose(np.sqrt(np.diagonal(mixed)), std)
    sigma = np.sqrt(np.diagonal(classical))
    np.testing.assert_allclose(mixed / np.outer(std, std), classical / np.outer(sigma, sigma))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constraints(margin=-1.0), "margin"),
        (lambda: Constraints(tolerance=float("nan")), "tolerance"),
        (lambda: Constraints(masses={"link1": (-1.0, 2.0)}), "link1"),
        (lambda: Constraints(masses={"link1": (3.0, 2.0)}), "0 ≤ lower ≤ upper"),
        (lambda: Constraints(boxes={"link1": ([0.0, 0.0], [1.0, 1.0])}), "two corners"),
        (lambda: Constraints(boxes={"link1": ([1.0] * 3, [0.0] * 3)}), "lower ≤ upper"),
        (lambda: nearest_feasible(one_link(), np.zeros(2)), "3 base values"),
        (lambda: nearest_feasible(one_link(), np.array([np.inf, 0.0, 0.0])), "3 base values"),
        (lambda: nearest_feasible(one_link(), np.zeros(3), prior=np.zeros(3)), "prior"),
        (lambda: nearest_feasible(one_link(), np.zeros(3), widths=np.zeros(10)), "width"),
        (lambda: nearest_feasible(one_link(), np.zeros(3), np.zeros((2, 2))), "covariance"),
        (lambda: nearest_feasible(one_link(), np.array([-1.0, 0, 0]), np.zeros((3, 3))), "positive definite"),
        (lambda: nearest_feasible(one_link(), np.zeros(3), constraints=Constraints(nonnegative=("Fw",))), "Fw"),
        (
            lambda: nearest_feasible(one_link(), np.zeros(3), constraints=Constraints(masses={"lnik1": (0, 1)})),
            "Did you mean 'link1'",
        ),
        (
            lambda: nearest_feasible(
                one_link(), np.zeros(3), constraints=Constraints(margin=2.0, masses={"link1": (0.0, 1.0)})
            ),
            "No standard set",
        ),
    ],
)
def test_questions_that_make_no_sense(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ModelError, EstimationError), match=message):
        make()


@pytest.mark.parametrize("seed", range(3))
def test_cvxpy_agrees(seed: int) -> None:
    cp: Any = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    model, theta = rigid_model(random_tree(rng, 2 + seed))
    base, widths = base_parameters(model), rng.uniform(0.5, 2.0, len(theta))
    root = rng.normal(size=(len(base), len(base)))
    covariance = 0.01 * (root @ root.T + np.eye(len(base)))
    x = cp.Variable(len(theta))
    basis = [pseudo_inertia(unit) for unit in np.eye(10)]
    cones = [
        sum(x[int(c)] * e for c, e in zip(columns, basis, strict=True)) >> 0
        for columns in link_columns(model.layout).values()
    ]
    cones += [x[k] >= 0 for k, column in enumerate(model.layout.columns) if column.symbol == "Ia"]
    # without a bound the least distance may be approached as a mass grows, and never be reached
    cones += [x[k] <= 50.0 for k, column in enumerate(model.layout.columns) if column.symbol == "M"]
    bounded = Constraints(masses=dict.fromkeys(link_columns(model.layout), (0.0, 50.0)))
    prior = theta * rng.uniform(0.3, 1.7, len(theta))
    chi = base.map @ theta
    nearest = cp.Problem(cp.Minimize(cp.norm(cp.multiply(1 / widths, x - prior))), [*cones, base.map @ x == chi])
    found = nearest_feasible(base, chi, prior=prior, widths=widths, constraints=bounded)
    assert found.possible
    assert found.prior_distance == pytest.approx(nearest.solve(solver="CLARABEL"), rel=1e-5)

    impossible = chi - 3.0 * np.abs(chi)
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    distance = cp.Problem(cp.Minimize(cp.norm(whiten @ (base.map @ x - impossible))), cones)
    found = nearest_feasible(base, impossible, covariance, prior=prior, constraints=bounded)
    assert not found.possible
    assert found.distance_sigma == pytest.approx(distance.solve(solver="CLARABEL"), rel=1e-5)
    assert min(found.smallest.values()) >= -1e-9


def test_a_panic_of_the_solver_is_an_error_with_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.physical.constraints.LARGEST", np.inf)  # as where absurd numbers come another way
    with pytest.raises(EstimationError, match="The solver failed"):
        nearest_feasible(one_link(), np.full(3, 0.1), constraints=Constraints(margin=1e200))


def test_every_status_of_the_solver_has_words() -> None:
    solver: Any = clarabel
    statuses = [name for name in dir(solver.SolverStatus) if not name.startswith("_")]
    assert "AlmostSolved" in statuses
    assert all(status_text(status) != status for status in statuses)


# --- The command ------------------------------------------------------------------------------------------------------


URDF = """\
<robot name="arm">
  <link name="ground"/>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1"/><mass value="2"/><inertia ixx="{ixx}" iyy="0.02" izz="0.02"/></inertial>
  </link>
  <link name="tool">
    <inertial><mass value="0.5"/><inertia ixx="0.001" iyy="0.001" izz="{tool}"/></inertial>
  </link>
  <link name="flange"/>
  <joint name="shoulder" type="continuous">
    <parent link="ground"/><child link="upper"/><axis xyz="0 1 0"/>
  </joint>
  <joint name="mount" type="fixed"><parent link="upper"/><child link="tool"/><origin xyz="0 0 0.3"/></joint>
  <joint name="face" type="fixed"><parent link="tool"/><child link="flange"/></joint>
</robot>
"""


def urdf(folder: Path, ixx: float = 0.03, tool: float = 0.001) -> Path:
    path = folder / "arm.urdf"
    path.write_text(URDF.format(ixx=ixx, tool=tool), "utf-8")
    return path


def saved_result(folder: Path, shift: float, payloads: Sequence[Payload] = ()) -> Path:
    """A run folder of a planar arm whose first base value is off by `shift` σ."""
    model = Model(read_robot("planar2r"), (), payloads=payloads)
    base, theta = base_parameters(model), model.layout.nominal
    assert theta is not None
    std = np.full(len(base), 0.01)
    values = base.map @ theta
    values[0] += shift * 0.01
    score = Score(0.01, {"joint1": 0.01}, {"joint1": 0.1}, {"joint1": 100}, "all rows", {"joint1": 10.0})
    result = Identification(
        robot="planar2r", estimator="wls", base=base, value=values, covariance=np.diag(std**2),
        covariance_classical=np.diag(std**2), clusters=12, condition=10.0, condition_scaled=3.0,
        relative_error=score, nominal=None, unseen=None, unseen_nominal=None, runs=(),
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(text(document(result)), "utf-8")
    return folder


def test_command_judges_a_urdf_as_it_is(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("consistency", urdf(tmp_path), "--json")
    found = json.loads(told.out)
    assert (told.code, found["schema"], found["kind"]) == (0, "steelyard.consistency/1", "robot")
    assert found["consistent"] is True
    assert [link["name"] for link in found["links"]] == ["upper", "tool"]
    assert found["mass_matrix"]["smallest"] > 0.0
    assert found["links"][0]["eigenvalues"] == pytest.approx([0.02, 0.02, 0.03])


def test_command_refuses_a_broken_triangle(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("consistency", urdf(tmp_path, ixx=0.05), "--json")
    found = json.loads(told.out)
    assert told.code == 1
    assert found["consistent"] is False
    assert found["links"][0]["verdict"] == "inertia positive but not realisable"
    assert found["links"][0]["needed_tolerance"]["pseudo_inertia"] == pytest.approx(0.005)
    assert [finding["code"] for finding in found["findings"]] == ["inertia-not-realisable"]
    assert "upper" in told.err
    assert steelyard("consistency", urdf(tmp_path, ixx=0.05), "--tolerance", 0.0051).code == 0


def test_command_finds_a_bad_body_behind_a_fixed_joint(steelyard: Run, tmp_path: Path) -> None:
    path = urdf(tmp_path, tool=0.01)
    bodies, _ = robot_bodies(read_robot(path))
    assert check_bodies({"sum": read_robot(path).links[0].inertia}).consistent  # type: ignore[dict-item]
    assert not check_bodies(bodies)["tool"].passes
    told = steelyard("consistency", path)
    assert (told.code, told.out) == (1, "")
    assert "tool" in told.err


def test_command_on_built_in_robots(steelyard: Run) -> None:
    assert steelyard("consistency", "ur10e").code == 0
    told = steelyard("consistency", "tx40", "--json")
    assert told.code == 1
    links = {link["name"]: link for link in json.loads(told.out)["links"]}
    assert links["link1"]["com"] is None
    assert links["link1"]["needed_tolerance"]["eigenvalues"] is None


def test_command_on_a_result(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("consistency", saved_result(tmp_path / "run", 0.0), "--json")
    found = json.loads(told.out)
    assert (told.code, found["kind"], found["consistent"]) == (0, "result", True)
    assert found["feasibility"]["possible"] is True
    assert found["feasibility"]["prior_distance"] < 1e-6
    assert all(link["passes"] for link in found["links"])
    assert set(found["feasibility"]["theta"]) >= {f"link1.{symbol}" for symbol in INERTIAL}
    assert steelyard("consistency", tmp_path / "run" / "result.json").code == 0


def with_own_set(folder: Path, factor: float) -> Path:
    """The run folder with the robot's own values as its set, one inertia of link 2 times a factor, and with gains."""
    file = saved_result(folder, 0.0, [Payload("tool")]) / "result.json"
    model = Model(read_robot("planar2r"), (), payloads=[Payload("tool")])
    theta = model.layout.nominal
    assert theta is not None
    theta[model.layout.index("link2.ZZ")] *= factor
    data = json.loads(file.read_text("utf-8"))
    data |= {"standard": theta.tolist(), "standard_rule": "written by hand"}
    count = len(data["value"]) + 2
    covariance = (0.01 * np.eye(count)).tolist()
    data["gains"] = {
        "joints": ["joint1", "joint2"], "factor": [2.0, 3.0], "drives": None, "covariance": covariance,
        "covariance_classical": covariance, "bootstrap": [0.1] * count, "dependences": [],
    }  # fmt: skip
    file.write_text(json.dumps(data), "utf-8")
    return folder


def test_command_judges_the_own_set_as_it_is(steelyard: Run, tmp_path: Path) -> None:
    run = with_own_set(tmp_path / "run", -4.0)
    own = steelyard("consistency", run, "--set", "own", "--json")
    assert own.code == 1
    links = {link["name"]: link for link in own.document["links"]}
    assert own.document["feasibility"]["set"] == "own"
    assert (links["link1"]["passes"], links["link2"]["passes"]) == (True, False)
    assert links["link2"]["needed_tolerance"]["pivots"] == pytest.approx(-min(links["link2"]["pivots"]))
    assert links["link2"]["needed_tolerance"]["eigenvalues"] == pytest.approx(-min(links["link2"]["eigenvalues"]))
    assert "1 of 3 bodies of the standard set cannot exist: link2." in own.err
    nearest = steelyard("consistency", run, "--set", "nearest", "--json").document
    assert nearest["feasibility"]["set"] == "nearest"
    assert all(link["passes"] for link in nearest["links"])
    sound = with_own_set(tmp_path / "sound", 1.0)
    assert steelyard("consistency", sound, "--set", "own").code == 0
    assert steelyard("consistency", sound, "--set", "nearest", "--json").document["feasibility"]["set"] == "nearest"


@pytest.mark.parametrize(("sigmas", "answer", "code"), [(-1.0, "yes", 0), (-4.0, "no", 1)])
def test_command_and_lamp_judge_a_negative_drive_alike(
    sigmas: float, answer: str, code: int, project: Path, steelyard: Run
) -> None:
    """Friction below zero within 3 σ is noise for both, and the findings of one set do not depend on how it is asked
    for."""
    assert steelyard("identify", project, "--estimator", "consistent").code == 0
    file = project.parent / "project-run" / "result.json"
    data, result = json.loads(file.read_text("utf-8")), read_result(file)
    k = result.base.names.index("joint2.Fv")
    data["value"][k] = data["standard"][result.base.layout.index("joint2.Fv")] = sigmas * float(result.std[k])
    file.write_text(json.dumps(data), "utf-8")
    physical = lamps(read_result(file))[1]
    own = steelyard("consistency", file, "--set", "own", "--json")
    assert (physical.answer, own.code) == (answer, code), own.err
    assert physical.reason in " ".join(own.err.split())
    assert ("negative-drive-parameter" in [one["code"] for one in own.document["findings"]]) == (code == 1)
    default, nearest = (
        steelyard("consistency", file, "--json", *options).document for options in ((), ("--set", "nearest"))
    )
    assert default["feasibility"]["set"] == "nearest"  # zero friction is what a physical set has
    assert default["findings"] == nearest["findings"]
    assert default["consistent"] == (code == 0)


def test_lamp_and_command_call_the_same_bodies_on_the_boundary(project: Path, steelyard: Run) -> None:
    assert steelyard("identify", project, "--estimator", "consistent").code == 0
    file = project.parent / "project-run" / "result.json"
    data, layout = json.loads(file.read_text("utf-8")), read_result(file).base.layout
    theta = np.array(data["standard"])
    at = link_columns(layout)["link2"]
    mass, com = float(theta[at[9]]), theta[at[6:9]] / theta[at[9]]
    plate = np.diag([0.1, 0.2, 0.3 * (1.0 - 1e-8)])  # thicker than a plate by the rounding of a solver
    theta[at] = inertial_vector(mass, com, plate)
    data["standard"] = theta.tolist()
    file.write_text(json.dumps(data), "utf-8")
    physical = lamps(read_result(file))[1]
    assert (physical.answer, "on the boundary of what can: link2" in physical.reason) == ("with care", True)
    found = steelyard("consistency", file, "--set", "own", "--json")
    assert physical.reason in " ".join(found.err.split())
    assert {link["name"]: link["verdict"] for link in found.document["links"]}["link2"] == "on the boundary"


def test_command_writes_the_judged_set_as_a_table(steelyard: Run, tmp_path: Path) -> None:
    run = with_own_set(tmp_path / "run", -4.0)
    theta = {
        which: steelyard("consistency", run, "--set", which, "--out", tmp_path / f"{which}.csv", "--json").document[
            "feasibility"
        ]["theta"]
        for which in ("own", "nearest")
    }
    for which, wanted in theta.items():
        lines = (tmp_path / f"{which}.csv").read_text("utf-8").splitlines()
        assert lines[0] == "name,nominal,base,two_std,relative_std,value,unit,set"
        cells = {line.split(",")[0]: line.split(",") for line in lines[1:]}
        assert {name: float(cells[name][5]) for name in wanted} == wanted
        assert {cell[7] for cell in cells.values()} == {which}
        assert list(cells)[-2:] == ["joint1.gain", "joint2.gain"]
        assert [float(cells[f"joint{k}.gain"][5]) for k in (1, 2)] == [2.0, 3.0]
        assert any(name.startswith("tool.") for name in cells)
        assert float(cells["link1.ZZ"][3]) == pytest.approx(0.02)  # 2σ of a base parameter
    assert steelyard("consistency", run, "--out", tmp_path / "set.tex").code == 0
    assert "2$\\sigma$" in (tmp_path / "set.tex").read_text("utf-8")
    before = sorted(tmp_path.iterdir())
    told = steelyard("consistency", run, "--out", tmp_path / "set.doc")
    assert (told.code, "Unknown table format 'doc'" in told.err) == (2, True)
    told = steelyard("consistency", run, "--out", tmp_path / "none" / "set.csv")
    assert (told.code, "does not exist" in told.err) == (2, True)
    assert sorted(tmp_path.iterdir()) == before


def test_command_on_an_impossible_result(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("consistency", saved_result(tmp_path / "run", -1e4), "--json")
    found = json.loads(told.out)
    assert (told.code, found["consistent"]) == (1, False)
    assert found["feasibility"]["distance_sigma"] > 100.0
    assert found["findings"][0]["code"] == "base-not-physical"
    assert all(link["passes"] for link in found["links"])
    assert "σ away" in told.err


@pytest.mark.parametrize(("inertia", "code"), [(1.0, 0), (5.0, 1)])
def test_command_judges_what_is_stated_of_a_payload(steelyard: Run, tmp_path: Path, inertia: float, code: int) -> None:
    values = [inertia, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.5]
    known: dict[str, float] = dict(zip(INERTIAL, values, strict=True))
    told = steelyard("consistency", saved_result(tmp_path / "run", 0.0, [Payload("tool", known=known)]), "--json")
    found = json.loads(told.out)
    assert (told.code, found["consistent"], found["stated"]["tool.M"]) == (code, code == 0, 2.5)
    assert [one["code"] for one in found["findings"]] == ["inertia-not-realisable"] * code
    assert next(link for link in found["links"] if link["name"] == "tool")["mass"] == 2.5
    assert "Held at stated values: tool.XX" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kr270"], "no inertias"),
        (["tx41"], "robot file 'tx41' does not exist"),
        (["nowhere.json"], "No result"),
        (["tx40", "--tolerance", "-1"], "tolerance"),
        (["tx40", "--tolerance", "inf"], "tolerance"),
        (["tx40", "--set", "own"], "--set and --out are for the standard set of a result"),
        (["tx40", "--set", "closest"], "Unknown set 'closest'. Valid: own, nearest."),
    ],
)
def test_command_on_bad_input(steelyard: Run, arguments: list[str], message: str) -> None:
    told = steelyard("consistency", *arguments, "--json")
    assert told.code == 2
    assert message in json.loads(told.out)["error"]


@pytest.mark.parametrize("mass", ["1e300", "-1e200"])
def test_command_names_absurd_bodies(steelyard: Run, tmp_path: Path, mass: str) -> None:
    path = urdf(tmp_path)
    path.write_text(path.read_text("utf-8").replace('<mass value="2"/>', f'<mass value="{mass}"/>'), "utf-8")
    told = steelyard("consistency", path, "--json")
    assert told.code == 2
    assert "upper" in json.loads(told.out)["error"]


@pytest.mark.parametrize("value", [1e300, -1e300, 1e101])
def test_command_names_absurd_base_values(steelyard: Run, tmp_path: Path, value: float) -> None:
    file = saved_result(tmp_path / "run", 0.0) / "result.json"
    data = json.loads(file.read_text("utf-8"))
    data["value"][0] = value
    file.write_text(json.dumps(data), "utf-8")
    told = steelyard("consistency", file, "--json")
    assert told.code == 2
    assert "base values below 1e+100" in json.loads(told.out)["error"]


def test_unknown_inertias_are_named(steelyard: Run, tmp_path: Path) -> None:
    robot = read_robot(urdf(tmp_path))
    bodies, unknown = robot_bodies(replace(robot, links=(replace(robot.links[0], inertia=None),)))
    assert (bodies, unknown) == ({}, ("upper",))
