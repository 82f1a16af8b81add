"""Closed-loop simulation: the plant against the model, SciPy and peers; the loop's parts against their meaning."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from steelyard._arrays import Array
from steelyard._kernels import plant as plant_kernel
from steelyard._kernels import simulation as simulation_kernel
from steelyard.errors import ModelError, ProjectError, SimulationError
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.robot import Robot
from steelyard.model.springs import CrankSpring, JointSpring
from steelyard.model.terms import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Compensator,
    Coulomb,
    Coupling,
    Dahl,
    Drift,
    LoadFriction,
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
from steelyard.motion.random import random_fourier
from steelyard.motion.trajectory import Fourier
from steelyard.signals.samples import Piece
from steelyard.simulation.closed_loop import Loop, Reference, Simulated, simulate
from steelyard.simulation.controllers import PD, PID, Cascade, ComputedTorque, Controller, controller_from
from steelyard.simulation.plant import Plant
from testbed.simulated import arm, forked, slider
from testbed.trees import Pinocchio, potential_energy, random_state, random_tree, relative, rigid_model

WIDTH = 0.2
FRICTION: tuple[Term, ...] = (
    Rotor(), Viscous(), Coulomb(WIDTH), AsymmetricCoulomb(0.3), AsymmetricViscous(), Offset(), PowerLaw(),
    PowerLaw(1.5), Stribeck(0.5, width=0.1), Ripple(3.0), Dahl(), LoadFriction(0.1), BearingFriction(0.1),
    BearingFriction(0.2, "previous"), LoadFriction(0.2, exponent=2.0),
)  # fmt: skip


def plant_of(robot: Robot, terms: tuple[Term, ...] | None = None, **options: Any) -> Plant:
    """A plant with the robot's nominal values, a tenth where the file is silent about a term."""
    chosen = named_terms(robot.terms or ("rotor", "viscous", "coulomb", "offset"), WIDTH) if terms is None else terms
    model = Model(robot, chosen, **options)
    return Plant(model, np.array([0.1 if c.nominal is None else c.nominal for c in model.layout.columns]))


def tx40() -> Plant:
    return plant_of(read_robot("tx40"))


def moving(robot: Robot, duration: float = 1.0, seed: int = 1) -> Fourier:
    return random_fourier(robot, 3, 1.0 / duration, duration, np.random.default_rng(seed))


def inverse(plant: Plant, q: Array, v: Array, a: Array) -> Array:
    """The kernels' inverse dynamics, (n, N)."""
    tau = np.empty_like(q.T)
    states, speeds, accelerations = (np.ascontiguousarray(x.T) for x in (q, v, a))
    space = plant_kernel.space_of(plant.dynamics)
    code, _ = plant_kernel.torques(plant.dynamics, space, states, speeds, accelerations, plant.postures(q), tau)
    assert code == 0
    return tau.T


def free(dof: int) -> PD:
    """A controller that does nothing."""
    return PD(np.zeros(dof), np.zeros(dof))


def standing(q: Array, count: int) -> Reference:
    """A reference that stays at q (n,)."""
    still = np.zeros((len(q), count))
    return Reference(still + q[:, None], still, still.copy())


# --- Laws of the terms ------------------------------------------------------------------------------------------------


def coupled() -> Robot:
    """An arm of four whose last two motors turn with the joints before them."""
    motors = np.eye(4)
    motors[2, 1], motors[3, 1:3] = 0.5, (-0.4, 1.0)
    return replace(arm(4), coupling=motors)


def sprung() -> Robot:
    springs = (
        JointSpring("coil", "joint1", 0.3),
        JointSpring("loose", "joint2"),
        CrankSpring("crank", "joint3", 0.6, 0.2, 0.4),
        CrankSpring("short", "joint2", 0.5, 0.5, -0.2, 0.1),
    )
    return replace(arm(3), springs=springs)


CASES: dict[str, Callable[[], Plant]] = {
    "all friction": lambda: plant_of(arm(3), FRICTION),
    "sliding": lambda: plant_of(slider(), FRICTION),
    "a tree": lambda: plant_of(forked(), FRICTION),
    "some joints": lambda: plant_of(arm(3), (on_joints(Dahl(), ["joint2"]), on_joints(PowerLaw(), ["joint3"]))),
    "coupled": lambda: plant_of(coupled(), (*FRICTION, Coupling(0.15))),
    "springs": lambda: plant_of(sprung(), (Rotor(), Springs())),
    "gas": lambda: plant_of(read_robot("kr300"), (Rotor(), Compensator(), LoadFriction(WIDTH))),
    "balancer": lambda: plant_of(read_robot("kr270")),
    "ripples": lambda: plant_of(arm(2), (Ripple([2.0, 5.0]), Ripple(7.0, placebo=True))),
    "tx40": tx40,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_laws_are_the_terms(case: str) -> None:
    plant = CASES[case]()
    rng = np.random.default_rng(5)
    # a smooth way, for terms that remember it
    state = random_fourier(plant.robot, 3, 1.0, 1.0, rng).at(np.linspace(0.05, 0.95, 60))
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=len(plant.theta))
        given = Plant(plant.model, theta)
        wanted = given.torque(*state)
        assert relative(inverse(given, *state), wanted) < 1e-12


