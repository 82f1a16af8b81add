"""Tracks: the logs of a project as recorded, in SI under the stated map, and cut into smooth uniform traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.signal import butter, sosfiltfilt

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.signals.channels import ResolvedChannels
from steelyard.signals.clock import Rows, Tally, clean, on_grid
from steelyard.signals.recording import CHUNK_ROWS, Recording
from steelyard.signals.samples import Samples

# Number of rows of one log that are read; of a longer one, whole chunks evenly spread over it.
MOST_ROWS = 8 * CHUNK_ROWS
# Number of uniform samples of all logs together on which the model is tried. More would only cost time.
MOST_SAMPLES = 4000
# Largest number of runs, evenly chosen: short pieces of more runs would be mostly filter edges.
MOST_TRACES = 5
# Samples of a trace per period of the band: enough for derivatives and for the sign of a speed.
OVERSAMPLING = 10.0
# Length of a trace in periods of the band: the row filter takes three, and the rest must show motion.
FEWEST_PERIODS = 8.0
# Band [Hz] if the project states no filter: arms move below it, and most of their noise lies above.
USUAL_BAND = 10.0


@dataclass(frozen=True)
class Track:
    """The rows of one log without repeated ones: t (N,) [s], raw values (channels, N) in the order of `channels`.

    `hole` (N,) is the longest step of the log's own clock since the row before [s].
    """

    name: str
    channels: ResolvedChannels
    t: Array
    raw: Array
    hole: Array

    @property
    def q(self) -> Array:
        return self.channels.q(self.raw[self.channels.places(self.channels.q)])

    @property
    def effort(self) -> Array:
        return self.channels.effort(self.raw[self.channels.places(self.channels.effort)])

    @property
    def base(self) -> Array:
        """What the log holds of a floating base (6 or 7, N), see `ResolvedBase`."""
        base = self.channels.base
        assert base is not None
        raw = self.raw[self.channels.places(base)]
        return base(base.continued(raw, np.full(len(raw), np.nan), 1, self.name))

    @property
    def v(self) -> Array | None:
        """Measured velocities, where the map names any."""
        linear = self.channels.v
        return None if linear is None else linear(self.raw[self.channels.places(linear)])

    @property
    def step(self) -> float:
        """Usual step of the clock [s]."""
        return float(np.median(np.diff(self.t)))

    def parts(self, count: int) -> Iterator[Track]:
        """The track in parts of equal numbers of rows."""
        cuts = np.linspace(0, len(self.t), count + 1).astype(int).tolist()
        for first, stop in pairwise(cuts):
            part = slice(first, stop)
            yield replace(self, t=self.t[part], raw=self.raw[:, part], hole=self.hole[part])

    def spans(self, longest: float) -> Iterator[slice]:
        """Parts between steps longer than `longest` [s]."""
        cuts = np.flatnonzero(np.diff(self.t) > longest) + 1
        for first, stop in pairwise([0, *cuts.tolist(), len(self.t)]):
            yield slice(first, stop)


def read_track(
    recording: Recording,
    channels: ResolvedChannels,
    rows: tuple[int, int] | None,
    seconds: tuple[float, float] | None,
    drop_missing: bool,
) -> Track:
    """The track of one log; raises DataError if its clock or its cells cannot be read."""
    kept: list[tuple[int, Rows]] = []
    stride, met = 1, 0
    for chunk in clean(recording, channels, CHUNK_ROWS, drop_missing, Tally()):
        inside = np.ones(len(chunk.t), bool)
        if rows is not None:
            inside &= (chunk.number >= rows[0] - 1) & (chunk.number <= rows[1] - 1)
        if seconds is not None:
            inside &= (chunk.t >= seconds[0]) & (chunk.t <= seconds[1])
        if not inside.any():
            continue
        if met % stride == 0:
            kept.append((met, Rows(chunk.number[inside], chunk.t[inside], chunk.x[:, inside], chunk.hole[inside])))
        met += 1
        if len(kept) * CHUNK_ROWS > MOST_ROWS:
            kept, stride = kept[::2], 2 * stride
    if not kept:
        raise DataError(
            f"Log '{recording.name}' has no rows in its window. Check the file, 'rows', 'seconds' and the channel map."
        )
    for (before, last), (now, part) in pairwise(kept):
        if now > before + 1:  # rows left out between two chunks are a gap of this reader, not of the logger
            part.hole[0] = part.t[0] - last.t[-1]
    number, t, raw, hole = (np.concatenate(parts, axis=-1) for parts in zip(*(part for _, part in kept), strict=True))
    if len(number) < 8:
        raise DataError(
            f"Log '{recording.name}' has {len(number)} distinct rows in its window, too few to check. Check 'rows', "
            "'seconds' and the channel map, or record a longer motion."
        )
    return Track(recording.name, channels, t, raw, hole)


@dataclass(frozen=True)
class Trace:
    """A smooth uniform part of a track: q, v, a, effort (n, N) at `rate` [Hz], all through one zero-phase low-pass.

    `run` is the name of the log, `start` the time of the first sample on its clock [s], `base` (9, N) the motion of a
    floating base.
    """

    rate: float
    q: Array
    v: Array
    a: Array
    effort: Array
    run: str = ""
    start: float = 0.0
    base: Array | None = None

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.q, self.v, self.a, self.effort

    def samples(self, joints: Sequence[str], name: str = "trace") -> Samples:
        """The trace as a run whose derivatives are known."""
        return Samples.from_arrays(name, joints, self.rate, *self.arrays, base=self.base)


def band_of(tracks: Sequence[Track], stated: Sequence[float | str | None], time_factor: float) -> float:
    """Band [Hz] of the traces: the project's lowest filter, at most the usual band and the limit of the clock."""
    rate = min(1.0 / (track.step * time_factor) for track in tracks)
    return min([float(x) for x in stated if isinstance(x, int | float)] + [USUAL_BAND, rate / 5.0])


