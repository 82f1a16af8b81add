"""Loop closure along a run: passive positions, velocities and accelerations of every sample, and the map to them.

A run of samples is cut into as many stretches as a pack has lanes. Lane b steps through stretch b, so that each sample
starts from its predecessor. The first guess extrapolates s = q_p − G q_a, which is hardly affected by the noise of q_a.
Lanes that fail are moved to their sample by `follow`. At the end of a stretch, its lane takes one more step, to the
first sample of the next stretch: if the two do not agree, the next stretch is computed again from there. The result is
therefore that of one pass from the first sample to the last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from steelyard._kernels.loops.posture import (
    LEAST_MARGIN,
    LOST,
    SETTLED,
    SINGULAR,
    Floats,
    Integers,
    Loops,
    Work,
    assembled,
    closed,
    evaluate,
    margin,
    move,
    set_lane,
    settle,
    side_of,
    steady,
    unsteadiness,
    workspace,
)
from steelyard._kernels.loops.tracking import follow, new_way
from steelyard._kernels.packs import WIDTH, load, spread, store, width
from steelyard._kernels.spatial import OPTIONS

__all__ = ["Loops", "Work", "close", "close_one", "closing_scratch", "side_at"]

# Number of samples used for a guess, and its weights for 1, 2, … known samples: polynomials of degree 0 to 5. A smooth
# motion at 1 kHz is predicted to rounding, so that one evaluation of the equations is enough.
_PAST = 6
_WEIGHTS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [2.0, -1.0, 0.0, 0.0, 0.0, 0.0],
        [3.0, -3.0, 1.0, 0.0, 0.0, 0.0],
        [4.0, -6.0, 4.0, -1.0, 0.0, 0.0],
        [5.0, -10.0, 10.0, -5.0, 1.0, 0.0],
        [6.0, -15.0, 20.0, -15.0, 6.0, -1.0],
    ]
)
# Shorter stretches do not use a lane of their own.
_SHORTEST = 6
# Task of a lane in a step: idle, stepping through its stretch, comparing with the first sample of the next.
_IDLE, _WALKING, _COMPARING = 0, 1, 2
# Two solutions of the same sample agree to this, in units; two assembly modes differ by far more.
_SAME = 1e-6


class Given(NamedTuple):
    """Motion of the axes, each (n_a, N)."""

    q: Floats
    v: Floats
    a: Floats


class Told(NamedTuple):
    """Motion of all joints, each (n, N), the map (n, n_a, N), margin and fault (N,)."""

    q: Floats
    v: Floats
    a: Floats
    map: Floats
    margin: Floats
    fault: Integers


class Lanes(NamedTuple):
    """State of the lanes: q (n · w,) and x (n_p · n_a · w,) of the last good sample, older (5 · n · w,) good ones, the
    newest first; weight (_PAST · w,) of all six; known (w,): number of neighbours in time among them; start, stop (w,)
    of the stretches; sample, task, fault (w,) of the step; differs (w,): the next stretch does not continue here."""

    q: Floats
    x: Floats
    older: Floats
    weight: Floats
    known: Integers
    start: Integers
    stop: Integers
    sample: Integers
    task: Integers
    fault: Integers
    differs: Integers


@njit(**OPTIONS)
def _lanes(loops, w):
    n, p = loops.constraints.joint.shape[0], loops.passive.shape[0]
    return Lanes(
        np.zeros(n * w),
        np.zeros(p * loops.axes.shape[0] * w),
        np.zeros((_PAST - 1) * n * w),
        np.zeros(_PAST * w),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
    )


@njit(**OPTIONS)
def _finite(given, i):
    total = 0.0
    for a in range(given.q.shape[0]):
        total += abs(given.q[a, i]) + abs(given.v[a, i]) + abs(given.a[a, i])
    return total < np.inf


@njit(**OPTIONS)
def _aim(loops, work, lanes, k, given):
    """Tasks of step k, and its axes in work.q; a sample that is not finite is a fault."""
    w = lanes.task.shape[0]
    for b in range(w):
        i = lanes.start[b] + k
        task = _IDLE
        if lanes.task[b] != _IDLE and i < given.q.shape[1]:
            task = _WALKING if i < lanes.stop[b] else (_COMPARING if i == lanes.stop[b] else _IDLE)
        good = task != _IDLE and _finite(given, i)
        lanes.task[b], lanes.sample[b] = task, i
        lanes.fault[b] = LOST if task != _IDLE and not good else 0
        work.active[b] = good
        for a in range(loops.axes.shape[0]):
            j = loops.axes[a] * w + b
            work.q[j] = given.q[a, i] if good else lanes.q[j]
        for r in range(_PAST):
            lanes.weight[r * w + b] = _WEIGHTS[max(lanes.known[b], 1) - 1, r]


@njit(**OPTIONS)
def _guess(like, loops, work, lanes):
    """q_p from the polynomial through the last s = q_p − G q_a, with G the newest."""
    w = width(like)
    n, axes = loops.constraints.joint.shape[0], loops.axes.shape[0]
    for j in range(n):
        value = load(like, lanes.weight, 0) * load(like, lanes.q, j * w)
        for r in range(1, _PAST):
            value = value + load(like, lanes.weight, r * w) * load(like, lanes.older, ((r - 1) * n + j) * w)
        # the polynomial's values of all joints are stored temporarily in the place of velocities
        store(work.v, j * w, value)
    for p in range(loops.passive.shape[0]):
        j = loops.passive[p] * w
        value = like
        for a in range(axes):
            ahead = load(like, work.q, loops.axes[a] * w) - load(like, work.v, loops.axes[a] * w)
            value = value + load(like, lanes.x, (p * axes + a) * w) * ahead
        store(work.q, j, load(like, work.v, j) - loops.unit[p] * value)
    for b in range(work.active.shape[0]):
        if work.active[b] == 0:
            set_lane(work.q, lanes.q, b, work.active.shape[0])


@njit(**OPTIONS)
def _lead(like, loops, work, lanes, way, given):
    """Move lanes that are stuck, or disagree with their map, to their samples by `follow`; True if there are any."""
    w = work.active.shape[0]
    unsteadiness(like, loops, work, lanes.q, lanes.x)
    lost = False
    for b in range(w):
        good = work.active[b] == 0 or (
            work.stuck[b] == 0
            and closed(work, b)
            and assembled(loops, work, b)
            and (lanes.known[b] == 0 or steady(work, b))
        )
        way.code[b] = 0 if good else LOST
        lost = lost or not good
    if not lost:
        return False
    # the others keep their posture
    way.q[:] = work.q
    for b in range(w):
        if way.code[b] == LOST:
            set_lane(way.q, lanes.q, b, w)
            for a in range(loops.axes.shape[0]):
                way.goal[a * w + b] = given.q[a, lanes.sample[b]]
    led = way.code.copy()
    follow(like, loops, work, way)
    # a straight path from the last good sample may leave the workspace where one from home does not
    again = False
    for b in range(w):
        if way.code[b]:
            again, way.code[b] = True, LOST
            for j in range(loops.home.shape[0]):
                way.q[j * w + b] = loops.home[j]
    if again:
        follow(like, loops, work, way)
    for b in range(w):
        if led[b]:
            lanes.fault[b] = way.code[b]
            if lanes.fault[b]:
                set_lane(way.q, lanes.q, b, w)
    work.q[:] = way.q
    return True


@njit(**OPTIONS)
def _write(loops, work, lanes, given, told):
    """Write the lanes' postures, velocities, accelerations and maps to the output."""
    w, axes = lanes.task.shape[0], loops.axes.shape[0]
    for b in range(w):
        if lanes.task[b] != _WALKING:
            continue
        i, lost = lanes.sample[b], lanes.fault[b] != 0
        told.fault[i] = lanes.fault[b]
        told.margin[i] = (margin(work, b), 0.0, np.nan)[lanes.fault[b]]
        for a in range(axes):
            j = loops.axes[a]
            told.q[j, i] = given.q[a, i]
            told.v[j, i] = np.nan if lost else given.v[a, i]
            told.a[j, i] = np.nan if lost else given.a[a, i]
            for other in range(axes):
                told.map[j, other, i] = np.nan if lost else (1.0 if other == a else 0.0)
        for p in range(loops.passive.shape[0]):
            j, unit = loops.passive[p], loops.unit[p]
            pull = work.y[p * w + b]
            for a in range(axes):
                x = work.x[(p * axes + a) * w + b]
                pull += x * given.a[a, i]
                told.map[j, a, i] = np.nan if lost else -unit * x
            told.q[j, i] = np.nan if lost else work.q[j * w + b]
            told.v[j, i] = np.nan if lost else work.v[j * w + b]
            told.a[j, i] = np.nan if lost else -unit * pull