def test_a_payload_is_part_of_the_link_and_of_the_load() -> None:
    terms = (Rotor(), Coulomb(WIDTH), LoadFriction(WIDTH))
    payload = Payload("tool", known={"M": 3.0, "MX": 0.2, "MZ": 0.5, "XX": 0.1, "YY": 0.1, "ZZ": 0.05})
    bare = plant_of(arm(3), terms, payloads=(payload,))
    loaded = Plant(bare.model, bare.theta, "tool")
    state = moving(bare.robot).at(np.linspace(0.1, 0.9, 30))
    assert relative(inverse(loaded, *state), bare.model.torque(*state, bare.theta, load="tool")) < 1e-12
    assert relative(inverse(bare, *state), inverse(loaded, *state)) > 0.01
    with pytest.raises(ModelError, match=r"Unknown load case 'tol'\. Did you mean 'tool'"):
        Plant(bare.model, bare.theta, "tol")


# --- Forward dynamics -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_forward_is_that_of_the_model(seed: int, joints: int, off_axis: bool) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints, off_axis=off_axis)
    plant = plant_of(robot, (Rotor(), Viscous(), Coulomb(WIDTH), Offset()))
    state = random_state(rng, robot, 5)
    tau = rng.normal(size=state.q.shape)
    wanted = plant.model.forward(state.q, state.v, tau, plant.theta)
    assert relative(plant.forward(state.q, state.v, tau), wanted) < 1e-10


@pytest.mark.parametrize("seed", range(6))
def test_forward_is_that_of_pinocchio(seed: int) -> None:
    pytest.importorskip("pinocchio")
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, 2 + 2 * seed, off_axis=seed % 2 == 1)
    state = random_state(rng, robot, 5)
    wanted = Pinocchio(robot).acceleration(*state)
    assert relative(Plant(*rigid_model(robot)).forward(*state), wanted) < 1e-9


@pytest.mark.slow
def test_forward_inverts_inverse_with_load_friction() -> None:
    plant = plant_of(coupled(), (*FRICTION[:-1], Coupling(0.2)))
    state = random_state(np.random.default_rng(3), plant.robot, 1)
    back = plant.forward(state.q, state.v, inverse(plant, *state))
    assert relative(back, state.a) < 1e-9


def test_load_friction_beyond_the_load_has_no_acceleration() -> None:
    plant = plant_of(arm(2), (Rotor(), LoadFriction(WIDTH)))
    theta = plant.theta.copy()
    theta[[plant.model.layout.index(f"joint{j}.Fl") for j in (1, 2)]] = 5.0
    state = random_state(np.random.default_rng(3), plant.robot, 1)
    with pytest.raises(SimulationError, match="Load friction of 'arm' leaves no acceleration of joint"):
        Plant(plant.model, theta).forward(*state)


# --- Integration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", [arm(3), forked(), slider()], ids=lambda r: r.name)
def test_energy_is_kept_without_friction(robot: Robot) -> None:
    plant = Plant(*rigid_model(robot))
    start = np.linspace(0.4, -0.7, robot.dof)
    run = simulate(plant, free(robot.dof), standing(start, 2001), 2000.0)
    mass = plant.model.mass_matrix(run.q, plant.theta)
    kinetic = 0.5 * np.einsum("js,jks,ks->s", run.v, mass, run.v)
    potential = np.array([potential_energy(robot, q) for q in run.q.T[::20]])
    assert kinetic.max() > 10.0, "it falls"
    assert np.abs(kinetic[::20] + potential - potential[0]).max() < 1e-8 * kinetic.max()


def by_scipy(plant: Plant, controller: Controller, run: Simulated, reference: Reference) -> Array:
    """q (n, N) of the same loop, the plant by SciPy from sample to sample, the controller written out anew."""
    n, h = plant.robot.dof, 1.0 / run.rate
    kp, kd, ki, kiv, beta, _ = controller.gains(n)

    def slope(_: float, y: Array, tau: Array) -> Array:
        a = plant.model.forward(y[:n, None], y[n:, None], tau[:, None], plant.theta)
        return np.concatenate([y[n:], a[:, 0]])

    q, v, x = run.q[:, 0], reference.v[:, 0], np.zeros(n)
    last, out = q - h * v, np.empty_like(run.q)
    for k in range(run.q.shape[1]):
        error, slip = reference.q[:, k] - q, beta * reference.v[:, k] - (q - last) / h
        last, tau = q, kp * error + kd * slip + x
        if k == 0:
            wanted = plant.torque(q[:, None], v[:, None], reference.a[:, :1])[:, 0]
            x = np.where(ki + kiv > 0.0, wanted - tau, 0.0)
            tau = tau + x
        x = x + h * (ki * error + kiv * slip)
        out[:, k] = q

        start = np.concatenate([q, v])
        end = solve_ivp(slope, (0.0, h), start, "DOP853", args=(tau,), rtol=1e-10, atol=1e-12).y[:, -1]
        q, v = end[:n], end[n:]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("robot", [arm(2), forked(), slider()], ids=lambda r: r.name)
