"""Recording → Samples: map, clean, lay on a uniform clock, filter without phase, differentiate, split at gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from scipy.signal import butter, sosfiltfilt

from steelyard.channels import ChannelMap, Linear, ResolvedChannels, resolve
from steelyard.clock import Rows, Survey, Tally, clean, on_grid, split_at_gaps, survey, usual_step
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.parameters import Array
from steelyard.recording import CHUNK_ROWS, Recording
from steelyard.robot import Robot
from steelyard.samples import Piece, Samples, Stretch

BUTTERWORTH_ORDER = 4
# Memory of the zero-phase filter, in periods of its cut-off. The slowest pole decays as exp(−2.4 fc t): after fifteen
# periods nothing is left in double precision, so a block filtered with that halo equals the whole run filtered at once.
HALO_PERIODS = 15.0
# Dropped at both ends of a stretch: after four periods less than 1e-4 of the edge is left.
EDGE_PERIODS = 4.0
# Five-point central differences reach two samples; velocity and acceleration take two of them.
DIFFERENCE_REACH = 2
BLOCK = 32768
# No joint moves this far [rad | m] from one row of a log to the next.
_LEAP = 1.0


@dataclass(frozen=True)
class Preparation:
    """What is done to a log.

    cutoff_hz     zero-phase Butterworth low-pass of positions and measured velocities; None leaves them as they are
    rate_hz       uniform rate for jittered clocks; None keeps the log's usual rate
    gap_s         a longer step splits the run; None means five steps or half a period of the cut-off
    missing       "error" or "drop" for rows with NaN or empty cells
    """

    cutoff_hz: float | None = None
    rate_hz: float | None = None
    gap_s: float | None = None
    missing: str = "error"

    def __post_init__(self) -> None:
        for name in ("cutoff_hz", "rate_hz", "gap_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise DataError(f"prepare.{name} must be a positive number, not {value!r}.")
        if self.missing not in ("error", "drop"):
            raise DataError(f'prepare.missing must be "error" or "drop", not \'{self.missing}\'.')


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
) -> Samples:
    """Samples of a robot from a log: one look at the clock now, the data itself when the samples are opened.

    `rows` (1-based, both included) or `seconds` of the log's clock bound what is used; filters still see the rest.
    """
    settings = preparation or Preparation()
    resolved = resolve(channels, robot)
    drop = settings.missing == "drop"
    step = usual_step(recording, resolved, drop)
    period = 0.0 if settings.cutoff_hz is None else 1.0 / settings.cutoff_hz
    gap = settings.gap_s or max(5.0 * step, 0.5 * period)
    if gap < step:
        raise DataError(
            f"prepare.gap_s = {gap:g} is shorter than the step of log '{recording.name}' ({step:.4g} s): every row "
            "would stand alone. Raise it, or leave it out."
        )
    lag = 0.5 * period if period else 5.0 * step
    found = survey(recording, resolved, gap, lag, step, _checked_rows(rows), chunk_rows, drop)
    plan = _Plan(recording, robot.joint_names, resolved, settings, found, gap, chunk_rows)
    window = _checked_seconds(seconds) if rows is None else found.window
    stretches = plan.stretches(window)
    if not any(
        s.clean[1] > s.clean[0] and min(s.clean[1], s.window[1]) > max(s.clean[0], s.window[0]) for s in stretches
    ):
        if np.isfinite(window).any() and any(s.clean[1] > s.clean[0] for s in stretches):
            raise DataError(
                f"Log '{recording.name}': nothing is left between {window[0]:.6g} s and {window[1]:.6g} s of its clock "
                f"({found.spans[0].start:.6g} s to {found.spans[-1].end:.6g} s). Widen 'seconds' or 'rows'."
            )
        longest = max(span.end - span.start for span in found.spans)
        raise DataError(
            f"Log '{recording.name}' is too short: its longest stretch without a gap is {longest:.3g} s, and the "
            f"position filter needs more than {2 * plan.edge / plan.rate:.3g} s for its edges. "
            "Record longer, raise cutoff_hz, or set gap_s."
        )
    return Samples(
        name=recording.name,
        joints=robot.joint_names,
        rate=plan.rate,
        stretches=stretches,
        top_speed=found.top_speed,
        lowest=found.lowest,
        highest=found.highest,
        dead=found.dead,
        open=plan.pieces,
        load=load,
        role=role,
        source=recording.source,
        sha256=recording.sha256,
        history=plan.history(window),
        findings=plan.findings(),
    )


@dataclass(frozen=True)
class _Plan:
    """Everything decided by the survey; `pieces` then streams the log through it, the same way each time."""

    recording: Recording
    joints: tuple[str, ...]
    channels: ResolvedChannels
    settings: Preparation
    survey: Survey
    gap: float
    chunk_rows: int

    def __post_init__(self) -> None:
        if self.settings.rate_hz is not None and self.settings.rate_hz < 0.5 / self.survey.step:
            raise DataError(
                f"Log '{self.recording.name}' has {1 / self.survey.step:.6g} rows a second; resampling it at "
                f"{self.settings.rate_hz:g} Hz would fold fast content onto slow. Use rate_hz near the log's rate and "
                "thin out later with 'decimate'."
            )
        if self.settings.rate_hz is not None and self.settings.rate_hz > 20.0 / self.survey.step:
            raise DataError(
                f"Log '{self.recording.name}' has {1 / self.survey.step:.6g} rows a second; rate_hz = "
                f"{self.settings.rate_hz:g} would only invent samples. Use a rate near the log's own."
            )
        if self.settings.cutoff_hz is not None and self.settings.cutoff_hz >= 0.5 * self.rate:
            raise DataError(
                f"prepare.cutoff_hz = {self.settings.cutoff_hz:g} is not below half the rate of log "
                f"'{self.recording.name}' ({self.rate:.6g} Hz). Lower it, or leave it out to filter nothing."
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

    @property
    def edge(self) -> int:
        """Samples dropped at each end of a stretch."""
        periods = 0.0 if self.settings.cutoff_hz is None else EDGE_PERIODS / self.settings.cutoff_hz
        return int(np.ceil(periods * self.rate)) + 2 * DIFFERENCE_REACH

    @property
    def halo(self) -> int:
        periods = 0.0 if self.settings.cutoff_hz is None else HALO_PERIODS / self.settings.cutoff_hz
        return int(np.ceil(periods * self.rate)) + 2 * DIFFERENCE_REACH

    def stretches(self, window: tuple[float, float]) -> tuple[Stretch, ...]:
        out = []
        for span in self.survey.spans:
            count = span.rows
            if self.resamples:
                count = int(np.floor((span.end - span.start) * self.rate + 1e-6)) + 1
            first, stop = self.edge, max(self.edge, count - self.edge)
            inside = [(bound - span.start) * self.rate for bound in window]
            low = int(np.clip(np.ceil(inside[0] - 1e-6), 0, count))
            high = int(np.clip(np.floor(inside[1] + 1e-6) + 1, 0, count))
            out.append(Stretch(span.start, count, (first, stop), (low, high)))
        return tuple(out)

    def pieces(self) -> Iterator[Piece]:
        """The samples, in fixed blocks counted from each stretch's start: the reader's chunks leave no trace."""
        rows = clean(self.recording, self.channels, self.chunk_rows, self.settings.missing == "drop", Tally())
        for number, group in groupby(
            split_at_gaps(rows, self.gap, self.channels.places(self.channels.q)), key=itemgetter(0)
        ):
            parts: Iterable[Rows] = (part for _, part in group)
            if self.resamples:
                span = self.survey.spans[number]
                count = int(np.floor((span.end - span.start) * self.rate + 1e-6)) + 1
                values = on_grid(parts, span.start, self.rate, count)
            else:
                values = (part.x for part in parts)
            for first, x, left, width in _blocks(values, max(BLOCK, 4 * self.halo), self.halo):
                yield self._differentiated(number, first, x, left, width)

    def _differentiated(self, number: int, first: int, x: Array, left: int, width: int) -> Piece:
        def picked(linear: Linear) -> Array:
            return linear(x[self.channels.places(linear)])

        inner = slice(left, left + width)
        q = self._lowpass(picked(self.channels.q))
        v = _derivative(q, self.rate) if self.channels.v is None else self._lowpass(picked(self.channels.v))
        a = _derivative(v, self.rate)
        effort = picked(self.channels.effort)
        return Piece(number, first, *(np.ascontiguousarray(y[:, inner]) for y in (q, v, a, effort)))

    def _lowpass(self, x: Array) -> Array:
        if self.settings.cutoff_hz is None:
            return x
        sections = butter(BUTTERWORTH_ORDER, self.settings.cutoff_hz, fs=self.rate, output="sos")
        padding = min(x.shape[1] - 1, 3 * (BUTTERWORTH_ORDER + 1))
        return np.asarray(sosfiltfilt(sections, x, axis=1, padlen=padding))

    def history(self, window: tuple[float, float]) -> tuple[str, ...]:
        s, settings = self.survey, self.settings
        lines = [f"read {s.rows} rows of {len(self.channels.columns)} columns"]
        if s.missing:
            lines.append(f"dropped {s.missing} rows with missing values")
        if s.stale:
            lines.append(f"dropped {s.stale} stale rows (equal to the row before in every channel)")
        if s.repeated_times:
            lines.append(f"dropped {s.repeated_times} rows with a repeated time")
        if len(s.spans) > 1:
            lines.append(f"split into {len(s.spans)} stretches at gaps longer than {self.gap:.4g} s")
        if self.resamples:
            lines.append(
                f"resampled at {self.rate:.6g} Hz by cubic interpolation "
                f"(steps {1e3 * s.shortest_step:.4g} to {1e3 * s.longest_step:.4g} ms, usual {1e3 * s.step:.4g} ms)"
            )
        else:
            lines.append(f"clock uniform at {self.rate:.6g} Hz")
        what = "positions" if self.channels.v is None else "positions and measured velocities"
        if settings.cutoff_hz is not None:
            lines.append(
                f"{what}: zero-phase Butterworth, order {BUTTERWORTH_ORDER}, {settings.cutoff_hz:g} Hz; "
                f"{self.edge} samples dropped at both ends of a stretch"
            )
        differentiated = "velocity and acceleration" if self.channels.v is None else "acceleration"
        lines.append(f"{differentiated}: five-point central differences")
        names = self.joints
        ranges = zip(names, s.lowest, s.highest, s.top_speed, strict=True)
        seen = "; ".join(f"{n} {a:.3g} to {b:.3g} at up to {v:.3g}/s" for n, a, b, v in ranges)
        lines.append(f"moved, in rad or m: {seen}")
        if np.isfinite(window).any():
            lines.append(f"used from {window[0]:.6g} s to {window[1]:.6g} s")
        return tuple(lines)

    def findings(self) -> tuple[Finding, ...]:
        s, out = self.survey, []
        if self.settings.cutoff_hz is None and self.channels.v is None:
            out.append(
                Finding(
                    "unfiltered-derivatives",
                    "warning",
                    "positions were differentiated twice without a low-pass: noise and rounding bias the inertias",
                    self.recording.name,
                    "set cutoff_hz under [prepare], about five times the highest frequency of the motion",
                )
            )
        # a step no motor makes in one sample: an angle that wraps, a sample that was lost, a frozen logger
        for name, leap in zip(self.joints, s.largest_step, strict=True):
            if leap > _LEAP and s.step < 0.05:
                out.append(
                    Finding(
                        "position-jump",
                        "error",
                        f"the position of {name} jumps by {leap:.4g} from one row to the next",
                        name,
                        "unwrap angles that turn over at a full turn, and cut the log at lost samples",
                    )
                )
        if s.repeated_times > 0.01 * s.rows:
            out.append(
                Finding(
                    "repeated-times",
                    "warning",
                    f"{s.repeated_times} of {s.rows} rows repeat the time of the row before and were dropped",
                    self.recording.name,
                    "log the clock with more digits",
                )
            )
        if s.stale > 0.01 * s.rows:
            out.append(
                Finding(
                    "stale-rows",
                    "info",
                    f"{s.stale} of {s.rows} rows repeat the row before and were dropped: the log outruns the robot",
                    self.recording.name,
                    f"the real rate is about {1 / s.step:.4g} Hz",
                )
            )
        if len(s.spans) > 1:
            out.append(
                Finding("gaps", "info", f"{len(s.spans) - 1} gaps longer than {self.gap:.4g} s", self.recording.name)
            )
        return tuple(out)


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


def _derivative(x: Array, rate: float) -> Array:
    """(8 (x₊₁ − x₋₁) − (x₊₂ − x₋₂)) / (12 Δt), exact for quartics; two samples at each end repeat their neighbour."""
    out = np.empty_like(x)
    if x.shape[1] < 5:
        return np.zeros_like(x)
    out[:, 2:-2] = (8.0 * (x[:, 3:-1] - x[:, 1:-3]) - (x[:, 4:] - x[:, :-4])) * (rate / 12.0)
    out[:, :2], out[:, -2:] = out[:, 2:3], out[:, -3:-2]
    return out