@njit(**OPTIONS)
def _differs(loops, work, lanes, told, b):
    """Whether the first sample of the next stretch differs from the result of this lane."""
    w, i = lanes.task.shape[0], lanes.sample[b]
    if lanes.fault[b] or told.fault[i]:
        return lanes.fault[b] != told.fault[i]
    for p in range(loops.passive.shape[0]):
        j = loops.passive[p]
        # written so that a NaN is detected too
        if not abs(told.q[j, i] - work.q[j * w + b]) <= _SAME * loops.unit[p]:
            return True
    return False


@njit(**OPTIONS)
def _remember(work, lanes):
    """The step's good postures become the newest; lanes with a fault, or idle, keep the last good ones."""
    w, n = lanes.task.shape[0], lanes.q.shape[0]
    for k in range(lanes.older.shape[0] - 1, n - 1, -1):
        lanes.older[k] = lanes.older[k - n]
    lanes.older[:n] = lanes.q
    for b in range(w):
        if work.active[b] and lanes.fault[b] == 0:
            lanes.known[b] = min(lanes.known[b] + 1, _PAST)
        else:
            lanes.known[b] = min(lanes.known[b], 1)
            set_lane(work.q, lanes.q, b, w)
            set_lane(work.x, lanes.x, b, w)
    lanes.q[:], lanes.x[:] = work.q, work.x


