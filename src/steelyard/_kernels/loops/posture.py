"""One posture of a looped robot: its loops closed by Newton's method, its map, and its margin from a singularity.

The passive coordinates solve c(q) = 0 for given axes. Near a solution, with J = [J_p J_a] and y the least-squares
solution of J_p y = c,
    q_p ← q_p − y,        q̇_p = G q̇_a,  G = −J_p⁺ J_a,        q̈_p = G q̈_a + g,  g = −J_p⁺ J̇ q̇.
Corrections are measured in radians and in the robot's length. Code 0 is a good posture, SINGULAR one at which the loops
do not determine the passive joints, LOST one that cannot be reached without a change of assembly mode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from steelyard._kernels.loops.constraints import (
    FRAMES,
    LINK,
    LoopConstraints,
    entries,
    move_links,
    pose_links,
    rates,
    residuals,
)
from steelyard._kernels.loops.elimination import Plan, factorise, solve, solve_right
from steelyard._kernels.packs import load, store, width
from steelyard._kernels.spatial import OPTIONS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SINGULAR, LOST = 1, 2
# After a correction this small no further one is needed: G and g of that posture are exact to rounding.
SETTLED = 5e-13
# If rounding keeps corrections from decreasing further, they must at least be below this.
STALLED = 1e-9
# After a correction below this the next one is (quadratic convergence) about SETTLED: G is computed with it.
NEARLY = 3e-7
# A first correction above this [rad, robot lengths] means that the start is not near the solution.
FAR = 0.5
# Closure error of equations with more rows than unknowns: geometry given to six digits closes to about this.
CLOSED = 1e-6
# Smallest |R_kk| over the largest. Near a fold at margin m, rounding ε changes q_p by ε/m and G by ε/m², relative: at
# 1e-5 five digits are left.
LEAST_MARGIN = 1e-5
# Posture and map must agree: the change of q_p and the mean G of both ends times the change of q_a, within a quarter.
UNSTEADY = 0.25
# Iterations of Newton's method to a neighbour.
ROUNDS = 10


class Loops(NamedTuple):
    """A looped mechanism: equations, plan of elimination, axes (n_a,) and passive joints (n_p,) in the order of
    elimination, the units [1 | m] of the latter (n_p,), its posture at home (n,), and the side of its singularities on
    which it is assembled: the sign of det J_p at home up to a fixed one (`side_of`), 0 if J_p has more rows than
    unknowns and therefore no determinant."""

    constraints: LoopConstraints
    plan: Plan
    axes: Integers
    passive: Integers
    unit: Floats
    home: Floats
    side: float


class Work(NamedTuple):
    """Memory of one posture or pack of postures; flat, each quantity as wide as a pack.

    The last four are per lane: those that take part, those whose corrections did not decrease, the last correction, and
    |Δq_p − …|², |Δq_p|² of `unsteadiness`.
    """

    q: Floats
    v: Floats
    sine: Floats
    cosine: Floats
    links: Floats
    frames: Floats
    wrench: Floats
    c: Floats
    b: Floats
    matrix: Floats
    reflector: Floats
    inverse: Floats
    y: Floats
    x: Floats
    # |y|², |c|², smallest and largest |R_kk|²
    sizes: Floats
    active: Integers
    stuck: Integers
    before: Floats
    changes: Floats


@njit(**OPTIONS)
def workspace(loops, w):
    """Memory for packs of w postures."""
    equations, plan = loops.constraints, loops.plan
    n, m, p = equations.joint.shape[0], plan.rows, loops.passive.shape[0]
    links = np.zeros((n + 1) * LINK * w)
    for k in (0, 4, 8):
        links[k * w : (k + 1) * w] = 1.0
    return Work(
        np.zeros(n * w),
        np.zeros(n * w),
        np.zeros(n * w),
        np.zeros(n * w),
        links,
        np.zeros((equations.links.shape[0] + 1) * FRAMES * w),
        np.zeros(6 * m * w),
        np.zeros(m * w),
        np.zeros(m * w),
        np.zeros(plan.slots * w),
        np.zeros((plan.row.shape[0] + p) * w),
        np.zeros(p * w),
        np.zeros(p * w),
        np.zeros(p * plan.right * w),
        np.zeros(4 * w),
        np.zeros(w, np.int64),
        np.zeros(w, np.int64),
        np.zeros(w),
        np.zeros(2 * w),
    )


@njit(**OPTIONS)
def evaluate(like, loops, work, full):
    """Residuals c at work.q, their correction y and, if `full`, x = −G in units."""
    w = width(like)
    equations, plan = loops.constraints, loops.plan
    pose_links(like, equations.joint, equations.geometry, work.q, work.sine, work.cosine, work.links)
    residuals(like, equations, work.q, work.links, work.frames, work.wrench, work.c)
    passive = equations.passive_entries
    stop = equations.entry.shape[0] if full else passive
    entries(like, equations, 0, stop, work.q, work.links, work.wrench, work.matrix)
    least, most = factorise(like, plan, full, work.matrix, work.reflector, work.inverse)
    opening, size = like, like
    for r in range(plan.rows):
        c = load(like, work.c, r * w)
        store(work.b, r * w, c)
        opening = opening + c * c
    solve(like, plan, work.matrix, work.reflector, work.inverse, work.b, work.y)
    for p in range(loops.passive.shape[0]):
        y = load(like, work.y, p * w)
        size = size + y * y
    store(work.sizes, 0, size)
    store(work.sizes, w, opening)
    store(work.sizes, 2 * w, least)
    store(work.sizes, 3 * w, most)
    if full:
        solve_right(like, plan, work.matrix, work.inverse, work.x)


@njit(**OPTIONS)
def correct(like, loops, work):
    """q_p ← q_p − y."""
    w = width(like)
    for p in range(loops.passive.shape[0]):
        to = loops.passive[p] * w
        store(work.q, to, load(like, work.q, to) - loops.unit[p] * load(like, work.y, p * w))


@njit(**OPTIONS)
def move(like, loops, work):
    """Passive velocities of work.v from those of the axes, and −g in units in work.y, after a full `evaluate`."""
    w = width(like)
    axes = loops.axes.shape[0]
    for p in range(loops.passive.shape[0]):
        speed = like
        for a in range(axes):
            speed = speed - load(like, work.x, (p * axes + a) * w) * load(like, work.v, loops.axes[a] * w)
        store(work.v, loops.passive[p] * w, loops.unit[p] * speed)
    move_links(like, loops.constraints.joint, work.v, work.links)
    rates(like, loops.constraints, work.q, work.v, work.links, work.frames, work.wrench, work.b)
    solve(like, loops.plan, work.matrix, work.reflector, work.inverse, work.b, work.y)


@njit(**OPTIONS)
def unsteadiness(like, loops, work, q, x):
    """|Δq_p − ½ (G + G') Δq_a|² and |Δq_p|² in units, from posture q with x = −G to that of `work`.

    Near a fold of the mechanism, where two assembly modes meet, they differ long before G is infinite.
    """
    w = width(like)
    axes = loops.axes.shape[0]
    apart, change = like, like
    for p in range(loops.passive.shape[0]):
        j = loops.passive[p] * w
        moved = (load(like, work.q, j) - load(like, q, j)) * (1.0 / loops.unit[p])
        change = change + moved * moved
        for a in range(axes):
            j, k = loops.axes[a] * w, (p * axes + a) * w
            step = load(like, work.q, j) - load(like, q, j)
            moved = moved + 0.5 * step * (load(like, x, k) + load(like, work.x, k))
        apart = apart + moved * moved
    store(work.changes, 0, apart)
    store(work.changes, w, change)


@njit(**OPTIONS)
def steady(work, b):
    """Whether the result of `unsteadiness` in lane b indicates one assembly mode."""
    return work.changes[b] <= UNSTEADY**2 * work.changes[work.active.shape[0] + b] + STALLED**2


@njit(**OPTIONS)
def margin(work, b):
    """Smallest |R_kk| over the largest of lane b: 0 at a singularity."""
    w = work.active.shape[0]
    return np.sqrt(work.sizes[2 * w + b] / work.sizes[3 * w + b])


@njit(**OPTIONS)
def side_of(loops, work, b):
    """Π sign R_kk of lane b. Every step of the elimination reflects once, so for as many rows as unknowns it is the
    sign of det J_p up to a fixed one. It changes at singularities only, which separate the assembly modes."""
    w, side = work.active.shape[0], 1.0
    for p in range(loops.passive.shape[0]):
        side = -side if work.inverse[p * w + b] < 0.0 else side
    return side


@njit(**OPTIONS)
def assembled(loops, work, b):
    """Whether lane b is on the side of the singularities on which the robot was assembled."""
    return loops.side == 0.0 or side_of(loops, work, b) == loops.side


@njit(**OPTIONS)
def closed(work, b):
    """Whether the equations of lane b are satisfied, including those in excess of the unknowns."""
    return np.sqrt(work.sizes[work.active.shape[0] + b]) <= CLOSED


@njit(**OPTIONS)
def set_lane(to, source, b, w):
    """Copy lane b of one array to that of another."""
    for k in range(b, to.shape[0], w):
        to[k] = source[k]


@njit(**OPTIONS)
def settle(like, loops, work, q, full):
    """Newton's method on work.q with fixed axes, in the active lanes. Corrections must decrease by a factor of four per
    iteration: then the start was near this solution and no other. Lanes in which they do not are stuck and go back to
    q. Ends with a full `evaluate` at the postures found, before the last correction; unless all are stuck. With `full`
    it also begins so, which is enough for good guesses. Returns the largest first correction."""
    # not width(like): LLVM would unroll every loop over lanes eight times
    lanes, first = work.active.shape[0], 0.0
    for b in range(lanes):
        work.stuck[b], work.before[b] = 0, np.inf
    for turn in range(ROUNDS):
        last = turn == ROUNDS - 1
        full = full or last
        evaluate(like, loops, work, full)
        worst, waiting, left, began = 0.0, False, 0, 0
        for b in range(lanes):
            began += work.active[b]
            if work.active[b] == 0 or work.stuck[b]:
                continue
            size = np.sqrt(work.sizes[b])
            if turn == 0:
                first = max(first, size)
            if not (size <= SETTLED or (size <= STALLED and size > 0.25 * work.before[b])):
                waiting = True
                # written so that a NaN is detected too
                if size <= min(FAR, 0.25 * work.before[b]) and not last:
                    worst = max(worst, size)
                else:
                    work.stuck[b] = 1
            work.before[b] = size
            left += 1 - work.stuck[b]
        correct(like, loops, work)
        for b in range(lanes):
            if work.stuck[b]:
                set_lane(work.q, q, b, lanes)
        if (full and (last or not waiting)) or left == 0 < began:
            return first
        full = worst <= NEARLY
    return first
