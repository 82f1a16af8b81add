"""Run differences: whether the runs of a fit have the same parameters, and what friction per run would explain.

At the common parameters the score of run r for parameter i, s_ri = Σ_g w_iᵀ e over its blocks of time g, is zero but
for noise. It is tested by Student's t over the blocks,

    t = s_ri / σ_ri,   σ_ri² = G/(G − 1) Σ_g (s_rgi − s_ri/G)²,   d_ri = s_ri / ‖w_i‖²

and corrected for all runs and parameters by Holm's rule; d_ri is the change of the parameter that explains the score
alone. Runs that differ have error bars by blocks of time that are too narrow: no block contains the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.estimators.least_squares import CLUSTERS, joint_deviations
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.regression.information import RUNS_AS_CLUSTERS, Information, stacked
from steelyard.regression.statistics import holm

# Probability of any false alarm in a set of runs, and the fewest blocks of a run for a test of it.
FALSE_ALARM, FEWEST_BLOCKS = 0.02, 6
# A change below this fraction of the value is too small to matter, however certain it is.
LEAST_CHANGE = 0.02
# Parameters named in a message.
MOST_NAMED = 6


@dataclass(frozen=True)
class RunDifference:
    """One run and parameter: the change that explains its score [unit of the parameter], relative to the value, and the
    corrected p."""

    run: str
    parameter: str
    change: float
    relative: float
    p: float


@dataclass(frozen=True)
class RunDifferences:
    """All tests; the relative error of the fitted rows, and that with friction and offsets fitted again in each run."""

    tests: tuple[RunDifference, ...]
    error: float
    error_own_friction: float

    @property
    def significant(self) -> tuple[RunDifference, ...]:
        """Those that differ, the most certain first."""
        found = [one for one in self.tests if one.p < FALSE_ALARM and abs(one.relative) > LEAST_CHANGE]
        return tuple(sorted(found, key=lambda one: one.p))

    def findings(self, as_clusters: bool) -> tuple[Finding, ...]:
        """A warning where runs differ; with `as_clusters` the error bars contain it, and it is for information."""
        found = self.significant
        if not found:
            return ()
        shown = ", ".join(f"{one.parameter} by {one.change:+.3g} in '{one.run}'" for one in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        bars = "the error bars contain this" if as_clusters else "the error bars do not contain this"
        message = (
            f"runs differ by more than noise: {shown}{more}; {bars}. With friction fitted in each run the relative "
            f"error falls from {self.error:.2%} to {self.error_own_friction:.2%}"
        )
        return (Finding("runs-differ", "info" if as_clusters else "warning", message),)


def run_differences(result: Identification, information: Information) -> RunDifferences:
    """Tests of the runs of a fit against its common parameters; `information` in torques, without known ones."""
    runs = list(dict.fromkeys(time[0] for time in information.times))
    error = result.relative_error.total
    if len(runs) < 2:
        return RunDifferences((), error, error)
    base, theta = result.base, result.theta
    weights = joint_deviations(information, base)
    weights = np.where(np.isfinite(weights), 1.0 / weights, 0.0)
    value = np.nan_to_num(result.value)
    found, p = [], []
    for run in runs:
        own = _of_run(information, run)
        groups = own.clusters(CLUSTERS)
        if len(groups) < FEWEST_BLOCKS:
            continue
        parts = [stacked(own, base.kept, weights, group) for group in groups]
        scores = np.array([part[:, :-1].T @ (part[:, -1] - part[:, :-1] @ value) for part in parts])
        power = np.sum([np.sum(part[:, :-1] ** 2, axis=0) for part in parts], axis=0)
        total, count = scores.sum(axis=0), len(parts)
        spread = np.sqrt(count / (count - 1) * np.sum((scores - total / count) ** 2, axis=0))
        for k in np.flatnonzero((power > 0.0) & (spread > 0.0) & np.isfinite(result.value)):
            change = float(total[k] / power[k])
            size = max(abs(value[k]), float(np.finfo(float).tiny))
            found.append(RunDifference(run, base.names[k], change, change / size, 1.0))
            p.append(float(2.0 * student.sf(abs(total[k]) / spread[k], count - 1)))
    tests = tuple(replace(one, p=float(x)) for one, x in zip(found, holm(p), strict=True))
    return RunDifferences(tests, error, _own_friction(information, theta, runs))


def as_clusters(information: Information) -> bool:
    """Whether the runs are the clusters of the error bars."""
    return len({time[0] for time in information.times}) >= RUNS_AS_CLUSTERS


def _of_run(information: Information, run: str) -> Information:
    blocks = {key: part for key, part in information.blocks.items() if key.run == run}
    return replace(information, blocks=blocks)


def _own_friction(information: Information, theta: Array, runs: Sequence[str]) -> float:
    """Relative error with the terms of the drives fitted again in every run and joint, bodies unchanged."""
    rest = size = 0.0
    for run in runs:
        own = _of_run(information, run)
        for j, columns in enumerate(own.columns):
            r = own.gathered(j).r
            y = r[:, len(columns)]
            left = y - r[:, : len(columns)] @ theta[columns]
            drives = [k for k, c in enumerate(columns) if information.layout.columns[c].kind == "term"]
            w = r[:, drives]
            if drives and len(r):
                left = left - w @ np.linalg.lstsq(w, left, rcond=1e-9)[0]
            rest, size = rest + float(left @ left), size + float(y @ y)
    return float(np.sqrt(rest / size)) if size else float("nan")
