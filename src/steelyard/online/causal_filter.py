"""Causal rows: raw chunks of a running log to decimated rows after a fixed delay, with the filters of a log on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.regression.observe import RowBatch, TileRows, tile_memory
from steelyard.regression.problem import Problem
from steelyard.signals.clock import interpolated
from steelyard.signals.derivatives import EDGE_PERIODS, Differences, Smoother, noise_ratio
from steelyard.signals.magnitudes import measurable
from steelyard.signals.prepare import Preparation

# A step of the clock within this fraction of the usual one is not jitter.
_UNIFORM = 0.01
# Largest number of values of a filter's response that is stored, 48 MB with its three outputs; longer filters are run
# each time.
_LARGEST = 2_000_000
# Length of a tile of rows [s]: shorter ones cost more calls, longer ones arrive later.
TILE_S = 0.05


class Chunk(NamedTuple):
    """Raw rows of a running log: times t (m,) [s], positions q (n, m), efforts (n, m) and, where they are measured,
    velocities v (n, m), of the robot's axes [SI]."""

    t: Array
    q: Array
    effort: Array
    v: Array | None = None


@dataclass(frozen=True)
class Lookahead:
    """The position filters, made causal by a delay: a sample is returned `periods` of the cut-off later.

    The filters are those of `prepare` (`Differences` or `Smoother`) on a window that ends later by this delay. With
    `HALO_PERIODS` (15) the values equal those of the whole log filtered at once, to rounding; with the default, 4, they
    are within 1e-4 of the edge effect, as the last clean sample of a log on disk.
    """

    preparation: Preparation
    rate: float
    periods: float = EDGE_PERIODS

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0.0):
            raise DataError(f"rate_hz of a stream must be a positive number [Hz], not {self.rate!r}.")
        cutoff = self.preparation.cutoff_hz
        if cutoff is not None and not cutoff < 0.5 * self.rate:
            raise DataError(f"prepare.cutoff_hz = {cutoff:g} is not below half the rate ({self.rate:g} Hz).")
        if not 1.0 <= self.periods < np.inf:
            raise DataError(f"lookahead must be at least one period of the cut-off, not {self.periods!r}.")

    def method(self, ratio: float | None = None) -> Differences | Smoother:
        cutoff = self.preparation.cutoff_hz
        if self.preparation.derivatives == "differences" or cutoff is None:
            return Differences(cutoff, self.rate)
        return Smoother(cutoff, self.rate, 1.0 / self.rate, ratio)

    @cached_property
    def edge(self) -> int:
        """Samples at the start of a stretch that are never returned."""
        return self.method().edge

    @cached_property
    def samples(self) -> int:
        """Delay in samples after which a sample is returned, at the earliest; at most the filter's memory."""
        cutoff = self.preparation.cutoff_hz
        waited = 0 if cutoff is None else int(np.ceil(self.periods / cutoff * self.rate * (1.0 - 1e-9)))
        return min(waited + 4, max(self.method().halo, 4))


class WindowFilter:
    """Position, velocity and acceleration of the inner samples of a window.

    The filters are linear, and all windows of a stretch but the first are the same: their response to every sample of
    the window is computed once and then applied as a matrix.
    """

    def __init__(self, method: Differences | Smoother, rate: float) -> None:
        self.method, self.rate = method, rate
        self.last: tuple[int, ...] = ()
        self.response: Array | None = None

    def __call__(self, q: Array, v: Array | None, inner: slice) -> tuple[Array, Array, Array]:
        """(n, T) each from positions and, if measured, velocities (n, W)."""
        shape, width = (q.shape[1], 1 + (v is not None), inner.start, inner.stop), inner.stop - inner.start
        if shape != self.last:
            self.last, self.response = shape, None
            return self._cut(q, v, inner)
        if self.response is None:
            if q.shape[1] * shape[1] * width > _LARGEST:
                return self._cut(q, v, inner)
            self.response = self._responses(q.shape[1], v is not None, inner)
        out = (q if v is None else np.concatenate([q, v], axis=1)) @ self.response
        return out[:, :width].copy(), out[:, width : 2 * width].copy(), out[:, 2 * width :].copy()

    def _cut(self, q: Array, v: Array | None, inner: slice) -> tuple[Array, Array, Array]:
        if isinstance(self.method, Smoother):
            t = np.arange(q.shape[1]) / self.rate
            derived = self.method(t, q, v, t)
        else:
            derived = self.method(q, v)
        q, v, a = (np.ascontiguousarray(x[:, inner]) for x in derived)
        return q, v, a

    def _responses(self, length: int, with_velocity: bool, inner: slice) -> Array:
        """Response (W or 2W, 3T) to a unit in every sample, computed in batches of some hundred."""
        parts = []
        for kind in range(1 + with_velocity):
            for first in range(0, length, 256):
                unit = np.eye(min(256, length - first), length, first)
                none = np.zeros_like(unit)
                q, v = (unit, none if with_velocity else None) if kind == 0 else (none, unit)
                parts.append(np.concatenate(self._cut(q, v, inner), axis=1))
        return np.concatenate(parts)


