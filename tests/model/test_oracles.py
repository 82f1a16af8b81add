"""The numerical core against Pinocchio, MuJoCo and the laws it must obey, on random trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Offset, Rotor, Viscous
from testbed.trees import (
    State,
    link_poses,
    potential_energy,
    random_pose,
    random_state,
    random_tree,
    relabelled,
    relative,
    reordered,
    rigid_model,
    with_base,
    with_link_frame,
    worst_errors,
)

TREES = 40
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 9)


def case(seed: int, joints: int, samples: int = 4, **options: bool):
    """A random robot, its model, parameters and states from one seed."""
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints, **options)
    model, theta = rigid_model(robot)
    return rng, robot, model, theta, random_state(rng, robot, samples)


# --- Oracles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [20, 21])
def test_equal_to_pinocchio(seed: int) -> None:
    pytest.importorskip("pinocchio")
    worst = worst_errors(TREES // 2, seed, "pinocchio")
    assert worst["regressor"] < 1e-10
    assert worst["torque"] < 1e-10
    assert worst["joint torque"] < 1e-10
    assert worst["mass matrix"] < 1e-10
    assert worst["acceleration"] < 1e-9


def test_equal_to_mujoco() -> None:
    pytest.importorskip("mujoco")
    worst = worst_errors(TREES, 30, "mujoco")
    assert worst["regressor"] < 1e-10
    assert worst["torque"] < 1e-10
    assert worst["joint torque"] < 1e-10


# --- Forward and inverse ----------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 12), st.booleans())
def test_forward_inverts_inverse(seed: int, joints: int, off_axis: bool) -> None:
    rng, robot, _, _, state = case(seed, joints, off_axis=off_axis)
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset()])
    theta = np.array([c.nominal if c.nominal is not None else rng.normal() for c in model.layout.columns])
    given_back = model.forward(state.q, state.v, model.torque(*state, theta), theta)
    assert relative(given_back, state.a) < 1e-9


@given(seeds, sizes)
def test_mass_matrix_is_symmetric_positive_definite_and_the_slope_of_torque(seed: int, joints: int) -> None:
    _, _, model, theta, state = case(seed, joints)
    mass = model.mass_matrix(state.q, theta)
    scale = np.abs(mass).max()
    assert np.abs(mass - mass.transpose(1, 0, 2)).max() < 1e-13 * scale
    assert np.linalg.eigvalsh(mass.transpose(2, 0, 1)).min() > 0.0
    inertial = model.torque(*state, theta) - model.torque(state.q, state.v, np.zeros_like(state.a), theta)
    assert np.allclose(np.einsum("jks,ks->js", mass, state.a), inertial, rtol=0, atol=1e-11 * scale)


def test_forward_refuses_parameters_that_no_robot_has() -> None:
    _, _, model, theta, state = case(3, 4)
    with pytest.raises(ModelError, match="not positive definite"):
        model.forward(state.q, state.v, state.a, -theta)


# --- Mechanics --------------------------------------------------------------------------------------------------------


@given(seeds, sizes, st.booleans())
def test_power_of_the_torques_is_the_rate_of_energy(seed: int, joints: int, off_axis: bool) -> None:
    """d/dt(T + U) = τ·q̇ along q(t) = q₀ + v₀ t + a t²/2, by a central difference of fourth order."""
    _, robot, model, theta, state = case(seed, joints, samples=1, off_axis=off_axis)

    def energy(t: float) -> float:
        q = state.q + state.v * t + 0.5 * state.a * t * t
        v = (state.v + state.a * t)[:, 0]
        return 0.5 * float(v @ model.mass_matrix(q, theta)[:, :, 0] @ v) + potential_energy(robot, q[:, 0])

    h = 1e-3
    rate = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    tau = model.torque(*state, theta)
    power = float(np.sum(tau * state.v))
    assert abs(rate - power) < 1e-7 * (1.0 + float(np.sum(np.abs(tau * state.v))))


@given(seeds, sizes)
def test_torque_at_rest_is_the_slope_of_potential_energy(seed: int, joints: int) -> None:
    _, robot, model, theta, state = case(seed, joints, samples=1)
    still = np.zeros_like(state.q)
    tau = model.torque(state.q, still, still, theta)[:, 0]
    h = 1e-4
    for j in range(robot.dof):
        step = np.zeros(robot.dof)
        step[j] = h
        q = state.q[:, 0]
        slope = (potential_energy(robot, q + step) - potential_energy(robot, q - step)) / (2 * h)
        assert abs(slope - tau[j]) < 1e-6 * (1.0 + np.abs(tau).max())


# --- Invariances ------------------------------------------------------------------------------------------------------


@given(seeds, sizes, st.booleans())
def test_base_frame_and_gravity_turned_together_change_nothing(seed: int, joints: int, off_axis: bool) -> None:
    rng, robot, model, theta, state = case(seed, joints, off_axis=off_axis)
    moved, _ = rigid_model(with_base(robot, random_pose(rng)))
    assert relative(moved.torque(*state, theta), model.torque(*state, theta)) < 1e-12
    assert relative(moved.regressor(*state), model.regressor(*state)) < 1e-12


def test_gravity_turned_alone_does_change_the_torque() -> None:
    _, robot, model, theta, state = case(1, 5)
    turned, _ = rigid_model(robot.with_gravity((-robot.gravity).tolist()))
    assert relative(turned.torque(*state, theta), model.torque(*state, theta)) > 0.01


@given(seeds, sizes)
def test_names_change_nothing(seed: int, joints: int) -> None:
    rng, robot, model, theta, state = case(seed, joints)
    other, values = rigid_model(relabelled(robot, rng))
    assert np.array_equal(values, theta)
    assert np.array_equal(other.torque(*state, theta), model.torque(*state, theta))
    assert np.array_equal(other.regressor(*state), model.regressor(*state))


@given(seeds, sizes)
def test_order_of_the_tree_changes_nothing(seed: int, joints: int) -> None:
    rng, robot, model, theta, state = case(seed, joints)
    shuffled, order = reordered(robot, rng)
    other, values = rigid_model(shuffled)
    given_state = State(*(x[order] for x in state))
    assert relative(other.torque(*given_state, values), model.torque(*state, theta)[order]) < 1e-13
    columns = [model.layout.index(name) for name in other.layout.names]
    assert np.array_equal(values, theta[columns])
    wanted = model.regressor(*state)[order][:, columns]
    assert relative(other.regressor(*given_state), wanted) < 1e-13


@pytest.mark.slow
@given(seeds, sizes, st.booleans())
def test_link_frames_change_nothing(seed: int, joints: int, off_axis: bool) -> None:
    rng, robot, model, theta, state = case(seed, joints, off_axis=off_axis)
    changed: Robot = robot
    for link in range(robot.dof):
        changed = with_link_frame(changed, link, random_pose(rng))
    other, values = rigid_model(changed)
    wanted = model.torque(*state, theta)
    assert relative(other.torque(*state, values), wanted) < 1e-11
    assert relative(np.einsum("jcs,c->js", other.regressor(*state), values), wanted) < 1e-11
    assert relative(other.mass_matrix(state.q, values), model.mass_matrix(state.q, theta)) < 1e-11


@given(seeds, sizes, st.booleans())
def test_placement_coefficients_are_the_motion_of_the_joint(seed: int, joints: int, off_axis: bool) -> None:
    """Poses of all links from the kernels' coefficients, against rotation vectors."""
    _, robot, _, _, state = case(seed, joints, samples=1, off_axis=off_axis)
    q = state.q[:, 0]
    poses: list[Array] = []
    for joint, x in zip(robot.joints, q, strict=True):
        p = joint.placement
        step = np.vstack([p[0] + np.sin(x) * p[1] + (1 - np.cos(x)) * p[2] + x * p[3], [0, 0, 0, 1]])
        poses.append(step if joint.parent < 0 else poses[joint.parent] @ step)
    for matrix, pose in zip(poses, link_poses(robot, q), strict=True):
        assert np.allclose(matrix[:3, :3], pose.rotation, rtol=0, atol=1e-13)
        assert np.allclose(matrix[:3, 3], pose.position, rtol=0, atol=1e-13)


