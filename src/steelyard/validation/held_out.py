"""validate: scores of an identification and the nominal model on held-out runs. Two passes, constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard._notebook import Displayed
from steelyard.errors import DataError, ModelError
from steelyard.findings import Finding
from steelyard.identification.plausibility import repeated_motions
from steelyard.identification.prediction import as_identified, band_of, predicted_parts
from steelyard.identification.result import Identification
from steelyard.identification.verdict import explained
from steelyard.regression.decimation import DecimationStream
from steelyard.regression.observe import TILE, UNTOUCHED, LateEfforts, Progress
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Piece, Samples, same_log
from steelyard.validation.residuals import Bin, Histogram, KeptRows, Whiteness, whiteness

TOTAL = "total"
# Numbers of bins over a joint's speeds and over its travel.
BINS = 20
# Filtered rows gathered before they are sorted into bins: one call for many tiles.
_BATCH = 512


@dataclass(frozen=True)
class EffortScore:
    """Errors of a predicted effort ŷ against the measured y, keyed by joint and "total", on the rows of `mask`.

    relative_error   ‖y − ŷ‖ / ‖y‖
    rmse             ‖y − ŷ‖ / √rows  [N·m | N]
    r2               1 − ‖y − ŷ‖² / ‖y − ȳ‖², ȳ the mean of the joint's scored rows; negative if worse than that mean
    "total" pools the squares of all joints, unweighted, each about its own mean. NaN where there are no rows.
    """

    relative_error: dict[str, float]
    rmse: dict[str, float]
    r2: dict[str, float]
    rows: dict[str, int]
    mask: str


@dataclass(frozen=True)
class Validation(Displayed):
    """Scores of an identification and of the nominal model on held-out runs.

    `filtered`: decimated rows after the parallel filter, as in the fit. `raw`: every sample, effort as measured.
    `by_run`: filtered scores of each run. `seen`: runs whose log was also used in the fit.
    `findings`: joints whose effort never changes in a run; their rows of that run are not scored. `in_band`: fraction
    of the filtered rows in the 95 % band of the prediction, by joint and "total"; empty where the result has no band.
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
    findings: tuple[Finding, ...] = ()
    in_band: dict[str, float] = field(default_factory=dict)

    @property
    def relative_error(self) -> dict[str, float]:
        """‖y − ŷ‖/‖y‖ on filtered rows, by joint and "total"."""
        return self.filtered.relative_error

    @property
    def verdict(self) -> str:
        """The result as one sentence; "explains" is 1 − ‖y − ŷ‖/‖y‖."""
        runs = "1 run" if len(self.by_run) == 1 else f"{len(self.by_run)} runs"
        nominal = (
            "no nominal inertias to compare with"
            if self.nominal_filtered is None
            else f"nominal model {explained(self.nominal_filtered.relative_error[TOTAL])}"
        )
        filtered, raw = (explained(score.relative_error[TOTAL]) for score in (self.filtered, self.raw))
        said = f"Explains {filtered} of the effort of {runs} (raw effort {raw}, {nominal})."
        if self.in_band:
            said += f" {self.in_band[TOTAL]:.1%} of the filtered efforts lie in their 95 % band."
        if not self.relative_error[TOTAL] < 1.0:
            said += " That is no better than predicting zero: check robot, payload, units and signs."
        return said