class CausalRows:
    """Rows of one running log: `push` raw chunks, get the decimated rows they complete. The result does not depend on
    the chunks: samples are cut into tiles counted from the start of each stretch.

    A step of the clock longer than `gap_s` starts a new stretch, as in `prepare`.
    """

    def __init__(self, problem: Problem, lookahead: Lookahead, resample: bool = False) -> None:
        self.problem, self.lookahead, self.resample = problem, lookahead, resample
        self.rate, run = lookahead.rate, problem.runs[0]
        self.decimator = problem.decimator(run)
        factor = self.decimator.factor
        self.tile = max(1, round(TILE_S * self.rate / factor)) * factor
        settings = lookahead.preparation
        period = 0.0 if settings.cutoff_hz is None else 1.0 / settings.cutoff_hz
        self.gap = settings.gap_s or max(5.0 / self.rate, 0.5 * period)
        self.memory = tile_memory(problem, self.tile)
        self.offset = 0
        self.begin: float | None = None
        self.last = -np.inf
        self.stretch: _Stretch | None = None
        self.windows: WindowFilter | None = None

    @property
    def delay(self) -> float:
        """Largest delay between a sample and the row centred on it [s]: position filter, half the parallel filter, one
        tile, and one step of the clock where it is resampled."""
        late = self.lookahead.samples + self.decimator.half + self.tile + 2 * self.resample
        return late / self.rate

    def push(self, chunk: Chunk) -> Iterator[RowBatch]:
        """Rows completed by this chunk."""
        yield from self.push_checked(*self.checked(chunk))

    def push_checked(self, t: Array, x: Array) -> Iterator[RowBatch]:
        """Rows completed by times (m,) and channels q, effort and, if any, v (2n or 3n, m) from `checked`."""
        cuts = np.flatnonzero(np.diff(t, prepend=self.last if np.isfinite(self.last) else t[:1]) > self.gap)
        bounds = [0, *(int(k) for k in cuts if k > 0), len(t)]
        for k, (first, stop) in enumerate(pairwise(bounds)):
            if first == stop:
                continue
            if self.stretch is None or k > 0 or (len(cuts) and cuts[0] == 0):
                yield from self.close()
                self.stretch = _Stretch(self, float(t[first]))
                self.begin = float(t[first]) if self.begin is None else self.begin
            yield from self.stretch.push(t[first:stop], x[:, first:stop])
        if len(t):
            self.last = float(t[-1])

    def close(self) -> Iterator[RowBatch]:
        """The remaining rows when a stretch ends: those whose look-ahead lies inside it."""
        if self.stretch is not None:
            yield from self.stretch.close()
            self.offset += self.stretch.rows.stream.done
            self.stretch = None

    def checked(self, chunk: Chunk) -> tuple[Array, Array]:
        """Times (m,) and channels q, effort and, if any, v (2n or 3n, m), without repeated rows."""
        n = self.problem.model.robot.dof
        t = np.asarray(chunk.t, float)
        parts = [np.asarray(x, float) for x in (chunk.q, chunk.effort, chunk.v) if x is not None]
        if t.ndim != 1 or any(x.shape != (n, len(t)) for x in parts):
            shapes = ", ".join(str(x.shape) for x in parts)
            raise DataError(f"A chunk needs times (m,) and channels ({n}, m), not {t.shape} and {shapes}.")
        x = np.concatenate(parts)
        finite = np.isfinite(t) & np.isfinite(x).all(axis=0)
        if not finite.all():
            if self.lookahead.preparation.missing == "error":
                raise DataError(
                    f'Row {int(np.argmin(finite))} of a chunk contains NaN. Fix the source, or set missing = "drop" in '
                    "[prepare]."
                )
            t, x = t[finite], x[:, finite]
        x = measurable(x, "chunk", [f"channel {k + 1}" for k in range(len(x))], range(len(t)))
        step = np.diff(t, prepend=self.last)
        if np.any(step < 0.0):
            row = int(np.argmax(step < 0.0))
            raise DataError(f"Time goes backwards in a chunk: {t[row]:.6g} s after {t[row] - step[row]:.6g} s.")
        keep = step > 0.0
        t, x, step = t[keep], x[:, keep], step[keep]
        off = np.isfinite(step) & (step <= self.gap) & (np.abs(step * self.rate - 1.0) > _UNIFORM)
        if not self.resample and off.any():
            raise DataError(
                f"The clock steps by {1e3 * step[off][0]:.4g} ms at {t[off][0]:.6g} s instead of {1e3 / self.rate:.4g} "
                "ms. Resample it with resample=True, or set the right rate_hz."
            )
        return t, x


