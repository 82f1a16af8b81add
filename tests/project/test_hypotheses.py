"""Faults that add unknowns to the fit are named, with their size, on logs whose torques come from Pinocchio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.checks.channel_map import signs
from steelyard.project.checks.channel_map.suspects import best_accepted
from steelyard.project.checks.channel_map.trial import Trial, with_gravity
from steelyard.project.checks.hypotheses import mounting
from steelyard.project.checks.hypotheses.drifts import drift_findings
from steelyard.project.checks.hypotheses.loads import load_findings
from steelyard.project.checks.hypotheses.rates import rate_findings
from steelyard.project.checks.hypotheses.zeros import zero_findings
from steelyard.project.checks.lost_samples import effort_faults, frozen, lost
from steelyard.project.checks.tracks import Trace, Track
from steelyard.signals.channels import ChannelMap, Signal, resolve
from testbed.trees import Pinocchio, State, random_inertia

RATE, SECONDS, BAND = 50.0, 30.0, 4.0


def bare() -> Robot:
    """Six joints of a robot file with inertias, without coupled motors."""
    return replace(read_robot("tx40"), coupling=None, terms=None)


@cache
def logs() -> tuple[Robot, tuple[Trace, ...]]:
    """Two motions of a robot whose bodies are up to 30 % off the file, with friction and noise."""
    robot, rng = bare(), np.random.default_rng(5)
    bodies = []
    for link in robot.links:
        filed = link.inertia
        inertia = 0.05 * random_inertia(rng) if filed is None or filed[9] <= 0.0 else filed
        bodies.append(replace(link, inertia=inertia * (1.0 + rng.uniform(-0.3, 0.3))))
    real = replace(robot, links=tuple(bodies))
    oracle, traces = Pinocchio(real), []
    t = np.arange(int(SECONDS * RATE)) / RATE
    for name in ("one", "two"):
        state = State(*random_fourier(robot, 5, 0.12, SECONDS, rng).at(t))
        effort = oracle.torque(state)
        size = np.sqrt(np.mean(effort**2, axis=1, keepdims=True)) + 0.1
        effort = effort + 0.2 * size * np.tanh(state.v / 0.02) + 0.01 * size * rng.normal(size=effort.shape)
        traces.append(Trace(RATE, *state, effort, name, 0.0))
    return real, tuple(traces)


def channels():
    names = bare().joint_names
    q, tau = (Signal([f"{label}_{name}" for name in names], unit=unit) for label, unit in (("q", "rad"), ("t", "N.m")))
    return resolve(ChannelMap("t", q, tau), bare())


def trial(change: Callable[[Trace], Trace] = lambda trace: trace, robot: Robot | None = None) -> Trial:
    model = Model(robot or bare(), named_terms(DEFAULT_TERMS))
    return Trial(model, channels(), tuple(change(trace) for trace in logs()[1]), BAND)


def with_effort(joint: int, change: Callable[[Array, Array], Array]) -> Callable[[Trace], Trace]:
    def changed(trace: Trace) -> Trace:
        effort = trace.effort.copy()
        effort[joint] = change(effort[joint], np.arange(effort.shape[1]) / RATE)
        return replace(trace, effort=effort)

    return changed


def found(of: Trial) -> list[str]:
    """Codes of every hypothesis."""
    gravity = best_accepted(mounting.suspects(of))
    told = [] if gravity is None else [gravity.finding(gravity)]
    told += [finding for look in (load_findings, zero_findings, drift_findings) for finding in look(of)]
    return [finding.code for finding in told]


def test_a_clean_log_is_not_accused() -> None:
    assert found(trial()) == []


def tilted(degrees: float) -> Robot:
    angle = np.radians(degrees)
    return replace(bare(), gravity=9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)]))


@pytest.mark.parametrize("degrees", [8.0, 90.0, 180.0])
def test_gravity_is_found_where_it_is(degrees: float) -> None:
    suspect = best_accepted(mounting.suspects(trial(robot=tilted(degrees))))
    assert suspect is not None
    assert suspect.finding(suspect).code == "wrong-gravity"
    assert suspect.edit.gravity is not None
    true = np.array([0.0, 0.0, -1.0])
    cosine = suspect.edit.gravity @ true / np.linalg.norm(suspect.edit.gravity)
    assert np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) < 1.5


def test_a_tilt_of_two_degrees_is_left_alone() -> None:
    assert best_accepted(mounting.suspects(trial(robot=tilted(2.0)))) is None


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_a_wrong_rate_of_a_log_without_a_clock_is_hinted_at(factor: float) -> None:
    """Bodies 30 % off the file: the rate is found to a quarter of itself."""
    stated = factor * RATE

    def timed(trace: Trace) -> Trace:
        return replace(trace, rate=stated, v=factor * trace.v, a=factor**2 * trace.a)

    (said,) = rate_findings(trial(timed), stated)
    assert (said.code, said.severity) == ("doubtful-rate", "warning")
    likely = float(said.message.split("would be at ")[1].split(" rows")[0])
    assert likely == pytest.approx(RATE, rel=0.25)


def test_a_right_rate_and_a_clock_are_not_doubted() -> None:
    assert list(rate_findings(trial(), RATE)) == []
    assert list(rate_findings(trial(), None)) == []


def test_efforts_without_gravity_are_named() -> None:
    real, _ = logs()
    oracle = Pinocchio(real)

    def compensated(trace: Trace) -> Trace:
        still = np.zeros_like(trace.q)
        return replace(trace, effort=trace.effort - oracle.torque(State(trace.q, still, still)))

    suspect = best_accepted(mounting.suspects(trial(compensated)))
    assert suspect is not None
    assert suspect.finding(suspect).code == "gravity-compensated"
    assert "gravcomp" not in suspect.finding(suspect).message
    stated = Finding("gravity-compensation", "info", "the file states gravity compensation (gravcomp) of link2")
    seen = trial(compensated)
    robot = replace(seen.model.robot, findings=(stated,))
    named = best_accepted(mounting.suspects(replace(seen, model=replace(seen.model, robot=robot))))
    assert named is not None
    found = named.finding(named)
    assert "states gravity compensation (gravcomp)" in found.message
    assert "set gravity = [0.0, 0.0, 0.0] in the project" in found.fix


def test_reversed_efforts_are_not_taken_for_gravity() -> None:
    of = trial(lambda trace: replace(trace, effort=-trace.effort))
    for family in (mounting.suspects, signs.reversed_efforts):
        suspect = best_accepted(family(of))
        assert suspect is not None
        finding = suspect.finding(suspect)
        assert (finding.code, finding.where) == ("wrong-sign", "all joints")


def test_reaction_torques_without_friction_are_reversed_efforts() -> None:
    oracle = Pinocchio(logs()[0])
    of = trial(lambda trace: replace(trace, effort=-oracle.torque(State(trace.q, trace.v, trace.a))))
    suspect = best_accepted(mounting.suspects(of))
    assert suspect is not None
    assert suspect.finding(suspect).code == "wrong-sign"


@pytest.mark.parametrize("size", [0.5, -0.8])
def test_a_drift_is_named_with_its_size(size: float) -> None:
    spread = np.std(logs()[1][0].effort[2])
    of = trial(with_effort(2, lambda x, t: x + size * spread * t / SECONDS))
    (finding,) = drift_findings(of)
    assert finding.where == "joint3"
    assert float(finding.message.split("drifts by ")[1].split(" ")[0]) == pytest.approx(size * spread, rel=0.15)


def test_a_body_that_one_run_carries_is_weighed() -> None:
    model = trial().model
    extra = np.zeros(len(model.layout))
    extra[model.inertial_index[-1][[8, 9]]] = (0.15, 2.0)

    def loaded(trace: Trace) -> Trace:
        if trace.run != "two":
            return trace
        return replace(trace, effort=trace.effort + model.torque(trace.q, trace.v, trace.a, extra))

    (finding,) = load_findings(trial(loaded))
    assert (finding.code, finding.where) == ("hidden-payload", "two")
    assert float(finding.message.split("about ")[1].split(" ")[0]) == pytest.approx(2.0, rel=0.15)


def test_a_log_of_a_heavier_robot_is_named() -> None:
    oracle = Pinocchio(logs()[0])

    def heavier(trace: Trace) -> Trace:
        if trace.run != "one":
            return trace
        return replace(trace, effort=trace.effort + 0.6 * oracle.torque(State(trace.q, trace.v, trace.a)))

    (finding,) = load_findings(trial(heavier))
    assert (finding.code, finding.where) == ("different-robots", "one")


def test_a_wrong_zero_is_named_with_its_size() -> None:
    def moved(trace: Trace) -> Trace:
        q = trace.q.copy()
        q[2] += 0.25
        return replace(trace, q=q)

    (finding,) = zero_findings(trial(moved))
    assert finding.where == "joint3"
    assert float(finding.message.split("off by ")[1].split(" ")[0]) == pytest.approx(0.25, abs=0.06)


def test_gravity_of_a_model_is_replaced() -> None:
    model = with_gravity(trial().model, np.array([0.0, 9.81, 0.0]))
    q = np.zeros((6, 1))
    assert model.robot.gravity[1] == 9.81
    assert not np.allclose(
        model.torque(q, q, q, np.ones(len(model.layout))),
        trial().model.torque(q, q, q, np.ones(len(model.layout))),
    )


# --- Efforts that were not measured -----------------------------------------------------------------------------------


def test_zeros_between_neighbours_of_one_sign_are_lost_samples() -> None:
    t = np.arange(2000) / 200.0
    x = 5.0 + np.sin(t)
    x[[100, 400, 401, 900]] = 0.0
    assert lost(x) == [(100, 101), (400, 402), (900, 901)]


def test_zeros_where_the_signal_crosses_zero_are_not() -> None:
    t = np.arange(2000) / 200.0
    assert lost(np.asarray(np.round(np.sin(t), 2), np.float64)) == []
    assert lost(np.zeros(100)) == []


def test_an_effort_frozen_under_noise_is_found_and_a_rest_is_not() -> None:
    rng = np.random.default_rng(1)
    t = np.arange(4000) / 200.0
    q = np.sin(2.0 * np.pi * 0.4 * t)
    x = 10.0 * q + 0.05 * rng.normal(size=len(t))
    assert frozen(x, q, t)[0] == 0.0
    x[2000:] = x[2000] + 1e-3 * rng.normal(size=2000)
    seconds, first = frozen(x, q, t)
    assert seconds > 8.0
    assert t[first] >= 9.5
    # the joint rests in the second half, and so does its effort
    q[2000:] = q[2000]
    assert frozen(x, q, t)[0] == 0.0


def test_faults_of_efforts_name_the_joint() -> None:
    rng = np.random.default_rng(1)
    t = np.arange(4000) / 200.0
    raw = np.array([np.sin(2.0 * np.pi * 0.4 * t + k) for k in range(6)] * 2)
    raw[6:] = 20.0 + 10.0 * raw[6:] + 0.05 * rng.normal(size=(6, len(t)))
    raw[8, ::50] = 0.0
    raw[10, 2000:] = raw[10, 2000] + 1e-4 * rng.normal(size=2000)
    track = Track("log", channels(), t, raw, np.zeros(len(t)))
    faults = list(effort_faults(track, 1.0, bare().joint_names))
    assert [(fault.finding.code, fault.joint) for fault in faults] == [("lost-samples", 2), ("stale-channel", 4)]
