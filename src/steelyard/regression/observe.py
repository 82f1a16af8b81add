"""observe: the one streaming pass that turns runs of samples into Information."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, EstimationError
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.terms import Motion
from steelyard.regression.decimation import DecimationStream, Decimator
from steelyard.regression.folds import guard_seconds
from steelyard.regression.information import KNOWN, MOST_BLOCKS, BlockKey, Information, Triangle
from steelyard.regression.periods import SpeedRecord
from steelyard.regression.problem import Problem
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Piece, Samples, joined

# Samples per regressor call: three lanes. The tile of a six-axis arm (0.8 MB) stays in the second-level cache, and the
# overhead of a call is spread over enough samples.
TILE = 384
# A filtered mark of lost samples below this value is rounding: no sample of the row's support was lost.
UNTOUCHED = 1e-9
# Rows gathered before they are sorted into blocks (one call for many tiles), and before an unfinished block is reduced
# to a triangle (so that a long block does not hold all its rows).
_BATCH, _GATHER = 128, 512


class RowBatch(NamedTuple):
    """Consecutive decimated rows of a run, before any mask.

    number (m,): index in the run; t (m,) [s]; v (n, m): low-passed speed; still (n, m): fraction of the row's support
    in which the joint rests; y (R, n, m): effort, then its shifted copies; w (E, m): the non-zero entries of W in the
    order of `Model.places`; inside (m,): centre within the requested window, and loops closed in all of the support.
    """

    number: NDArray[np.int64]
    t: Array
    v: Array
    still: Array
    y: Array
    w: Array
    inside: NDArray[np.bool_]


def row_count(problem: Problem, run: Samples, furthest: float = 0.0) -> int:
    """Number of decimated rows of a run before masking, where the effort is read up to `furthest` [s] earlier and
    later."""
    # here and not in the problem: a stream, which is a run too, does not know how long it will be
    longest = max(each.count / each.rate for each in problem.runs)
    if any(abs(late) >= longest for late in problem.delay):
        raise DataError(f"delay {list(problem.delay)} [s] is longer than the longest run ({longest:.4g} s).")
    decimator = problem.decimator(run, furthest)
    return sum(decimator.rows(stretch.clean[1] - stretch.clean[0]) for stretch in run.stretches)


def stream_rows(
    problem: Problem,
    run: Samples,
    tile: int = TILE,
    progress: Progress | None = None,
    shifts: Sequence[float] = (),
) -> Iterator[RowBatch]:
    """Regressor, parallel filter and decimation of one run, tile by tile counted from each stretch's clean start.

    `shifts` [s] request copies of the effort delayed by this much in addition to the problem's `delay`.
    """
    decimator = problem.decimator(run, furthest=_furthest(shifts))
    # whole decimation steps, so that the filter has the same phase in every tile
    width = tile // decimator.factor * decimator.factor or tile
    memory = tile_memory(problem, width)
    offset = seen = 0
    begin = run.stretches[0].start
    for index, pieces in groupby(run.open(), key=attrgetter("stretch")):
        stretch = run.stretches[index]
        tiles = TileRows(problem, decimator, run, memory, shifts)
        for piece in _tiles(pieces, stretch.clean, width):
            t = stretch.start + (piece.first + np.arange(piece.q.shape[1])) / run.rate - begin
            for rows in tiles.push(piece.q, piece.v, piece.a, piece.effort, t, piece.base):
                centre = stretch.clean[0] + rows.number * decimator.factor + decimator.half
                inside = (centre >= stretch.window[0]) & (centre < stretch.window[1])
                yield rows._replace(
                    number=offset + rows.number, t=stretch.start + centre / run.rate, inside=rows.inside & inside
                )
            seen += piece.q.shape[1]
            if progress is not None:
                progress(f"observing {run.name}", seen, run.count)
        offset += decimator.rows(stretch.clean[1] - stretch.clean[0])
    if progress is not None:
        progress(f"observing {run.name}", run.count, run.count)


def tile_memory(problem: Problem, width: int) -> Array:
    """Memory of one tile, allocated once because allocation costs more than the work: entries of W, speeds, marks of
    rest, efforts, and for a robot with loops a last row that marks where they do not close."""
    model = problem.model
    return np.empty((len(model.places) + 3 * model.robot.dof + (model.looped is not None), width))


class TileRows:
    """A gap-free part of a run on its way from samples to decimated rows, tile by tile: regressor and terms, parallel
    filter, decimation. The state of terms and loops is carried from tile to tile."""

    def __init__(
        self, problem: Problem, decimator: Decimator, run: Samples, memory: Array, shifts: Sequence[float] = ()
    ) -> None:
        self.problem, self.load, self.memory = problem, run.load, memory
        self.stream = DecimationStream(decimator)
        self.late = LateEfforts(problem, decimator, run.rate, shifts)
        self.past: dict[str, Any] = {}

    def push(
        self, q: Array, v: Array, a: Array, effort: Array, t: Array, base: Array | None = None
    ) -> Iterator[RowBatch]:
        """The rows completed by a tile of motion and raw effort (n, T) at times t (T,) [s] since the run's start.

        Their numbers count from the start of the part, and `inside` says that the loops close in all of their support.
        The caller fills in the times.
        """
        model, n, places = self.problem.model, len(q), len(self.problem.model.places)
        buffer = self.memory if q.shape[1] == self.memory.shape[1] else self.memory[:, : q.shape[1]]
        lost = model.fill(Motion(q, v, a, t, past=self.past, base=base), buffer[:places], self.load)
        if lost is not None:
            buffer[-1] = lost
        buffer[places : places + n] = v
        buffer[places + n : places + 2 * n] = np.abs(v) < self.problem.rest_speeds[:, None]
        effort = self.problem.torque(effort)
        buffer[places + 2 * n : places + 3 * n] = effort
        copies = self.late.push(effort)
        for first, rows in self.stream.push(buffer):
            number = first + np.arange(rows.shape[1])
            yield RowBatch(
                number,
                np.full(len(number), np.nan),
                rows[places : places + n],
                rows[places + n : places + 2 * n],
                rows[None, places + 2 * n : places + 3 * n] if copies is None else copies,
                rows[:places],
                np.ones(len(number), bool) if lost is None else np.abs(rows[-1]) < UNTOUCHED,
            )


class LateEfforts:
    """The effort rows that are read later than the motion: delayed joints, and copies at several shifts."""

    def __init__(self, problem: Problem, decimator: Decimator, rate: float, shifts: Sequence[float] = ()) -> None:
        delay = np.array(problem.delay) if problem.delay else np.zeros(problem.model.robot.dof)
        # joints with equal delay share a stream
        self.groups = [np.flatnonzero(delay == late) for late in np.unique(delay)]
        self.streams = [
            [DecimationStream(decimator, decimator.shifted(rate * (float(delay[g[0]]) + shift))) for g in self.groups]
            for shift in ((0.0, *shifts) if shifts or delay.any() else ())
        ]

    def push(self, effort: Array) -> Array | None:
        """Rows (R, n, m) completed by a tile of effort (n, T), as many as those of the columns; None without delays."""
        if not self.streams:
            return None
        done = [[list(s.push(effort[g])) for s, g in zip(row, self.groups, strict=True)] for row in self.streams]
        if not done[0][0]:
            return None
        out = np.empty((len(done), len(effort), done[0][0][0][1].shape[1]))
        for copy, row in zip(out, done, strict=True):
            for g, [(_, rows)] in zip(self.groups, row, strict=True):
                copy[g] = rows
        return out


def _furthest(shifts: Sequence[float]) -> float:
    return max(map(abs, shifts), default=0.0)


@single_threaded
def observe(
    problem: Problem,
    tile: int = TILE,
    progress: Progress | None = None,
    shifts: Sequence[float] = (),
    instruments: Mapping[str, Samples] | None = None,
) -> Information:
    """Compress every run into triangles of [W_j | y_j] per time block and joint. One pass, constant memory.

    `shifts` [s] add responses: the effort read later by these times, from which delays are found without another pass.
    `instruments` are simulated samples of every run, by run name and on the run's clock: the triangles are then those
    of [W_j | Z_j | y_j] with Z the columns of the simulated motion in the same rows, and the layout is doubled
    (`instrument_layout`).
    """
    if not problem.model.knows_load:
        raise EstimationError(
            "Load friction needs the torque on the gears, and the robot file gives no nominal inertias: get them from "
            "a first fit (`steelyard.identification.with_load`), or remove the term 'load'."
        )
    model = problem.model
    n = model.robot.dof
    shares = problem.row_shares
    reach = [np.flatnonzero(model.nonzero[share != 0.0].any(axis=0)) for share in shares]
    copies, count = 1 if instruments is None else 2, len(model.layout)
    columns = tuple(np.concatenate([k * count + row[row < model.own_columns] for k in range(copies)]) for row in reach)
    responses = ("effort", *(f"effort {1e3 * shift:+.6g} ms" for shift in shifts))
    blocks: dict[BlockKey, Triangle] = {}
    block_rows: dict[str, int] = {}
    starts: dict[tuple[str, str, int], float] = {}
    periods: dict[str, float] = {}
    for run in problem.runs:
        # known from the clock before the pass, so that no blocks have to be merged afterwards
        size = max(1, -(-row_count(problem, run, _furthest(shifts)) // MOST_BLOCKS))
        block_rows[run.name] = size
        gatherers = [_Gatherer(run, j, _shares(model, shares[j], columns[j], copies), size) for j in range(n)]
        alive = ~run.constant_effort
        alive[list(problem.without_rows)] = False
        rows = stream_rows(problem, run, tile, progress, shifts)
        if instruments is not None:
            rows = _with_instruments(rows, stream_rows(problem, instruments[run.name], tile, None, shifts))
        speeds = SpeedRecord()
        for batch in _batches(rows, _BATCH):
            speeds.add(batch.t, batch.v)
            for block, first in zip(*np.unique(batch.number // size, return_index=True), strict=True):
                starts.setdefault((run.name, run.load, int(block)), float(batch.t[first]))
            moving = problem.moving(batch.v, batch.still) & alive[:, None]
            for share, gatherer in zip(shares, gatherers, strict=True):
                gatherer.add(batch, batch.inside & moving[share != 0.0].all(axis=0))
        for gatherer in gatherers:
            blocks.update(gatherer.finished())
        if np.isfinite(found := speeds.period):
            periods[run.name] = found
    if not blocks:
        names = ", ".join(run.name for run in problem.runs)
        raise EstimationError(
            f"No rows of {names} are left after filtering, decimation and the rest mask. Check that the log contains "
            "motion and changing efforts, widen the window, lower 'rest' or 'decimate', or raise the cut-offs. For a "
            "robot with loops, check that its postures are within reach (steelyard check)."
        )
    layout = model.layout if instruments is None else instrument_layout(model.layout)
    guard = guard_seconds(problem.lowpass_hz)
    found = Information(layout, model.robot.axis_names, columns, responses, blocks, block_rows, starts, guard, periods)
    return _with_payloads(found, model, reach, copies) if model.payloads else found


def instrument_layout(layout: Layout) -> Layout:
    """The model's columns, then the same columns of the simulated motion, named `simulated link1.XX` and so on."""
    return Layout((*layout.columns, *(replace(c, owner=f"simulated {c.owner}") for c in layout.columns)))


