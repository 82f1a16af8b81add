"""Drifts: efforts with a slope in time that no motion explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.hypotheses.unknowns import Equations

# The change from the first to the last row must be this share of the effort's spread, and this many deviations ...
LEAST_SHARE, SURE = 0.25, 5.0
# ... and the error of the joint on rows left out must fall by this sum of logarithms.
_GAIN = 0.2


def drift_findings(trial: Trial) -> Iterator[Finding]:
    """Every joint whose effort drifts: y_j = W_j θ + d_j (t − t̄)/T, with t over the T seconds of each log."""
    equations = Equations(trial)
    rows, runs = equations.rows, [trace.run for trace in trial.traces]
    x = np.zeros(len(rows.t))
    for run in dict.fromkeys(runs):
        own = np.isin(rows.trace, [k for k, name in enumerate(runs) if name == run])
        low, high = rows.t[own].min(), rows.t[own].max()
        x[own] = (rows.t[own] - 0.5 * (low + high)) / max(high - low, 1e-9)
    n = trial.model.robot.dof
    columns = []
    for j in trial.active:
        column = np.zeros((n, len(x)))
        column[j] = x
        columns.append(column)
    found = equations.tested(columns)
    for k, j in enumerate(trial.active):
        moving = rows.moving[j]
        spread = float(np.std(rows.y[j, moving])) if moving.any() else np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.log(found.before[j] / found.after[j])
        size, std = float(found.value[k]), float(found.std[k])
        if abs(size) < max(LEAST_SHARE * spread, SURE * std) or not gain > _GAIN:
            continue
        name = trial.model.robot.axis_names[j]
        yield Finding(
            "drifting-effort",
            "error",
            f"the effort of {name} drifts by {size:.3g} ± {std:.1g} N·m or N over the log, {abs(size) / spread:.0%} of "
            f"its spread: its error falls from {found.before[j]:.1%} to {found.after[j]:.1%} without the drift",
            name,
        )
