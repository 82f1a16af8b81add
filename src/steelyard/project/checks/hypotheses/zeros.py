"""Joint zeros: positions that are off by a constant, seen through the slope of the torques with the position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.hypotheses.unknowns import Equations

# A zero is reported from this angle [rad] on, and this many deviations ...
LEAST_ANGLE, SURE = 0.08, 4.0
# ... if rows left out are predicted better by this sum of logarithms, and by three times its deviation.
GAIN, _SURE_GAIN = 0.15, 3.0
# The file's bodies are trusted more than in trials of the channel map, since a first moment turns with the zero: 30 %.
_DOUBT = 0.5
# Step of the difference quotient [rad], and the most steps of the iteration, as the torque is not linear in the zero.
_STEP, _ROUNDS = 1e-3, 2


def zero_findings(trial: Trial) -> Iterator[Finding]:
    """The joint whose zero is wrong, if one is: y = W(q) θ + δ_k ∂(W θ)/∂q_k for each joint k in turn.

    The bodies of the robot file are a weak prior, since the first moments of a link turn with its zero. Without them,
    and for prismatic joints, nothing is tested.
    """
    tries = [one for one in tried_zeros(trial, _ROUNDS) if one.gain >= max(GAIN, _SURE_GAIN * one.spread)]
    tries = [one for one in tries if abs(one.angle) > max(LEAST_ANGLE, SURE * one.std)]
    if not tries:
        return
    best = max(tries, key=lambda one: one.gain)
    name = trial.model.robot.axis_names[best.joint]
    yield Finding(
        "wrong-zero",
        "error",
        f"the zero of {name} is off by {best.angle:+.2f} ± {best.std:.2f} rad relative to the robot file: "
        f"{best.evidence}",
        name,
        f"subtract {best.angle:.2f} rad with 'offset' of {name} in [channels] q, or correct the robot file",
    )


class Zero(NamedTuple):
    """The zero `angle` ± `std` [rad] of a joint, the gain ± `spread` on rows left out, and the evidence as text."""

    joint: int
    angle: float
    std: float
    gain: float
    spread: float
    evidence: str


def tried_zeros(trial: Trial, rounds: int) -> Iterator[Zero]:
    """The zero of each revolute joint by `rounds` Newton steps; none where the file states no inertias."""
    if trial.knows_inertias and trial.model.looped is None:
        equations = Equations(replace(trial, doubt=_DOUBT))
        for k in trial.active:
            if not trial.model.robot.axes[k].is_prismatic:
                yield _zero(equations, k, rounds)


def _zero(equations: Equations, k: int, rounds: int) -> Zero:
    trial = equations.trial
    first, angle, found = equations.alone[0].sum(axis=0), 0.0, None
    for _ in range(rounds):
        here = equations if not angle else Equations(_shifted(trial, k, -angle))
        beside = _shifted(trial, k, _STEP - angle)
        slope = (here.predicted(here.theta, beside.stacked(beside.traces)) - here.predicted(here.theta)) / _STEP
        found = here.tested([-slope])
        angle += float(found.value[0])
        if abs(found.value[0]) < 0.1 * LEAST_ANGLE or abs(angle) > 1.5:
            break
    assert found is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.sqrt(first / equations.effort)
        gain = float(np.nansum(np.log(before / found.after)[list(trial.active)]))
        j = int(np.nanargmax(np.log(before / found.after)))
    told = f"the error of {trial.model.robot.axis_names[j]} falls from {before[j]:.1%} to {found.after[j]:.1%}"
    return Zero(k, angle, float(found.std[0]), gain, found.spread, told)


def _shifted(trial: Trial, k: int, by: float) -> Trial:
    """The trial with `by` [rad] added to the positions of joint k."""
    shift = np.zeros((trial.model.robot.dof, 1))
    shift[k] = by
    return replace(trial, traces=tuple(replace(trace, q=trace.q + shift) for trace in trial.traces))
