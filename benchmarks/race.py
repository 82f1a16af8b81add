"""Comparison for `benchmarks/design.py`: exact gradients and SLSQP by finite differences, to the same criterion value.

Every method minimises the D-optimal criterion of the same TX-40 motion (6 × 9 numbers, 501 samples) from the same
starts within the same limits, on one thread; times are processor seconds.

    plain      SciPy's SLSQP in its usual form: criterion and every constraint by forward differences, all values
               by the compiled code of this package
    generous   the same, but given the exact Jacobian of the limits on position, velocity and acceleration
    figaroh    as generous, torques free, with W built by FIGAROH 1.0.2 (figaroh_design.py, in its own environment)

FIGAROH's own solver, cyipopt, is not compared: pip finds no wheel of it, and its build needs an installed Ipopt.
FIGAROH differentiates by forward differences too.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard._arrays import Array
    from steelyard.design.objective import DesignObjective
    from steelyard.model.model import Model
    from steelyard.motion.bounds import MotionLimits

ROOT = Path(__file__).resolve().parent.parent
FIGAROH_PYTHON = ROOT / ".venv-figaroh" / "bin" / "python"
TX40_URDF = ROOT.parent / "shared" / "data" / "staubli_tx40" / "tx40.urdf"
RATE_HZ, DURATION_S, NOISE = 50.0, 10.0, 0.5
# Number of starts, and the first random seed.
RACES, FIRST_SEED = 10, 0
# Relative excess over a limit that a point of SLSQP may have, and the margin above its best value to be reached.
BEYOND, ARRIVED = 1e-3, 1e-4

Trace = list[tuple[float, "Array"]]


def race(model: Model, limits: MotionLimits, seconds: float) -> dict[str, float]:
    """Ratios of processor time to the best value that the other racer reached within `seconds`, start by start."""
    from steelyard._arrays import single_threaded

    found: dict[str, float] = {}
    plan = plan_of(model, limits)
    ours = [single_threaded(exact)(plan, start_of(plan, FIRST_SEED + k)) for k in range(RACES)]
    for name, generous in (("plain", False), ("generous", True)):
        theirs = [single_threaded(slsqp)(plan, start_of(plan, FIRST_SEED + k), seconds, generous) for k in range(RACES)]
        found |= outcome(name, plan, ours, theirs)
    found["figaroh_has_ipopt"] = float(has_ipopt())
    if FIGAROH_PYTHON.is_file() and TX40_URDF.is_file():
        free = plan_of(model, replace(limits, torque=np.full(model.robot.dof, np.inf)))
        mine = [single_threaded(exact)(free, start_of(free, FIRST_SEED + k)) for k in range(RACES)]
        theirs = [figaroh(free, start_of(free, FIRST_SEED), seconds)]
        found |= outcome("figaroh", free, mine, theirs)
    return found


def outcome(name: str, plan: DesignObjective, ours: list[Trace], theirs: list[Trace]) -> dict[str, float]:
    """Medians over the starts of one racer, and the smallest and largest ratio."""
    valued = [[(t, value(plan, x)) for t, x in trace] for trace in ours]
    rows = []
    for k, trace in enumerate(theirs):
        allowed = [(t, value(plan, x)) for t, x in trace if beyond(plan, x) <= BEYOND]
        goal = min(v for _, v in allowed) + ARRIVED
        arrived = next(t for t, v in allowed if v <= goal)
        mine = arrival(valued[k:] + valued[:k], goal)
        rows.append((arrived, goal, mine, arrived / mine))
    arrived, goal, mine, ratio = np.array(rows).T
    return {
        f"{name}_s": float(np.median(arrived)),
        f"{name}_value": float(np.median(goal)),
        f"{name}_ours_s": float(np.median(mine)),
        f"{name}_ratio": float(np.median(ratio)),
        f"{name}_ratio_worst": float(ratio.min()),
        f"{name}_ratio_best": float(ratio.max()),
        f"{name}_starts": float(len(theirs)),
    }


def arrival(traces: list[list[tuple[float, float]]], goal: float) -> float:
    """Seconds to a value: where a search ends above it, all of its time is spent and the next start follows."""
    spent = 0.0
    for trace in traces:
        for t, v in trace:
            if v <= goal:
                return spent + t
        spent += trace[-1][0]
    return np.inf


def value(plan: DesignObjective, x: Array) -> float:
    return plan.score(plan.information(x)).objective


def beyond(plan: DesignObjective, x: Array) -> float:
    """How far the worst limit is passed, as a share of it."""
    at = x.reshape(len(plan.linear.lower), -1) @ plan.linear.rows.T
    return max(float(np.max(np.abs(at) / plan.linear.upper)), plan.torque_share(x)) - 1.0


def exact(plan: DesignObjective, start: Array) -> Trace:
    """(processor seconds, x) of every step with exact gradients."""
    from steelyard.design.optimiser import minimise

    steps: Trace = []
    clock = time.process_time()
    minimise(plan.objective, plan.linear, start, 400, lambda x, _: steps.append((time.process_time() - clock, x)))
    return steps


def slsqp(plan: DesignObjective, start: Array, seconds: float, generous: bool) -> Trace:
    """(processor seconds, x) of every iteration of SLSQP by differences."""
    from scipy.optimize import minimize

    def room(x: Array) -> Array:
        (tau,) = plan.torques(x)
        return (1.0 - (tau / plan.limits.torque[:, None]) ** 2).ravel()

    linear, both, _ = constraint_rows(plan)
    limits: dict[str, object] = {"type": "ineq", "fun": linear}
    if generous:
        limits["jac"] = lambda x: both
    constraints = [limits]
    if np.isfinite(plan.limits.torque).any():
        constraints.append({"type": "ineq", "fun": room})
    clock = time.process_time()
    steps: Trace = [(0.0, start)]

    def told(x: Array) -> None:
        steps.append((time.process_time() - clock, x.copy()))
        if steps[-1][0] > seconds:
            raise StopIteration

    minimize(
        lambda x: value(plan, x),
        start,
        method="SLSQP",
        callback=told,
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-7},
    )
    return steps


def constraint_rows(plan: DesignObjective) -> tuple[Callable[[Array], Array], Array, Array]:
    """Limits on position, velocity and acceleration as `side + both @ x ≥ 0`, and that function."""
    jacobian = np.kron(np.eye(len(plan.linear.lower)), plan.linear.rows)
    both = np.concatenate([-jacobian, jacobian])
    side = np.concatenate([plan.linear.upper.ravel(), -plan.linear.lower.ravel()])
    return lambda x: side + both @ x, both, side


def figaroh(plan: DesignObjective, start: Array, seconds: float) -> Trace:
    """The same of SLSQP in FIGAROH's environment, with its regressor."""
    _, both, side = constraint_rows(plan)
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        middle = plan.numbers(np.zeros_like(start))[0]
        states = np.random.default_rng(0).standard_normal((3, 200, plan.model.robot.dof))
        q, v, a = (np.ascontiguousarray(part.T) for part in states)
        w = plan.model.regressor(q, v, a)[:, list(plan.base.kept)]
        np.savez(
            task,
            start=start,
            basis=plan.basis,
            middle=middle,
            half=plan.numbers(np.ones_like(start))[0] - middle,
            both=both,
            side=side,
            noise=plan.noise,
            states=states,
            wanted=w.transpose(0, 2, 1).reshape(-1, len(plan.base)),
        )
        script = ROOT / "benchmarks" / "figaroh_design.py"
        command = [str(FIGAROH_PYTHON), str(script), str(TX40_URDF), str(task), "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"figaroh_design.py failed:\n{done.stderr[-2000:]}")
    return [(t, np.array(x)) for t, x in json.loads(done.stdout)["trace"]]


def has_ipopt() -> bool:
    """Whether FIGAROH's solver is there after all."""
    if FIGAROH_PYTHON.is_file():
        asked = [str(FIGAROH_PYTHON), "-c", "import cyipopt"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    return importlib.util.find_spec("cyipopt") is not None


def plan_of(model: Model, limits: MotionLimits) -> DesignObjective:
    """The problem of all racers."""
    from steelyard.design.criteria import DOptimal
    from steelyard.design.families import FourierFamily
    from steelyard.design.gradients import smoothed
    from steelyard.design.objective import DesignObjective
    from steelyard.model.base_parameters import base_parameters

    base, theta = base_parameters(model), model.layout.nominal
    noise, score = np.full(model.robot.dof, NOISE), DOptimal().bound(base, theta)
    return DesignObjective(
        smoothed(model, 0.05), base, ("none",), FourierFamily(5), DURATION_S, RATE_HZ, noise, limits, score, theta
    )


def start_of(plan: DesignObjective, seed: int) -> Array:
    """Random numbers of a motion about the middle of the ranges that uses half of its room."""
    way = np.random.default_rng(seed).standard_normal((plan.model.robot.dof, plan.family.size))
    return (0.5 * plan.linear.longest(np.zeros(way.size), way.ravel())[:, None] * way).ravel()


def race_table(found: dict[str, float]) -> Iterator[str]:
    """Lines of the table."""
    said = {
        "plain": "SLSQP, all by differences",
        "generous": "SLSQP, exact Jacobian of the linear limits",
        "figaroh": "SLSQP, regressor by FIGAROH, torques free",
    }
    for name, text in said.items():
        if f"{name}_s" not in found:
            yield f"  {text}: not run, no FIGAROH environment or no TX-40 URDF"
            continue
        starts = int(found[f"{name}_starts"])
        spread = f"{found[f'{name}_ratio_worst']:.0f} to {found[f'{name}_ratio_best']:.0f} over {starts} starts"
        yield (
            f"  {text:<43}{found[f'{name}_s']:8.2f} s to {found[f'{name}_value']:.4f}; here "
            f"{found[f'{name}_ours_s']:.3f} s: {found[f'{name}_ratio']:.0f} ×  "
            + (f"({spread}; bar 30)" if starts > 1 else "(one start)")
        )
    if not found["figaroh_has_ipopt"]:
        yield "  FIGAROH's own solver is not raced: pip cannot install cyipopt here (no wheel; its build wants Ipopt)"
