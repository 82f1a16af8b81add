"""Closed-loop simulation of robots with loops: forward and inverse, SciPy and MuJoCo; controllers, steps, faults."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from steelyard._arrays import Array
from steelyard._kernels import plant as plant_kernel
from steelyard.errors import SimulationError
from steelyard.formats.robots import read_robot
from steelyard.model.loops import JointLoop
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.robot import Pose, Robot
from steelyard.model.terms import Coulomb, Dahl, LoadFriction, Offset, PowerLaw, Rotor, Term, Viscous
from steelyard.motion.random import random_fourier
from steelyard.motion.trajectory import Fourier
from steelyard.simulation.closed_loop import Loop, Reference, simulate
from steelyard.simulation.controllers import PD, PID, Cascade, ComputedTorque, Controller, controller_from
from steelyard.simulation.plant import Plant
from testbed.looped import MujocoLoops, random_looped, states_within_limits
from testbed.simulated import arm
from testbed.trees import link_poses, relative, rigid_model

WIDTH = 0.2
PLAIN: tuple[Term, ...] = (Rotor(), Viscous(), Coulomb(WIDTH), Offset())
FRICTION: tuple[Term, ...] = (*PLAIN, PowerLaw(), Dahl(), LoadFriction(WIDTH))
BUILT_IN = ("fivebar", "orthoglide", "stewart")
PAYLOAD = Payload("load", "link6", known={"M": 1.983})


@cache
def robot_of(name: str) -> Robot:
    return read_robot(name)


@cache
def plant_of(name: str, terms: tuple[Term, ...] = PLAIN) -> Plant:
    """A plant with the file's values; what that does not say is a hundredth, of every joint that has it."""
    model = Model(robot_of(name), terms)
    return Plant(model, np.array([0.01 if c.nominal is None else c.nominal for c in model.layout.columns]))


def moving(robot: Robot, duration: float = 1.0, seed: int = 1) -> Fourier:
    return random_fourier(robot, 3, 1.0 / duration, duration, np.random.default_rng(seed))


def standing(q: Array, count: int) -> Reference:
    still = np.zeros((len(q), count))
    return Reference(still + q[:, None], still, still.copy())


def home_of(robot: Robot) -> Array:
    assert robot.home is not None
    return robot.home[robot.axis_index]


def free(dof: int) -> PD:
    """A controller that does nothing."""
    return PD(np.zeros(dof), np.zeros(dof))


# --- Forward and inverse ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_the_kernels_torque_is_the_models(name: str) -> None:
    """With friction of every joint, passive ones too, pre-sliding along the way and friction of the axes' loads."""
    plant = plant_of(name, FRICTION)
    q, v, a = moving(plant.robot).at(np.linspace(0.05, 0.95, 60))
    tau = np.empty((60, plant.robot.dof))
    space = plant_kernel.space_of(plant.dynamics)
    here, speed, change = (np.ascontiguousarray(x.T) for x in (q, v, a))
    code, _ = plant_kernel.torques(plant.dynamics, space, here, speed, change, plant.postures(q), tau)
    assert code == 0
    assert relative(tau.T, plant.torque(q, v, a)) < 1e-11
    assert relative(plant_of(name).torque(q, v, a), plant.torque(q, v, a)) > 1e-4, "the other terms are felt"


@pytest.mark.parametrize("name", BUILT_IN)
def test_forward_inverts_inverse(name: str) -> None:
    plant = plant_of(name, (*PLAIN, PowerLaw(), LoadFriction(WIDTH)))
    # states far apart: each is reached from the one before
    q, v, a = states_within_limits(np.random.default_rng(1), plant.robot, 20, reach=np.inf)
    assert relative(plant.forward(q, v, plant.torque(q, v, a)), a) < 1e-9


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_forward_inverts_inverse_of_random_loops(seed: int, joints: int) -> None:
    """Loops with any components, more rows than unknowns, joints that follow others by a polynomial."""
    pytest.importorskip("mujoco")
    rng = np.random.default_rng(seed)
    robot = random_looped(rng, joints)
    model = Model(robot, PLAIN)
    plant = Plant(model, np.array([0.1 if c.nominal is None else c.nominal for c in model.layout.columns]))
    q, v, a = states_within_limits(rng, robot, 3, reach=0.03)
    assert relative(plant.forward(q, v, plant.torque(q, v, a)), a) < 1e-8
    assert relative(plant.static_torque(q[:, 0]), plant.torque(q[:, :1], 0.0 * q[:, :1], 0.0 * q[:, :1])[:, 0]) < 1e-9


