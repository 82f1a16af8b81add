"""Trial: how well a robot explains a log under an edited map, from a few thousand samples in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from steelyard._arrays import Array
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL
from steelyard.physical.prior import Widths, column_widths
from steelyard.project.checks.channel_map.edits import Edit, conjugated
from steelyard.project.checks.tracks import Trace
from steelyard.regression.observe import stream_rows
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score_of
from steelyard.regression.statistics import jackknife_deviation
from steelyard.signals.channels import ResolvedChannels

FOLDS = 6
# Rows of a joint slower than this fraction of its top speed are left out: stiction is not a function of velocity.
REST = 0.05
# Robot files are trusted less than by an estimator: their masses may be those of another size or without a load.
TRUST = Widths(mass=0.6, moment=0.6, reach=0.1, inertia=0.6, rotor=0.6)
# The last link may carry a load that is not in the robot file: a fraction of the robot's mass.
UNKNOWN_LOAD = 0.2
# Rows of one motion resemble each other: this many count as one relative to the robot file.
ROWS_AS_ONE = 5.0
# Keeps parameters that neither motion nor robot file determines at zero; relative to the column's own size.
RIDGE = 1e-7
_REWEIGHTINGS = 3


class Products(NamedTuple):
    """WᵀW (F, n, C, C), Wᵀy (F, n, C) and yᵀy (F, n) of the rows of every fold and joint, and the numbers of rows."""

    ww: Array
    wy: Array
    yy: Array
    rows: Array


class Grams(NamedTuple):
    """The same with all efforts in Y: WᵀY (F, n, C, n), YᵀY (F, n, n, n), so that efforts can be exchanged later."""

    ww: Array
    wy: Array
    yy: Array
    rows: Array

    def mixed(self, mix: Array) -> Products:
        """Products for the efforts mix @ Y."""
        wy = np.einsum("fjck,jk->fjc", self.wy, mix)
        return Products(self.ww, wy, np.einsum("ji,fjik,jk->fj", mix, self.yy, mix), self.rows)


class Branch(NamedTuple):
    """Joints whose rows share columns, such as those of a finger, and all columns of these rows."""

    joints: NDArray[np.int64]
    columns: NDArray[np.int64]


class TrialRows(NamedTuple):
    """Rows of a trial: non-zero entries of W (E, m) in the order of `Model.places`, efforts y (n, m), times t (m,) [s],
    the trace and the fold of each row (m,), and which joints move in it (n, m)."""

    w: Array
    y: Array
    t: Array
    trace: NDArray[np.int64]
    fold: NDArray[np.int64]
    moving: NDArray[np.bool_]


class Verdict(NamedTuple):
    """Errors on held-out rows: squares of the residual and of the effort, both (F, n), the n joints and their rows."""

    error: Array
    effort: Array
    joints: tuple[str, ...]
    rows: Array

    @property
    def relative(self) -> Array:
        """‖y_j − Wθ‖ / ‖y_j‖ of every joint, (n,)."""
        return np.sqrt(self.error.sum(axis=0) / self.effort.sum(axis=0))

    @property
    def mean(self) -> float:
        """Mean relative error of the joints, with equal weights: exp(mean log). For comparisons of edits only."""
        return float(np.exp(np.nanmean(np.log(self.relative))))

    @property
    def total(self) -> float:
        """‖y − Wθ‖ / ‖y‖ over all joints, unweighted, as `identify` states it."""
        return float(np.sqrt(np.nansum(self.error) / np.nansum(self.effort)))

    @property
    def score(self) -> Score:
        """The errors in N·m or N and relative to the efforts, in total and per joint."""
        error, effort = (np.nan_to_num(part).sum(axis=0) for part in (self.error, self.effort))
        return score_of(self.joints, error, effort, self.rows.astype(np.int64), "rows left out, moving")

    def gain_over(self, other: Verdict) -> tuple[float, float]:
        """Σ_j log(relative error of `other` / of this), and its jackknife deviation over the folds."""

        def gain(folds: NDArray[np.int64]) -> float:
            mine, theirs = (
                np.log(one.error[folds].sum(axis=0) / one.effort[folds].sum(axis=0)) for one in (self, other)
            )
            return float(0.5 * np.nansum(theirs - mine))

        every = np.arange(len(self.error))
        parts = np.array([gain(np.delete(every, f)) for f in every])
        return gain(every), float(jackknife_deviation(parts - parts.mean()))


@dataclass(frozen=True)
class Trial:
    """A model, the traces it is tried on, and their channel map.

    For every edit of the map one θ is fitted for all joints (weights 1/σ_j², the robot file as a weak prior, friction
    that brakes) and scored on the sixth of the rows that was left out. The score Σ_j log ‖y_j − W_jθ‖/‖y_j‖ does not
    depend on the scale of any joint's effort, so edits of scale can be compared with the others. Rows of `without_rows`
    joints, whose signals are known to be bad, are left out; `doubt` widens the prior. Parts of the robot that share no
    parameter, such as the fingers of a hand, are fitted one by one, and only those that an edit changes.
    """

    model: Model
    channels: ResolvedChannels
    traces: Sequence[Trace]
    band: float
    without_rows: frozenset[int] = frozenset()
    doubt: float = 1.0

    @cached_property
    def baseline(self) -> Verdict:
        return self.verdict(None)

    @cached_property
    def active(self) -> tuple[int, ...]:
        """Joints whose rows are used."""
        return tuple(j for j in range(self.model.robot.dof) if j not in self.without_rows)

    @cached_property
    def travel(self) -> Array:
        """Travel of each joint in the traces, (n,) [rad | m]."""
        return np.ptp(np.concatenate([trace.q for trace in self.traces], axis=1), axis=1)

    @cached_property
    def carried(self) -> Array:
        """Fraction (n,) of each effort (RMS about its mean) that friction and an offset do not explain."""
        layout, grams, out = self.model.layout, self.as_logged, np.zeros(self.model.robot.dof)
        for j in self.active:
            own = [layout.index(f"{self.model.robot.axis_names[j]}.{symbol}") for symbol in ("off", "Fc", "Fv")]
            ww, wy = grams.ww[:, j].sum(axis=0)[np.ix_(own, own)], grams.wy[:, j, :, j].sum(axis=0)[own]
            yy = grams.yy[:, j, j, j].sum()
            left = yy - wy @ np.linalg.lstsq(ww, wy, rcond=None)[0]
            about_mean = yy - wy[0] ** 2 / max(ww[0, 0], 1.0)
            out[j] = np.sqrt(max(left, 0.0) / about_mean) if about_mean > 0.0 else 0.0
        return out

    def edited(self, edit: Edit) -> Trial:
        """The trial of the log under the edited map."""
        model = self.model if edit.gravity is None else with_gravity(self.model, edit.gravity)
        return replace(self, model=model, traces=edit.applied(self.traces, self.channels))

    @cached_property
    def knows_inertias(self) -> bool:
        """True when the robot file states inertias."""
        return all(c.nominal is not None for c in self.model.layout.columns if c.symbol in INERTIAL)

    @cached_property
    def as_logged(self) -> Grams:
        """Products of the rows under the stated map."""
        return self.grams(self.traces)

    def verdict(self, edit: Edit | None) -> Verdict:
        """Score of the log under an edit of its map; None scores it under the stated map."""
        none = np.eye(self.model.robot.dof)
        if edit is None:
            return self._scored(self.as_logged.mixed(none), self.parts)
        if edit.gravity is not None:
            return self.edited(edit).baseline
        reached = edit.reached(self.channels)
        parts = [part for part in self.parts if np.any(reached[part.joints])]
        if edit.q is not None:
            joints = [j for part in parts for j in part.joints]
            return self._scored(self.grams(edit.applied(self.traces, self.channels), joints).mixed(none), parts)
        mix = none if edit.effort is None else conjugated(self.channels.effort, edit.effort)
        return self._scored(self.as_logged.mixed(mix), parts)

    @cached_property
    def parts(self) -> tuple[Branch, ...]:
        """The parts of the robot that share no column."""
        links = coo_array(
            (np.ones(len(self.model.places)), self.model.places.T), (self.model.robot.dof, len(self.model.layout))
        )
        shared = links @ links.T
        count, label = connected_components(shared, directed=False)
        joints = [np.flatnonzero(label == k) for k in range(count)]
        return tuple(
            Branch(own, np.unique(self.model.places[np.isin(self.model.places[:, 0], own), 1])) for own in joints
        )

    def grams(self, traces: Sequence[Trace], joints: Sequence[int] | None = None) -> Grams:
        """Rows of the traces through the model and its parallel filter, compressed; of some joints only if named."""
        n, c = self.model.robot.dof, len(self.model.layout)
        out = Grams(
            np.zeros((FOLDS, n, c, c)), np.zeros((FOLDS, n, c, n)), np.zeros((FOLDS, n, n, n)), np.zeros((FOLDS, n))
        )
        for f, j, columns, w, effort in self.rows(traces, joints):
            out.ww[f, j][np.ix_(columns, columns)] = w @ w.T
            out.wy[f, j][columns] = w @ effort.T
            out.yy[f, j] = effort @ effort.T
            out.rows[f, j] = w.shape[1]
        return out

    def rows(
        self, traces: Sequence[Trace], joints: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, NDArray[np.int64], Array, Array]]:
        """(fold, joint, columns, W_jᵀ (columns, m), efforts (n, m)) of the rows where the joint moves."""
        used = [j for j in self.active if joints is None or j in joints]
        entries = np.flatnonzero(np.isin(self.model.places[:, 0], used))
        places, every = self.model.places[entries], self.stacked(traces, entries)
        for j in used:
            own = np.flatnonzero(places[:, 0] == j)
            for f in range(FOLDS):
                chosen = np.flatnonzero(every.moving[j] & (every.fold == f))
                yield f, j, places[own, 1], every.w[np.ix_(own, chosen)], every.y[:, chosen]

    def stacked(self, traces: Sequence[Trace], entries: NDArray[np.int64] | slice = slice(None)) -> TrialRows:
        """The rows of all traces, one after the other, and the fold of each; some entries of W only if named."""
        parts = []
        for k, trace in enumerate(traces):
            samples = trace.samples(self.model.robot.axis_names)
            problem = Problem(self.model, [samples], self.band, None, 0.0)
            for batch in stream_rows(problem, samples):
                parts.append((batch.w[entries], batch.y[0], batch.v, trace.start + batch.t, np.full(len(batch.t), k)))
        w, y, v, t, trace = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        fold = np.arange(w.shape[1]) * FOLDS // w.shape[1]
        return TrialRows(w, y, t, trace, fold, np.abs(v) > REST * np.abs(v).max(axis=1, keepdims=True))

    @cached_property
    def prior(self) -> tuple[Array, Array]:
        """Mean (C,) and inverse variance (C,) of the columns: the robot file's inertias, where it has them."""
        columns = self.model.layout.columns
        nominal = np.array([0.0 if c.nominal is None else c.nominal for c in columns])
        masses = self.model.inertial_index[:, 9]
        width = np.full(len(columns), np.inf)
        if self.knows_inertias and nominal[masses].any():
            loaded = nominal.copy()
            robot = self.model.robot
            leaves = [body for body, i in enumerate(robot.bodies) if i not in robot.parents]
            loaded[masses[leaves]] += UNKNOWN_LOAD * nominal[masses].sum()
            width = self.doubt * column_widths(self.model.layout, loaded, TRUST)
        inverse = np.where(np.isfinite(width) & (width > 0.0), width, np.inf) ** -2
        return np.where(inverse > 0.0, nominal, 0.0), inverse

    @cached_property
    def _friction(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns Fc and Fv of every joint."""
        layout, joints = self.model.layout, self.model.robot.axis_names
        coulomb, viscous = ([layout.index(f"{joint}.{symbol}") for joint in joints] for symbol in ("Fc", "Fv"))
        return np.array(coulomb), np.array(viscous)

    def _scored(self, products: Products, parts: Sequence[Branch]) -> Verdict:
        """The verdict with these parts of the robot scored again, and the others as logged."""
        names = self.model.robot.axis_names
        every = sum(len(part.joints) for part in parts) == len(names)
        shape = products.rows.shape
        counted = products.rows.sum(axis=0)
        out = Verdict(np.full(shape, np.nan), np.full(shape, np.nan), names, counted) if every else self.baseline
        error, effort, rows = out.error.copy(), out.effort.copy(), out.rows.copy()
        for part in parts:
            error[:, part.joints], effort[:, part.joints] = self._part_scored(products, part)
            rows[part.joints] = counted[part.joints]
        return Verdict(error, effort, names, rows)

    def _part_scored(self, products: Products, part: Branch) -> tuple[Array, Array]:
        """Leave one fold out, fit the others, score it; weights from the scores, in three iterations. Squares of the
        residual and of the effort, (F, joints of the part)."""
        ww = products.ww[np.ix_(np.arange(FOLDS), part.joints, part.columns, part.columns)]
        wy = products.wy[np.ix_(np.arange(FOLDS), part.joints, part.columns)]
        effort, counted = products.yy[:, part.joints], products.rows[:, part.joints]
        rows, size = counted.sum(axis=0), effort.sum(axis=0)
        fitted_ww, fitted_wy = ww.sum(axis=0) - ww, wy.sum(axis=0) - wy
        # the first guess is a relative error of a tenth everywhere
        error = 0.01 * effort
        for _ in range(_REWEIGHTINGS):
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = np.nan_to_num(rows / np.maximum(error.sum(axis=0), 1e-8 * size), posinf=0.0)
            theta = self._fitted(part, fitted_ww, fitted_wy, weight / ROWS_AS_ONE)
            predicted = np.einsum("fc,fjc->fj", theta, np.einsum("fjcd,fd->fjc", ww, theta) - 2.0 * wy)
            error = np.maximum(predicted + effort, 0.0)
        return np.where(rows > 0, error, np.nan), np.where(rows > 0, effort, np.nan)

    def _fitted(self, part: Branch, ww: Array, wy: Array, weight: Array) -> Array:
        """θ (F, columns of the part) = argmin Σ_j w_j ‖y_j − W_jθ‖² + prior, with friction kept from driving.

        A joint whose effort falls where its speed becomes positive (Fc < 0) gets neither Fc nor a negative Fv. A
        negative Fv with a positive Fc is kept: friction that falls with speed is unusual, not impossible.
        """
        mean, inverse = (x[part.columns] for x in self.prior)
        matrix = np.einsum("j,fjab->fab", weight, ww)
        right = np.einsum("j,fja->fa", weight, wy) + inverse * mean
        diagonal = np.arange(len(mean))
        matrix[:, diagonal, diagonal] += inverse
        size = np.sqrt(matrix[:, diagonal, diagonal])
        size[size == 0.0] = 1.0
        matrix /= size[:, :, None] * size[:, None, :]
        matrix[:, diagonal, diagonal] += RIDGE
        right = right / size
        theta = np.linalg.solve(matrix, right[..., None])[..., 0]
        coulomb, viscous = (np.searchsorted(part.columns, columns[part.joints]) for columns in self._friction)
        held = np.zeros_like(theta, bool)
        while True:
            drives = held.copy()
            drives[:, coulomb] |= theta[:, coulomb] < 0.0
            drives[:, viscous] |= held[:, coulomb] & (theta[:, viscous] < 0.0)
            if np.array_equal(drives, held):
                break
            held = drives
            masked = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
            masked[:, diagonal, diagonal] += held
            theta = np.linalg.solve(masked, np.where(held, 0.0, right)[..., None])[..., 0]
        return theta / size


def with_gravity(model: Model, gravity: Array) -> Model:
    """The model of the same robot in another gravity (3,) [m/s²]."""
    return replace(model, robot=replace(model.robot, gravity=np.asarray(gravity, float)))
