"""Robots with loops against MuJoCo, Pinocchio and the Orthoglide's own equations (P3)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.loops import FRAME, POINT, FrameLoop
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Offset, Rotor, Viscous
from testbed import orthoglide
from testbed.looped import Answer, MujocoLoops, PinocchioLoops, random_looped, states_within_limits, with_random_bodies
from testbed.orthoglide import D4, GRAVITY, LEGS, NAMES
from testbed.trees import State, relative, rigid_model

pytest.importorskip("mujoco")

BUILT_IN = ("fivebar", "delta", "stewart", "orthoglide")
TERMS = (Rotor(), Viscous(), Coulomb(), Offset())
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 10)


def random_case(seed: int, joints: int) -> tuple[Robot, State, Answer]:
    """A random looped robot, states near its home and what MuJoCo says of them."""
    rng = np.random.default_rng(seed)
    robot = random_looped(rng, joints)
    state = states_within_limits(rng, robot, 3, reach=0.03)
    return robot, state, MujocoLoops(robot).answer(state, steps=1)


@cache
def built_in_case(name: str) -> tuple[Robot, State, Answer]:
    """A built-in robot with random bodies and rotors, states within its limits and what MuJoCo says of them."""
    rng = np.random.default_rng(BUILT_IN.index(name))
    robot = with_random_bodies(read_robot(name), rng)
    state = states_within_limits(rng, robot, 20, reach=np.inf)
    return robot, state, MujocoLoops(robot).answer(state)


def numbers(model: Model, rng: np.random.Generator) -> Array:
    """Nominal parameters where there are any, and random ones elsewhere."""
    return np.array([rng.normal() if c.nominal is None else c.nominal for c in model.layout.columns])


# --- The oracles against each other -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(seeds, st.integers(4, 10))
def test_pinocchio_gives_back_the_acceleration_that_mujoco_was_asked_for(seed: int, joints: int) -> None:
    pytest.importorskip("pinocchio")
    robot, _, answer = random_case(seed, joints)
    assume(all(PinocchioLoops.knows(loop) for loop in robot.loops))
    back = PinocchioLoops(robot).closed_acceleration(answer.q, answer.v, answer.torque)
    assert relative(back, answer.a) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_pinocchio_gives_back_the_acceleration_of_built_in_robots(name: str) -> None:
    pytest.importorskip("pinocchio")
    robot, _, answer = built_in_case(name)
    back = PinocchioLoops(robot).closed_acceleration(answer.q, answer.v, answer.torque)
    assert relative(back, answer.a) < 1e-8


@pytest.mark.slow
@given(seeds, sizes)
def test_oracle_motion_is_allowed_by_mujocos_own_equalities(seed: int, joints: int) -> None:
    """J G = 0 with the Jacobian of connect and weld, which is not the one that made G."""
    robot, _, answer = random_case(seed, joints)
    oracle = MujocoLoops(robot)
    oracle.rows(answer.q[:, 0], answer.v[:, 0])
    jacobian = oracle.equality_jacobian()
    known = [loop for loop in robot.loops if isinstance(loop, FrameLoop) and loop.components in (POINT, FRAME)]
    assert len(jacobian) == sum(len(loop.components) for loop in known)
    assert np.abs(jacobian @ answer.map[:, :, 0]).max(initial=0.0) < 1e-11 * max(1.0, np.abs(answer.map).max())


@pytest.mark.slow
@given(seeds, sizes)
def test_oracle_velocity_and_acceleration_are_rates_of_its_position(seed: int, joints: int) -> None:
    """Along q_a + v_a t + a_a t²/2, by central differences of fourth order."""
    robot, state, answer = random_case(seed, joints)
    oracle, h = MujocoLoops(robot), 1e-3
    q, v, a = (x[:, 0] for x in state)
    far_back, back, here, ahead, far_ahead = (
        oracle.closed(q + v * t + 0.5 * a * t * t, steps=1) for t in (-2 * h, -h, 0.0, h, 2 * h)
    )
    velocity = (8 * (ahead - back) - (far_ahead - far_back)) / (12 * h)
    acceleration = (16 * (ahead + back) - (far_ahead + far_back) - 30 * here) / (12 * h * h)
    # a passive joint near a dead point has large higher derivatives; its speed says how near it is
    scale = max(1.0, np.abs(answer.v[:, 0]).max()) ** 2
    assert np.abs(velocity - answer.v[:, 0]).max() < 1e-5 * scale**2
    assert np.abs(acceleration - answer.a[:, 0]).max() < 1e-3 * scale**3


def test_orthoglide_closes_as_the_paper_says() -> None:
    """(40) and (41) hold, the legs' tips carry the platform, and the legs' own joints 1 are the actuators."""
    state = orthoglide.random_states(np.random.default_rng(1), 50)
    for q, v, a in zip(state.q.T, state.v.T, state.a.T, strict=True):
        now = orthoglide.motion(q, v, a)
        assert np.abs(orthoglide.closure(now.x, now.q)).max() < 1e-15
        assert np.abs(orthoglide.reduced_closure(now.x, q)).max() < 1e-15
        assert np.allclose(now.leg_map[::5], np.eye(3), rtol=0, atol=1e-13)
        assert np.allclose(now.a[::5], a, rtol=0, atol=1e-11)
        for i in LEGS:
            frames = orthoglide.leg_frames(i, now.q[5 * (i - 1) : 5 * i])
            tip = frames[4][:3, 3] + orthoglide.D6 * frames[0][:3, 2]
            assert np.allclose(tip, now.x, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_orthoglide_of_the_paper_is_mujocos() -> None:
    robot, _, _ = built_in_case("orthoglide")
    state = orthoglide.random_states(np.random.default_rng(2), 15)
    answer = MujocoLoops(robot).answer(state)
    values = {c.name: c.nominal for c in Model(robot, [Rotor()]).layout.columns}
    theta = np.array([values.get(name, 0.0) for name in NAMES], float)
    assert relative(np.einsum("jcs,c->js", orthoglide.regressors(state), theta), answer.torque) < 1e-11


# --- The model against the oracles ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(seeds, sizes)
def test_random_loops_equal_mujoco(seed: int, joints: int) -> None:
    """Rigid bodies and rotors, loops with any components and joints that follow others."""
    robot, state, answer = random_case(seed, joints)
    model, theta = rigid_model(robot)
    assert relative(model.torque(*state, theta), answer.torque) < 1e-9
    assert relative(np.einsum("jcs,c->js", model.regressor(*state), theta), answer.torque) < 1e-9


@pytest.mark.slow
@given(seeds, sizes)
def test_terms_of_passive_joints_work_on_the_axes(seed: int, joints: int) -> None:
    """τ_a = Gᵀ τ_tree, with friction and offsets of every joint added by hand; MuJoCo has the rotors."""
    robot, state, answer = random_case(seed, joints)
    model = Model(robot, TERMS)
    theta = numbers(model, np.random.default_rng(seed))
    for name, v in zip(robot.joint_names, answer.v, strict=True):
        if np.abs(v).min() < 1e-9:  # a joint that its loop holds still: the sign of its velocity is rounding
            theta[model.layout.index(f"{name}.Fc")] = 0.0
    value = dict(zip(model.layout.names, theta, strict=True))
    friction = np.stack(
        [
            value[f"{name}.Fv"] * v + value[f"{name}.Fc"] * np.sign(v) + value[f"{name}.off"]
            for name, v in zip(robot.joint_names, answer.v, strict=True)
        ]
    )
    wanted = answer.torque + np.einsum("jas,js->as", answer.map, friction)
    assert relative(model.torque(*state, theta), wanted) < 1e-9
    assert relative(np.einsum("jcs,c->js", model.regressor(*state), theta), wanted) < 1e-9


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_robots_equal_mujoco(name: str) -> None:
    robot, state, answer = built_in_case(name)
    model, theta = rigid_model(robot)
    assert relative(model.torque(*state, theta), answer.torque) < 1e-10
    assert relative(np.einsum("jcs,c->js", model.regressor(*state), theta), answer.torque) < 1e-10
    for axis in range(robot.dof):
        assert relative(model.torque(*state, theta)[axis], answer.torque[axis]) < 1e-10


@pytest.mark.parametrize("name", BUILT_IN)
def test_forward_dynamics_of_built_in_robots_is_pinocchios(name: str) -> None:
    pytest.importorskip("pinocchio")
    robot, state, answer = built_in_case(name)
    model, theta = rigid_model(robot)
    tau = answer.torque * np.random.default_rng(3).uniform(0.5, 1.5, answer.torque.shape)
    wanted = PinocchioLoops(robot).closed_acceleration(answer.q, answer.v, tau)[robot.axis_index]
    assert relative(model.forward(state.q, state.v, tau, theta), wanted) < 1e-8


@pytest.mark.slow
@given(seeds, sizes)
def test_mass_matrix_of_loops_is_symmetric_positive_definite_and_the_slope_of_torque(seed: int, joints: int) -> None:
    robot, state, _ = random_case(seed, joints)
    model, theta = rigid_model(robot)
    mass = model.mass_matrix(state.q, theta)
    scale = np.abs(mass).max()
    assert np.abs(mass - mass.transpose(1, 0, 2)).max() < 1e-12 * scale
    assert np.linalg.eigvalsh(mass.transpose(2, 0, 1)).min() > 0.0
    inertial = model.torque(*state, theta) - model.torque(state.q, state.v, np.zeros_like(state.a), theta)
    assert np.allclose(np.einsum("jks,ks->js", mass, state.a), inertial, rtol=0, atol=1e-9 * scale)


# --- The Orthoglide of P3 ---------------------------------------------------------------------------------------------


@cache
def orthoglide_base(symmetric: bool = True) -> tuple[Model, BaseParameters]:
    robot = read_robot("orthoglide")
    model = Model(robot if symmetric else replace(robot, legs=()), TERMS)
    return model, base_parameters(model)


@pytest.mark.slow
def test_orthoglide_regressor_is_the_papers() -> None:
    """(15) by hand against ours, column by column, and torques with random parameters of size one."""
    model, _ = orthoglide_base()
    rng = np.random.default_rng(4)
    state = orthoglide.random_states(rng, 50)
    assert sorted(model.layout.names) == sorted(NAMES)
    ours = model.regressor(*state)[:, [model.layout.index(name) for name in NAMES]]
    wanted = orthoglide.regressors(state)
    scale = np.maximum(np.abs(wanted).max(axis=(0, 2)), 1.0)
    assert (np.abs(ours - wanted).max(axis=(0, 2)) / scale).max() < 1e-10

    theta = rng.uniform(-1.0, 1.0, len(NAMES))
    placed = np.zeros(len(NAMES))
    placed[[model.layout.index(name) for name in NAMES]] = theta
    assert relative(model.torque(*state, placed), np.einsum("jcs,c->js", wanted, theta)) < 1e-10


def test_orthoglide_has_the_papers_counts() -> None:
    model, base = orthoglide_base()
    assert len(model.layout) == 15 * 14 + 10
    assert len(base.zero) == 99
    assert len(base) == 61
    assert base.smallest_kept > 1e-6
    assert base.largest_dropped < 1e-12


def regrouped() -> dict[str, dict[str, float]]:
    """§5.2 as corrected: one misprint in m_13R, xz_3iR printed as zz_3iR, zz_3iR missing, rotors of passive joints.

    Gravity lies along actuator 3: its offset is a weight without inertia, and joins mass and rotor there.
    """
    out: dict[str, dict[str, float]] = {"link6.M": {}}
    for i in LEGS:
        out["link6.M"] |= {f"link3{i}.MX": 1 / D4, f"link4{i}.M": 1.0, f"link5{i}.M": 1.0}
        foot = {f"link2{i}.M": 1.0, f"link3{i}.MX": -1 / D4, f"link3{i}.M": 1.0}
        out[f"link1{i}.M"] = foot | ({"joint13.off": -1 / GRAVITY[1]} if i == 3 else {f"joint1{i}.Ia": 1.0})
        out[f"joint1{i}.Fv"] = out[f"joint1{i}.Fc"] = {}
        out |= {"joint13.Ia": {"joint13.off": 1 / GRAVITY[1]}} if i == 3 else {f"joint1{i}.off": {}}
        out[f"link2{i}.ZZ"] = {f"link3{i}.YY": 1.0, f"link3{i}.MX": -D4, f"link4{i}.YY": 1.0}
        out[f"link2{i}.ZZ"] |= {f"joint2{i}.Ia": 1.0, f"joint5{i}.Ia": 1.0}
        out[f"link2{i}.MX"] = {}
        out[f"link2{i}.MY"] = {f"link3{i}.MZ": 1.0, f"link4{i}.MZ": 1.0}
        out[f"link3{i}.XX"] = {f"link3{i}.YY": -1.0, f"link3{i}.MX": D4}
        out[f"link3{i}.XZ"] = {f"link4{i}.MZ": -D4}
        out[f"link3{i}.ZZ"] = {f"link3{i}.MX": -D4, f"joint3{i}.Ia": 1.0, f"joint4{i}.Ia": 1.0}
        out[f"link3{i}.XY"] = out[f"link3{i}.YZ"] = out[f"link3{i}.MY"] = out[f"link4{i}.MX"] = {}
        for near, far in ((2, 5), (3, 4)):
            for symbol, sign in (("Fv", 1.0), ("Fc", 1.0), ("off", -1.0)):
                out[f"joint{near}{i}.{symbol}"] = {f"joint{far}{i}.{symbol}": sign}
    return {lead: {lead: 1.0} | others for lead, others in out.items()}


def test_orthoglide_regroups_as_the_paper_says() -> None:
    _, base = orthoglide_base()
    wanted = regrouped()
    assert set(base.regroupings) == set(wanted)
    for lead, group in wanted.items():
        assert base.regroupings[lead] == pytest.approx(group, abs=1e-9), lead


def test_orthoglide_legs_are_kept_alike_and_only_because_they_are_declared() -> None:
    """(23): but for the vertical actuator the same is kept of every leg; leg after leg, leg 1 takes the platform."""
    model, base = orthoglide_base()
    by_leg = [{name.replace(f"{i}.", "#.") for name in base.names if f"{i}." in name} for i in LEGS]
    assert by_leg[0] == by_leg[1]
    assert by_leg[0] ^ by_leg[2] == {"joint1#.off", "joint1#.Ia"}

    other, plain = orthoglide_base(symmetric=False)
    assert other.layout.names == model.layout.names
    assert len(plain) == 61
    assert set(plain.names) ^ set(base.names) == {"link31.MX", "link6.M"}
    assert "link31.MX" in plain.names
