"""Evidence from the values of a log: the clock's step, the travel of the joints, whether a velocity is the derivative
of a position, and the sign of the friction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError
from steelyard.signals.recording import Recording

# Total number of rows read over all logs, and the smallest number per log.
_HEAD_ROWS = 65536
_LEAST_ROWS = 4096
# Windows of a log over which positions are differenced: few enough to be long, for quantised logs.
_WINDOWS = 1500
# The longest window [s] to find friction: a longer one smooths acceleration and the reversals of the motion, which then
# look like friction with the wrong sign.
_LONGEST_S = 0.05
# A step of the clock that exceeds the usual one by this factor is a gap; no window reaches across.
_GAP = 5.0
# A clock advances in at least this fraction of the rows, and steps back in less than that one.
_ADVANCES, _RESTARTS = 0.2, 0.01
# Rows slower than this fraction of a joint's top speed are not used to find the direction of friction.
_SLOW = 0.05
# Number of parts of the log, in order of time or of a position; each is left out in turn to find the uncertainty of the
# friction.
_PARTS = 10


@dataclass(frozen=True)
class LogHead:
    """The first rows of one log: the columns that could be read."""

    log: str
    values: Mapping[str, Array]


def log_heads(recordings: Sequence[Recording], columns: Sequence[str]) -> list[LogHead]:
    """The first rows of every log."""
    rows = max(_LEAST_ROWS, _HEAD_ROWS // len(recordings))
    return [LogHead(recording.name, _first_rows(recording, columns, rows)) for recording in recordings]


def _first_rows(recording: Recording, columns: Sequence[str], rows: int) -> dict[str, Array]:
    """The first rows of the columns. A column that holds text is left out, so that the others can still be read."""
    if not columns:
        return {}
    try:
        return dict(next(recording.chunks(columns, rows), {}))
    except DataError as error:
        read: dict[str, Array] = {}
        for column in columns:
            try:
                read.update(next(recording.chunks([column], rows), {}))
            except DataError:
                continue
        if not read:
            raise error from None
        return read


@dataclass(frozen=True)
class Clock:
    """Steps of a time column in its own unit: the usual one, and the fractions of rows that advance, that step back (a
    clock that restarts), and that advance by nearly the usual step."""

    step: float
    forward: float
    backward: float
    even: float

    @property
    def is_sound(self) -> bool:
        """True if the column may be a clock: it advances, and restarts rarely."""
        return self.forward > _ADVANCES and self.backward < _RESTARTS


@dataclass(frozen=True)
class WindowedMotion:
    """Motion over windows of rows, in the log's own units: times (W,), `q` (n, W) and `v` = Δq/Δt at the middle, and
    the first and last row of each window."""

    t: Array
    q: Array
    v: Array
    duration: Array
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Derivative:
    """Δq = ratio · ∫v dt by joint: the ratio, the fraction of Δq explained, the largest error and the travel [q's
    unit]."""

    ratio: Array
    explained: Array
    miss: Array
    travel: Array


def clock(head: LogHead, column: str) -> Clock | None:
    """The steps of a column read as a clock; None if it holds fewer than two numbers."""
    t = head.values[column]
    t = t[np.isfinite(t)]
    steps = np.diff(t)
    if not np.any(steps > 0):
        return None
    ahead = steps[steps > 0]
    usual = float(np.median(ahead))
    even = np.sum(np.abs(ahead - usual) <= 0.5 * usual)
    return Clock(usual, len(ahead) / len(steps), float(np.mean(steps < 0)), float(even / len(steps)))


def motion(head: LogHead, time: str, columns: Sequence[str], longest: float = np.inf) -> WindowedMotion | None:
    """Motion over windows of complete, distinct rows without a gap; None if no window is left.

    A window spans at least two rows, and at most `longest` [the clock's unit] at the usual step.
    """
    t, q, rows = _rows(head, time, columns)
    if len(t) < 8:
        return None
    usual = float(np.median(np.diff(t)))
    edges = np.arange(0, len(t), int(max(2, min(len(t) // _WINDOWS, longest / usual))))
    whole = np.maximum.reduceat(np.diff(t), edges[:-1]) <= _GAP * usual
    first, last = edges[:-1][whole], edges[1:][whole]
    if not len(first):
        return None
    duration = t[last] - t[first]
    middle = 0.5 * (q[:, first] + q[:, last])
    spans = tuple(zip(rows[first].tolist(), rows[last].tolist(), strict=True))
    return WindowedMotion(0.5 * (t[first] + t[last]), middle, (q[:, last] - q[:, first]) / duration, duration, spans)


def _rows(head: LogHead, time: str, columns: Sequence[str]) -> tuple[Array, Array, NDArray[np.intp]]:
    """Time, values (n, N) and numbers of the rows that are finite, advance in time and differ from the row before.

    A restart of the clock becomes a gap.
    """
    t, q = head.values[time], np.stack([head.values[column] for column in columns])
    rows = np.flatnonzero(np.isfinite(t) & np.isfinite(q).all(axis=0))
    t, q = t[rows], q[:, rows]
    if len(t) > 1 and np.any(np.diff(t) < 0):
        steps = np.diff(t)
        steps[steps < 0] = 2.0 * _GAP * np.median(steps[steps > 0])
        t = np.concatenate([t[:1], t[0] + np.cumsum(steps)])
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (np.diff(t) > 0) & np.any(np.diff(q, axis=1) != 0.0, axis=0)
    return t[fresh], q[:, fresh], rows[fresh]


def span(heads: Sequence[LogHead], columns: Sequence[str]) -> tuple[Array, Array]:
    """Lowest and highest value of each column over all logs."""
    values = [np.stack([head.values[column] for column in columns]) for head in heads]
    clean = [np.where(np.isfinite(x), x, np.nan) for x in values]
    return (
        np.nanmin(np.concatenate(clean, axis=1), axis=1, initial=np.inf),
        np.nanmax(np.concatenate(clean, axis=1), axis=1, initial=-np.inf),
    )


def derivative(heads: Sequence[LogHead], time: str, q: Sequence[str], v: Sequence[str]) -> Derivative | None:
    """How v integrates to q, in the log's own units; None where no rows allow it."""
    turned, integrated = [], []
    for head in heads:
        moved = motion(head, time, q)
        if moved is None:
            continue
        # trapezoidal rule over all rows, also those that repeat a position
        t, x = head.values[time], np.stack([head.values[column] for column in v])
        steps = np.where(np.isfinite(np.diff(t)), np.diff(t), 0.0)
        area = 0.5 * np.nan_to_num(x[:, 1:] + x[:, :-1]) * steps
        total = np.concatenate([np.zeros((len(v), 1)), np.cumsum(area, axis=1)], axis=1)
        first, last = np.array(moved.rows).T
        turned.append(moved.v * moved.duration)
        integrated.append(total[:, last] - total[:, first])
    if not turned:
        return None
    dq, dv = np.concatenate(turned, axis=1), np.concatenate(integrated, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sum(dq * dv, axis=1) / np.sum(dv * dv, axis=1)
        rest = dq - ratio[:, None] * dv
        explained = 1.0 - np.sum(rest**2, axis=1) / np.sum(dq**2, axis=1)
    low, high = span(heads, q)
    return Derivative(ratio, explained, np.abs(rest).max(axis=1), high - low)


@single_threaded
def friction(
    heads: Sequence[LogHead], time: str, q: Sequence[str], effort: Sequence[str], to_si: Array, tick: float
) -> Array:
    """Coulomb friction of each joint in units of its own uncertainty, from effort against direction of motion.

    The effort of joint j is fitted by 1, sin and cos of every position and of sums of neighbours, every acceleration
    and sign(v_j). The uncertainty of the last coefficient comes from leaving out one part of the time, or of a joint's
    range, in turn, whichever gives more: a log that repeats a motion repeats the errors of this simple model. Friction
    opposes motion, so a negative value means that the sign of the effort is reversed; NaN where the log does not show
    it. `to_si` (n,) converts positions to rad or m, `tick` times to s.
    """
    gathered: list[tuple[Array, Array, Array, Array]] = []
    for head in heads:
        moved = motion(head, time, q, _LONGEST_S / tick)
        if moved is None or len(moved.t) < 8:
            continue
        means = np.stack([_means(head.values[column], moved.rows) for column in effort])
        v = moved.v * to_si[:, None] / tick
        gathered.append((moved.q * to_si[:, None], v, np.gradient(v, tick * moved.t, axis=1), means))
    if not gathered:
        return np.full(len(q), np.nan)
    position, v, a, load = (np.concatenate(parts, axis=1) for parts in zip(*gathered, strict=True))
    return np.array([_friction_of(j, position, v, a, load[j]) for j in range(len(q))])


def _means(values: Array, rows: Sequence[tuple[int, int]]) -> Array:
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
    first, last = np.array(rows).T
    return (total[last + 1] - total[first]) / (last + 1 - first)


def _friction_of(j: int, q: Array, v: Array, a: Array, effort: Array) -> float:
    fast = np.abs(v[j]) > _SLOW * np.abs(v[j]).max()
    near = [q[j] + q[k] for k in (j - 1, j + 1) if 0 <= k < len(q)]
    angles = np.stack([*q, *near])[:, fast]
    columns = [np.ones(angles.shape[1]), *np.sin(angles), *np.cos(angles), *a[:, fast], np.sign(v[j, fast])]
    x, y = np.column_stack(columns), effort[fast]
    if len(y) < 3 * x.shape[1] or len(np.unique(x[:, -1])) < 2:
        return np.nan

    rows = np.column_stack([x, y])
    orders = [np.arange(len(y)), *np.argsort(q[:, fast], axis=1, kind="stable")]
    spread = max(_spread(rows[order]) for order in orders)
    return float(np.linalg.lstsq(x, y, rcond=None)[0][-1]) / spread if spread > 0 else np.nan


def _spread(rows: Array) -> float:
    """Standard error of the last coefficient of the regression `rows` = [x, y], from leaving out a tenth in turn."""
    # every subset of parts is solved from the triangles of its parts, as in `Information`
    triangles = [np.linalg.qr(part, mode="r") for part in np.array_split(rows, _PARTS)]
    kept = [np.concatenate([*triangles[:k], *triangles[k + 1 :]]) for k in range(_PARTS)]
    without = np.array([np.linalg.lstsq(part[:, :-1], part[:, -1], rcond=None)[0][-1] for part in kept])
    return float(np.sqrt((_PARTS - 1) * np.mean((without - without.mean()) ** 2)))