# --- NaN and lanes ----------------------------------------------------------------------------------------------------


def related(robot: Robot, j: int) -> list[int]:
    """Joints whose torque depends on joint j: those that carry it and those it carries."""
    return [i for i in range(robot.dof) if i in robot.ancestors(j) or j in robot.ancestors(i)]


@given(seeds, sizes, st.sampled_from([0, 1, 2]), st.data())
def test_nan_comes_out_as_nan_and_stays_in_its_sample(seed: int, joints: int, which: int, data: st.DataObject) -> None:
    _, robot, model, theta, state = case(seed, joints, samples=130)
    j, s = data.draw(st.integers(0, joints - 1)), data.draw(st.integers(0, 129))
    broken = State(*(x.copy() for x in state))
    broken[which][j, s] = np.nan
    others = np.arange(130) != s
    touched = related(robot, j)

    tau = model.torque(*broken, theta)
    assert np.isnan(tau[touched, s]).all()
    assert np.array_equal(tau[:, others], model.torque(*state, theta)[:, others])
    w = model.regressor(*broken)
    assert np.isnan(np.einsum("jc,c->j", w[:, :, s], theta))[touched].all()
    assert np.array_equal(w[:, :, others], model.regressor(*state)[:, :, others])


@given(seeds, st.integers(1, 6), st.sampled_from([0, 1, 2]), st.data())
def test_forward_never_turns_nan_into_a_number(seed: int, joints: int, which: int, data: st.DataObject) -> None:
    _, _, model, theta, state = case(seed, joints, samples=3)
    j, s = data.draw(st.integers(0, joints - 1)), data.draw(st.integers(0, 2))
    broken = State(*(x.copy() for x in state))
    broken[which][j, s] = np.nan
    try:
        acceleration = model.forward(*broken, theta)
    except ModelError:
        return
    assert np.isnan(acceleration[j, s])
    others = np.arange(3) != s
    assert np.array_equal(acceleration[:, others], model.forward(*state, theta)[:, others])