def test_inertia_is_that_of_the_axes() -> None:
    plant = plant_of("orthoglide")
    q = moving(plant.robot).at(np.linspace(0.0, 1.0, 7))[0]
    mass = plant.model.mass_matrix(q, plant.theta)
    assert np.allclose(plant.inertia(q), np.mean(np.diagonal(mass), axis=0), rtol=1e-12)
    assert plant.inertia().shape == (3,)
    heavier = Plant(plant.model, np.where(np.arange(len(plant.theta)) == _column(plant, "link6.M"), 3.0, plant.theta))
    assert np.all(heavier.inertia(q) > plant.inertia(q) + 1.0), "every drive carries the platform"


def _column(plant: Plant, name: str) -> int:
    return plant.model.layout.index(name)


# --- Integration ------------------------------------------------------------------------------------------------------


def energy(plant: Plant, q: Array, v: Array) -> tuple[Array, Array]:
    """Kinetic and potential energy (N,) at states of the axes, the latter from the poses of all links."""
    kinetic = 0.5 * np.einsum("js,jks,ks->s", v, plant.model.mass_matrix(q, plant.theta), v)
    robot, potential = plant.robot, np.zeros(q.shape[1])
    for s, posture in enumerate(plant.postures(q)):
        for link, pose in zip(robot.links, link_poses(robot.tree, posture), strict=True):
            if link.inertia is not None:
                moment = pose.rotation @ link.inertia[6:9] + link.inertia[9] * pose.position
                potential[s] -= robot.gravity @ moment
    return kinetic, potential


def falling(name: str, share: float) -> Plant:
    """Without friction, in a weak field so that it does not reach the end of its workspace."""
    robot = robot_of(name)
    return Plant(*rigid_model(robot.with_gravity((share * robot.gravity).tolist())))


@pytest.mark.parametrize(("name", "share"), [("fivebar", 0.03), ("stewart", 0.1)])
def test_energy_is_kept_without_friction(name: str, share: float) -> None:
    plant = falling(name, share)
    run = simulate(plant, free(plant.robot.dof), standing(home_of(plant.robot), 1001), 1000.0)
    kinetic, potential = energy(plant, run.q[:, ::20], run.v[:, ::20])
    assert np.abs(run.q[:, -1] - run.q[:, 0]).max() > 0.01, "it falls"
    assert np.abs(kinetic + potential - potential[0]).max() < 1e-8 * kinetic.max()


def test_error_falls_with_the_fourth_power_of_the_step() -> None:
    plant = falling("fivebar", 0.1)
    start, duration = home_of(plant.robot), 0.5

    def end(rate: float) -> Array:
        return simulate(plant, free(2), standing(start, int(rate * duration) + 1), rate).q[:, -1]

    exact = end(1600.0)
    errors = [float(np.abs(end(rate) - exact).max()) for rate in (20.0, 40.0, 80.0)]
    assert errors[0] > 1e-9
    for coarse, fine in pairwise(errors):
        assert 11.0 < coarse / fine < 24.0


@pytest.mark.parametrize("name", ["fivebar", "orthoglide"])
def test_the_motion_is_that_of_a_tree_with_multipliers(name: str) -> None:
    """MuJoCo's tree and constraint Jacobians: M a + h = Sᵀτ + Jᵀλ, J a = −J̇q̇, all joints by SciPy to 1e-11."""
    pytest.importorskip("mujoco")
    plant = falling(name, 1.0)
    robot, oracle = plant.robot, MujocoLoops(plant.robot)
    start, duration, rate = home_of(robot), 0.1, 2000.0
    tau = 0.3 * plant.static_torque(start) + 0.05
    n = len(robot.joints)
    full = np.zeros(n)
    full[robot.axis_index] = tau

    def slope(_: float, y: Array) -> Array:
        rows = oracle.rows(y[:n], y[n:])
        mass, unit = np.empty((n, n)), np.eye(n)
        bias = np.zeros(n)
        for k in range(n):
            column = np.zeros(n)
            oracle.mujoco.mj_mulM(oracle.model, oracle.data, column, np.ascontiguousarray(unit[k][oracle.order]))
            mass[oracle.order, k] = column
        bias[oracle.order] = oracle.data.qfrc_bias
        held = len(rows.rate)
        system = np.block([[mass, rows.jacobian.T], [rows.jacobian, np.zeros((held, held))]])
        # rows may say a thing twice: multipliers are not unique then, accelerations are
        solution = np.asarray(np.linalg.lstsq(system, np.concatenate([full - bias, -rows.rate]), rcond=None)[0], float)
        return np.concatenate([y[n:], solution[:n]])

    begin = np.concatenate([oracle.closed(start), np.zeros(n)])
    wanted = solve_ivp(slope, (0.0, duration), begin, "DOP853", rtol=1e-11, atol=1e-12).y[:n, -1]
    count = int(rate * duration) + 1
    pushed = Loop(disturbance=np.tile(tau[:, None], (1, count)))
    run = simulate(plant, free(robot.dof), standing(start, count), rate, pushed)
    assert np.abs(run.q[:, -1] - start).max() > 1e-3, "it moves"
    assert np.abs(run.q[:, -1] - wanted[robot.axis_index]).max() < 1e-9