def test_the_loop_is_that_of_scipy(robot: Robot) -> None:
    plant = plant_of(robot)
    reference = Reference(*moving(robot, 0.5).at(0.05 + np.arange(60) / 1000.0))
    for controller in (PD.tuned(plant), Cascade.tuned(plant, 3.0, 9.0)):
        run = simulate(plant, controller, reference, 1000.0)
        assert np.abs(run.q - by_scipy(plant, controller, run, reference)).max() < 1e-7
        assert np.array_equal(simulate(plant, controller, reference, 1000.0).q, run.q), "the same every time"


def test_error_falls_with_the_fourth_power_of_the_step() -> None:
    robot = arm(3)
    plant = plant_of(robot, (Rotor(), Viscous()))
    start, duration = np.array([0.3, -0.4, 0.8]), 0.4

    def end(rate: float) -> Array:
        return simulate(plant, free(3), standing(start, int(rate * duration) + 1), rate).q[:, -1]

    exact = end(3200.0)
    errors = [float(np.abs(end(rate) - exact).max()) for rate in (50.0, 100.0, 200.0)]
    assert errors[0] > 1e-9
    for coarse, fine in pairwise(errors):
        assert 13.0 < coarse / fine < 20.0


def single(width: float, inertia: float = 0.01, coulomb: float = 2.0) -> Plant:
    """One joint without gravity."""
    model = Model(arm(1), [Rotor(), Coulomb(width)])
    theta = np.zeros(len(model.layout))
    theta[[model.layout.index("joint1.Ia"), model.layout.index("joint1.Fc")]] = inertia, coulomb
    return Plant(model, theta)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "implicit"), [(0.02, False), (1e-3, True), (1e-5, True)])
def test_stiff_friction_does_not_chatter(width: float, implicit: bool) -> None:
    """tanh(v / 0.02) with Fc = 2 and Ia = 0.01: Fc h / (v0 Ia) = 5 at 2 kHz, where one explicit step chatters."""
    plant, rate = single(width), 2000.0
    t = np.arange(400) / rate
    swing = 2.0 * np.pi * 5.0
    reference = Reference(0.1 * np.sin(swing * t)[None], 0.1 * swing * np.cos(swing * t)[None], np.zeros((1, 400)))
    controller = PD(20.0, 0.6)
    run = simulate(plant, controller, reference, rate, Loop(velocity="true"))
    assert np.any(run.steps < 0) == implicit
    assert np.abs(run.steps).max() > 1

    def slope(_: float, y: Array, tau: float) -> list[float]:
        return [y[1], (tau - 2.0 * np.tanh(y[1] / width)) / 0.01]

    y, wanted = np.array([0.0, reference.v[0, 0]]), np.empty((2, 400))
    for k in range(400):
        wanted[:, k] = y
        tau = 20.0 * (reference.q[0, k] - y[0]) + 0.6 * (reference.v[0, k] - y[1])
        y = solve_ivp(slope, (0.0, 1.0 / rate), y, "Radau", args=(tau,), rtol=1e-9, atol=1e-12).y[:, -1]
    assert np.abs(run.q[0] - wanted[0]).max() < 2e-6
    assert np.abs(run.v[0] - wanted[1]).max() < 2e-3
    # chatter: the acceleration changes sign from sample to sample
    turns = np.sum(run.a[0, 2:] * run.a[0, 1:-1] < 0.0)
    assert turns < 12


def test_one_explicit_step_would_chatter() -> None:
    """What the rule on steps is for: the same loop with RK4 at 2 kHz, written out."""
    h, width = 5e-4, 0.02

    def slope(v: float) -> float:
        return -2.0 * np.tanh(v / width) / 0.01

    v = 0.05
    for _ in range(100):
        k1 = slope(v)
        k2 = slope(v + 0.5 * h * k1)
        k3 = slope(v + 0.5 * h * k2)
        v += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(v + h * k3))
    assert abs(v) > 1e-3, "it never comes to rest"
    assert 2.0 * h / (width * 0.01) > simulation_kernel.STABLE * 2.8 / 2.0


def test_steps_follow_the_stiffness() -> None:
    """Fc h / (v0 Ia) of 5 at 2 kHz takes three steps, and one where it stays below two."""
    for rate, steps in ((2000.0, 3), (4000.0, 2), (5100.0, 1)):
        run = simulate(single(0.02), free(1), standing(np.zeros(1), 3), rate)
        assert run.steps.tolist() == [steps] * 3


