"""Sparse Householder QR with a precomputed plan: J_p of a looped robot, a sample or a pack of samples at a time.

    Q J_p = [R; 0],    Q J_a → X = R⁻¹ (Q J_a)_top,    Q b → y = R⁻¹ (Q b)_top

The pattern of J depends only on the mechanism, so the rows of each step, and the slots of their entries, are computed
once (`steelyard.elimination`). There may be more rows than unknowns: y is the least-squares solution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from steelyard._kernels.packs import larger, load, root, smaller, store, width, with_sign
from steelyard._kernels.spatial import OPTIONS

Integers = NDArray[np.int64]

# Columns of `Plan.step`
ROWS, INNER, OUTER, SLOT, COLUMN, ROW = 0, 1, 2, 3, 4, 5


class Plan(NamedTuple):
    """Step k eliminates unknown k from some rows, of which the first becomes row k of R.

    step (n_p, 6): number of rows; number of columns of unknowns in these, including k, and with the right-hand sides;
    first index of the step in `slot`, `column` and `row`;
    slot: column by column the slots of the rows: unknown k itself, other unknowns, right-hand sides;
    column: the number of the unknown, or of the right-hand side, of each of these columns;
    row: the rows; blank: slots that start at zero, those of unknowns first (`inner_blank`);
    slots, rows, right: numbers of slots, rows of J and right-hand sides.
    """

    step: Integers
    slot: Integers
    column: Integers
    row: Integers
    blank: Integers
    inner_blank: int
    slots: int
    rows: int
    right: int


@njit(**OPTIONS)
def factorise(like, plan, full, matrix, reflector, inverse):
    """Reduce `matrix` to triangular form, with its right-hand sides if `full`; returns the smallest and the largest
    |R_kk|². `reflector` keeps 2/vᵀv and v of every step, `inverse` 1/R_kk."""
    w = width(like)
    for k in range(plan.blank.shape[0] if full else plan.inner_blank):
        store(matrix, plan.blank[k] * w, like)
    least, most = like + np.inf, like
    for k in range(plan.step.shape[0]):
        n, at, v = plan.step[k, ROWS], plan.step[k, SLOT], (plan.step[k, ROW] + k) * w
        norm = like
        for i in range(n):
            x = load(like, matrix, plan.slot[at + i] * w)
            store(reflector, v + (i + 1) * w, x)
            norm = norm + x * x
        x = load(like, reflector, v + w)
        length = with_sign(root(norm), x)
        x = x + length
        store(reflector, v + w, x)
        store(reflector, v, 1.0 / (length * x))
        store(inverse, k * w, -1.0 / length)
        least, most = smaller(least, norm), larger(most, norm)
        for _ in range(1, plan.step[k, OUTER] if full else plan.step[k, INNER]):
            at += n
            dot = like
            for i in range(n):
                dot = dot + load(like, reflector, v + (i + 1) * w) * load(like, matrix, plan.slot[at + i] * w)
            dot = dot * load(like, reflector, v)
            for i in range(n):
                to = plan.slot[at + i] * w
                store(matrix, to, load(like, matrix, to) - dot * load(like, reflector, v + (i + 1) * w))
    return least, most


@njit(**OPTIONS)
def solve(like, plan, matrix, reflector, inverse, b, y):
    """y (n_p · w,) with J_p y = b in the sense of least squares, after `factorise`; b (m · w,) is overwritten."""
    w = width(like)
    steps = plan.step.shape[0]
    for k in range(steps):
        n, at, v = plan.step[k, ROWS], plan.step[k, ROW], (plan.step[k, ROW] + k) * w
        dot = like
        for i in range(n):
            dot = dot + load(like, reflector, v + (i + 1) * w) * load(like, b, plan.row[at + i] * w)
        dot = dot * load(like, reflector, v)
        for i in range(n):
            to = plan.row[at + i] * w
            store(b, to, load(like, b, to) - dot * load(like, reflector, v + (i + 1) * w))
    for k in range(steps - 1, -1, -1):
        n, at, columns = plan.step[k, ROWS], plan.step[k, SLOT], plan.step[k, COLUMN]
        value = load(like, b, plan.row[plan.step[k, ROW]] * w)
        for j in range(1, plan.step[k, INNER]):
            value = value - load(like, matrix, plan.slot[at + j * n] * w) * load(like, y, plan.column[columns + j] * w)
        store(y, k * w, value * load(like, inverse, k * w))


@njit(**OPTIONS)
def solve_right(like, plan, matrix, inverse, x):
    """x (n_p · r · w,) with J_p x = the r right-hand sides that `factorise` has transformed."""
    w = width(like)
    wide = plan.right * w
    for k in range(plan.step.shape[0] - 1, -1, -1):
        n, at, columns = plan.step[k, ROWS], plan.step[k, SLOT], plan.step[k, COLUMN]
        for a in range(plan.right):
            store(x, k * wide + a * w, like)
        for j in range(plan.step[k, INNER], plan.step[k, OUTER]):
            store(x, k * wide + plan.column[columns + j] * w, load(like, matrix, plan.slot[at + j * n] * w))
        for j in range(1, plan.step[k, INNER]):
            factor = load(like, matrix, plan.slot[at + j * n] * w)
            other = plan.column[columns + j] * wide
            for a in range(plan.right):
                to = k * wide + a * w
                store(x, to, load(like, x, to) - factor * load(like, x, other + a * w))
        factor = load(like, inverse, k * w)
        for a in range(plan.right):
            to = k * wide + a * w
            store(x, to, load(like, x, to) * factor)
