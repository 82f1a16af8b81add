"""Drifts: efforts with a slope in time that no motion explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.hypotheses.unknowns import Equations

# The change from the first to the last row must be this share of the effort's spread, and this many deviations ...
LEAST_SHARE, SURE = 0.25, 5.0
# ... and the error of the joint on rows left out must fall by this sum of logarithms.
_GAIN = 0.2
# Runs with drifts of their own.
MOST_RUNS = 4


def drift_findings(trial: Trial) -> Iterator[Finding]:
    """Every joint whose effort drifts: y_j = W_j θ + d_jk (t − t̄)/T + c_jk, with t over the T seconds of run k.

    c_jk is another offset of each run after the first. Beyond four runs, d_j is one for all of them, without c.
    """
    equations = Equations(trial)
    ramps, steps = _ramps(trial, equations)
    n, columns = trial.model.robot.dof, []
    for j in trial.active:
        for change in (*ramps, *steps):
            column = np.zeros((n, len(change)))
            column[j] = change
            columns.append(column)
    found = equations.tested(columns)
    for k, j in enumerate(trial.active):
        first = k * (len(ramps) + len(steps))
        own = slice(first, first + len(ramps))
        worst = int(np.argmax(np.abs(found.value[own])))
        size, std = float(found.value[own][worst]), float(found.std[own][worst])
        moving = equations.rows.moving[j]
        spread = float(np.std(equations.rows.y[j, moving])) if moving.any() else np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.log(found.before[j] / found.after[j])
        if abs(size) < max(LEAST_SHARE * spread, SURE * std) or not gain > _GAIN:
            continue
        name = trial.model.robot.axis_names[j]
        yield Finding(
            "drifting-effort",
            "error",
            f"the effort of {name} drifts by {size:.3g} ± {std:.1g} N·m or N over a log, {abs(size) / spread:.0%} of "
            f"its spread: its error falls from {found.before[j]:.1%} to {found.after[j]:.1%} without the drift",
            name,
        )


def _ramps(trial: Trial, equations: Equations) -> tuple[list[Array], list[Array]]:
    """−½ to ½ over each run and zero elsewhere, (m,), and 1 in each run after the first; one ramp for many runs."""
    rows, names = equations.rows, [trace.run for trace in trial.traces]
    ramps, steps = [], []
    for run in dict.fromkeys(names):
        own = np.isin(rows.trace, [k for k, name in enumerate(names) if name == run])
        low, high = rows.t[own].min(), rows.t[own].max()
        ramps.append(np.where(own, (rows.t - 0.5 * (low + high)) / max(high - low, 1e-9), 0.0))
        steps.append(own.astype(float))
    return (ramps, steps[1:]) if len(ramps) <= MOST_RUNS else ([np.sum(ramps, axis=0)], [])
