"""Gradients of regressor entries, torques and criteria against central differences, on trees and terms of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.design.criteria import ConditionNumber, Criterion, DeviationTargets, DOptimal
from steelyard.design.families import BSplineFamily, FourierFamily
from steelyard.design.gradients import RegressorGradient, smoothed
from steelyard.design.objective import DesignObjective
from steelyard.errors import ModelError
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot
from steelyard.model.springs import Anchor, CrankSpring, JointSpring, TensionSpring
from steelyard.model.terms import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Compensator,
    Coulomb,
    Coupling,
    Dahl,
    LoadFriction,
    Motion,
    Offset,
    PowerLaw,
    Ripple,
    Rotor,
    Springs,
    Stribeck,
    Term,
    Viscous,
    named_terms,
    on_joints,
)
from steelyard.motion.bounds import MotionLimits
from testbed.simulated import arm, model_of, truth_of
from testbed.trees import random_state, random_tree

STEP = 1e-5


def differences(gradient: RegressorGradient, motion: Motion, weights: Array) -> Array:
    """(3, n, N) central differences of Σ weights · W: samples do not depend on each other, joints one by one."""
    x = np.stack(motion[:3])
    out = np.empty_like(x)
    for order in range(3):
        for i in range(x.shape[1]):
            shift = np.zeros_like(x)
            shift[order, i] = STEP
            more, less = (np.sum(weights * gradient.fill(Motion(*(x + sign * shift))), axis=0) for sign in (1, -1))
            out[order, i] = (more - less) / (2 * STEP)
    return out


def worst(gradient: RegressorGradient, motion: Motion, rng: np.random.Generator) -> float:
    weights = rng.normal(size=(len(gradient.model.places), motion.q.shape[1]))
    wanted = differences(gradient, motion, weights)
    return float(np.max(np.abs(gradient.back(motion, weights) - wanted)) / np.max(np.abs(wanted)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), joints=st.integers(1, 8), off_axis=st.booleans())
def test_rigid_bodies_of_any_tree(seed: int, joints: int, off_axis: bool) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints, off_axis=off_axis)
    motion = Motion(*random_state(rng, robot, 5))
    assert worst(RegressorGradient(Model(robot)), motion, rng) < 1e-6


def test_more_samples_than_lanes() -> None:
    """The second block of lanes starts from clean adjoints."""
    rng = np.random.default_rng(1)
    robot = random_tree(rng, 4)
    assert worst(RegressorGradient(Model(robot)), Motion(*random_state(rng, robot, 300)), rng) < 1e-6


def sprung() -> Robot:
    springs = (CrankSpring("crank", "joint2", 0.5, 0.2, 0.4), CrankSpring("stated", "joint3", 0.4, 0.3, 0.1, free=0.2))
    return replace(arm(3), springs=(*springs, JointSpring("coil", "joint1", free=0.1)))


TERMS: dict[str, tuple[Callable[[], Robot], list[Term]]] = {
    "drive": (arm, [Rotor(), Viscous(), Coulomb(0.3), Offset()]),
    "sign": (arm, [Coulomb()]),
    "asymmetric": (arm, [Viscous(), AsymmetricViscous(), AsymmetricCoulomb(0.5)]),
    "power": (arm, [PowerLaw(0.5), PowerLaw(1.5)]),
    "stribeck": (arm, [Stribeck(0.4, width=0.2)]),
    "ripple": (arm, [Ripple((3.0, 5.0, 7.0))]),
    "springs": (sprung, [Springs()]),
    "some joints": (arm, [on_joints(Coulomb(0.3), ["joint2"]), Viscous()]),
    "coupling": (lambda: read_robot("tx40"), [Rotor(), Viscous(), Coulomb(0.3), Offset(), Coupling(0.2)]),
    "compensator": (lambda: read_robot("kr300"), [Compensator()]),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms(name: str) -> None:
    make, terms = TERMS[name]
    robot = make()
    rng = np.random.default_rng(3)
    # away from v = 0, where roots and absolute values have no derivative
    q, v, a = rng.normal(size=(3, robot.dof, 40))
    motion = Motion(q, np.where(np.abs(v) < 0.05, 0.05, v), a)
    gradient = RegressorGradient(Model(robot, terms))
    # the terms alone: the rigid bodies would hide an error in a small one
    weights = rng.normal(size=(len(gradient.model.places), 40))
    weights[: 10 * int((gradient._slots >= 0).sum())] = 0.0
    wanted = differences(gradient, motion, weights)
    assert np.max(np.abs(gradient.back(motion, weights) - wanted)) < 1e-6 * max(1.0, np.max(np.abs(wanted)))


def test_smoothed_changes_signs_alone() -> None:
    model = Model(arm(), [Viscous(), Coulomb(), on_joints(Stribeck(0.1), ["joint1"])])
    soft = smoothed(model, 0.1)
    assert soft.layout.names == model.layout.names
    q, v, a = np.random.default_rng(0).normal(size=(3, 3, 20))
    theta = np.arange(len(model.layout), dtype=float)
    wanted = Model(arm(), [Viscous(), Coulomb(0.1), on_joints(Stribeck(0.1, width=0.1), ["joint1"])])
    np.testing.assert_array_equal(soft.torque(q, v, a, theta), wanted.torque(q, v, a, theta))
    assert smoothed(wanted, 0.5) == wanted


@pytest.mark.parametrize("term", [Dahl(), LoadFriction(0.1), BearingFriction(0.1)])
def test_terms_without_a_gradient_are_refused(term: Term) -> None:
    with pytest.raises(ModelError, match=f"Term '{term.name}' uses .*Design the motion with a model"):
        RegressorGradient(Model(arm(), [Viscous(), Coulomb(0.1), term]))


def test_springs_between_two_points_are_refused() -> None:
    ends = (Anchor("base", np.array([0.0, 0.0, 0.1])), Anchor("link2", np.array([0.1, 0.0, 0.0])))
    with pytest.raises(ModelError, match="Term 'springs' has no law"):
        RegressorGradient(Model(replace(arm(), springs=(TensionSpring("long", ends),)), [Springs()]))


def test_loops_are_refused() -> None:
    with pytest.raises(ModelError, match="has loops, and gradients through their closure"):
        RegressorGradient(Model(read_robot("fivebar")))


# --- Criteria ---------------------------------------------------------------------------------------------------------

CRITERIA: dict[str, Criterion] = {
    "d-optimal": DOptimal(),
    "d-optimal of two": DOptimal(["joint1.Fv", "link2.MX"]),
    "condition": ConditionNumber(),
    "targets": DeviationTargets({"joint1.Fv": 0.05}, {"link2.MX": 0.02, "joint2.Fc": 0.1}),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_slope_of_a_criterion(name: str) -> None:
    model = model_of(arm(3))
    base = base_parameters(model)
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4 * len(base), len(base))) * np.exp(rng.normal(size=len(base)))
    f = w.T @ w
    score = CRITERIA[name].bound(base, truth_of(model))
    slope = score(f).slope
    np.testing.assert_allclose(slope, slope.T, atol=1e-12 * np.abs(slope).max())
    for _ in range(5):
        change = rng.normal(size=f.shape) * np.sqrt(np.outer(np.diag(f), np.diag(f)))
        change = 1e-3 * (change + change.T)
        step = 1e-4
        wanted = (score(f + step * change).objective - score(f - step * change).objective) / (2 * step)
        assert np.sum(slope * change) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_criteria_say_what_they_say() -> None:
    model = model_of(arm(3))
    base, theta = base_parameters(model), truth_of(model)
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4 * len(base), len(base))) * np.exp(rng.normal(size=len(base)))
    f, c = w.T @ w, np.linalg.inv(w.T @ w)
    assert DOptimal().bound(base, None)(f).value == pytest.approx(0.5 * np.linalg.slogdet(c)[1] / len(base))
    k = base.names.index("joint1.Fv")
    assert DOptimal(["joint1.Fv"]).bound(base, None)(f).value == pytest.approx(np.log(np.sqrt(c[k, k])))
    scaled = w / np.linalg.norm(w, axis=0)
    assert ConditionNumber().bound(base, None)(f).value == pytest.approx(np.linalg.cond(scaled))
    value = DeviationTargets({"joint1.Fv": 0.1}).bound(base, theta)(f).value
    assert value == pytest.approx(np.sqrt(c[k, k]) / (0.1 * abs(base.map[k] @ theta)))
    # what is made small is never below the logarithm of the condition number
    sharp = ConditionNumber(40.0).bound(base, None)(f)
    assert np.log(sharp.value) <= sharp.objective < np.log(sharp.value) + 0.1


def test_singular_information_scores_infinite() -> None:
    base = base_parameters(model_of(arm(3)))
    f = np.zeros((len(base), len(base)))
    for criterion in CRITERIA.values():
        assert criterion.bound(base, truth_of(model_of(arm(3))))(f).objective == np.inf


# --- The whole way: from the numbers of a motion to criterion and torque barrier --------------------------------------


def plan_of(
    model: Model, family: FourierFamily | BSplineFamily, criterion: Criterion, loads: tuple[str, ...]
) -> DesignObjective:
    base, theta = base_parameters(model), model.layout.nominal
    limits = MotionLimits.of(model.robot, 10.0, torque_share=0.9)
    score = criterion.bound(base, theta)
    noise = np.linspace(0.5, 1.5, model.robot.dof)
    given = np.diag(np.linspace(1.0, 2.0, len(base)))
    return DesignObjective(model, base, loads, family, 8.0, 25.0, noise, limits, score, theta, given)


def tx40(width: float = 0.05) -> Model:
    robot = read_robot("tx40")
    tool = Payload("tool", pose=Pose(position=np.array([0.02, 0.0, 0.1])), known={"M": 1.5})
    return Model(robot, named_terms(robot.terms or (), sign_width=width), payloads=[tool])


@pytest.mark.slow
@pytest.mark.parametrize("loads", [("none",), ("none", "tool")])
@pytest.mark.parametrize("family", [FourierFamily(4), BSplineFamily(7)])
@pytest.mark.parametrize("criterion", [DOptimal(), ConditionNumber()])
def test_objective_of_a_plan(
    loads: tuple[str, ...], family: FourierFamily | BSplineFamily, criterion: Criterion
) -> None:
    """Every variable of the TX-40, with the torque barrier at work: 1e-6 of the largest entry."""
    plan = plan_of(tx40(), family, criterion, loads)
    rng = np.random.default_rng(0)
    x = 0.3 * rng.standard_normal(len(loads) * 6 * family.size)
    while plan.torque_share(x) > 0.9:
        x *= 0.8
    found = plan.objective(x, 0.3).gradient
    step = 2e-6
    wanted = np.empty_like(x)
    for k in range(len(x)):
        shift = step * np.eye(len(x))[k]
        wanted[k] = (plan.objective(x + shift, 0.3).value - plan.objective(x - shift, 0.3).value) / (2 * step)
    assert np.max(np.abs(found - wanted)) < 1e-6 * np.max(np.abs(wanted))


def test_torque_and_information_are_those_of_the_model() -> None:
    model = tx40(0.0)
    plan = plan_of(model, FourierFamily(3), DOptimal(), ("tool",))
    x = 0.1 * np.random.default_rng(0).standard_normal(6 * plan.family.size)
    (motion,) = plan.motions(x)
    assert plan.theta is not None
    assert plan.given is not None
    tau = model.torque(*motion[:3], plan.theta, load="tool")
    assert plan.torque_share(x) == pytest.approx(np.max(np.abs(tau) / plan.limits.torque[:, None]), rel=1e-12)
    w = model.regressor(*motion[:3], load="tool")[:, list(plan.base.kept)] / plan.noise[:, None, None]
    wanted = plan.given + np.einsum("jas,jbs->ab", w, w)
    np.testing.assert_allclose(plan.information(x), wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())
