"""Residuals of rows relative to those expected of the robot, and the calibration of thresholds on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.estimators.least_squares import CLUSTERS, FEWEST_CLUSTERS, joint_deviations
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.model import Model
from steelyard.online.change_detection import Baseline, Thresholds, calibrated
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import RowBatch

# Number of rows kept for the calibration; beyond it the oldest are dropped.
MOST_ROWS = 8192
# A column that no row has excited gets this fraction of the largest column's norm, so that its width is finite.
_UNSEEN = 1e-6


class Residuals:
    """Residuals of rows in units of their expected deviation."""

    def __init__(self, model: Model, base: BaseParameters) -> None:
        self.base, self.joints = base, model.robot.axis_names
        kept = {int(column): k for k, column in enumerate(base.kept)}
        places = [
            (k, int(row), kept[int(column)]) for k, (row, column) in enumerate(model.places) if int(column) in kept
        ]
        self._place, self._joint, self._column = (np.array(x, np.int64) for x in zip(*places, strict=True))

    def wide(self, batch: RowBatch) -> Array:
        """W of a batch over the base columns, (b, n, m)."""
        out = np.zeros((len(self.base), len(self.joints), len(batch.number)))
        out[self._column, self._joint] = batch.w[self._place]
        return out

    def standardised(self, batch: RowBatch, baseline: Baseline) -> Array:
        """z (n, m) of rows: residuals over their deviation by the baseline."""
        w = self.wide(batch)
        b, n, m = w.shape
        rest = batch.y[0] - np.einsum("b,bjm->jm", baseline.theta[list(self.base.kept)], w)
        spread = solve_triangular(baseline.root, w.reshape(b, n * m), trans=1, check_finite=False)
        added = baseline.inflation * np.einsum("bk,bk->k", spread, spread).reshape(n, m)
        return rest / np.sqrt(np.nan_to_num(baseline.sigma, nan=1.0)[:, None] ** 2 + added)

    def baseline(self, result: Identification, information: Information, inflation: float) -> Baseline:
        """The reference for residuals after a fit of these rows."""
        sigma = joint_deviations(information, self.base)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        whole = stacked(information, self.base.kept, weights)
        root = triangular(np.concatenate([whole, _weak(whole)]))[: len(self.base), :-1]
        return Baseline(result.theta, sigma, root, inflation)


class Calibrated(NamedTuple):
    """Levels of the tests, and the variance of the estimate relative to that for independent rows."""

    thresholds: Thresholds
    inflation: float


class Calibration:
    """The rows of the learning stretch, kept until the levels of the tests can be set from them."""

    def __init__(self, residuals: Residuals) -> None:
        self.residuals = residuals
        self.kept: list[tuple[RowBatch, NDArray[np.bool_]]] = []
        self._held = 0

    def keep(self, batch: RowBatch, moving: NDArray[np.bool_]) -> None:
        self.kept.append((batch, moving))
        self._held += len(batch.number)
        while self._held - len(self.kept[0][0].number) > MOST_ROWS:
            self._held -= len(self.kept.pop(0)[0].number)

    def levels(
        self, result: Identification, learnt: Information, rate: float, false_alarms_per_hour: float
    ) -> Calibrated | None:
        """Levels from the rows kept, each tested with the fit of all other blocks of time; None while there are too few
        blocks."""
        base, groups = self.residuals.base, learnt.clusters(CLUSTERS)
        if len(groups) < FEWEST_CLUSTERS:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.diagonal(result.covariance) / np.diagonal(result.covariance_classical)
        inflation = max(1.0, float(np.nanmedian(ratio))) if np.isfinite(ratio).any() else 1.0
        sigma = joint_deviations(learnt, base)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        parts = [stacked(learnt, base.kept, weights, group) for group in groups]
        weak = _weak(triangular(np.concatenate(parts)))
        own = {time[2]: g for g, group in enumerate(groups) for time in group}
        baselines = []
        for g in range(len(groups)):
            r = triangular(np.concatenate([*(part for k, part in enumerate(parts) if k != g), weak]))
            root, y = r[: len(base), :-1], r[: len(base), -1]
            baselines.append(Baseline(base.theta(solve_triangular(root, y)), sigma, root, inflation))
        size = learnt.block_rows[learnt.times[0][0]]
        judged, counted = [], []
        for batch, moving in self.kept:
            block = batch.number // size
            mine = np.array([own.get(int(k), -1) for k in block])
            z = np.zeros_like(batch.v)
            for g in np.unique(mine[mine >= 0]):
                z[:, mine == g] = self.residuals.standardised(batch, baselines[g])[:, mine == g]
            judged.append(z)
            counted.append(moving & (mine >= 0) & np.isfinite(sigma)[:, None])
        z, counts = np.concatenate(judged, axis=1), np.concatenate(counted, axis=1)
        return Calibrated(calibrated(self.residuals.joints, z, counts, rate, false_alarms_per_hour), inflation)


def _weak(whole: Array) -> Array:
    """Rows (b, b + 1) of a prior around zero, by which no column explains more than the whole effort: σ = ‖y‖/‖w‖."""
    norms, effort = np.linalg.norm(whole[:, :-1], axis=0), np.linalg.norm(whole[:, -1])
    norms = np.maximum(norms, _UNSEEN * max(norms.max(initial=0.0), np.finfo(float).tiny))
    out = np.zeros((len(norms), len(norms) + 1))
    out[:, :-1] = np.diag(norms / max(float(effort), np.finfo(float).tiny))
    return out