@single_threaded
def validate(
    result: Identification, problem: Problem, runs: Sequence[Samples], progress: Progress | None = None
) -> Validation:
    """Score held-out runs with the filters of the problem that was fitted, and with its mask in rad/s or m/s.

    The parallel filter F is linear, so the filtered rows F(W)θ̂ equal F(Wθ̂): torques are streamed, not W.
    """
    model, names = problem.model, problem.model.robot.axis_names
    if result.robot != model.robot.name or result.base.layout.names != model.layout.names:
        raise ModelError(
            f"The result is of robot '{result.robot}' with {len(result.base.layout)} columns, the problem of "
            f"'{model.robot.name}' with {len(model.layout)}: use the same robot and terms."
        )
    problem = as_identified(problem, result)
    model = problem.model
    held_out = problem.with_runs(runs)
    nominal = model.layout.nominal
    thetas = (result.theta,) if nominal is None else (result.theta, nominal)
    against_velocity = Histogram(2.0 / BINS * np.max([run.top_speed for run in held_out.runs], axis=0))
    against_position = Histogram(1.0 / BINS * np.max([run.travel for run in held_out.runs], axis=0))
    kept = KeptRows(len(names))
    raw = filtered = _Sums.zero(len(thetas), len(names))
    by_run: dict[str, EffortScore] = {}
    for run in held_out.runs:
        own = _Sums.zero(len(thetas), len(names))
        for part in _gathered(_stream(held_out, run, thetas, progress)):
            raw = raw + part.raw
            q, v, still, y, *predicted = part.rows
            scored = _scored(held_out, run, part.stretch, part.centre, v, still)
            own = own + _Sums.of(y, np.stack(predicted), scored)
            residual = y - predicted[0]
            against_velocity.add(v, residual, scored)
            against_position.add(q, residual, scored)
            kept.add((run.name, part.stretch), residual, scored)
        filtered = filtered + own
        by_run[run.name] = own.score(0, names, held_out.mask)
    if not filtered.rows.any():
        raise DataError(
            f"{', '.join(by_run)}: no rows are left to score after filtering, decimation and the rest mask. Check that "
            "the log contains motion above the rest speeds of the fit, and changing efforts."
        )
    speeds = ", ".join(f"{x:.4g}" for x in held_out.rest_speeds)
    every = f"every sample of joint j, effort unfiltered, where |v_j| >= [{speeds}] rad/s or m/s"
    fitted = [record for record in result.runs if record.role == "identify"]
    return Validation(
        robot=result.robot,
        filtered=filtered.score(0, names, held_out.mask),
        raw=raw.score(0, names, every),
        nominal_filtered=None if nominal is None else filtered.score(1, names, held_out.mask),
        nominal_raw=None if nominal is None else raw.score(1, names, every),
        by_run=by_run,
        whiteness={name: whiteness(*kept.series(j)) for j, name in enumerate(names)},
        against_velocity=dict(zip(names, against_velocity.bins(), strict=True)),
        against_position=dict(zip(names, against_position.bins(), strict=True)),
        seen=tuple(run.name for run in held_out.runs if any(same_log(run, one) for one in fitted)),
        findings=(*held_out.constant_effort_findings(), *repeated_motions(problem.runs, held_out.runs)),
        in_band=_in_band(result, held_out),
    )


