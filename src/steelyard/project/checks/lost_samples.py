"""Efforts that were not measured: zeros written for lost samples, and values frozen under a trace of noise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.signals import Fault
from steelyard.project.checks.tracks import Track

# Zeros count between neighbours of one sign that are larger than this share of the signal's own size, and than this
# many of its largest steps between rows (19 of 20 are smaller); at least this often.
_SIZE, _STEPS, _TIMES = 0.1, 2.0, 3
# Windows [s] in which an effort hardly changes: its spread is below this share of that of the log ...
WINDOW_S, QUIET = 0.5, 0.005
# ... although its joint changes its speed by this share of the top speed; in at least this share of the log.
_SPEED, _LEAST = 0.25, 0.02


def effort_faults(track: Track, time_factor: float, joints: tuple[str, ...]) -> Iterator[Fault]:
    """Lost samples and frozen efforts of every joint of a track; `time_factor` corrects its clock."""
    channels, t = track.channels, track.t * time_factor
    for j, place in enumerate(channels.places(channels.effort)):
        x = track.raw[place]
        zeros = lost(x)
        if len(zeros) >= _TIMES:
            rows = sum(stop - first for first, stop in zeros)
            yield Fault(
                Finding(
                    "lost-samples",
                    "error",
                    f"the effort of {joints[j]} is exactly zero {len(zeros)} times ({rows} rows) in '{track.name}' "
                    f"between rows that are not, first at {t[zeros[0][0]]:.4g} s: zero was written for lost samples",
                    joints[j],
                ),
                j,
                False,
            )
            continue
        seconds, first = frozen(x, track.q[j], t)
        if seconds > max(WINDOW_S, _LEAST * (t[-1] - t[0])):
            yield Fault(
                Finding(
                    "stale-channel",
                    "error",
                    f"the effort of {joints[j]} hardly changes for {seconds:.3g} s of '{track.name}' while the joint "
                    f"changes its speed, first at {t[first]:.4g} s: it is frozen under a trace of noise",
                    joints[j],
                    "fix the logger, or exclude these times with 'seconds' in the [[run]]",
                ),
                j,
                False,
            )


def lost(x: Array) -> list[tuple[int, int]]:
    """[first, stop) of runs of exact zeros between neighbours of one sign, both far from zero."""
    zero = np.concatenate([[0], (x == 0.0).astype(int), [0]])
    change = np.diff(zero)
    firsts, stops = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    steps = np.abs(np.diff(x))
    inside = steps[(x[1:] != 0.0) & (x[:-1] != 0.0) & (steps > 0.0)]
    large = float(np.quantile(inside, 0.95)) if len(inside) else np.inf
    least = max(_SIZE * float(np.sqrt(np.mean(x**2))), _STEPS * large)
    out = []
    for first, stop in zip(firsts, stops, strict=True):
        if first == 0 or stop == len(x):
            continue
        before, after = x[first - 1], x[stop]
        if before * after > 0.0 and min(abs(before), abs(after)) > least:
            out.append((int(first), int(stop)))
    return out


def frozen(x: Array, q: Array, t: Array) -> tuple[float, int]:
    """Seconds in windows in which the effort hardly changes while the joint changes its speed, and the first row."""
    edges = np.searchsorted(t, np.arange(t[0], t[-1], WINDOW_S))
    spread = float(np.std(x))
    lag = max(1, (edges[1] - edges[0]) // 5) if len(edges) > 1 else 1
    if len(t) <= 2 * lag or not spread:
        return 0.0, 0
    speed = (q[lag:] - q[:-lag]) / np.maximum(t[lag:] - t[:-lag], 1e-9)
    top = float(np.quantile(np.abs(speed), 0.99))
    found: list[tuple[int, int]] = []
    for first, stop in pairwise(edges.tolist()):
        if stop - first < 5 or stop > len(speed):
            continue
        if np.std(x[first:stop]) < QUIET * spread and np.ptp(speed[first:stop]) > _SPEED * top:
            found.append((first, stop))
    seconds = float(sum(t[min(stop, len(t) - 1)] - t[first] for first, stop in found))
    return seconds, found[0][0] if found else 0