# --- What IV and DIDIM need -------------------------------------------------------------------------------------------


def test_the_motion_explains_the_torque() -> None:
    """Inverse dynamics of q, v, a is the torque, with all friction that gears have and a coupled wrist."""
    robot = read_robot("tx40")
    terms = (*named_terms(robot.terms or (), WIDTH), PowerLaw(), Dahl(), LoadFriction(WIDTH))
    plant = plant_of(robot, terms)
    run = simulate(plant, Cascade.tuned(plant), moving(robot, 2.0), 2000.0)
    assert np.abs(run.tau).max() > 10.0
    assert np.abs(plant.torque(run.q, run.v, run.a) - run.tau).max() < 1e-8
    reference = moving(robot, 2.0).at(run.t)
    assert np.abs(run.q - reference[0]).max() < 0.05, "it follows"


def test_samples_and_recording() -> None:
    plant = plant_of(slider())
    loop = Loop(encoder_offset=0.1, torque_ratio=2.0, encoder_step=1e-3)
    run = simulate(plant, PID.tuned(plant), moving(plant.robot, 0.5), 1000.0, loop)
    samples = run.samples("run")
    (piece,) = samples.open()
    assert isinstance(piece, Piece)
    for given_back, mine in zip(piece[2:6], (run.q, run.v, run.a, run.tau), strict=True):
        assert np.array_equal(given_back, mine)
    assert samples.rate == 1000.0
    assert samples.history == ("simulated at 1000 Hz under 'pid' on the joint side", "up to 1 step per sample", "exact derivatives")  # fmt: skip # noqa: E501
    recording = run.recording("log")
    assert recording.columns == ("t", "q_joint1", "q_joint2", "tau_joint1", "tau_joint2")
    (chunk,) = recording.chunks(recording.columns)
    assert np.array_equal(chunk["t"], np.arange(501) / 1000.0)
    assert np.array_equal(chunk["q_joint2"], run.q_m[1])
    assert np.array_equal(chunk["tau_joint1"], run.tau_m[0])


def test_nothing_given_is_changed_and_progress_is_told() -> None:
    plant = plant_of(arm(2))
    reference = Reference(*moving(plant.robot, 2.5).at(np.arange(25_000) / 1e4))
    before = [x.copy() for x in (reference.q, reference.v, reference.a)]
    heard: list[tuple[str, int, int]] = []
    simulate(plant, Cascade.tuned(plant), reference, 1e4, progress=lambda *x: heard.append(x))
    assert heard == [("simulating", k, 25_000) for k in (10_000, 20_000, 25_000)]
    for was, now in zip(before, (reference.q, reference.v, reference.a), strict=True):
        assert np.array_equal(was, now)


