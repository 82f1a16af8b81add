"""The path from one posture of a looped robot to another, without a change of assembly mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from steelyard._kernels.loops.posture import (
    CLOSED,
    FAR,
    LEAST_MARGIN,
    LOST,
    NEARLY,
    SETTLED,
    SINGULAR,
    Floats,
    Integers,
    assembled,
    closed,
    correct,
    evaluate,
    margin,
    set_lane,
    settle,
    steady,
    unsteadiness,
)
from steelyard._kernels.packs import load, store, width
from steelyard._kernels.spatial import OPTIONS

# Iterations of Newton's method to find whether a posture closes.
LOOKS = 32
# Smallest fraction of the path; below it a posture is out of reach. The margin decreases as the root of the rest.
LEAST_STEP = 2.0**-30
# A lane with steps this small is close to a fold: test whether the goal closes.
LOOK_STEP = 2.0**-10


class Way(NamedTuple):
    """State of lanes on their path to `goal` (n_a · w,): the last good posture q (n · w,) and its x; their start
    `begin` (n_a · w,); the fractions of the path done and attempted, and the step (w,); codes (w,); lanes that are to
    look ahead, and those that have (w,)."""

    q: Floats
    x: Floats
    begin: Floats
    goal: Floats
    done: Floats
    aim: Floats
    step: Floats
    code: Integers
    look: Integers
    looked: Integers


@njit(**OPTIONS)
def new_way(loops, w):
    """Memory of `follow` for packs of w postures."""
    n, p, a = loops.constraints.joint.shape[0], loops.passive.shape[0], loops.axes.shape[0]
    return Way(
        np.zeros(n * w),
        np.zeros(p * a * w),
        np.zeros(a * w),
        np.zeros(a * w),
        np.zeros(w),
        np.zeros(w),
        np.zeros(w),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
    )


@njit(**OPTIONS)
def _aim(like, loops, work, way):
    """Postures at the attempted fractions of the path, extrapolated from the last good ones with their maps."""
    w = width(like)
    axes, part = loops.axes.shape[0], load(like, way.aim, 0)
    for p in range(loops.passive.shape[0]):
        j = loops.passive[p] * w
        store(work.q, j, load(like, way.q, j))
    for a in range(axes):
        j, begin = loops.axes[a] * w, load(like, way.begin, a * w)
        to = begin + part * (load(like, way.goal, a * w) - begin)
        store(work.q, j, to)
        ahead = to - load(like, way.q, j)
        for p in range(loops.passive.shape[0]):
            k = loops.passive[p] * w
            store(work.q, k, load(like, work.q, k) - loops.unit[p] * load(like, way.x, (p * axes + a) * w) * ahead)


@njit(**OPTIONS)
def _look_ahead(like, loops, work, way):
    """Whether the goals of the lanes marked in way.look close. Newton's method with short steps goes straight there,
    possibly to another assembly mode. A lane whose goal closes at a singularity is SINGULAR; that one, and one whose
    residual stops decreasing, become inactive."""
    w = width(like)
    lanes, hope = work.active.shape[0], way.look.copy()
    best, mark = np.full(lanes, np.inf), np.full(lanes, np.inf)
    work.q[:] = way.q
    for a in range(loops.axes.shape[0]):
        for b in range(lanes):
            if hope[b]:
                work.q[loops.axes[a] * w + b] = way.goal[a * w + b]
    # at a singularity each iteration only halves the error
    for turn in range(LOOKS):
        # never full; a literal False would compile everything below a second time
        evaluate(like, loops, work, turn < 0)
        searching = False
        for b in range(lanes):
            size, opening = np.sqrt(work.sizes[b]), np.sqrt(work.sizes[lanes + b])
            if size > FAR:
                for p in range(loops.passive.shape[0]):
                    work.y[p * w + b] *= FAR / size
            if hope[b] == 0:
                continue
            best[b] = min(best[b], opening)
            regular = margin(work, b) > 10.0 * LEAST_MARGIN
            if opening <= SETTLED or (size <= NEARLY and regular and opening <= CLOSED):
                hope[b] = 0
                if not regular:
                    way.code[b], work.active[b] = SINGULAR, 0
            # written so that a NaN is detected too
            elif turn % 4 == 3:
                if not best[b] <= 0.9 * mark[b] or turn == LOOKS - 1:
                    hope[b] = work.active[b] = 0
                mark[b] = best[b]
            searching = searching or hope[b] == 1
        if not searching:
            return
        correct(like, loops, work)


@njit(**OPTIONS)
def follow(like, loops, work, way):
    """Move the closed postures way.q of lanes with code LOST to axes way.goal, along straight lines of q_a and in steps
    small enough to keep the assembly mode. Then code is 0, and q and x are those at the goal; or it is SINGULAR or
    still LOST, and they are those of a posture on the path."""
    w = width(like)
    lanes, axes = work.active.shape[0], loops.axes.shape[0]
    for a in range(axes):
        for b in range(lanes):
            way.begin[a * w + b] = way.q[loops.axes[a] * w + b]
    for b in range(lanes):
        work.active[b] = way.code[b] == LOST
        way.done[b], way.step[b], way.looked[b] = 0.0, 1.0, 0
    work.q[:] = way.q
    settle(like, loops, work, way.q, False)
    way.x[:] = work.x
    moving = True
    while moving:
        for b in range(lanes):
            way.aim[b] = min(1.0, way.done[b] + way.step[b]) if work.active[b] else way.done[b]
        _aim(like, loops, work, way)
        settle(like, loops, work, way.q, False)
        unsteadiness(like, loops, work, way.q, way.x)
        moving, looking = False, False
        for b in range(lanes):
            way.look[b] = 0
            if work.active[b] == 0:
                continue
            good = work.stuck[b] == 0 and closed(work, b) and margin(work, b) >= LEAST_MARGIN
            if good and assembled(loops, work, b) and steady(work, b):
                set_lane(way.q, work.q, b, lanes)
                set_lane(way.x, work.x, b, lanes)
                way.done[b], way.step[b] = way.aim[b], 2.0 * way.step[b]
                if way.done[b] == 1.0:
                    work.active[b], way.code[b] = 0, 0
            else:
                way.step[b] *= 0.25
                if way.step[b] < LEAST_STEP:
                    work.active[b] = 0
                if way.step[b] < LOOK_STEP and way.looked[b] == 0:
                    way.look[b] = way.looked[b] = 1
                    looking = True
            moving = moving or work.active[b] == 1
        if looking:
            _look_ahead(like, loops, work, way)
