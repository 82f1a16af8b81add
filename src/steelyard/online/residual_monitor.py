"""Judging: residuals of rows against what the robot is known to leave, and the calibration of thresholds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.estimators.least_squares import CLUSTERS, FEWEST_CLUSTERS, joint_deviations
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters
from steelyard.online.change_detection import Reference, Thresholds, calibrated
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import RowBatch
from steelyard.regression.problem import Problem

# Rows kept for the calibration: more are thinned out no further, the first ones go.
MOST_ROWS = 8192
# A column that no row has shown is given this share of the largest column's norm, so that its width is finite.
_UNSEEN = 1e-6


class Judge:
    """Residuals of rows in units of their deviation; holds the rows of the learning stretch until levels are set."""

    def __init__(self, problem: Problem, base: BaseParameters) -> None:
        self.base, self.joints = base, problem.model.robot.axis_names
        kept = {int(column): k for k, column in enumerate(base.kept)}
        places = [
            (k, int(row), kept[int(column)])
            for k, (row, column) in enumerate(problem.model.places)
            if int(column) in kept
        ]
        self._place, self._joint, self._column = (np.array(x, np.int64) for x in zip(*places, strict=True))
        self.kept: list[tuple[RowBatch, NDArray[np.bool_]]] = []
        self._held = 0
        self.reference: Reference | None = None
        self.inflation = 1.0

    def keep(self, batch: RowBatch, moving: NDArray[np.bool_]) -> None:
        self.kept.append((batch, moving))
        self._held += len(batch.number)
        while self._held - len(self.kept[0][0].number) > MOST_ROWS:
            self._held -= len(self.kept.pop(0)[0].number)

    def wide(self, batch: RowBatch) -> Array:
        """W of a batch over the base columns, (b, n, m)."""
        out = np.zeros((len(self.base), len(self.joints), len(batch.number)))
        out[self._column, self._joint] = batch.w[self._place]
        return out

    def standardised(self, batch: RowBatch, moving: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """z (n, m) of rows, residuals over their deviation by the reference, and which count."""
        assert self.reference is not None
        return self._standardised(batch, self.reference), moving & np.isfinite(self.reference.sigma)[:, None]

    def _standardised(self, batch: RowBatch, reference: Reference) -> Array:
        w = self.wide(batch)
        b, n, m = w.shape
        rest = batch.y[0] - np.einsum("b,bjm->jm", reference.theta[list(self.base.kept)], w)
        spread = solve_triangular(reference.root, w.reshape(b, n * m), trans=1, check_finite=False)
        added = reference.inflation * np.einsum("bk,bk->k", spread, spread).reshape(n, m)
        return rest / np.sqrt(np.nan_to_num(reference.sigma, nan=1.0)[:, None] ** 2 + added)

    def refer(self, result: Identification, information: Information) -> None:
        """Residuals are judged by this result from now on."""
        sigma = joint_deviations(information, self.base)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        whole = stacked(information, self.base.kept, weights)
        root = triangular(np.concatenate([whole, _weak(whole)]))[: len(self.base), :-1]
        self.reference = Reference(result.theta, sigma, root, self.inflation)

    def calibrate(
        self, result: Identification, learnt: Information, rate: float, false_alarms_per_hour: float
    ) -> Thresholds | None:
        """Thresholds from the rows kept, each judged by the fit of all blocks of time but its own; None while there are
        too few blocks. The rows are let go."""
        groups = learnt.clusters(CLUSTERS)
        if len(groups) < FEWEST_CLUSTERS:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.diagonal(result.covariance) / np.diagonal(result.covariance_classical)
        self.inflation = max(1.0, float(np.nanmedian(ratio))) if np.isfinite(ratio).any() else 1.0
        sigma = joint_deviations(learnt, self.base)
        weights = np.where(np.isfinite(sigma), 1.0 / sigma, 0.0)
        parts = [stacked(learnt, self.base.kept, weights, group) for group in groups]
        weak = _weak(triangular(np.concatenate(parts)))
        own = {time[2]: g for g, group in enumerate(groups) for time in group}
        references = []
        for g in range(len(groups)):
            r = triangular(np.concatenate([*(part for k, part in enumerate(parts) if k != g), weak]))
            root, y = r[: len(self.base), :-1], r[: len(self.base), -1]
            theta = self.base.theta(solve_triangular(root, y))
            references.append(Reference(theta, sigma, root, self.inflation))
        size = learnt.block_rows[learnt.times[0][0]]
        judged, counted = [], []
        for batch, moving in self.kept:
            block = batch.number // size
            mine = np.array([own.get(int(k), -1) for k in block])
            z = np.zeros_like(batch.v)
            for g in np.unique(mine[mine >= 0]):
                z[:, mine == g] = self._standardised(batch, references[g])[:, mine == g]
            judged.append(z)
            counted.append(moving & (mine >= 0) & np.isfinite(sigma)[:, None])
        self.kept, self._held = [], 0
        return calibrated(
            self.joints, np.concatenate(judged, axis=1), np.concatenate(counted, axis=1), rate, false_alarms_per_hour
        )


def _weak(whole: Array) -> Array:
    """Rows (b, b + 1) of a prior around zero by which no column explains more than all of the effort: σ = ‖y‖/‖w‖."""
    norms, effort = np.linalg.norm(whole[:, :-1], axis=0), np.linalg.norm(whole[:, -1])
    norms = np.maximum(norms, _UNSEEN * max(norms.max(initial=0.0), np.finfo(float).tiny))
    out = np.zeros((len(norms), len(norms) + 1))
    out[:, :-1] = np.diag(norms / max(float(effort), np.finfo(float).tiny))
    return out