def test_infinite_position_gives_nan() -> None:
    _, _, model, theta, state = case(5, 4, samples=3, chain=True)
    state.q[0, 1] = np.inf
    tau = model.torque(*state, theta)
    assert not np.isfinite(tau[:, 1]).any()
    assert np.isfinite(tau[:, [0, 2]]).all()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 300])
def test_results_do_not_depend_on_the_number_of_samples(count: int) -> None:
    _, _, model, theta, state = case(7, 7, samples=300)
    part = State(*(x[:, :count] for x in state))
    whole_tau = model.torque(*state, theta)
    assert relative(model.torque(*part, theta), whole_tau[:, :count]) < 1e-14
    assert relative(model.regressor(*part), model.regressor(*state)[:, :, :count]) < 1e-14
    assert relative(model.mass_matrix(part.q, theta), model.mass_matrix(state.q, theta)[:, :, :count]) < 1e-14
    forward = model.forward(state.q, state.v, whole_tau, theta)
    assert relative(model.forward(part.q, part.v, whole_tau[:, :count], theta), forward[:, :count]) < 1e-14


def test_strided_and_integer_input_is_the_same() -> None:
    _, _, model, theta, state = case(8, 5, samples=40)
    strided = State(*(np.asfortranarray(np.repeat(x, 2, axis=1))[:, ::2] for x in state))
    assert np.array_equal(model.torque(*strided, theta), model.torque(*state, theta))
    assert np.array_equal(model.regressor(*strided), model.regressor(*state))
    integer, same = np.ones(state.q.shape, int), np.ones(state.q.shape)
    wanted = model.torque(same, same, same, theta)
    assert np.array_equal(model.torque(integer, integer, integer, theta), wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 3), (6, 3), (5,), (3, 5)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """The kernels check no bounds: what gets past the model reads and writes other people's memory."""
    _, _, model, theta, state = case(9, 5, samples=3)
    wrong = np.zeros(shape)
    for call in (
        lambda: model.torque(wrong, wrong, wrong, theta),
        lambda: model.regressor(state.q, wrong, state.a),
        lambda: model.mass_matrix(wrong, theta),
        lambda: model.forward(wrong, wrong, wrong, theta),
        lambda: model.forward(state.q, state.v, wrong, theta),
    ):
        with pytest.raises(ModelError, match="one row per axis"):
            call()


def test_effort_with_more_samples_than_the_state_is_refused() -> None:
    _, _, model, theta, state = case(9, 5, samples=3)
    with pytest.raises(ModelError, match="one row per axis"):
        model.forward(state.q[:, :1], state.v[:, :1], state.a, theta)


@pytest.mark.parametrize("change", [-1, 1])
def test_wrong_number_of_parameters_is_refused(change: int) -> None:
    _, _, model, theta, state = case(9, 5, samples=3)
    wrong = np.zeros(len(theta) + change)
    for call in (
        lambda: model.torque(*state, wrong),
        lambda: model.mass_matrix(state.q, wrong),
        lambda: model.forward(*state, wrong),
    ):
        with pytest.raises(ModelError, match=f"{len(theta)} standard parameters"):
            call()


def test_no_samples_give_no_results() -> None:
    _, _, model, theta, _ = case(9, 5)
    none = np.empty((5, 0))
    assert model.torque(none, none, none, theta).shape == (5, 0)
    assert model.regressor(none, none, none).shape == (5, len(theta), 0)
    assert model.mass_matrix(none, theta).shape == (5, 5, 0)
    assert model.forward(none, none, none, theta).shape == (5, 0)
