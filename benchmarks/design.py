"""Design of exciting motions of the TX-40: computing time, improvement over random points, and speed-up by exact
gradients over finite differences (`race.py`).

    python benchmarks/design.py [--seconds S] [--json]
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from typing import TYPE_CHECKING

import numpy as np
from race import DURATION_S, NOISE, RATE_HZ, race, race_table

if TYPE_CHECKING:
    from steelyard.model.model import Model
    from steelyard.motion.bounds import MotionLimits
    from steelyard.motion.trajectory import Trajectory

RANDOM = 20


def bench_design(seconds: float = 60.0) -> dict[str, float]:
    """Seconds of processor and wall, ratios to random motions, and the race against finite differences."""
    from steelyard.design.criteria import ConditionNumber
    from steelyard.design.design import design_excitation
    from steelyard.design.forecast import forecast, planned
    from steelyard.formats.robots import read_robot
    from steelyard.model.base_parameters import base_parameters
    from steelyard.model.model import Model
    from steelyard.model.terms import named_terms
    from steelyard.motion.bounds import MotionLimits
    from steelyard.regression.problem import Problem

    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or ()))
    limits = MotionLimits.of(robot, 10.0)
    base = base_parameters(model)
    design_excitation(model, limits, DURATION_S, noise=NOISE, starts=1, iterations=3)  # compiles
    wall, processor = time.perf_counter(), time.process_time()
    best = design_excitation(model, limits, DURATION_S, noise=NOISE)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    conditioned = design_excitation(model, limits, DURATION_S, ConditionNumber(), noise=NOISE)
    told = []
    for seed in range(RANDOM):
        run = planned(model, random_motion(model, limits, seed), RATE_HZ)
        told.append(forecast(Problem(model, [run], decimate=1, rest=0.0), NOISE, base=base))
    deviations = np.array([one.geometric_mean for one in told])
    return {
        "wall_s": wall,
        "processor_s": processor,
        "limits_hold": float(best.holds and conditioned.holds),
        "sigma_gain": float(np.median(deviations)) / best.forecast.geometric_mean,
        "sigma_gain_over_best": float(deviations.min()) / best.forecast.geometric_mean,
        "condition": conditioned.value,
        "condition_best_random": min(one.condition_scaled for one in told),
        **gradient_cost(model),
        **race(model, limits, seconds),
    }


def random_motion(model: Model, limits: MotionLimits, seed: int) -> Trajectory:
    """Eleven random points as in P0, shrunk about the middle until the motion takes as long as the designed one."""
    from steelyard.motion.random import random_points
    from steelyard.motion.trajectory import TrapezoidalAcceleration

    assert model.layout.nominal is not None
    rng, middle = np.random.default_rng(seed), 0.5 * (limits.lower + limits.upper)[:, None]
    while True:
        points, low, high = random_points(model.robot, 11, rng), 1e-3, 1.0
        for _ in range(40):
            share = 0.5 * (low + high)
            motion = TrapezoidalAcceleration(middle + share * (points - middle), limits.velocity, limits.acceleration)
            low, high = (share, high) if motion.duration < DURATION_S else (low, share)
        motion = TrapezoidalAcceleration(middle + low * (points - middle), limits.velocity, limits.acceleration)
        tau = model.torque(*motion.at(np.arange(0.0, DURATION_S, 2e-3)), model.layout.nominal)
        if np.all(np.abs(tau).max(axis=1) <= limits.torque):
            return motion


def gradient_cost(model: Model) -> dict[str, float]:
    """Microseconds per sample of the regressor's tile, and of the gradient from weights back to q, v and a."""
    from steelyard.design.gradients import RegressorGradient
    from steelyard.model.terms import Motion

    gradient = RegressorGradient(model)
    q, v, a = np.random.default_rng(0).normal(size=(3, model.robot.dof, 1024))
    motion = Motion(q, v, a)
    tile = gradient.fill(motion)
    gradient.back(motion, tile)
    out = {}
    for name, work in (("forward_us", lambda: gradient.fill(motion)), ("back_us", lambda: gradient.back(motion, tile))):
        start = time.process_time()
        for _ in range(50):
            work()
        out[name] = (time.process_time() - start) / 50 / 1024 * 1e6
    return out


def design_table(found: dict[str, float]) -> list[str]:
    """Lines of the table."""
    return [
        f"design of the TX-40 (6 × 5 harmonics) {found['wall_s']:8.2f} s, {found['processor_s']:.2f} s of one core",
        f"  limits hold (proven, torque sampled)       {'yes' if found['limits_hold'] else 'NO'}",
        f"  σ against the median of {RANDOM} random    {found['sigma_gain']:8.2f} × smaller  (bar 1.5 ×)",
        f"  σ against the best of {RANDOM} random      {found['sigma_gain_over_best']:8.2f} × smaller",
        f"  condition number {found['condition']:.2f}, best random motion {found['condition_best_random']:.2f}",
        f"  regressor and its gradient         {found['forward_us']:8.2f} and {found['back_us']:.2f} µs per sample",
        *race_table(found),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each search of SLSQP may take")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = bench_design(chosen.seconds)
    print(json.dumps(result) if chosen.json else "\n".join(design_table(result)))
