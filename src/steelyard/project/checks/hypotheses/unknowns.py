"""Unknowns that a fault would add to the fit of a log: their values, and the errors of rows left out with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.project.checks.channel_map.trial import FOLDS, RIDGE, ROWS_AS_ONE, Trial, TrialRows
from steelyard.regression.statistics import jackknife_deviation

# Weights of the joints follow from their errors, in this many rounds.
_ROUNDS = 3


class Found(NamedTuple):
    """Values (k,) of the added unknowns, their deviations (k,) by leaving out folds, and the effect on rows left out.

    gain     Σ_j log of the factor by which the relative errors of rows left out fall, and `spread`, its deviation
    before   relative errors of the joints (n,) without the unknowns, `after` with them
    """

    value: Array
    std: Array
    gain: float
    spread: float
    before: Array
    after: Array


@dataclass(frozen=True)
class Equations:
    """The rows of a trial over the parameters of the model, to which columns can be added.

    A parameter has the prior of the trial (the robot file, trusted little) unless it is `held` at its nominal value.
    """

    trial: Trial
    held: NDArray[np.bool_] | None = None

    @cached_property
    def rows(self) -> TrialRows:
        return self.trial.stacked(self.trial.traces)

    @cached_property
    def theta(self) -> Array:
        """Standard parameters (C,) fitted to all rows."""
        free, _ = self._parted
        out = np.where(free, 0.0, self.nominal)
        out[free] = self._solved(self._products([]), np.ones(FOLDS, bool), self.alone[1])
        return out

    @cached_property
    def nominal(self) -> Array:
        return np.array([column.nominal or 0.0 for column in self.trial.model.layout.columns])

    def predicted(self, theta: Array, rows: TrialRows | None = None) -> Array:
        """Wθ of the rows (n, m)."""
        joint, column = self.trial.model.places.T
        out = np.zeros((self.trial.model.robot.dof, (rows or self.rows).w.shape[1]))
        np.add.at(out, joint, theta[column][:, None] * (rows or self.rows).w)
        return out

    @cached_property
    def alone(self) -> tuple[Array, Array]:
        """Squared errors (F, n) of rows left out, and the joints' weights (n,), with the model's parameters only."""
        return self._left_out([])

    def tested(self, added: Sequence[Array]) -> Found:
        """The fit with columns `added`, each (n, m): one unknown each, without a prior."""
        without, (including, weights) = self.alone[0], self._left_out(added)
        products, k = self._products(added), len(added)
        value, *parts = (self._solved(products, kept, weights)[-k:] for kept in (np.ones(FOLDS, bool), *_all_but_one()))
        std = np.sqrt((FOLDS - 1) / FOLDS * np.sum((np.array(parts) - np.mean(parts, axis=0)) ** 2, axis=0))
        size = self._by_fold(self.rows.y**2)

        def gain(folds: NDArray[np.int64]) -> float:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(without[folds].sum(axis=0) / including[folds].sum(axis=0))
            return float(0.5 * np.nansum(ratio[list(self.trial.active)]))

        order = np.arange(FOLDS)
        jack = np.array([gain(np.delete(order, f)) for f in order])
        spread = float(jackknife_deviation(jack - jack.mean()))
        with np.errstate(divide="ignore", invalid="ignore"):
            before, after = (np.sqrt(x.sum(axis=0) / size.sum(axis=0)) for x in (without, including))
        return Found(value, std, gain(order), spread, before, after)

    # --- Normal equations ---------------------------------------------------------------------------------------------

    @cached_property
    def _parted(self) -> tuple[NDArray[np.bool_], Array]:
        """Which parameters are free (C,), and the efforts that the held ones explain (n, m)."""
        count = len(self.trial.model.layout)
        free = np.ones(count, bool) if self.held is None else ~self.held
        known = self.predicted(np.where(free, 0.0, self.nominal)) if self.held is not None else np.zeros(1)
        return free, known

    @cached_property
    def effort(self) -> Array:
        """Squares of the efforts of the moving rows, (n,)."""
        return self._by_fold(self.rows.y**2).sum(axis=0)

    def _by_fold(self, x: Array) -> Array:
        """Sums of x (n, m) over the moving rows of every fold, (F, n)."""
        kept = np.where(self.rows.moving, x, 0.0)
        return np.array([kept[:, self.rows.fold == f].sum(axis=1) for f in range(FOLDS)])

    def _columns(self, added: Sequence[Array], j: int) -> tuple[NDArray[np.int64], Array]:
        """The unknowns that joint j's rows contain, and their columns (k, m)."""
        free, _ = self._parted
        place = np.cumsum(free) - 1
        joint, column = self.trial.model.places.T
        own = np.flatnonzero((joint == j) & free[column])
        rows = [self.rows.w[own], *(x[j][None] for x in added)]
        count = int(free.sum())
        return np.concatenate([place[column[own]], count + np.arange(len(added))]), np.concatenate(rows)

    def _products(self, added: Sequence[Array]) -> tuple[Array, Array, Array]:
        """XᵀX (F, n, K, K), Xᵀy (F, n, K) and yᵀy (F, n) of every fold and joint."""
        free, known = self._parted
        count, n = int(free.sum()) + len(added), self.trial.model.robot.dof
        xx, xy = np.zeros((FOLDS, n, count, count)), np.zeros((FOLDS, n, count))
        y = self.rows.y - known
        for j in self.trial.active:
            places, columns = self._columns(added, j)
            for f in range(FOLDS):
                chosen = self.rows.moving[j] & (self.rows.fold == f)
                x = columns[:, chosen]
                xx[f, j][np.ix_(places, places)] += x @ x.T
                xy[f, j][places] += x @ y[j, chosen]
        return xx, xy, self._by_fold(y**2)

    def _solved(self, products: tuple[Array, Array, Array], folds: NDArray[np.bool_], weights: Array) -> Array:
        xx, xy = (np.einsum("j,fj...->...", weights, part[folds]) for part in products[:2])
        free, _ = self._parted
        mean, inverse = (part[free] for part in self.trial.prior)
        count = len(mean)
        diagonal = np.arange(count)
        xx[diagonal, diagonal] += inverse
        xy[:count] += inverse * mean
        size = np.sqrt(np.diagonal(xx))
        size = np.where(size > 0.0, size, 1.0)
        matrix = xx / size[:, None] / size + RIDGE * np.eye(len(size))
        return np.linalg.solve(matrix, xy / size) / size

    def _left_out(self, added: Sequence[Array]) -> tuple[Array, Array]:
        """Squared errors (F, n) of rows left out, and the weights 1/σ_j² (n,) that follow from them."""
        xx, xy, yy = products = self._products(added)
        counts, size = self._by_fold(np.ones_like(self.rows.y)).sum(axis=0), yy.sum(axis=0)
        error, weights = 0.01 * yy, np.zeros(len(size))
        for _ in range(_ROUNDS):
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = counts / np.maximum(error.sum(axis=0), 1e-8 * size) / ROWS_AS_ONE
            weights = np.nan_to_num(weights, posinf=0.0)
            found = np.array([self._solved(products, kept, weights) for kept in _all_but_one()])
            inner = np.einsum("fc,fjcd,fd->fj", found, xx, found) - 2.0 * np.einsum("fc,fjc->fj", found, xy)
            error = np.maximum(yy + inner, 0.0)
        return error, weights


def _all_but_one() -> list[NDArray[np.bool_]]:
    return [np.arange(FOLDS) != f for f in range(FOLDS)]