def test_a_joint_that_follows_another_is_part_of_its_inertia() -> None:
    """q2 = 0.4 q1 + 0.3 q1³: one freedom, (m11 + 2 p' m12 + p'² m22) q̈ + … by SciPy with the tree's own dynamics."""
    robot = replace(
        arm(2), loops=(JointLoop("gear", "joint2", "joint1", (0.0, 0.4, 0.0, 0.3)),), actuated=("joint1",),
        home=np.zeros(2),
    )  # fmt: skip
    plant, tree = Plant(*rigid_model(robot)), Plant(*rigid_model(robot.tree))

    def slope(_: float, y: Array) -> list[float]:
        q, v = y
        map, bend = np.array([1.0, 0.4 + 0.9 * q**2]), np.array([0.0, 1.8 * q * v**2])
        posture = np.array([[q], [0.4 * q + 0.3 * q**3]])
        mass = tree.model.mass_matrix(posture, tree.theta)[:, :, 0]
        bias = tree.torque(posture, map[:, None] * v, bend[:, None])[:, 0]
        return [v, -float(map @ bias) / float(map @ mass @ map)]

    run = simulate(plant, free(1), standing(np.array([0.5]), 1001), 2000.0)
    wanted = solve_ivp(slope, (0.0, 0.5), [0.5, 0.0], "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    assert abs(wanted[0] - 0.5) > 0.01
    assert np.allclose([run.q[0, -1], run.v[0, -1]], wanted, atol=1e-9)


@pytest.mark.slow
def test_stiff_friction_of_a_passive_joint_is_implicit_and_does_not_chatter() -> None:
    """tanh(v / 1e-4) in the elbows of the five-bar: far too stiff for explicit steps at 1 kHz."""
    model = Model(robot_of("fivebar"), (Rotor(), Coulomb(1e-4)))
    theta = np.array([0.0 if c.nominal is None else c.nominal for c in model.layout.columns])
    for axis in model.robot.axis_names:
        theta[model.layout.index(f"{axis}.Fc")] = 0.0
    for passive in ("joint21", "joint22"):
        theta[model.layout.index(f"{passive}.Fc")] = 0.2
    plant, rate, count = Plant(model, theta), 1000.0, 100
    swing = 2.0 * np.pi * 10.0
    t = np.arange(count) / rate
    start = home_of(plant.robot)
    wave = 0.05 * np.sin(swing * t) * np.array([[1.0], [-0.6]])
    reference = Reference(start[:, None] + wave, np.gradient(wave, 1.0 / rate, axis=1), np.zeros((2, count)))
    controller = PD.tuned(plant, 15.0)
    run = simulate(plant, controller, reference, rate, Loop(velocity="true"))
    assert np.any(run.steps < 0)
    kp, kd = np.asarray(controller.kp), np.asarray(controller.kd)

    def slope(_: float, y: Array, tau: Array) -> Array:
        return np.concatenate([y[2:], plant.forward(y[:2, None], y[2:, None], tau[:, None])[:, 0]])

    y = np.concatenate([run.q[:, 0], run.v[:, 0]])
    for k in range(40):
        assert np.abs(run.q[:, k] - y[:2]).max() < 2e-5
        tau = kp * (reference.q[:, k] - y[:2]) + kd * (reference.v[:, k] - y[2:])
        y = solve_ivp(slope, (0.0, 1.0 / rate), y, "Radau", args=(tau,), rtol=1e-7, atol=1e-10).y[:, -1]
    assert np.sum(run.a[0, 2:] * run.a[0, 1:-1] < 0.0) < 20, "the acceleration would turn at every sample"


# --- The loop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_motion_explains_the_torque(name: str) -> None:
    plant = plant_of(name, FRICTION)
    reference = moving(plant.robot)
    run = simulate(plant, Cascade.tuned(plant), reference, 1000.0)
    assert run.joints == plant.robot.axis_names
    assert relative(plant.torque(run.q, run.v, run.a), run.tau) < 1e-9
    travel = np.ptp(reference.at(run.t)[0], axis=1)
    assert np.all(np.abs(run.q - reference.at(run.t)[0]).max(axis=1) < 0.05 * travel), "it follows"


def controllers(plant: Plant) -> dict[str, Controller]:
    return {
        "pd": PD.tuned(plant, 15.0),
        "pid": PID.tuned(plant, 15.0),
        "pid with feed-forward": PID.tuned(plant, 15.0, velocity_feedforward=1.0),
        "cascade": Cascade.tuned(plant),
        "computed torque": ComputedTorque.tuned(plant, 15.0, integral=True),
        "from a table": controller_from(
            {"kind": "cascade", "position_hz": {"joint11": 8.0, "joint12": 9.0, "joint13": 10.0}}, plant
        ),
    }


@pytest.mark.slow
def test_every_controller_tracks() -> None:
    """The derivative on the measurement alone lags; a feed-forward takes most of that; a model nearly all."""
    plant = plant_of("orthoglide")
    reference = moving(plant.robot, 2.0)
    error = {}
    for name, controller in controllers(plant).items():
        run = simulate(plant, controller, reference, 1000.0)
        error[name] = float(np.sqrt(np.mean((run.q - reference.at(run.t)[0]) ** 2)))
    travel = float(np.ptp(reference.at(np.linspace(0.0, 2.0, 200))[0]))
    assert max(error.values()) < 0.1 * travel
    assert error["pid"] > 5.0 * error["pid with feed-forward"] > 10.0 * error["computed torque"]


@pytest.mark.slow
def test_wrong_drive_gains_matter_only_for_what_is_added_to_the_model() -> None:
    """P3 section 5.2: a model identified with wrong gains is scaled as the gains are, and the current is right; but
    not that of a payload added at its nominal mass."""
    model = Model(robot_of("orthoglide"), PLAIN, payloads=[PAYLOAD])
    truth = np.array([0.0 if c.nominal is None else c.nominal for c in model.layout.columns])
    plant = Plant(model, truth, "load")
    reference = moving(model.robot, 2.0)
    # true over believed gain, an axis each
    ratio = np.full(3, 1.0 / 1.25)

    def error(theta: Array) -> Array:
        run = simulate(
            plant, ComputedTorque.tuned(Plant(model, theta, "load"), 15.0), reference, 1000.0, Loop(torque_ratio=ratio)
        )
        assert np.allclose(run.tau, ratio[:, None] * run.tau_m)
        return np.sqrt(np.mean((run.q - reference.at(run.t)[0]) ** 2, axis=1))

    nominal = truth * 1.25
    nominal[_column(plant, "load.M")] = truth[_column(plant, "load.M")]
    right = simulate(plant, ComputedTorque.tuned(plant, 15.0), reference, 1000.0)
    exact = np.sqrt(np.mean((right.q - reference.at(right.t)[0]) ** 2, axis=1))
    assert np.allclose(error(truth * 1.25), exact, rtol=1e-6)
    assert np.mean(error(nominal) / exact) > 1.3


@pytest.mark.slow
def test_a_simpler_model_may_control_a_robot_with_loops() -> None:
    """Two drives with an inertia each and no loops as the controller's model, the five-bar as the plant."""
    plant = plant_of("fivebar")
    drives = Model(arm(2), [Rotor()])
    theta = np.zeros(len(drives.layout))
    theta[[drives.layout.index(f"joint{j}.Ia") for j in (1, 2)]] = plant.inertia()
    reference = moving(plant.robot)
    run = simulate(plant, ComputedTorque.tuned(Plant(drives, theta), 15.0, integral=True), reference, 1000.0)
    assert np.abs(run.q - reference.at(run.t)[0]).max() < 0.05


def test_cutting_the_run_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = plant_of("fivebar", (Rotor(), Coulomb(WIDTH), Dahl()))
    reference, controller = moving(plant.robot, 0.3), ComputedTorque.tuned(plant, 15.0)
    whole = simulate(plant, controller, reference, 1000.0)
    monkeypatch.setattr(sys.modules["steelyard.simulation.closed_loop"], "_CHUNK", 37)
    cut = simulate(plant, controller, reference, 1000.0)
    for name in ("q", "v", "a", "q_m", "tau_m", "tau", "steps"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


# --- What cannot be simulated -----------------------------------------------------------------------------------------


@cache
def wide() -> Plant:
    """The five-bar with its motors 0.3 m apart: its arms can part so far that the end links do not meet."""
    robot = robot_of("fivebar")
    apart = replace(robot.joints[2], pose=Pose(robot.joints[2].pose.rotation, np.array([0.3, 0.0, 0.0])))
    home = np.array([2.0 * np.pi / 3.0, -1.472, np.pi / 3.0, 1.472])
    model = Model(replace(robot, joints=(*robot.joints[:2], apart, robot.joints[3]), home=home), PLAIN)
    return Plant(model, plant_of("fivebar").theta)


def test_the_way_to_the_end_of_the_workspace_is_reported() -> None:
    """Both arms turn outwards; after 0.36 rad the end links are in line, a fold that cannot be passed."""
    plant, count = wide(), 400
    way = 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, count))) * np.array([[1.2], [-1.2]])
    v = np.gradient(way, 1e-3, axis=1)
    reference = Reference(home_of(plant.robot)[:, None] + way, v, np.gradient(v, 1e-3, axis=1))
    with pytest.raises(
        SimulationError, match=r"The loops of 'fivebar' .* at sample \d+ \(t = 0\.\d+ s\), with joint11 = 2\.4"
    ) as told:
        simulate(plant, Cascade.tuned(plant, q=home_of(plant.robot)[:, None]), reference, 1000.0)
    assert re.search(r"Just before, joint1\d moved joint2\d \d+\.\d times as fast", str(told.value))
    assert "Keep the motion within reach" in str(told.value)