def _with_instruments(rows: Iterator[RowBatch], simulated: Iterator[RowBatch]) -> Iterator[RowBatch]:
    """Rows of a run with the columns of the simulated motion below its own; all else is from the run."""
    for batch, other in zip(rows, simulated, strict=True):
        if not np.array_equal(batch.number, other.number):
            raise EstimationError(
                "Simulated samples must have the stretches and the rate of the run that they replace."
            )
        yield batch._replace(w=np.concatenate([batch.w, other.w]))


def _with_payloads(
    information: Information, model: Model, reach: Sequence[NDArray[np.int64]], copies: int
) -> Information:
    """The information with the payloads' columns, computed from those of the links that carry them (P2 eq. 10).

    R [W | y] ↦ R [W  W_link T_unknown  y  W_link T_known χ_known] in the blocks of a payload's load case.
    """
    efforts, known = len(information.responses), np.array([column.known for column in model.layout.columns])
    count, own = len(model.layout), model.own_columns
    columns = tuple(np.concatenate([k * count + row[~known[row]] for k in range(copies)]) for row in reach)
    maps = {}
    for load in {key.load for key in information.blocks}:
        # every column as a linear combination of the robot's own columns
        whole = np.eye(count)[:own]
        if load in model.loads:
            payload, places, link = model.loads[load]
            whole[np.ix_(link, places)] = payload.on_link
        torque = np.concatenate([whole @ model.layout.known, np.zeros((copies - 1) * own)])
        whole = np.kron(np.eye(copies), whole)
        for j, (robot, wide) in enumerate(zip(information.columns, columns, strict=True)):
            place = robot // count * own + robot % count
            e = np.zeros((len(robot) + efforts, len(wide) + efforts + int(known.any())))
            e[: len(robot), : len(wide)] = whole[np.ix_(place, wide)]
            e[len(robot) :, len(wide) : len(wide) + efforts] = np.eye(efforts)
            if known.any():
                e[: len(robot), -1] = torque[place]
            maps[j, load] = e
    blocks = {key: Triangle.of(t.r @ maps[key.joint, key.load], t.rows) for key, t in information.blocks.items()}
    responses = (*information.responses, KNOWN) if known.any() else information.responses
    return replace(information, columns=columns, responses=responses, blocks=blocks)