def test_cutting_the_run_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = plant_of(arm(2), (Rotor(), Coulomb(WIDTH), Dahl()))
    reference = moving(plant.robot, 0.5)
    loop = Loop(delay_s=2e-3, velocity_filter_hz=100.0, encoder_step=1e-5)
    whole = simulate(plant, Cascade.tuned(plant), reference, 1000.0, loop)
    monkeypatch.setattr(sys.modules["steelyard.simulation.closed_loop"], "_CHUNK", 37)
    cut = simulate(plant, Cascade.tuned(plant), reference, 1000.0, loop)
    for name in ("q", "v", "a", "q_m", "tau_m", "tau", "steps"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


# --- The loop's parts -------------------------------------------------------------------------------------------------


def held(plant: Plant, loop: Loop, controller: Controller | None = None, duration: float = 2.0) -> Simulated:
    """A run that stands at a reference until all has settled."""
    dof = plant.robot.dof
    chosen = Cascade.tuned(plant, 5.0, 15.0, side=loop.side) if controller is None else controller
    reference = standing(np.linspace(0.8, -0.6, dof), int(1000.0 * duration))
    return simulate(plant, chosen, reference, 1000.0, loop)


def test_it_starts_at_rest_with_the_static_torque_and_stays() -> None:
    plant = plant_of(arm(3))
    run = held(plant, Loop(encoder_ratio=0.9, encoder_offset=0.05, torque_ratio=1.1), duration=0.2)
    assert np.abs(run.v).max() < 1e-12
    assert np.abs(run.tau - plant.static_torque(run.q[:, 0])[:, None]).max() < 1e-9
    assert np.allclose(run.tau_m, run.tau / 1.1, rtol=1e-12)


def test_a_pd_holds_gravity_by_an_error() -> None:
    plant = plant_of(arm(3), (Rotor(), Viscous()))
    controller = PD.tuned(plant, 3.0)
    run = held(plant, Loop(), controller)
    error = np.linspace(0.8, -0.6, 3) - run.q[:, -1]
    assert np.abs(run.v[:, -1]).max() < 1e-6
    assert np.allclose(np.asarray(controller.kp) * error, plant.static_torque(run.q[:, -1]), atol=1e-6)


def test_encoder_ratio_and_offset_move_the_robot_and_torque_ratio_does_not() -> None:
    """e = q_r − ρ q − offset = 0 in the end, whatever the torque path does."""
    plant = plant_of(arm(2))
    goal = np.linspace(0.8, -0.6, 2)
    disturbed = np.full((2, 2000), 3.0)
    for ratio, offset, torque in ((0.9, 0.0, 1.0), (1.0, 0.1, 1.0), (1.0, 0.0, 0.9), (np.array([0.9, 1.1]), 0.02, 0.8)):
        loop = Loop(encoder_ratio=ratio, encoder_offset=offset, torque_ratio=torque, disturbance=disturbed)
        run = held(plant, loop)
        assert np.allclose(run.q[:, -1], (goal - offset) / ratio, atol=1e-9)
        assert np.allclose(run.q_m, np.reshape(ratio * np.ones(2), (2, 1)) * run.q + offset, atol=1e-14)
        assert np.allclose(run.tau, torque * run.tau_m, atol=1e-12)


def test_a_disturbance_acts_at_the_joint_and_is_not_in_the_torque() -> None:
    plant = plant_of(arm(2))
    wave = 5.0 * np.sin(np.linspace(0.0, 60.0, 2000))[None] * np.array([[1.0], [-0.5]])
    run = held(plant, Loop(disturbance=wave))
    assert np.abs(plant.torque(run.q, run.v, run.a) - run.tau - wave).max() < 1e-9


def test_motor_side_loops_are_coupled_in_both_paths() -> None:
    plant = plant_of(coupled(), (Rotor(), Viscous(), Coulomb(WIDTH), Coupling(WIDTH)))
    c = plant.robot.motor_map
    run = held(plant, Loop(side="motor", disturbance=np.ones((4, 2000))))
    assert np.allclose(run.q_m, c @ run.q, atol=1e-13)
    assert np.allclose(run.tau, c.T @ run.tau_m, atol=1e-12)
    assert np.allclose(run.q[:, -1], np.linspace(0.8, -0.6, 4), atol=1e-8)
    # another coupling in the simulator's encoders than the reference goes through: the robot ends elsewhere
    other = c.copy()
    other[3, 2] = 0.9
    wrong = held(plant, Loop(side="motor", encoder_coupling=other, disturbance=np.ones((4, 2000))))
    assert np.allclose(other @ wrong.q[:, -1], c @ np.linspace(0.8, -0.6, 4), atol=1e-8)
    # in the torque path only, it does not
    strange = held(plant, Loop(side="motor", torque_coupling=other, disturbance=np.ones((4, 2000))))
    assert np.allclose(strange.q[:, -1], np.linspace(0.8, -0.6, 4), atol=1e-8)
    assert np.allclose(strange.tau, other.T @ strange.tau_m, atol=1e-12)


def test_readings_are_rounded_and_noisy() -> None:
    plant = plant_of(arm(2))
    noise = 1e-3 * np.random.default_rng(0).standard_normal((2, 2000))
    steps = np.array([1e-3, 0.0])
    run = held(plant, Loop(encoder_step=steps, encoder_noise=noise))
    assert np.allclose(run.q_m[0] / 1e-3, np.round((run.q + noise)[0] / 1e-3), atol=1e-9)
    assert np.allclose(run.q_m[1], (run.q + noise)[1], atol=1e-15)
    assert np.std(run.v) > 1e-6, "the controller sees the noise"


def test_commands_are_limited_and_integrals_do_not_wind_up() -> None:
    plant = plant_of(arm(1), (Rotor(), Viscous()))
    goal = np.zeros((1, 3000))
    goal[0, 100:] = 1.0
    reference = Reference(goal, np.zeros_like(goal), np.zeros_like(goal))
    controller = PID.tuned(plant, 3.0)
    limited = simulate(plant, controller, reference, 1000.0, Loop(torque_limit=2.0))
    assert np.abs(limited.tau_m).max() == 2.0
    assert np.sum(np.abs(limited.tau_m) == 2.0) > 50
    assert limited.q.max() < 1.35, "an integral that went on would overshoot by far more"
    assert abs(limited.q[0, -1] - 1.0) < 1e-2


def test_delay_shifts_the_torque_by_whole_samples() -> None:
    plant = plant_of(arm(2))
    run = simulate(plant, Cascade.tuned(plant, 2.0, 6.0), moving(plant.robot), 1000.0, Loop(delay_s=3e-3))
    assert np.array_equal(run.tau[:, 3:], run.tau_m[:, :-3])
    assert np.array_equal(run.tau[:, :3], np.repeat(run.tau_m[:, :1], 3, axis=1))
    with pytest.raises(SimulationError, match=r"not a whole number of samples at 1000.* Nearest: 0.003 and 0.004 s"):
        simulate(plant, free(2), moving(plant.robot), 1000.0, Loop(delay_s=3.4e-3))


def test_speeds_are_differences_or_true_and_filtered() -> None:
    """A pure D controller shows the speed it is given."""
    plant = plant_of(arm(1), (Rotor(), Viscous()))
    brake = PD(0.0, 1.0, velocity_feedforward=0.0)
    push = np.full((1, 200), 4.0)
    reference = standing(np.zeros(1), 200)
    differences = simulate(plant, brake, reference, 1000.0, Loop(disturbance=push))
    assert np.allclose(-differences.tau_m[0, 1:], np.diff(differences.q_m[0]) * 1000.0, atol=1e-12)
    assert differences.tau_m[0, 0] == 0.0
    true = simulate(plant, brake, reference, 1000.0, Loop(disturbance=push, velocity="true"))
    assert np.allclose(-true.tau_m, true.v, atol=1e-15)
    slow = simulate(plant, brake, reference, 1000.0, Loop(disturbance=push, velocity="true", velocity_filter_hz=5.0))
    share, speed = 1.0 - np.exp(-2.0 * np.pi * 5.0 / 1000.0), 0.0
    for k in range(200):
        speed += share * (slow.v[0, k] - speed)
        assert abs(-slow.tau_m[0, k] - speed) < 1e-12


# --- Controllers ------------------------------------------------------------------------------------------------------


def test_tuned_loops_have_their_poles() -> None:
    """Step of a joint without friction: double and triple poles at ω, on a plant of known inertia."""
    model = Model(arm(1), [Rotor()])
    theta = np.zeros(len(model.layout))
    theta[model.layout.index("joint1.Ia")] = 0.5
    plant = Plant(model, theta)
    omega = 2.0 * np.pi * 4.0
    pd, pid, cascade = PD.tuned(plant, 4.0), PID.tuned(plant, 4.0), Cascade.tuned(plant, 2.0, 4.0)
    s = np.roots([0.5, *(float(np.ravel(x)[0]) for x in (pd.kd, pd.kp))])
    assert np.allclose(s, -omega, atol=1e-5 * omega)
    s = np.roots([0.5, *(float(np.ravel(x)[0]) for x in (pid.kd, pid.kp, pid.ki))])
    assert np.allclose(s, -omega, atol=1e-4 * omega)
    s = np.roots([0.5, *(float(np.ravel(x)[0]) for x in (cascade.kv, cascade.ki))])
    assert np.allclose(s, -0.5 * omega, atol=1e-5 * omega)
    assert np.allclose(cascade.kp, 2.0 * np.pi * 2.0)
    t = np.arange(4000) / 1e4
    run = simulate(plant, pd, standing(np.ones(1), 4000), 1e4, Loop(encoder_offset=0.0, velocity="true"))
    assert np.abs(run.q - 1.0).max() < 1e-12, "at rest on the reference"
    wanted = Reference(np.where(t >= 0.001, 1.0, 0.0)[None], np.zeros((1, 4000)), np.zeros((1, 4000)))
    run = simulate(plant, pd, wanted, 1e4, Loop(velocity="true"))
    late = t - 0.001
    exact = np.where(late > 0.0, 1.0 - (1.0 + omega * late) * np.exp(-omega * np.maximum(late, 0.0)), 0.0)
    assert np.abs(run.q[0] - exact).max() < 5e-3


@pytest.mark.parametrize("kind", [PD, PID, Cascade])
def test_rescaled_gains_keep_the_bandwidth(kind: type[PD] | type[PID] | type[Cascade]) -> None:
    """A plant twice as heavy in everything moves the same under gains twice as large."""
    plant = plant_of(coupled(), (Rotor(), Viscous(), Coulomb(WIDTH), Coupling(WIDTH)))
    heavy = Plant(plant.model, 2.0 * plant.theta)
    reference = moving(plant.robot)
    for loop in (Loop(), Loop(side="motor")):
        controller = kind.tuned(plant, side=loop.side)
        one = simulate(plant, controller, reference, 1000.0, loop)
        two = simulate(heavy, controller.rescaled(plant, heavy, side=loop.side), reference, 1000.0, loop)
        assert np.abs(one.q - two.q).max() < 1e-9
        assert np.abs(2.0 * one.tau - two.tau).max() < 1e-6
        same = simulate(heavy, controller, reference, 1000.0, loop)
        assert np.abs(one.q - same.q).max() > 1e-4


def test_computed_torque_follows_where_its_model_is_right() -> None:
    plant = plant_of(arm(3), (Rotor(), Viscous(), Coulomb(WIDTH), Offset(), Dahl(), LoadFriction(WIDTH)))
    reference = moving(plant.robot)
    controller = ComputedTorque.tuned(plant, 10.0)
    run = simulate(plant, controller, reference, 2000.0, Loop(velocity="true"))
    error = np.abs(run.q - reference.at(run.t)[0]).max()
    assert error < 2e-3, "a sampled torque is held, so it is not zero"
    finer = simulate(plant, controller, reference, 8000.0, Loop(velocity="true"))
    assert np.abs(finer.q - reference.at(finer.t)[0]).max() < 0.4 * error
    wrong = ComputedTorque.tuned(Plant(plant.model, 0.7 * plant.theta), 10.0)
    assert np.abs(simulate(plant, wrong, reference, 2000.0).q - reference.at(run.t)[0]).max() > 5.0 * error
    # an integral starts with what the wrong model lacks of gravity
    still = standing(np.array([0.2, 0.5, -0.4]), 200)
    start = simulate(plant, ComputedTorque.tuned(wrong.plant, 10.0, integral=True), still, 1000.0)
    assert np.abs(start.v).max() < 1e-12
    assert np.allclose(wrong.rescaled(plant, Plant(plant.model, 3.0 * plant.theta)).kp, 3.0 * np.asarray(wrong.kp))


def test_feedforward_of_the_speed_helps() -> None:
    plant = plant_of(arm(2))
    reference = moving(plant.robot)
    errors = [
        np.abs(run.q - reference.at(run.t)[0]).max()
        for share in (0.0, 1.0)
        for run in [simulate(plant, PID.tuned(plant, 5.0, velocity_feedforward=share), reference, 1000.0)]
    ]
    assert errors[0] > 3.0 * errors[1]


def test_inertia_is_the_mean_of_the_mass_matrix() -> None:
    plant = tx40()
    q = random_fourier(plant.robot, 3, 0.2, 5.0, np.random.default_rng(0)).at(np.linspace(0.0, 5.0, 50))[0]
    mass = plant.model.mass_matrix(q, plant.theta)
    assert np.allclose(plant.inertia(q), mass.mean(axis=2).diagonal())
    back = np.linalg.inv(plant.robot.motor_map)
    assert np.allclose(plant.inertia(q, "motor"), (back.T @ mass.mean(axis=2) @ back).diagonal())


def test_controllers_from_tables() -> None:
    plant = tx40()
    tuned = controller_from({"kind": "cascade", "position_hz": 10, "velocity_hz": 30}, plant)
    assert isinstance(tuned, Cascade)
    assert np.array_equal(tuned.kv, Cascade.tuned(plant).kv)
    by_name = {name: 1.0 + k for k, name in enumerate(plant.robot.joint_names)}
    given_gains = controller_from({"kind": "pid", "kp": by_name, "ki": 2, "kd": [1, 2, 3, 4, 5, 6]}, plant)
    assert isinstance(given_gains, PID)
    assert np.array_equal(given_gains.gains(6).proportional, np.arange(1.0, 7.0))
    assert np.array_equal(given_gains.gains(6).integral, np.full(6, 2.0))
    inverting = controller_from({"kind": "computed-torque", "kp": 100, "kv": 20}, plant)
    assert isinstance(inverting, ComputedTorque)
    assert inverting.inverts is plant
    assert isinstance(controller_from({"kind": "computed-torque", "bandwidth_hz": 8, "integral": True}, plant), ComputedTorque)  # fmt: skip # noqa: E501
    motor = controller_from({"kind": "pd", "bandwidth_hz": 5}, plant, side="motor")
    assert not np.allclose(motor.gains(6).proportional, PD.tuned(plant).gains(6).proportional)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "pi"}, "Unknown kind of controller 'pi'. Did you mean 'pid'"),
        ({}, "Unknown kind of controller 'None'"),
        ({"kind": "pd", "kq": 1}, "Controller 'pd': Unknown key 'kq'. Valid: kp, kd, bandwidth_hz"),
        ({"kind": "pd", "kp": 1}, "kd is needed in addition to kp"),
        ({"kind": "pd", "kp": 1, "kd": 1, "bandwidth_hz": 3}, "give gains .* or bandwidths, not both"),
        ({"kind": "pd", "kp": "much", "kd": 1}, "kp must be a number, 6 numbers or a table by joint name, not 'much'"),
        ({"kind": "pd", "kp": [1, 2], "kd": 1}, "kp must be a number, 6 numbers"),
        ({"kind": "pd", "kp": {"joint1": 1}, "kd": 1}, "kp: no value for joint2, joint3"),
        ({"kind": "pd", "kp": {"join1": 1}, "kd": 1}, "kp: Unknown joint 'join1'. Did you mean 'joint1'"),
        ({"kind": "pd", "kp": -1, "kd": 1}, "kp must be zero or positive"),
        ({"kind": "cascade", "position_hz": 0}, "position_hz must be positive"),
        ({"kind": "computed-torque", "integral": 1}, "integral must be true or false"),
    ],
)
def test_tables_that_make_no_sense(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ProjectError, match=says):
        controller_from(table, tx40())