def test_the_way_through_a_singularity_is_reported() -> None:
    """Both arms of the five-bar turn inwards until its elbows meet: there the end links may turn as they like."""
    plant, count = plant_of("fivebar"), 401
    start = home_of(plant.robot)
    meeting = np.array([np.arccos(0.08 / 0.22), np.pi - np.arccos(0.08 / 0.22)])
    way = np.linspace(0.0, 1.0, count) * (meeting - start)[:, None]
    with pytest.raises(SimulationError, match=r"The loops of 'fivebar' .* at state 400, with joint11 = 1\.199"):
        plant.forward(start[:, None] + way, 0.0 * way, 0.0 * way)


def test_a_start_out_of_reach_is_reported() -> None:
    plant = wide()
    with pytest.raises(
        SimulationError, match=r"loops of 'fivebar' cannot be closed at the start, with joint11 = 3\.1,"
    ):
        simulate(plant, free(2), standing(np.array([3.1, 0.0]), 5), 1000.0)
    with pytest.raises(SimulationError, match="cannot be closed at the given position"):
        plant.static_torque(np.array([3.1, 0.0]))
    states = np.tile(home_of(plant.robot)[:, None], (1, 3))
    states[:, 1] = 3.1, 0.0
    with pytest.raises(SimulationError, match="at state 1"):
        plant.forward(states, 0.0 * states, 0.0 * states)
    with pytest.raises(SimulationError, match="at state 1"):
        plant.inertia(states)


def test_readings_out_of_reach_of_the_controllers_model_are_reported() -> None:
    plant = wide()
    noise = np.zeros((2, 20))
    noise[:, 7] = 1.2, -1.2
    with pytest.raises(
        SimulationError, match=r"The model of the controller fails at the measured positions\. .* at sample 7"
    ):
        simulate(
            plant, ComputedTorque.tuned(plant), standing(home_of(plant.robot), 20), 1000.0, Loop(encoder_noise=noise)
        )


def test_a_platform_without_mass_is_named() -> None:
    plant = plant_of("fivebar", (Rotor(),))
    theta = plant.theta.copy()
    theta[_column(plant, "joint12.Ia")] = -1.0
    with pytest.raises(SimulationError, match=r"joint12 has no inertia left to move\. Negative in theta: joint12\.Ia"):
        simulate(Plant(plant.model, theta), free(2), standing(home_of(plant.robot), 5), 1000.0)
