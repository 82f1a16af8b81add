"""A first look: whether anything in a log suggests a fault of its channel map, at a small part of a check's cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steelyard.project.checks.channel_map import sides, signs
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.nominal import nominal_scales
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.hypotheses import mounting, zeros
from steelyard.project.checks.hypotheses.unknowns import Equations

# Errors on rows left out, of the joints on average and of all efforts, above which a first look is not enough.
_POOR_MEAN, _POOR_TOTAL = 0.15, 0.12
# A first look needs this share of the evidence that a finding needs.
_SHARE = 0.5
# From this number of pieces of log on, every other one is enough for trials that read the rows again.
_MANY_TRACES = 8
# Logarithm of the factors on an effort that are tried, and the delay [s] that is worth a closer look.
_STEP = 0.5
_LEAST_DELAY, _SURE_DELAY, _DELAY_GAIN = 0.01, 4.0, 0.1
NOT_TRIED = (
    "reversed, swapped or scaled positions that the model explains as well, and zeros and delays that hardly matter"
)


def is_suspicious(trial: Trial) -> bool:
    """Whether the log deserves every trial: a poor prediction, or anything that a quick trial improves.

    The quick trials are those that need no second pass over the rows (efforts reversed or scaled), gravity,
    and one step towards each joint's zero and delay.
    """
    baseline = trial.baseline
    if baseline.mean > _POOR_MEAN or baseline.total > _POOR_TOTAL:
        return True
    families = (signs.reversed_efforts, sides.all_efforts)
    if any(suspect.accepted for family in families for suspect in family(trial)) or _scales(trial):
        return True
    fewer = replace(trial, traces=trial.traces[::2]) if len(trial.traces) >= _MANY_TRACES else trial
    return any(suspect.accepted for suspect in mounting.suspects(fewer)) or _zeros(fewer) or _delays(fewer)


def _scales(trial: Trial) -> bool:
    """Whether an effort fits better with another scale, or the robot file wants one."""
    scales = nominal_scales(trial)
    if np.any(np.abs(np.log(np.abs(scales.size[scales.trusted]))) > np.log(sides.NOMINAL_FACTOR)):
        return True
    return any(_gain_of_scale(trial, j) > _SHARE * sides.SHARED_GAIN for j in trial.active)


def _gain_of_scale(trial: Trial, j: int) -> float:
    """Gain of the best factor on the effort of joint j, by the parabola through three of them."""
    edits = (Edit((j,), effort=scaling(trial.model.robot.dof, {j: float(np.exp(x))})) for x in (-_STEP, _STEP))
    less, more = (trial.verdict(edit).gain_over(trial.baseline)[0] for edit in edits)
    slope, curve = 0.5 * (more - less), more + less
    best = 1.0 if curve >= 0.0 else np.clip(-0.5 * slope / (0.5 * curve), -1.0, 1.0)
    return float(max(less, more, slope * best + 0.5 * curve * best**2))


def _zeros(trial: Trial) -> bool:
    return any(
        abs(one.angle) > _SHARE * zeros.LEAST_ANGLE and one.gain > _SHARE * zeros.GAIN
        for one in zeros.tried_zeros(trial, rounds=1)
    )


def _delays(trial: Trial) -> bool:
    """Whether an effort read later or earlier fits better: y_j = W_j θ − d_j dy_j/dt."""
    equations = Equations(trial)
    rows, n = equations.rows, trial.model.robot.dof
    slope = np.zeros_like(rows.y)
    for k in range(len(trial.traces)):
        own = np.flatnonzero(rows.trace == k)
        if len(own) > 1:
            slope[:, own] = np.gradient(rows.y[:, own], rows.t[own], axis=1)
    found = equations.tested([np.where(np.arange(n)[:, None] == j, -slope, 0.0) for j in trial.active])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(found.before / found.after)[list(trial.active)]
    late = np.abs(found.value) > np.maximum(_LEAST_DELAY, _SURE_DELAY * found.std)
    return bool(np.any(late & (gain > _DELAY_GAIN)))