def traces_of(tracks: Sequence[Track], band: float, time_factor: float = 1.0) -> tuple[Trace, ...]:
    """Uniform traces of all tracks with their clocks multiplied by `time_factor`, cut to a total for fast trials."""
    whole = [trace for track in tracks for trace in _even(track, band, time_factor)]
    if len(whole) > MOST_TRACES:
        whole = [whole[int(k)] for k in np.linspace(0, len(whole) - 1, MOST_TRACES)]
    total = sum(trace.q.shape[1] for trace in whole)
    if total <= MOST_SAMPLES:
        return tuple(whole)
    least = int(FEWEST_PERIODS * OVERSAMPLING)
    out = []
    for trace in whole:
        size = trace.q.shape[1]
        keep = min(size, max(least, MOST_SAMPLES * size // total))
        # a few windows spread over the trace contain more of its motion than one
        count = max(1, min(4, keep // (2 * least)))
        for first in np.linspace(0, size - keep // count, count).astype(int):
            part = slice(int(first), int(first) + keep // count)
            start = trace.start + int(first) / trace.rate
            q, v, a, effort = (x[:, part] for x in trace.arrays)
            base = None if trace.base is None else trace.base[:, part]
            out.append(replace(trace, q=q, v=v, a=a, effort=effort, start=start, base=base))
    return tuple(out)


def _even(track: Track, band: float, time_factor: float) -> Iterator[Trace]:
    t, step = track.t * time_factor, track.step * time_factor
    inertial = track.channels.base
    x = np.concatenate([track.q, track.effort, *([] if inertial is None else [track.base])])
    n = len(track.channels.q.columns)
    rate = 1.0 / step
    sections = butter(4, min(3.0 * band, 0.45 * rate), fs=rate, output="sos")
    thin = max(1, int(rate / (OVERSAMPLING * band)))
    edge = int(np.ceil(rate / band))
    for span in track.spans(max(5.0 * step, 0.5 / band) / time_factor):
        here = t[span]
        count = int((here[-1] - here[0]) * rate) + 1
        if count < 2 * edge + FEWEST_PERIODS * rate / band:
            continue
        rows = Rows(np.arange(len(here)), here, x[:, span], np.zeros(len(here)))
        even = np.concatenate(list(on_grid([rows], here[0], rate, count)), axis=1)
        smooth = sosfiltfilt(sections, even, axis=1)
        v = np.gradient(smooth[:n], step, axis=1)
        a = np.gradient(v, step, axis=1)
        inner = slice(edge, count - edge, thin)
        base = None
        if inertial is not None:
            once = np.gradient(smooth[2 * n :], step, axis=1)
            base = inertial.motion(smooth[2 * n :], once, np.gradient(once, step, axis=1))[:, inner]
        q, v, a, effort = (np.ascontiguousarray(y[:, inner]) for y in (smooth[:n], v, a, smooth[n : 2 * n]))
        yield Trace(rate / thin, q, v, a, effort, track.name, float(here[0]) + edge / rate, base)