@njit(**OPTIONS)
def _walk(like, loops, work, lanes, way, given, told):
    """Step every lane through its stretch, and one step more to compare with the first sample of the next."""
    w, axes = lanes.task.shape[0], loops.axes.shape[0]
    longest = 0
    for b in range(w):
        lanes.differs[b] = 0
        if lanes.task[b] != _IDLE:
            longest = max(longest, lanes.stop[b] - lanes.start[b])
    smooth = False
    for k in range(longest + 1):
        _aim(loops, work, lanes, k, given)
        _guess(like, loops, work, lanes)
        smooth = settle(like, loops, work, lanes.q, smooth) <= SETTLED
        led = _lead(like, loops, work, lanes, way, given)
        for b in range(w):
            work.active[b] = lanes.task[b] != _IDLE and lanes.fault[b] == 0
        if led:
            settle(like, loops, work, lanes.q, False)
        for b in range(w):
            if work.active[b] and not margin(work, b) >= LEAST_MARGIN:
                lanes.fault[b] = SINGULAR
            for a in range(axes):
                speed = given.v[a, lanes.sample[b]] if work.active[b] and lanes.fault[b] == 0 else 0.0
                work.v[loops.axes[a] * w + b] = speed
        move(like, loops, work)
        _write(loops, work, lanes, given, told)
        for b in range(w):
            if lanes.task[b] == _COMPARING:
                lanes.differs[b] = _differs(loops, work, lanes, told, b)
        _remember(work, lanes)


