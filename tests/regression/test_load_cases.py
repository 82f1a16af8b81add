"""Payloads as columns: the same robot in loaded and unloaded runs, known and unknown parts, rows of motors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import DataError, ModelError
from steelyard.estimators import ESTIMATORS, WLS
from steelyard.formats.robots import read_robot
from steelyard.identification.delays import at_delays, effort_shifts, estimate_delays
from steelyard.identification.identify import identify
from steelyard.identification.prediction import predict_rows
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector, transformed_inertia
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms
from steelyard.regression.information import KNOWN
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation import cross_validate, validate
from testbed.simulated import TORQUE_ESTIMATORS, arm, forked, model_of, motion_of, slider, truth_of

TOOL = inertial_vector(2.5, np.array([0.05, -0.12, 0.2]), np.diag([0.03, 0.04, 0.05]))
TURNED = Pose(np.array([[0.0, -1.0, 0.0], [0.6, 0.0, -0.8], [0.8, 0.0, 0.6]]), np.array([0.1, -0.2, 0.05]))


def known(*symbols: str, body: Array = TOOL) -> dict[str, float]:
    return {symbol: float(body[INERTIAL.index(symbol)]) for symbol in symbols}


def loaded(model: Model, bodies: Mapping[str, Array]) -> Array:
    """The nominal robot with these bodies on it."""
    theta = truth_of(model).copy()
    for name, body in bodies.items():
        theta[[model.layout.index(f"{name}.{symbol}") for symbol in INERTIAL]] = body
    return theta


def run(model: Model, theta: Array, load: str, seed: int, noise: float = 0.0) -> Samples:
    motion = motion_of(model.robot, 3000, 200.0, seed)
    effort = model.torque(*motion[:3], theta, load=load)
    effort = effort + noise * np.random.default_rng(seed).standard_normal(effort.shape)
    return Samples.from_arrays(f"{load}{seed}", model.robot.joint_names, 200.0, *motion[:3], effort, load=load)


def problem_of(model: Model, bodies: Mapping[str, Array], noise: float = 0.0) -> Problem:
    theta = loaded(model, bodies)
    runs = [run(model, theta, load, seed, noise) for seed, load in enumerate(("none", *bodies, "none", *bodies), 1)]
    return Problem(model, runs, lowpass_hz=8.0, decimate=6)


def fused(robot: Robot, link: str, pose: Pose) -> Robot:
    """The robot with the tool made part of its link by hand."""
    body = transformed_inertia(TOOL, pose.rotation, pose.position)
    links = [
        replace(k, inertia=k.inertia + body) if k.name == link and k.inertia is not None else k for k in robot.links
    ]
    return replace(robot, links=tuple(links))


@pytest.mark.parametrize("robot", [arm(3), forked(), slider()], ids=lambda r: r.name)
@pytest.mark.parametrize("pose", [Pose(), TURNED], ids=["same frame", "turned and moved"])
def test_a_payload_is_a_heavier_link(robot: Robot, pose: Pose) -> None:
    for link in [k.name for k in robot.links]:
        model = model_of(robot)
        model = replace(model, payloads=[Payload("tool", link, pose)])
        theta = loaded(model, {"tool": TOOL})
        q, v, a = motion_of(robot, 50, 20.0, 3)[:3]
        heavy = model_of(fused(robot, link, pose))
        wanted = heavy.torque(q, v, a, truth_of(heavy))
        np.testing.assert_allclose(model.torque(q, v, a, theta, load="tool"), wanted, rtol=0, atol=1e-11)
        w = model.regressor(q, v, a, load="tool")
        np.testing.assert_allclose(np.einsum("jcs,c->js", w, theta), wanted, rtol=0, atol=1e-10)
        bare = model.torque(q, v, a, theta)
        np.testing.assert_allclose(bare, model_of(robot).torque(q, v, a, truth_of(model_of(robot))), rtol=0, atol=1e-12)


def test_the_information_of_a_loaded_run_is_that_of_its_regressor() -> None:
    model = replace(model_of(arm(3)), payloads=[Payload("a", known=known("M", "MX")), Payload("b", "link2", TURNED)])
    theta = loaded(model, {"a": TOOL, "b": 0.5 * TOOL})
    runs = [run(model, theta, load, seed) for seed, load in enumerate(("none", "a", "b"))]
    problem = Problem(model, runs, rest=0.0, rest_share=1.0)
    information = observe(problem)
    assert information.responses == ("effort", KNOWN)
    for samples in runs:
        (piece,) = samples.open()
        w = model.regressor(piece.q, piece.v, piece.a, load=samples.load)
        for j, own in enumerate(information.columns):
            assert not any(model.layout.columns[c].known for c in own)
            times = [time for time in information.times if time[0] == samples.name]
            r = information.gathered(j, times).r
            rows = np.column_stack([w[j, own].T, piece.effort[j], np.einsum("cs,c->s", w[j], model.layout.known)])
            np.testing.assert_allclose(r.T @ r, rows.T @ rows, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(
    "payload",
    [
        Payload("tool"),
        Payload("tool", "link2", TURNED),
        Payload("tool", known=known("M")),
        Payload("tool", "link3", TURNED, known("M", "MX", "MY", "MZ")),
        Payload("tool", known=known(*INERTIAL)),
    ],
    ids=["unknown", "unknown, turned, on link 2", "mass known", "mass and moments known", "all known"],
)
def test_weighted_least_squares_finds_robot_and_payload(payload: Payload) -> None:
    model = replace(model_of(arm(3)), payloads=[payload])
    problem = problem_of(model, {"tool": TOOL})
    base = base_parameters(model)
    truth = base.map @ loaded(model, {"tool": TOOL})
    if payload.link != "link2":  # of a body nearer to the base less can be seen
        assert len(base) == len(base_parameters(model_of(arm(3)))) + 10 - len(payload.known)
    assert not set(base.names) & {f"tool.{symbol}" for symbol in payload.known}
    result = identify(problem, WLS())
    np.testing.assert_allclose(result.value, truth, rtol=0, atol=1e-7)
    assert result.relative_error.total < 1e-9
    assert result.standard is not None
    for symbol, value in payload.known.items():
        assert result.theta[model.layout.index(f"tool.{symbol}")] == value
        assert result.standard[model.layout.index(f"tool.{symbol}")] == value
    for samples in problem.runs:
        told = predict_rows(problem, samples, result.theta)
        np.testing.assert_allclose(told.predicted, told.measured, rtol=0, atol=1e-6)
    other = run(model, loaded(model, {"tool": TOOL}), "tool", 77)
    scored = validate(result, problem, [other])
    assert scored.relative_error["total"] < 1e-8
    assert scored.raw.relative_error["total"] < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", TORQUE_ESTIMATORS)
def test_every_estimator_takes_off_what_is_known(name: str) -> None:
    """A payload known whole leaves the equations of the bare robot: the same estimate to rounding."""
    estimator = ESTIMATORS[name]()
    bare = model_of(arm(2))
    model = replace(bare, payloads=[Payload("tool", known=known(*INERTIAL))])
    problem = problem_of(model, {"tool": TOOL}, noise=0.5)
    plain = Problem(
        bare,
        [
            Samples.from_arrays(
                s.name, s.joints, s.rate, p.q, p.v, p.a,
                p.effort - model.torque(p.q, p.v, p.a, model.layout.known, load=s.load),
            )
            for s in problem.runs for p in s.open()
        ],
        lowpass_hz=8.0, decimate=6,
    )  # fmt: skip
    found, wanted = identify(problem, estimator), identify(plain, estimator)
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.std, wanted.std, rtol=1e-5, atol=1e-10)


@pytest.mark.slow
def test_what_is_known_survives_folds_and_delays() -> None:
    model = replace(model_of(arm(2)), payloads=[Payload("tool", known=known("M"))])
    problem = problem_of(model, {"tool": TOOL}, noise=0.2)
    shifts = effort_shifts(problem)
    information = observe(problem, shifts=shifts)
    assert information.responses[-1] == KNOWN
    found = estimate_delays(problem, information)
    assert np.all(np.abs(found.seconds) < 5 * found.std + 1e-5)
    moved = at_delays(information, shifts, [0.0, 0.0])
    assert moved.responses == ("effort", KNOWN)
    base = base_parameters(model)
    for j, own in enumerate(information.columns):
        r, still = information.gathered(j).r, moved.gathered(j).r
        plain = r[:, [*range(len(own) + 1), -1]]
        np.testing.assert_allclose(still.T @ still, plain.T @ plain, rtol=1e-9, atol=1e-9)
    left_out = cross_validate(base, observe(problem), WLS(), 4)
    fitted = identify(problem, WLS()).relative_error
    assert fitted.total <= left_out.pooled.total < 1.3 * fitted.total
    assert left_out.pooled.effort == pytest.approx(fitted.effort)


def test_scaled_efforts_leave_what_is_known_alone() -> None:
    model = replace(model_of(arm(2)), payloads=[Payload("tool", known=known("M"))])
    problem = problem_of(model, {"tool": TOOL})
    factor = np.array([2.0, -0.5])
    scaled, plain = observe(problem).scaled(factor), observe(problem)
    by_problem = observe(replace(problem, factor=factor.tolist()))
    for j, own in enumerate(plain.columns):
        a, b, c = (x.joint_triangles[j].r for x in (plain, scaled, by_problem))
        wide = np.diag([*np.ones(len(own)), factor[j], 1.0])
        np.testing.assert_allclose(b.T @ b, wide @ a.T @ a @ wide, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(c.T @ c, b.T @ b, rtol=1e-9, atol=1e-9)


def test_rows_of_motors_are_the_joints_equations_mixed() -> None:
    """τ_m = C⁻ᵀ τ: each row of a coupled wrist belongs to one motor, and factors act on motors."""
    robot = read_robot("tx40")
    c = robot.motor_map
    model = Model(robot, named_terms(robot.terms or ()))
    theta = truth_of(model)
    samples = run(model, theta, "none", 5)
    problem = Problem(model, [samples], rest=0.0, rest_share=1.0, motor_rows=True)
    information = observe(problem)
    (piece,) = samples.open()
    w = np.einsum("kj,jcs->kcs", np.linalg.inv(c).T, model.regressor(piece.q, piece.v, piece.a))
    y = np.linalg.solve(c.T, piece.effort)
    for k, own in enumerate(information.columns):
        silent = np.setdiff1d(np.arange(len(model.layout)), own)
        assert np.abs(w[k, silent]).max() < 1e-9
        r = information.joint_triangles[k].r
        rows = np.column_stack([w[k, own].T, y[k]])
        np.testing.assert_allclose(r.T @ r, rows.T @ rows, rtol=1e-9, atol=1e-7)
    assert np.abs(identify(problem, WLS()).value - base_parameters(model).map @ theta).max() < 1e-6
    factor = np.linspace(0.5, 2.0, 6)
    stated = c.T @ (np.linalg.solve(c.T, piece.effort) / factor[:, None])
    assert np.abs(replace(problem, factor=factor.tolist()).torque(stated) - piece.effort).max() < 1e-9


def test_what_a_payload_cannot_be() -> None:
    with pytest.raises(ModelError, match="which means no load"):
        Payload("none")
    with pytest.raises(ModelError, match="'mass'"):
        Payload("a", known={"mass": 2.0})
    with pytest.raises(ModelError, match="M = -1"):
        Payload("a", known={"M": -1.0})
    with pytest.raises(ModelError, match="std is supported for the mass M only"):
        Payload("a", known={"M": 1.0, "MX": 0.1}, std={"MX": 0.1})
    with pytest.raises(ModelError, match="std is given for M"):
        Payload("a", known={"MX": 1.0}, std={"M": 0.1})
    with pytest.raises(ModelError, match=r"wrist.*link1"):
        replace(model_of(arm(2)), payloads=[Payload("a", "wrist")])
    with pytest.raises(ModelError, match="have the same name"):
        _ = replace(model_of(arm(2)), payloads=[Payload("a"), Payload("a")]).layout
    model = model_of(arm(2))
    with pytest.raises(DataError, match="factor lists"):
        Problem(model, [run(model, truth_of(model), "none", 1)], factor=[1.0])