# --- What cannot be simulated -----------------------------------------------------------------------------------------


def test_jumps_and_the_time_are_refused_by_name() -> None:
    robot = arm(2)
    with pytest.raises(SimulationError, match=r"sign\(v\) jumps in coulomb, load, .*sign_width = 0.2"):
        simulate(plant_of(robot, (Rotor(), Coulomb(), LoadFriction())), free(2), moving(robot), 100.0)
    with pytest.raises(SimulationError, match="Terms that cannot be simulated: drift"):
        simulate(plant_of(robot, (Rotor(), Drift())), free(2), moving(robot), 100.0)


def test_an_indefinite_model_names_sample_joint_and_parameters() -> None:
    plant = tx40()
    theta = plant.theta.copy()
    theta[plant.model.layout.index("joint6.Ia")] = -0.02
    bad = Plant(plant.model, theta)
    says = r"'tx40' is not positive definite at sample 0 \(t = 0 s\): joint6.*Negative in theta: joint6.Ia = -0.02"
    with pytest.raises(SimulationError, match=says):
        simulate(bad, Cascade.tuned(plant), moving(plant.robot), 1000.0)
    theta[plant.model.layout.index("joint6.Ia")] = -1.0
    with pytest.raises(SimulationError, match=r"Parameters of joint6 itself: link6.XX = .*joint6.Ia = -1"):
        Cascade.tuned(Plant(plant.model, theta))


