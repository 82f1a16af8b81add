"""Recording → Samples: map, clean, resample uniformly, filter with zero phase, differentiate, split at gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.findings import Finding
from steelyard.model.robot import Robot
from steelyard.signals.channels import ChannelMap, Linear, ResolvedChannels, resolve
from steelyard.signals.clock import Head, Rows, Survey, Tally, clean, head, interpolated, on_grid, split_at_gaps, survey
from steelyard.signals.derivatives import (
    DERIVATIVES,
    Derivatives,
    Differences,
    Grid,
    Smoother,
    noise,
    noise_ratio,
    row_blocks,
)
from steelyard.signals.log_findings import log_findings
from steelyard.signals.recording import CHUNK_ROWS, Progress, Recording
from steelyard.signals.references import commanded, reference_history
from steelyard.signals.samples import Commanded, Piece, Samples, Stretch, joined
from steelyard.signals.spectrum import quanta, rounding_findings

BLOCK = 32768


@dataclass(frozen=True)
class Preparation:
    """Settings for the processing of a log.

    cutoff_hz     zero-phase Butterworth low-pass of positions and measured velocities; None filters nothing
    rate_hz       uniform rate for jittered clocks; None keeps the log's usual rate
    gap_s         a longer step splits the run; None means five steps or half a period of the cut-off
    missing       "error" or "drop" for rows with NaN or empty cells
    derivatives   "differences" of filtered positions, or of filtered velocities where they were logged; "smoother" for
                  one Kalman smoother of positions and logged velocities at the log's own times (see `Smoother`)
    """

    cutoff_hz: float | None = None
    rate_hz: float | None = None
    gap_s: float | None = None
    missing: str = "error"
    derivatives: Derivatives = "differences"

    def __post_init__(self) -> None:
        for name in ("cutoff_hz", "rate_hz", "gap_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise DataError(f"prepare.{name} must be a positive number, not {value!r}.")
        if self.missing not in ("error", "drop"):
            raise DataError(f'prepare.missing must be "error" or "drop", not \'{self.missing}\'.')
        if self.derivatives not in DERIVATIVES:
            raise DataError(choices("prepare.derivatives", self.derivatives, DERIVATIVES))
        if self.derivatives == "smoother" and self.cutoff_hz is None:
            raise DataError('prepare.derivatives = "smoother" needs cutoff_hz [Hz], its half-amplitude frequency.')


def prepare(
    recording: Recording,
    robot: Robot,
    channels: ChannelMap,
    preparation: Preparation | None = None,
    *,
    rows: tuple[int, int] | None = None,
    seconds: tuple[float, float] | None = None,
    load: str = "none",
    role: str = "identify",
    chunk_rows: int = CHUNK_ROWS,
    progress: Progress | None = None,
) -> Samples:
    """Samples of a robot from a log. The clock is surveyed now; the data are read when the samples are opened.

    `rows` (1-based, both included) or `seconds` of the log's clock bound the rows that are used; filters still see the
    rest.
    """
    settings = preparation or Preparation()
    resolved = resolve(channels, robot)
    drop = settings.missing == "drop"
    first = head(recording, resolved, drop)
    step = first.step
    period = 0.0 if settings.cutoff_hz is None else 1.0 / settings.cutoff_hz
    gap = settings.gap_s or max(5.0 * step, 0.5 * period)
    if gap < step:
        raise DataError(
            f"prepare.gap_s = {gap:g} is shorter than the time step of log '{recording.name}' ({step:.4g} s): every "
            "row would be its own stretch. Raise it, or remove it."
        )
    lag = 0.5 * period if period else 5.0 * step
    found = survey(recording, resolved, gap, lag, step, _checked_rows(rows), chunk_rows, drop, progress)
    plan = _Plan(recording, robot.axis_names, resolved, settings, first, found, gap, chunk_rows)
    window = _checked_seconds(seconds) if rows is None else found.window
    stretches = plan.stretches(window)
    if not any(
        s.clean[1] > s.clean[0] and min(s.clean[1], s.window[1]) > max(s.clean[0], s.window[0]) for s in stretches
    ):
        if np.isfinite(window).any() and any(s.clean[1] > s.clean[0] for s in stretches):
            raise DataError(
                f"Log '{recording.name}' has no rows between {window[0]:.6g} s and {window[1]:.6g} s of its clock "
                f"({found.spans[0].start:.6g} s to {found.spans[-1].end:.6g} s). Widen 'seconds' or 'rows'."
            )
        longest = max(span.end - span.start for span in found.spans)
        raise DataError(
            f"Log '{recording.name}' is too short: its longest stretch without a gap is {longest:.3g} s, and the "
            f"position filter needs more than {2 * plan.method.edge / plan.rate:.3g} s for its edges. "
            "Record longer, raise cutoff_hz, or set gap_s."
        )
    return Samples(
        name=recording.name,
        joints=robot.axis_names,
        rate=plan.rate,
        stretches=stretches,
        top_speed=found.top_speed,
        lowest=found.lowest,
        highest=found.highest,
        constant_effort=found.constant_effort,
        open=plan.pieces,
        load=load,
        role=role,
        source=recording.source,
        sha256=recording.sha256,
        history=plan.history(window),
        findings=plan.findings(),
        position_step=plan.position_step,
        effort_step=plan.effort_step,
        saturation=found.saturation,
        drives=resolved.drives,
        reference=plan.references if resolved.has_reference else None,
        position_noise=plan.noise[0],
        velocity_noise=plan.noise[1],
        derive=plan.derive,
        floats=resolved.base is not None,
        resampled=plan.resamples,
    )


@dataclass(frozen=True)
class _Plan:
    """All decisions made from the survey. `pieces` streams the log through them and gives the same result each time."""

    recording: Recording
    joints: tuple[str, ...]
    channels: ResolvedChannels
    settings: Preparation
    head: Head
    survey: Survey
    gap: float
    chunk_rows: int

    def __post_init__(self) -> None:
        if self.settings.rate_hz is not None and self.settings.rate_hz < 0.5 / self.survey.step:
            raise DataError(
                f"Log '{self.recording.name}' has {1 / self.survey.step:.6g} rows per second; resampling it at "
                f"{self.settings.rate_hz:g} Hz would cause aliasing. Use a rate_hz near the rate of the log and reduce "
                "the rows later with 'decimate'."
            )
        if self.settings.rate_hz is not None and self.settings.rate_hz > 20.0 / self.survey.step:
            raise DataError(
                f"Log '{self.recording.name}' has {1 / self.survey.step:.6g} rows per second; rate_hz = "
                f"{self.settings.rate_hz:g} would only add interpolated samples. Use a rate near that of the log."
            )
        if self.settings.cutoff_hz is not None and self.settings.cutoff_hz >= 0.5 * self.rate:
            raise DataError(
                f"prepare.cutoff_hz = {self.settings.cutoff_hz:g} is not below half the rate of log "
                f"'{self.recording.name}' ({self.rate:.6g} Hz). Lower it, or set it to \"none\" to disable the filter."
            )

    @property
    def resamples(self) -> bool:
        wanted = self.settings.rate_hz
        return not self.survey.is_uniform or (wanted is not None and abs(wanted / self.survey.mean_rate - 1.0) > 1e-3)

    @property
    def rate(self) -> float:
        if not self.resamples:
            return self.survey.mean_rate
        return self.settings.rate_hz or 1.0 / self.survey.step

    @cached_property
    def method(self) -> Differences | Smoother:
        """The method that computes velocities and accelerations."""
        cutoff = self.settings.cutoff_hz
        if self.settings.derivatives == "differences" or cutoff is None:
            return Differences(cutoff, self.rate)
        q, v, _ = self._picked(self.head.x)
        ratio = None if v is None else noise_ratio(self.head.t, q, v, cutoff)
        return Smoother(cutoff, self.rate, self.survey.step if self.resamples else 1.0 / self.rate, ratio)

    @cached_property
    def position_step(self) -> Array:
        return quanta(self.channels.q, self.head.x[self.channels.places(self.channels.q)])

    @cached_property
    def effort_step(self) -> Array:
        return quanta(self.channels.effort, self.head.x[self.channels.places(self.channels.effort)])

    @cached_property
    def noise(self) -> tuple[Array, Array]:
        """White noise of positions and of logged velocities, (n,) each; empty where not logged."""
        q, v, _ = self._picked(self.head.x)
        return noise(self.head.t, q), np.empty(0) if v is None else noise(self.head.t, v)

    def references(self) -> tuple[Commanded, ...]:
        counts = [self.count(number) for number in range(len(self.survey.spans))]
        cutoff, drop = self.settings.cutoff_hz, self.settings.missing == "drop"
        rate = self.rate if self.resamples else None
        return commanded(self.recording, self.channels, self.gap, drop, self.survey, counts, rate, cutoff)

    def count(self, number: int) -> int:
        """Number of samples of a stretch."""
        span = self.survey.spans[number]
        return int(np.floor((span.end - span.start) * self.rate + 1e-6)) + 1 if self.resamples else span.rows

    def stretches(self, window: tuple[float, float]) -> tuple[Stretch, ...]:
        out = []
        for number, span in enumerate(self.survey.spans):
            count = self.count(number)
            first, stop = self.method.edge, max(self.method.edge, count - self.method.edge)
            inside = [(bound - span.start) * self.rate for bound in window]
            low = int(np.clip(np.ceil(inside[0] - 1e-6), 0, count))
            high = int(np.clip(np.floor(inside[1] + 1e-6) + 1, 0, count))
            out.append(Stretch(span.start, count, (first, stop), (low, high)))
        return tuple(out)

    def pieces(self) -> Iterator[Piece]:
        """The samples in fixed blocks counted from each stretch's start, independent of the reader's chunks."""
        rows = clean(self.recording, self.channels, self.chunk_rows, self.settings.missing == "drop", Tally())
        rows = self._continued(rows)
        spans = groupby(split_at_gaps(rows, self.gap, self.channels.places(self.channels.q)), key=itemgetter(0))
        method = self.method
        size, halo = max(BLOCK, 4 * method.halo), method.halo
        for number, group in spans:
            parts: Iterable[Rows] = (part for _, part in group)
            start, count = self.survey.spans[number].start, self.count(number)
            if isinstance(method, Smoother) and self.resamples:
                for block in row_blocks(parts, Grid(start, self.rate, count, size), halo / self.rate, self.gap):
                    q, v, effort = self._picked(block.x)
                    q, v, a = method(block.t, q, v, block.grid)
                    effort = interpolated(block.t, effort, block.grid)
                    yield Piece(number, block.first, q, v, a, effort, self._base(block.t, block.x, block.grid))
                continue
            values = on_grid(parts, start, self.rate, count) if self.resamples else (part.x for part in parts)
            for first, x, left, width in _blocks(values, size, halo):
                q, v, effort = self._picked(x)
                t = np.arange(x.shape[1]) / self.rate
                whole = Piece(number, first - left, *self.derive(q, v), effort, self._base(t, x, t))
                yield joined([whole.part(left, left + width)])

    def derive(self, q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations (n, N) of uniform rows."""
        if not isinstance(self.method, Smoother):
            return self.method(q, v)
        t = np.arange(q.shape[1]) / self.rate
        return self.method(t, q, v, t)

    def _continued(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        """Raw rows with the quaternions of a floating base as one path."""
        base = self.channels.base
        if base is None:
            yield from rows
            return
        places = self.channels.places(base)
        last = np.full(len(places), np.nan)
        for part in rows:
            x = part.x.copy()
            x[places] = base.continued(x[places], last, int(part.number[0]) + 1, self.recording.name)
            last = x[places, -1]
            yield part._replace(x=x)

    def _base(self, t: Array, x: Array, grid: Array) -> Array | None:
        """Motion (9, G) of a floating base at times grid from raw rows at times t, through the filter of positions."""
        base = self.channels.base
        if base is None:
            return None
        raw, method = base(x[self.channels.places(base)]), self.method
        if isinstance(method, Smoother):
            return base.motion(*replace(method, noise_ratio=None)(t, raw, None, grid))
        return base.motion(*method(raw, None))

    def _picked(self, x: Array) -> tuple[Array, Array | None, Array]:
        """Positions, measured velocities and efforts of raw rows."""

        def signal(linear: Linear) -> Array:
            return linear(x[self.channels.places(linear)])

        v = None if self.channels.v is None else signal(self.channels.v)
        return signal(self.channels.q), v, signal(self.channels.effort)

    def history(self, window: tuple[float, float]) -> tuple[str, ...]:
        s = self.survey
        lines = [f"read {s.rows} rows of {len(self.channels.columns)} columns"]
        if s.missing:
            lines.append(f"dropped {s.missing} rows with missing values")
        if s.late:
            lines.append(f"dropped {s.late} rows that arrived late (before the latest time)")
        if s.stale:
            lines.append(f"dropped {s.stale} repeated rows (equal to the previous row in every channel)")
        if s.repeated_times:
            lines.append(f"dropped {s.repeated_times} rows with a repeated time")
        if len(s.spans) > 1:
            lines.append(f"split into {len(s.spans)} stretches at gaps longer than {self.gap:.4g} s")
        if self.resamples:
            what = "efforts resampled" if isinstance(self.method, Smoother) else "resampled"
            lines.append(
                f"{what} at {self.rate:.6g} Hz by cubic interpolation "
                f"(steps {1e3 * s.shortest_step:.4g} to {1e3 * s.longest_step:.4g} ms, usual {1e3 * s.step:.4g} ms)"
            )
        else:
            lines.append(f"clock uniform at {self.rate:.6g} Hz")
        lines += self.method.history(self.channels.v is not None)
        lines += reference_history(self.channels)
        names = self.joints
        ranges = zip(names, s.lowest, s.highest, s.top_speed, strict=True)
        seen = "; ".join(f"{n} {a:.3g} to {b:.3g} at up to {v:.3g}/s" for n, a, b, v in ranges)
        lines.append(f"moved, in rad or m: {seen}")
        if np.isfinite(window).any():
            lines.append(f"used from {window[0]:.6g} s to {window[1]:.6g} s")
        return tuple(lines)

    def findings(self) -> tuple[Finding, ...]:
        unfiltered = self.settings.cutoff_hz is None and self.channels.v is None
        return log_findings(self.recording, self.joints, self.survey, self.gap, unfiltered, tuple(self._rounding()))

    def _rounding(self) -> Iterator[Finding]:
        """Findings on rounding that is a noticeable fraction of a signal."""
        if self.position_step.any() or self.effort_step.any():
            q, _, effort = self._picked(self.head.x)
            cutoff = self.settings.cutoff_hz
            lag = max(1, round(0.5 / (cutoff * self.survey.step))) if cutoff else 5
            yield from rounding_findings(self.joints, q, effort, (self.position_step, self.effort_step), lag)


def _checked_rows(rows: tuple[int, int] | None) -> tuple[int, int] | None:
    if rows is not None and not 1 <= rows[0] < rows[1]:
        raise DataError(f"rows must be [first, last] with 1 <= first < last, not {list(rows)}.")
    return rows


def _checked_seconds(seconds: tuple[float, float] | None) -> tuple[float, float]:
    if seconds is None:
        return (-np.inf, np.inf)
    if not seconds[0] < seconds[1]:
        raise DataError(f"seconds must be [from, to] with from < to, not {list(seconds)}.")
    return seconds


def _blocks(values: Iterable[Array], size: int, halo: int) -> Iterator[tuple[int, Array, int, int]]:
    """Re-cut a stream (channels, …) into blocks of `size` with up to `halo` samples on either side.

    Yields (index of the block's first sample, samples with halo, width of the left halo, width of the block).
    """
    held: list[Array] = []
    have = 0  # samples held, counted from `origin`
    origin = first = 0
    for part in values:
        held.append(part)
        have += part.shape[1]
        while origin + have >= first + size + halo:
            x = np.concatenate(held, axis=1)
            left = first - origin
            yield first, x[:, : left + size + halo], left, size
            first += size
            start = max(0, first - halo) - origin
            held, origin, have = [x[:, start:]], origin + start, x.shape[1] - start
    if have and origin + have > first:
        x = np.concatenate(held, axis=1)
        # the last blocks lack a full right halo: the run ends here
        while first < origin + have:
            width = min(size, origin + have - first)
            left = first - origin
            yield first, x[:, : left + width + halo], left, width
            first += size
            start = max(0, max(0, first - halo) - origin)
            x, origin, have = x[:, start:], origin + start, x.shape[1] - start