@njit(**OPTIONS)
def _run(like, loops, work, lanes, way, given, told, length, only, state):
    """Move lanes from the posture `state` (n,) to the first samples of their stretches and step through these: all
    lanes, or `only` one. If many start at once, those that cannot be moved there stay idle."""
    w, total = lanes.task.shape[0], given.q.shape[1]
    for b in range(w):
        lanes.start[b], lanes.stop[b], lanes.known[b] = min(b * length, total), min((b + 1) * length, total), 0
        lanes.task[b] = lanes.start[b] < lanes.stop[b] and (only < 0 or b == only)
        way.code[b] = LOST if lanes.task[b] != _IDLE and _finite(given, lanes.start[b]) else 0
        for j in range(state.shape[0]):
            way.q[j * w + b] = lanes.q[j * w + b] = state[j]
        if way.code[b] == LOST:
            for a in range(loops.axes.shape[0]):
                way.goal[a * w + b] = given.q[a, lanes.start[b]]
    follow(like, loops, work, way)
    for b in range(w):
        if way.code[b] == 0:
            set_lane(lanes.q, way.q, b, w)
        elif b != max(only, 0):
            lanes.task[b] = _IDLE
    entered = lanes.task.copy()
    _walk(like, loops, work, lanes, way, given, told)
    return entered


@njit(**OPTIONS)
def close(loops, state, q_a, v_a, a_a, q, v, a, map, margin, fault):
    """Close the loops of a run of samples q_a, v_a, a_a (n_a, N).

    Fills q, v, a (n, N), map (n, n_a, N) with v = map · v_a, margin and fault (N,). `state` (n,) is the last good
    posture, in and out. Faulty samples hold NaN except for q of the axes; the next starts from the last good one.
    """
    given, told, like = Given(q_a, v_a, a_a), Told(q, v, a, map, margin, fault), spread(0.0)
    total, w = q_a.shape[1], WIDTH
    work, lanes, way = workspace(loops, w), _lanes(loops, w), new_way(loops, w)
    length = (total + w - 1) // w if total >= _SHORTEST * w else total
    entered, ends, differs = np.zeros(w, np.int64), lanes.q.copy(), lanes.differs.copy()
    for b in range(lanes.task.shape[0]):
        if b * length >= total:
            break
        if b == 0 or entered[b] == _IDLE or differs[b - 1]:
            begun = _run(like, loops, work, lanes, way, given, told, length, b if b > 0 else -1, state)
            for other in range(b, lanes.task.shape[0]):
                if b == 0 or other == b:
                    entered[other], differs[other] = begun[other], lanes.differs[other]
                    set_lane(ends, lanes.q, other, w)
        for j in range(state.shape[0]):
            state[j] = ends[j * w + b]


@njit(**OPTIONS)
def side_at(loops, q):
    """`side_of` the closed posture q (n,)."""
    work = workspace(loops, 1)
    work.q[:] = q
    evaluate(0.0, loops, work, False)
    return side_of(loops, work, 0)


@njit(**OPTIONS)
def closing_scratch(loops):
    """The memory of `close_one`."""
    return workspace(loops, 1)


@njit(**OPTIONS)
def close_one(loops, scratch, q, v, map, g):
    """Close the loops of one state; returns its code.

    q, v (n,): axes given, passive q as a first guess; passive parts are filled. map (n, n_a), g (n,): v = map · v_a and
    q̈ = map · q̈_a + g.
    """
    axes = loops.axes.shape[0]
    scratch.q[:], scratch.v[:], scratch.active[0] = q, v, 1
    settle(0.0, loops, scratch, q, False)
    if scratch.stuck[0] or not closed(scratch, 0) or not assembled(loops, scratch, 0):
        return LOST
    if not margin(scratch, 0) >= LEAST_MARGIN:
        return SINGULAR
    move(0.0, loops, scratch)
    q[:], v[:] = scratch.q, scratch.v
    for a in range(axes):
        j = loops.axes[a]
        g[j] = 0.0
        for other in range(axes):
            map[j, other] = 1.0 if other == a else 0.0
    for p in range(loops.passive.shape[0]):
        j = loops.passive[p]
        g[j] = -loops.unit[p] * scratch.y[p]
        for a in range(axes):
            map[j, a] = -loops.unit[p] * scratch.x[p * axes + a]
    return 0