def test_a_loop_that_diverges_says_when_and_where() -> None:
    plant = plant_of(arm(2))
    says = r"'arm' diverges: joint\d exceeds 1000 rad/s \(m/s\) at sample \d+ \(t = 0\.\d+ s\)"
    with pytest.raises(SimulationError, match=says):
        simulate(plant, PD.tuned(plant, 200.0), moving(plant.robot), 200.0)
    with pytest.raises(SimulationError, match=r"'arm' diverges: joint\d exceeds 1000"):
        simulate(plant, PD(1e15, 1e15), moving(plant.robot), 200.0)


def test_presliding_too_short_for_the_rate() -> None:
    plant = single(0.1)
    model = Model(plant.robot, [Rotor(), Dahl(1e-9)])
    theta = np.zeros(len(model.layout))
    theta[[model.layout.index("joint1.Ia"), -1]] = 0.01, 5.0
    with pytest.raises(SimulationError, match="Pre-sliding, ripple or a spring on joint1 is too stiff"):
        simulate(Plant(model, theta), free(1), standing(np.zeros(1), 5), 1000.0)


@pytest.mark.parametrize(
    ("loop", "says"),
    [
        ({"side": "drive"}, "Unknown side 'drive'"),
        ({"velocity": "guess"}, "Unknown velocity 'guess'"),
        ({"encoder_step": -1.0}, "encoder_step must not be negative"),
        ({"encoder_ratio": 0.0}, "encoder_ratio must be finite and not zero"),
        ({"torque_limit": [1.0, 2.0, 3.0]}, "torque_limit must be one number, or 2 numbers"),
        ({"encoder_coupling": np.ones((2, 2))}, "encoder_coupling must be an invertible"),
        ({"disturbance": np.zeros((2, 7))}, r"disturbance must be finite and \(2, 101\)"),
        ({"encoder_noise": np.full((2, 101), np.nan)}, "encoder_noise must be finite"),
        ({"delay_s": np.inf}, "not a whole number"),
    ],
)
def test_loops_that_make_no_sense(loop: dict[str, Any], says: str) -> None:
    plant = plant_of(arm(2))
    with pytest.raises(SimulationError, match=says):
        simulate(plant, free(2), moving(plant.robot), 100.0, Loop(**loop))