def _batches(rows: Iterator[RowBatch], least: int) -> Iterator[RowBatch]:
    """Row batches joined until they hold at least this many rows."""
    held: list[RowBatch] = []
    have = 0
    for batch in rows:
        held.append(batch)
        have += len(batch.number)
        if have >= least:
            yield RowBatch(*(np.concatenate(parts, axis=-1) for parts in zip(*held, strict=True)))
            held, have = [], 0
    if held:
        yield RowBatch(*(np.concatenate(parts, axis=-1) for parts in zip(*held, strict=True)))


def _tiles(pieces: Iterator[Piece], clean: tuple[int, int], size: int) -> Iterator[Piece]:
    """Pieces cut to the clean [first, stop) of their stretch and cut into tiles of `size` counted from `first`."""
    first, stop = clean
    held: list[Piece] = []
    have, position = 0, first
    for piece in pieces:
        at, high = max(first - piece.first, 0), min(stop - piece.first, piece.q.shape[1])
        while at < high:
            take = min(size - have, high - at)
            held.append(piece.part(at, at + take))
            have, at = have + take, at + take
            if have == size:
                yield joined(held)._replace(first=position)
                held, have, position = [], 0, position + size
    if held:
        yield joined(held)._replace(first=position)


# A joint's contribution to a row: its coefficient, its index, and the entries of the tile that give the columns: an
# index (c,) if each column is one entry, else a matrix (c, E) of zeros and ones.
_Share = tuple[float, int, NDArray[Any]]


