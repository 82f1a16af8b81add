"""Design of exciting motions of the TX-40: how long it takes, what it gains over random points, and what exact
gradients gain over finite differences.

    python benchmarks/design.py [--seconds S] [--json]

The comparison is generous to finite differences: SciPy's SLSQP minimises the same criterion of the same numbers from
the same start, its value computed by the same compiled code; it gets the exact Jacobian of the limits on position,
velocity and acceleration at a thinned grid, and no torque limits. Seconds are those of one processor.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.limit_proofs import MotionLimits
    from steelyard.model import Model
    from steelyard.parameters import Array
    from steelyard.planning import Plan

RATE_HZ, DURATION_S, NOISE = 50.0, 10.0, 0.5
RANDOM = 20
# Points of the period at which SLSQP is told the limits: it slows down with the square of their number.
THINNED = 20


def bench_design(seconds: float = 60.0) -> dict[str, float]:
    """Seconds of processor and wall, ratios to random motions, and the race against finite differences."""
    from steelyard.base_parameters import base_parameters
    from steelyard.criteria import ConditionNumber
    from steelyard.design import design_excitation
    from steelyard.forecast import forecast, planned
    from steelyard.formats.robots import read_robot
    from steelyard.limit_proofs import MotionLimits
    from steelyard.model import Model
    from steelyard.problem import Problem
    from steelyard.terms import named_terms

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


def random_motion(model: Model, limits: MotionLimits, seed: int):
    """Eleven random points as in P0, shrunk about the middle until the motion takes as long as the designed one."""
    from steelyard.excitation import random_points
    from steelyard.trajectory import TrapezoidalAcceleration

    rng, middle = np.random.default_rng(seed), 0.5 * (limits.lower + limits.upper)[:, None]
    while True:
        points, low, high = random_points(model.robot, 11, rng), 1e-3, 1.0
        for _ in range(40):
            share = 0.5 * (low + high)
            motion = TrapezoidalAcceleration(middle + share * (points - middle), limits.velocity, limits.acceleration)
            low, high = (share, high) if motion.duration < DURATION_S else (low, share)
        motion = TrapezoidalAcceleration(middle + low * (points - middle), limits.velocity, limits.acceleration)
        tau = model.torque(*motion.at(np.arange(0.0, DURATION_S, 2e-3)), _nominal(model))
        if np.all(np.abs(tau).max(axis=1) <= limits.torque):
            return motion


def gradient_cost(model: Model) -> dict[str, float]:
    """Microseconds a sample of the regressor's tile, and of the way back from weights to q, v and a."""
    from steelyard.gradients import RegressorGradient
    from steelyard.terms import Motion

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


def race(model: Model, limits: MotionLimits, seconds: float) -> dict[str, float]:
    """Time to the criterion value that SLSQP with finite differences reaches within `seconds` of processor."""
    from steelyard.interior import minimise

    plan, start = started(model, limits)
    clock = time.process_time()
    trace: list[tuple[float, float]] = []
    minimise(
        plan.objective,
        plan.linear,
        start,
        400,
        lambda x, _: trace.append((time.process_time() - clock, plan.score(plan.information(x)).objective)),
    )
    theirs, reached = slsqp(plan, start, seconds)
    ours = next((t for t, value in trace if value <= reached), np.inf)
    return {
        "slsqp_s": theirs,
        "slsqp_value": reached,
        "ours_s": ours,
        "ours_value": trace[-1][1],
        "race": theirs / ours,
    }


def started(model: Model, limits: MotionLimits) -> tuple[Plan, Array]:
    """The problem of both racers and a start strictly within its limits."""
    from steelyard.base_parameters import base_parameters
    from steelyard.criteria import DOptimal
    from steelyard.families import FourierFamily
    from steelyard.gradients import smoothed
    from steelyard.planning import Plan

    base, theta = base_parameters(model), _nominal(model)
    free = replace(limits, torque=np.full(model.robot.dof, np.inf))
    noise, score = np.full(model.robot.dof, NOISE), DOptimal().bound(base, theta)
    plan = Plan(
        smoothed(model, 0.05), base, ("none",), FourierFamily(5), DURATION_S, RATE_HZ, noise, free, score, theta
    )
    way = np.random.default_rng(0).standard_normal((model.robot.dof, plan.family.size))
    room = plan.linear.longest(np.zeros(way.size), way.ravel())
    return plan, (0.5 * room[:, None] * way).ravel()


def slsqp(plan: Plan, start: Array, seconds: float) -> tuple[float, float]:
    """Processor seconds and the best value within the limits that SLSQP finds by finite differences."""
    from scipy.optimize import minimize

    linear = plan.linear
    period = plan.family.guards(plan.duration)[0].rows.shape[0]
    rows = np.concatenate([np.arange(period)[:: period // THINNED] + k * period for k in range(3)])
    blocks, size = len(linear.lower), plan.family.size
    jacobian = np.kron(np.eye(blocks), linear.rows[rows])
    upper, lower = linear.upper[:, rows].ravel(), linear.lower[:, rows].ravel()
    assert jacobian.shape == (blocks * len(rows), blocks * size)
    clock, best = time.process_time(), [(0.0, np.inf)]

    class OutOfTime(Exception):
        pass

    def value(x: Array) -> float:
        if time.process_time() - clock > seconds:
            raise OutOfTime
        return plan.score(plan.information(x)).objective

    def told(x: Array) -> None:
        # what counts is within all limits: shrunk towards the middle until it is
        inside = min(1.0, float(linear.longest(np.zeros_like(x), x).min()))
        found = plan.score(plan.information(inside * x)).objective
        if found < best[-1][1]:
            best.append((time.process_time() - clock, found))

    both = np.concatenate([-jacobian, jacobian])
    side = np.concatenate([upper, -lower])
    try:
        minimize(
            value,
            start,
            method="SLSQP",
            callback=told,
            constraints={"type": "ineq", "fun": lambda x: side + both @ x, "jac": lambda x: both},
            options={"maxiter": 10_000, "ftol": 1e-7},
        )
    except OutOfTime:
        pass
    return best[-1]


def _nominal(model: Model) -> Array:
    assert model.layout.nominal is not None
    return model.layout.nominal


def design_table(found: dict[str, float]) -> list[str]:
    """Lines of the table."""
    return [
        f"design of the TX-40 (6 × 5 harmonics) {found['wall_s']:8.2f} s, {found['processor_s']:.2f} s of one core",
        f"  limits hold (proven, torque sampled)       {'yes' if found['limits_hold'] else 'NO'}",
        f"  σ against the median of {RANDOM} random    {found['sigma_gain']:8.2f} × smaller  (bar 1.5 ×)",
        f"  σ against the best of {RANDOM} random      {found['sigma_gain_over_best']:8.2f} × smaller",
        f"  condition number                   {found['condition']:8.2f}, best random {found['condition_best_random']:.2f}",
        f"  regressor and its gradient         {found['forward_us']:8.2f} and {found['back_us']:.2f} µs a sample",
        f"  SLSQP by differences               {found['slsqp_s']:8.2f} s to {found['slsqp_value']:.4f}",
        f"  the same value here                {found['ours_s']:8.3f} s (then {found['ours_value']:.4f}): "
        f"{found['race']:.0f} × faster  (bar 30 ×)",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long SLSQP may take")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = bench_design(chosen.seconds)
    print(json.dumps(result) if chosen.json else "\n".join(design_table(result)))