def test_plants_controllers_and_references_that_do_not_fit() -> None:
    plant = plant_of(arm(2))
    reference = moving(plant.robot)
    with pytest.raises(ModelError, match="theta must hold 28"):
        Plant(plant.model, np.zeros(3))
    with pytest.raises(ModelError, match=r"not finite at link1.XX\."):
        Plant(plant.model, np.array([np.nan, *plant.theta[1:]]))
    with pytest.raises(ModelError, match="Controller 'pd': 3 values of kp for 2 joints"):
        simulate(plant, PD([1.0, 2.0, 3.0], 1.0), reference, 100.0)
    with pytest.raises(SimulationError, match=r"must be \(2, samples\) for q, v and a, not \(3, 101\)"):
        simulate(plant, free(2), moving(arm(3)), 100.0)
    broken = standing(np.zeros(2), 9)
    broken.v[1, 3] = np.nan
    with pytest.raises(SimulationError, match="reference v of joint2 is not finite at 3"):
        simulate(plant, free(2), broken, 100.0)
    with pytest.raises(SimulationError, match="rate_hz must be positive"):
        simulate(plant, free(2), reference, 0.0)
    with pytest.raises(SimulationError, match="Computed torque acts on joint coordinates"):
        simulate(plant, ComputedTorque.tuned(plant), reference, 100.0, Loop(side="motor"))
    with pytest.raises(SimulationError, match="The controller's model 'arm' has 3 axes, not 2"):
        simulate(plant, ComputedTorque.tuned(plant_of(arm(3))), reference, 100.0)
