"""Design of exciting motions of the TX-40: how long it takes, what it gains over random points, and what exact
gradients gain over finite differences.

    python benchmarks/design.py [--seconds S] [--json]

SciPy's SLSQP minimises the same criterion of the same numbers from the same starts within the same limits, by values of
the same compiled code. It is given the exact Jacobian of the limits on position, velocity and acceleration; criterion
and torques it differentiates by differences. The race is run twice: with the torque limits of the design, and with free
torques. Its outcome is bounded: of 54 numbers, differences take 55 values for what costs two here. Seconds are those of
one processor.
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
# Starts of the race.
RACES = 3


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
    """Time to the value at which SLSQP by differences ends (or is after `seconds`), start by start.

    A start from which the value is not reached counts as a ratio of zero.
    """
    from steelyard.threads import single_threaded

    found: dict[str, float] = {}
    free = replace(limits, torque=np.full(model.robot.dof, np.inf))
    for name, bounds in (("limited", limits), ("free", free)):
        plan, rows = plan_of(model, bounds), []
        for seed in range(100, 100 + RACES):
            start = start_of(plan, seed)
            trace = single_threaded(exact)(plan, start)
            theirs, reached = single_threaded(slsqp)(plan, start, seconds)
            ours = next((t for t, objective in trace if objective <= reached), np.inf)
            rows.append((theirs, reached, ours, theirs / ours, trace[-1][1]))
        theirs, reached, ours, ratio, ended = np.array(rows).T
        found |= {
            f"slsqp_{name}_s": float(np.median(theirs)),
            f"slsqp_{name}_value": float(np.median(reached)),
            f"ours_{name}_s": float(np.median(ours)),
            f"ours_{name}_value": float(np.median(ended)),
            f"race_{name}": float(np.median(ratio)),
            f"race_{name}_worst": float(ratio.min()),
            f"race_{name}_best": float(ratio.max()),
        }
    return found


def exact(plan: Plan, start: Array) -> list[tuple[float, float]]:
    """(processor seconds, criterion) of every step with exact gradients."""
    from steelyard.interior import minimise

    steps: list[tuple[float, Array]] = []
    clock = time.process_time()
    minimise(plan.objective, plan.linear, start, 400, lambda x, _: steps.append((time.process_time() - clock, x)))
    return [(t, plan.score(plan.information(x)).objective) for t, x in steps]


def plan_of(model: Model, limits: MotionLimits) -> Plan:
    """The problem of both racers."""
    from steelyard.base_parameters import base_parameters
    from steelyard.criteria import DOptimal
    from steelyard.families import FourierFamily
    from steelyard.gradients import smoothed
    from steelyard.planning import Plan

    base, theta = base_parameters(model), _nominal(model)
    noise, score = np.full(model.robot.dof, NOISE), DOptimal().bound(base, theta)
    return Plan(
        smoothed(model, 0.05), base, ("none",), FourierFamily(5), DURATION_S, RATE_HZ, noise, limits, score, theta
    )


def start_of(plan: Plan, seed: int) -> Array:
    """Random numbers of a motion about the middle of the ranges that uses half of its room."""
    way = np.random.default_rng(seed).standard_normal((plan.model.robot.dof, plan.family.size))
    return (0.5 * plan.linear.longest(np.zeros(way.size), way.ravel())[:, None] * way).ravel()


def slsqp(plan: Plan, start: Array, seconds: float) -> tuple[float, float]:
    """Processor seconds until SLSQP by differences came within 1e-4 of its last value, and that value."""
    from scipy.optimize import minimize

    def value(x: Array) -> float:
        return plan.score(plan.information(x)).objective

    def room(x: Array) -> Array:
        (tau,) = plan.torques(x)
        return (1.0 - (tau / plan.limits.torque[:, None]) ** 2).ravel()

    linear = plan.linear
    jacobian = np.kron(np.eye(len(linear.lower)), linear.rows)
    both = np.concatenate([-jacobian, jacobian])
    side = np.concatenate([linear.upper.ravel(), -linear.lower.ravel()])
    clock, trace = time.process_time(), [(0.0, np.inf)]

    def told(x: Array) -> None:
        trace.append((time.process_time() - clock, value(x)))
        if trace[-1][0] > seconds:
            raise StopIteration

    constraints: list[dict[str, object]] = [{"type": "ineq", "fun": lambda x: side + both @ x, "jac": lambda x: both}]
    if np.isfinite(plan.limits.torque).any():
        constraints.append({"type": "ineq", "fun": room})
    minimize(
        value,
        start,
        method="SLSQP",
        callback=told,
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-7},
    )
    last = trace[-1][1] + 1e-4
    return next(t for t, objective in trace if objective <= last), last


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
        f"  condition number {found['condition']:.2f}, best random motion {found['condition_best_random']:.2f}",
        f"  regressor and its gradient         {found['forward_us']:8.2f} and {found['back_us']:.2f} µs a sample",
    ] + [
        f"  SLSQP, torque {name:<21}{found[f'slsqp_{name}_s']:8.2f} s to {found[f'slsqp_{name}_value']:.4f}; "
        f"here {found[f'ours_{name}_s']:.3f} s: {found[f'race_{name}']:.1f} × ({found[f'race_{name}_worst']:.1f} to "
        f"{found[f'race_{name}_best']:.1f} over {RACES} starts; bar 30)"
        for name in ("limited", "free")
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long SLSQP may take")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = bench_design(chosen.seconds)
    print(json.dumps(result) if chosen.json else "\n".join(design_table(result)))