class _Stretch:
    """A gap-free part of the stream while it is processed from raw rows to decimated ones."""

    def __init__(self, owner: CausalRows, start: float) -> None:
        self.owner, self.start = owner, start
        self.rows = TileRows(owner.problem, owner.decimator, owner.problem.runs[0], owner.memory)
        self.t, self.raw = np.empty(0), np.empty((0, 0))
        self.gridded = 0
        self.x = np.empty((0, 0))  # samples on the grid, from number `origin` on
        self.origin = 0
        self.next = owner.lookahead.edge

    def push(self, t: Array, x: Array) -> Iterator[RowBatch]:
        yield from self._samples(self._on_grid(t, x) if self.owner.resample else x, last=False)

    def close(self) -> Iterator[RowBatch]:
        if self.owner.resample and len(self.t):
            count = int(np.floor((self.t[-1] - self.start) * self.owner.rate + 1e-6)) + 1
            yield from self._samples(self._up_to(count), last=True)
        else:
            yield from self._samples(self.x[:, :0], last=True)

    def _on_grid(self, t: Array, x: Array) -> Array:
        """Samples that are determined by the rows so far, by the cubic interpolation of `on_grid`."""
        self.t = np.concatenate([self.t, t])
        self.raw = np.concatenate([self.raw, x], axis=1) if self.raw.size else x
        if len(self.t) < 4:
            return np.empty((len(x), 0))
        out = self._up_to(int(np.ceil((self.t[-2] - self.start) * self.owner.rate - 1e-9)))
        self.t, self.raw = self.t[-4:], self.raw[:, -4:]
        return out

    def _up_to(self, stop: int) -> Array:
        grid = self.start + np.arange(self.gridded, stop) / self.owner.rate
        self.gridded = max(self.gridded, stop)
        return interpolated(self.t, self.raw, grid) if len(grid) else np.empty((len(self.raw), 0))

    def _samples(self, x: Array, last: bool) -> Iterator[RowBatch]:
        """Derivatives tile by tile as soon as their look-ahead is available, and the rows they complete."""
        if x.size:
            self.x = np.concatenate([self.x, x], axis=1) if self.x.size else x
        have, ahead, tile = self.origin + self.x.shape[1], self.owner.lookahead.samples, self.owner.tile
        while have >= self.next + tile + ahead or (last and have > self.next + ahead):
            width = min(tile, have - ahead - self.next)
            yield from self._tile(width, self.next + width + ahead)
            self.next += width
            assert self.owner.windows is not None
            start = max(0, self.next - self.owner.windows.method.halo)
            if start - self.origin > 4 * tile + self.x.shape[1] // 2:  # rarely, because it copies
                self.x, self.origin = self.x[:, start - self.origin :].copy(), start

    def _windows(self) -> WindowFilter:
        owner, ratio = self.owner, None
        settings, n = owner.lookahead.preparation, owner.problem.model.robot.dof
        if settings.derivatives == "smoother" and settings.cutoff_hz is not None and len(self.x) == 3 * n:
            t = np.arange(self.x.shape[1]) / owner.rate
            ratio = noise_ratio(t, self.x[:n], self.x[2 * n :], settings.cutoff_hz)
        return WindowFilter(owner.lookahead.method(ratio), owner.rate)

    def _tile(self, width: int, stop: int) -> Iterator[RowBatch]:
        owner = self.owner
        if owner.windows is None:
            owner.windows = self._windows()
        n, rate = owner.problem.model.robot.dof, owner.rate
        low = max(0, self.next - owner.windows.method.halo)
        window = self.x[:, low - self.origin : stop - self.origin]
        inner = slice(self.next - low, self.next - low + width)
        q, v, a = owner.windows(window[:n], window[2 * n :] if len(window) == 3 * n else None, inner)
        assert owner.begin is not None
        t = self.start + (self.next + np.arange(width)) / rate - owner.begin
        for rows in self.rows.push(q, v, a, window[n : 2 * n, inner], t):
            centre = owner.lookahead.edge + rows.number * owner.decimator.factor + owner.decimator.half
            yield rows._replace(number=owner.offset + rows.number, t=self.start + centre / rate)