def _in_band(result: Identification, held_out: Problem) -> dict[str, float]:
    """Fraction of the filtered efforts in the 95 % band of the prediction, in a second pass over the runs."""
    band, names = band_of(result), held_out.model.robot.axis_names
    if band is None:
        return {}
    counts = np.zeros((2, len(names)))
    for run in held_out.runs:
        for part in predicted_parts(held_out, run, result.theta, band):
            counts += np.sum([part.inside, part.scored], axis=2) * ~run.constant_effort
    inside, rows = (_with_sum(x) for x in counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return dict(zip((*names, TOTAL), (inside / rows).tolist(), strict=True))


class _Part(NamedTuple):
    """Sums over raw samples of a stretch, and the filtered rows they completed.

    centre (m,): sample of the stretch at the centre of each row; rows (4 + k, n, m): q, v, fraction at rest, y, k
    predictions.
    """

    stretch: int
    raw: _Sums
    centre: NDArray[np.int64]
    rows: Array


def _stream(problem: Problem, run: Samples, thetas: Sequence[Array], progress: Progress | None) -> Iterator[_Part]:
    """Measured and predicted effort of one run, tile by tile; its filtered rows are those of `stream_rows`."""
    model, decimator = problem.model, problem.decimator(run)
    n, seen = model.robot.dof, 0
    for index, pieces in groupby(_tiles(run), key=attrgetter("stretch")):
        stretch = run.stretches[index]
        stream = DecimationStream(decimator)
        late = LateEfforts(problem, decimator, run.rate)
        pasts: list[dict[str, Any]] = [{} for _ in thetas]
        for piece in pieces:
            sample = piece.first + np.arange(piece.q.shape[1])
            t = stretch.start + sample / run.rate - run.stretches[0].start
            predicted = np.stack(
                [
                    model.torque(piece.q, piece.v, piece.a, theta, t, past, run.load, piece.base)
                    for theta, past in zip(thetas, pasts, strict=True)
                ]
            )
            # robots with loops: samples at which the loops do not close, and rows that use them, have no prediction
            lost = np.isnan(predicted[0]).any(axis=0) if model.looped is not None else None
            if lost is not None:
                predicted[:, :, lost] = 0.0
            resting = (np.abs(piece.v) < problem.rest_speeds[:, None]).astype(float)
            effort = problem.torque(piece.effort)
            scored = _scored(problem, run, index, sample, piece.v, resting)
            raw = _Sums.of(effort, predicted, scored if lost is None else scored & ~lost)
            marks = () if lost is None else (lost[None].astype(float),)
            tile = np.concatenate([piece.q, piece.v, resting, effort, *predicted, *marks])
            copies = late.push(effort)
            centre, rows = np.zeros(0, np.int64), tile[:, :0]
            for first, rows in stream.push(tile):
                number = first + np.arange(rows.shape[1])
                centre = stretch.clean[0] + number * decimator.factor + decimator.half
            signals = rows[: (4 + len(thetas)) * n].reshape(4 + len(thetas), n, rows.shape[1])
            if copies is not None:
                signals[3] = copies[0]
            if lost is not None:
                whole = np.abs(rows[-1]) < UNTOUCHED
                centre, signals = centre[whole], signals[:, :, whole]
            yield _Part(index, raw, centre, signals)
            seen += piece.q.shape[1]
            if progress is not None:
                progress(f"scoring {run.name}", seen, run.count)
    if progress is not None:
        progress(f"scoring {run.name}", run.count, run.count)


def _scored(
    problem: Problem, run: Samples, stretch: int, sample: NDArray[np.int64], v: Array, still: Array
) -> NDArray[np.bool_]:
    """(n, m): samples inside the window of their stretch at which the joint moves; none of a constant effort."""
    moving = problem.moving(v, still)
    moving[list(problem.without_rows)] = False
    moving[run.constant_effort] = False
    first, stop = run.stretches[stretch].window
    return moving & (sample >= first) & (sample < stop)


def _gathered(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Parts of one stretch joined until they hold a batch of rows."""
    for index, group in groupby(parts, key=attrgetter("stretch")):
        held: list[_Part] = []
        for part in group:
            held.append(part)
            if sum(len(each.centre) for each in held) >= _BATCH:
                yield _joined(index, held)
                held = []
        if held:
            yield _joined(index, held)


def _joined(stretch: int, parts: Sequence[_Part]) -> _Part:
    raw = parts[0].raw
    for part in parts[1:]:
        raw = raw + part.raw
    centre = np.concatenate([part.centre for part in parts])
    return _Part(stretch, raw, centre, np.concatenate([part.rows for part in parts], axis=2))


def _tiles(run: Samples) -> Iterator[Piece]:
    """Pieces cut to the clean part of their stretch and to at most TILE samples."""
    for piece in run.open():
        first, stop = run.stretches[piece.stretch].clean
        low, high = max(first - piece.first, 0), min(stop - piece.first, piece.q.shape[1])
        for at in range(low, high, TILE):
            yield piece.part(at, min(at + TILE, high))


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
        keys = (*names, TOTAL)

        def table(x: Array) -> dict[str, float]:
            return dict(zip(keys, x.tolist(), strict=True))

        error, spread = _with_sum(self.errors[prediction]), _with_sum(self.spread)
        rows, size = _with_sum(self.rows), _with_sum(self.spread + self.rows * self.mean**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            relative, rmse, r2 = np.sqrt(error / size), np.sqrt(error / rows), 1.0 - error / spread
        counts = dict(zip(keys, (int(x) for x in rows), strict=True))
        return EffortScore(table(relative), table(rmse), table(r2), counts, mask)


def _with_sum(x: Array | NDArray[np.int64]) -> Array:
    return np.append(x, x.sum()).astype(float)
