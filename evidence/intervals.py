"""Monte Carlo coverage of 95 % intervals: simulated logs through the whole pipeline, both kinds of error bar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

from steelyard import (
    ChannelMap,
    Model,
    Preparation,
    Problem,
    Recording,
    Signal,
    base_parameters,
    identify,
    prepare,
    read_robot,
)
from steelyard._arrays import Array
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier

RATE_HZ, DURATION_S = 500.0, 20.0


@dataclass(frozen=True)
class Coverage:
    """Fraction of intervals that contain the truth, per base parameter, by CR3 and by the classical formula."""

    names: tuple[str, ...]
    robust: Array
    classical: Array
    experiments: int


def coverage(
    robot_name: str, experiments: int, colour: float, seed: int, noise: float = 0.05, rate_hz: float = RATE_HZ
) -> Coverage:
    """Random motions; torque noise AR(1) with coefficient `colour` and size `noise` (share of each joint's rms torque).

    Positions are logged exactly, velocities and accelerations come from filtering and differentiating, rows from the
    parallel filter and decimation: the same path as a real log.
    """
    robot = read_robot(robot_name)
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset") if robot.terms is None else robot.terms))
    truth = model.layout.nominal
    assert truth is not None
    true_base = base_parameters(model).map @ truth
    rng = np.random.default_rng(seed)
    channels = ChannelMap(
        "t", Signal([f"q{j}" for j in range(robot.dof)], "rad"), Signal([f"y{j}" for j in range(robot.dof)], "N.m")
    )
    t = np.arange(int(DURATION_S * rate_hz)) / rate_hz
    held = np.zeros((2, len(true_base)))
    for _ in range(experiments):
        q, v, a = random_fourier(robot, 5, 0.1, DURATION_S, rng).at(t)
        tau = model.torque(q, v, a, truth)
        shock = lfilter([np.sqrt(1 - colour**2)], [1.0, -colour], rng.standard_normal(tau.shape), axis=1)
        y = tau + noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * shock
        columns = {"t": t} | {f"q{j}": q[j] for j in range(robot.dof)} | {f"y{j}": y[j] for j in range(robot.dof)}
        samples = prepare(Recording.from_arrays("run", columns), robot, channels, Preparation(cutoff_hz=20.0))
        result = identify(Problem(model, [samples], lowpass_hz=10.0, decimate=20))
        low, high = result.interval(0.95)
        held[0] += (low <= true_base) & (true_base <= high)
        held[1] += np.abs(result.value - true_base) <= norm.ppf(0.975) * result.std_classical
    return Coverage(result.base.names, held[0] / experiments, held[1] / experiments, experiments)
