"""Validation: do the parameters explain motion they were not fitted to, and is the robot still the one that was weighed?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from steelyard.base_parameters import BaseParameters
from steelyard.decimation import DecimationStream
from steelyard.errors import DataError, EstimationError, ModelError
from steelyard.estimators import Estimator
from steelyard.identification import Identification
from steelyard.information import Information
from steelyard.observe import TILE, Progress
from steelyard.parameters import Array
from steelyard.problem import Problem
from steelyard.samples import Piece, Samples
from steelyard.scores import Score, score
from steelyard.threads import single_threaded

TOTAL = "total"
# Bins over a joint's speeds and over its travel.
BINS = 20
# Residual rows kept for their autocorrelation, the longest lag looked at, and the lags whose share is counted.
WHITENESS_ROWS, LONGEST_LAG, COUNTED_LAGS = 16384, 200, 40
# Rows gathered before they are sorted into bins.
_BATCH = 512
# A difference below this fraction of the value is rounding, whatever the error bars say.
_ROUNDING = 1e-9

Time = tuple[str, str, int]


@dataclass(frozen=True)
class EffortScore:
    """Errors of a predicted effort ŷ against the measured y, keyed by joint and "total", on the rows `mask` names.

    relative_error   ‖y − ŷ‖ / ‖y‖
    rmse             ‖y − ŷ‖ / √rows  [N·m | N]
    r2               1 − ‖y − ŷ‖² / ‖y − ȳ‖², ȳ the mean of the joint's scored rows; below zero is worse than that mean
    "total" pools the squares of all joints, unweighted, each about its own mean. NaN where there are no rows.
    """

    relative_error: dict[str, float]
    rmse: dict[str, float]
    r2: dict[str, float]
    rows: dict[str, int]
    mask: str


@dataclass(frozen=True)
class Validation:
    """Scores of an identification and of the nominal model on held-out runs.

    `filtered`: decimated rows behind the parallel filter, as in the fit. `raw`: every sample, effort as measured.
    `by_run`: filtered scores of each run. `seen`: runs whose log also went into the fit.
    """

    robot: str
    filtered: EffortScore
    raw: EffortScore
    nominal_filtered: EffortScore | None
    nominal_raw: EffortScore | None
    by_run: dict[str, EffortScore]
    whiteness: dict[str, Whiteness]
    against_velocity: dict[str, tuple[Bin, ...]]
    against_position: dict[str, tuple[Bin, ...]]
    seen: tuple[str, ...] = ()

    @property
    def relative_error(self) -> dict[str, float]:
        """‖y − ŷ‖/‖y‖ on filtered rows, by joint and "total"."""
        return self.filtered.relative_error

    @property
    def verdict(self) -> str:
        """One honest sentence; "explains" is 1 − ‖y − ŷ‖/‖y‖."""
        runs = "1 run" if len(self.by_run) == 1 else f"{len(self.by_run)} runs"
        nominal = (
            "no nominal inertias to compare with"
            if self.nominal_filtered is None
            else f"nominal model {_share(self.nominal_filtered)}"
        )
        said = f"Explains {_share(self.filtered)} of the effort of {runs} (raw effort {_share(self.raw)}, {nominal})."
        if not self.relative_error[TOTAL] < 1.0:
            said += " That is no better than predicting zero: another robot, payload, unit or sign?"
        return said


@single_threaded
def validate(
    result: Identification, problem: Problem, runs: Sequence[Samples], progress: Progress | None = None
) -> Validation:
    """Score held-out runs with the filters and the mask (in rad/s) of the problem that was fitted. One pass, flat memory.

    The parallel filter F is linear, so the filtered rows F(W)θ̂ are F(Wθ̂): only torques are streamed, never W.
    """
    model = problem.model
    if result.robot != model.robot.name or result.base.layout.names != model.layout.names:
        raise ModelError(
            f"The result is of robot '{result.robot}' with {len(result.base.layout)} columns, the problem of "
            f"'{model.robot.name}' with {len(model.layout)}: they must be the same robot and terms."
        )
    held_out = problem.with_runs(runs)
    nominal = model.layout.nominal
    thetas = (result.theta,) if nominal is None else (result.theta, nominal)
    n = model.robot.dof
    travel = np.max([run.travel for run in held_out.runs], axis=0)
    speed = np.max([run.top_speed for run in held_out.runs], axis=0)
    histograms = _Histogram(2.0 * speed / BINS), _Histogram(travel / BINS)
    kept = _Kept(n)
    raw = filtered = _Sums.zero(len(thetas), n)
    by_run: dict[str, EffortScore] = {}
    names = model.robot.joint_names
    for run in held_out.runs:
        own = _Sums.zero(len(thetas), n)
        for part in _stream(held_out, run, thetas, progress):
            raw = raw + part.raw
            if part.y.shape[1]:
                own = own + _Sums.of(part.y, part.predicted, part.scored)
                residual = part.y - part.predicted[0]
                histograms[0].add(part.v, residual, part.scored)
                histograms[1].add(part.q, residual, part.scored)
                kept.add((run.name, part.stretch), residual, part.scored)
        filtered = filtered + own
        by_run[run.name] = own.score(0, names, held_out.mask)
    if not filtered.rows.any():
        raise DataError(
            f"{', '.join(by_run)}: no rows are left to score after filtering, decimation and the rest mask. "
            "Check that the log holds motion, and as fast a motion as the fit's mask asks for."
        )
    speeds = ", ".join(f"{x:.4g}" for x in held_out.rest_speeds)
    every = f"every sample, effort unfiltered, where |v_j| >= [{speeds}] rad/s or m/s"
    fitted = {record.sha256 for record in result.runs if record.role == "identify" and record.sha256}
    return Validation(
        robot=result.robot,
        filtered=filtered.score(0, names, held_out.mask),
        raw=raw.score(0, names, every),
        nominal_filtered=None if nominal is None else filtered.score(1, names, held_out.mask),
        nominal_raw=None if nominal is None else raw.score(1, names, every),
        by_run=by_run,
        whiteness={name: whiteness(*kept.series(j)) for j, name in enumerate(names)},
        against_velocity=dict(zip(names, histograms[0].bins(), strict=True)),
        against_position=dict(zip(names, histograms[1].bins(), strict=True)),
        seen=tuple(run.name for run in held_out.runs if run.sha256 in fitted),
    )


class _Part(NamedTuple):
    """Sums over some samples and the filtered rows they finished: q, v, y (n, m), predicted (k, n, m), scored (n, m)."""

    stretch: int
    raw: _Sums
    q: Array
    v: Array
    y: Array
    predicted: Array
    scored: NDArray[np.bool_]


def _stream(problem: Problem, run: Samples, thetas: Sequence[Array], progress: Progress | None) -> Iterator[_Part]:
    """Measured and predicted effort of one run, rows as `stream_rows` makes them, in batches."""
    model, decimator = problem.model, problem.decimator(run)
    n, count = model.robot.dof, len(thetas)
    moves = np.ones((n, 1), bool)
    moves[list(problem.still)] = False
    rest = problem.rest_speeds[:, None]
    seen = 0
    for index, pieces in groupby(_tiles(run), key=attrgetter("stretch")):
        stretch = run.stretches[index]
        stream = DecimationStream(decimator)
        raw = _Sums.zero(count, n)
        held: list[tuple[NDArray[np.int64], Array]] = [(np.zeros(0, np.int64), np.zeros(((3 + count) * n, 0)))]

        def part(raw: _Sums, held: list[tuple[NDArray[np.int64], Array]], stretch=stretch, index=index) -> _Part:
            centre = np.concatenate([number for number, _ in held]) * decimator.factor + decimator.half
            centre = centre + stretch.clean[0]
            q, v, y, *predicted = np.split(np.concatenate([rows for _, rows in held], axis=1), 3 + count)
            inside = (centre >= stretch.window[0]) & (centre < stretch.window[1])
            return _Part(index, raw, q, v, y, np.stack(predicted), inside & moves & (np.abs(v) >= rest))

        for piece in pieces:
            predicted = np.stack([model.torque(piece.q, piece.v, piece.a, theta) for theta in thetas])
            sample = piece.first + np.arange(piece.q.shape[1])
            inside = (sample >= stretch.window[0]) & (sample < stretch.window[1])
            raw = raw + _Sums.of(piece.effort, predicted, inside & moves & (np.abs(piece.v) >= rest))
            for first, rows in stream.push(np.concatenate([piece.q, piece.v, piece.effort, *predicted])):
                held.append((first + np.arange(rows.shape[1]), rows))
            if sum(len(number) for number, _ in held) >= _BATCH:
                yield part(raw, held)
                raw, held = _Sums.zero(count, n), held[:1]
            seen += piece.q.shape[1]
            if progress is not None:
                progress(run.name, seen, run.count)
        yield part(raw, held)
    if progress is not None:
        progress(run.name, run.count, run.count)


def _tiles(run: Samples) -> Iterator[Piece]:
    """Pieces cut to the clean part of their stretch and to at most TILE samples."""
    for piece in run.open():
        first, stop = run.stretches[piece.stretch].clean
        low, high = max(first - piece.first, 0), min(stop - piece.first, piece.q.shape[1])
        for at in range(low, high, TILE):
            yield Piece(piece.stretch, piece.first + at, *(x[:, at : min(at + TILE, high)] for x in piece[2:]))


@dataclass(frozen=True)
class _Sums:
    """Rows, mean of y and Σ(y − ȳ)² of each joint (n,), and Σ(y − ŷ)² of each prediction (k, n); they add up."""

    rows: NDArray[np.int64]
    mean: Array
    spread: Array
    errors: Array

    @staticmethod
    def zero(predictions: int, joints: int) -> _Sums:
        return _Sums(np.zeros(joints, np.int64), np.zeros(joints), np.zeros(joints), np.zeros((predictions, joints)))

    @staticmethod
    def of(y: Array, predicted: Array, scored: NDArray[np.bool_]) -> _Sums:
        rows = scored.sum(axis=1)
        mean = np.sum(y, axis=1, where=scored) / np.maximum(rows, 1)
        spread = np.sum((y - mean[:, None]) ** 2, axis=1, where=scored)
        return _Sums(rows, mean, spread, np.sum((y - predicted) ** 2, axis=2, where=scored))

    def __add__(self, other: _Sums) -> _Sums:
        rows = self.rows + other.rows
        step, share = other.mean - self.mean, other.rows / np.maximum(rows, 1)
        spread = self.spread + other.spread + step**2 * self.rows * share
        return _Sums(rows, self.mean + step * share, spread, self.errors + other.errors)

    def score(self, prediction: int, names: Sequence[str], mask: str) -> EffortScore:
        def pooled(x: Array) -> Array:
            return np.append(x, x.sum())

        error, rows = pooled(self.errors[prediction]), pooled(self.rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            relative = np.sqrt(error / pooled(self.spread + self.rows * self.mean**2))
            rmse, r2 = np.sqrt(error / rows), 1.0 - error / pooled(self.spread)
        keys = (*names, TOTAL)
        tables = (dict(zip(keys, x.tolist(), strict=True)) for x in (relative, rmse, r2, rows))
        return EffortScore(*tables, mask)


def _share(score: EffortScore) -> str:
    error = score.relative_error[TOTAL]
    return f"{max(0.0, 1 - error):.1%}" if np.isfinite(error) else "nothing"