def _shares(model: Model, share: Array, columns: NDArray[np.int64], copies: int) -> tuple[_Share, ...]:
    """The joints whose equations are combined in each row: the identity, except for rows of coupled motors."""
    shift = np.repeat(np.arange(copies), len(model.places))
    rows, layout_columns = np.tile(model.places[:, 0], copies), np.tile(model.places[:, 1], copies)
    layout_columns = layout_columns + shift * len(model.layout)
    out = []
    for joint in np.flatnonzero(share):
        where = np.full(copies * len(model.layout), -1)
        where[layout_columns[rows == joint]] = np.flatnonzero(rows == joint)
        places = where[columns]
        if np.any(places < 0):
            matrix = np.zeros((len(columns), len(rows)))
            matrix[places >= 0, places[places >= 0]] = 1.0
            places = matrix
        out.append((float(share[joint]), int(joint), places))
    return tuple(out)


class _Gatherer:
    """Rows of one joint of one run while they are reduced to triangles; used inside `observe` only."""

    def __init__(self, run: Samples, joint: int, shares: tuple[_Share, ...], size: int) -> None:
        self.run, self.joint, self.shares, self.size = run, joint, shares, size
        self.done: dict[BlockKey, Triangle] = {}
        self.block = 0
        self.rows = 0
        self.held = 0
        self.parts: list[Array] = []

    def add(self, batch: RowBatch, keep: NDArray[np.bool_]) -> None:
        if not keep.any():
            return
        parts = [share * self._equations(batch, joint, places, keep) for share, joint, places in self.shares]
        rows = np.sum(parts, axis=0) if len(parts) > 1 else parts[0]
        block = batch.number[keep] // self.size
        starts = [0, *(np.flatnonzero(np.diff(block)) + 1), len(block)]
        for first, stop in pairwise(starts):
            part, index = rows[first:stop], block[first]
            if index != self.block:
                self._close()
                self.block = index
            self.parts.append(part)
            self.rows += len(part)
            self.held += len(part)
            if self.held >= _GATHER:
                self.parts = [Triangle.of(np.concatenate(self.parts), 0).r]
                self.held = len(self.parts[0])

    @staticmethod
    def _equations(batch: RowBatch, joint: int, places: NDArray[Any], keep: NDArray[np.bool_]) -> Array:
        """[W_j | Y_j] of a joint, (m, c + R)."""
        w = batch.w[places] if places.ndim == 1 else places @ batch.w
        return np.concatenate([w[:, keep], batch.y[:, joint, keep]]).T

    def _close(self) -> None:
        if self.rows:
            key = BlockKey(self.run.name, self.run.load, int(self.block), self.joint)
            self.done[key] = Triangle.of(np.concatenate(self.parts), self.rows)
        self.parts, self.rows, self.held = [], 0, 0

    def finished(self) -> dict[BlockKey, Triangle]:
        self._close()
        return self.done
