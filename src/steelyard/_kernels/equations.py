"""Equations of motion of a plant at one state, in the coordinates of its axes: bodies, drives, friction, loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from steelyard._kernels.dynamics import CARRIED_LINK, DRIVE, OWN_LINK, equations_of_motion, link_motions
from steelyard._kernels.laws import ALONG, JOINT, LINEAR, value
from steelyard._kernels.loops.newton import Loops, close_one
from steelyard._kernels.spatial import OPTIONS

# Return codes: success; M is not positive definite; load friction found no acceleration; and in addition to those of
# `kernels.simulation`: a loop is at a singularity; it cannot be closed.
DONE, INDEFINITE, UNSETTLED, SINGULAR, UNREACHABLE = 0, 1, 2, 5, 6

# Matrices of the scratch memory; a tree with loops has the first two.
MASS, LOAD_MASS, FACTOR, LAGGED, BEFORE = 0, 1, 2, 3, 4
MATRICES, TREE_MATRICES = 5, 2
# Rows of the scratch memory; from `SPARE` on they belong to the caller.
NET, LOAD_BIAS, LOAD, EFFORT, DAMPING, STIFFNESS, FRICTION, LAST, SPARE = 0, 1, 2, 3, 4, 5, 6, 7, 8
ROWS = 20
# Rows of a tree whose loops are closed: positions, velocities and accelerations of all joints.
TREE_Q, TREE_V, TREE_A = SPARE, SPARE + 1, SPARE + 2
# Rows of a plant's memory: each law's coordinate and Dahl state at the last step, and its present coordinate.
COORDINATE, STATE, NOW = 0, 1, 2


class Dynamics(NamedTuple):
    """A plant as seen by the compiled loop, for n joints:  (M(q) + inertia) q̈ + h(q, q̇) + drive(q, q̇, q̈) = τ.

    parent (n,)           index of each joint's parent, −1 for the base
    joints (n + 1, …)     row 0: gravity (3,). Row j + 1: placement (4, 3, 4), screw (6,), inertial parameters of the
                          link (10,), those for the load of the gears (10,), from column DRIVE on the linear
                          laws: inertia (n,), viscous (n,) and constant
    laws (E, 10 + 3n)     the other laws, in the format of `kernels.laws`
    loads (K, 6)          load friction: axis, gain, width, exponent, the axis' joint, and the axis whose load it takes
    loops                 the loops of the tree, and its axes; None if every joint is an axis

    With loops the equations are those of the axes, with q̇_tree = G q̇ and q̈_tree = G q̈ + g (P3 eqs 11–15):
        Gᵀ(M + inertia)G q̈ + Gᵀ(h + (M + inertia) g + drive) = τ
    All effects at the joints, including friction of passive ones, are written for the tree. Whether there are loops is
    known at compile time (`loops is None`), so that they cost nothing for an open robot.
    """

    parent: np.ndarray
    joints: np.ndarray
    laws: np.ndarray
    loads: np.ndarray
    loops: Loops | None


class Chains(NamedTuple):
    """Memory of a tree whose loops are closed: its own matrices and rows, G (n, n_a), g (n,), a matrix times G (n, n_a)
    and the memory of `close_one`. Row TREE_Q is the posture from which the next one is found."""

    matrices: np.ndarray
    rows: np.ndarray
    map: np.ndarray
    drift: np.ndarray
    moved: np.ndarray
    closing: Any


class Space(NamedTuple):
    """Memory of one evaluation: link motions, and the matrices and rows of the axes; `chains` for robots with loops."""

    work: np.ndarray
    matrices: np.ndarray
    rows: np.ndarray
    chains: Chains | None


# --- Equations of motion ----------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def assemble(parent, joints, laws, loaded, work, matrices, rows, memory, q, v):
    """M with the drives' inertia into matrices[MASS], all torque without q̈ and without load friction into rows[NET],
    and with load friction the parts of τ_rigid into matrices[LOAD_MASS] and rows[LOAD_BIAS]."""
    n = parent.shape[0]
    link_motions(parent, joints, rows, q, v, FRICTION, LAST, work)
    if loaded:
        equations_of_motion(parent, joints, CARRIED_LINK, work, matrices, LOAD_MASS, rows, LOAD_BIAS)
    equations_of_motion(parent, joints, OWN_LINK, work, matrices, MASS, rows, NET)
    for j in range(n):
        total = rows[NET, j] + joints[j + 1, DRIVE + 2 * n]
        for k in range(n):
            total += joints[j + 1, DRIVE + n + k] * rows[v, k]
        rows[NET, j] = total
        for k in range(j + 1):
            matrices[MASS, j, k] += joints[j + 1, DRIVE + k]
    for e in range(laws.shape[0]):
        state = q if laws[e, 0] >= LINEAR else v
        one = int(laws[e, JOINT])
        first, stop = (0, n) if one < 0 else (one, one + 1)
        x = 0.0
        for j in range(first, stop):
            x += laws[e, ALONG + j] * rows[state, j]
        memory[NOW, e] = x
        f = value(laws, e, x, memory[COORDINATE, e], memory[STATE, e])
        for j in range(first, stop):
            rows[NET, j] += laws[e, ALONG + n + j] * f
        if loaded:
            for j in range(first, stop):
                rows[LOAD_BIAS, j] += laws[e, ALONG + 2 * n + j] * f


@njit(**OPTIONS)
def _follow(loops, chains, rows, q, v):
    """All joints of the tree, G and g from rows[q] and rows[v] of the axes; returns a code."""
    _, tree, map, drift, _, closing = chains
    axes = loops.axes
    n, along, speed = axes.shape[0], 0.0, 0.0
    for k in range(n):
        before = tree[TREE_V, axes[k]]
        rows[LAST, k] = rows[q, k] - tree[TREE_Q, axes[k]]
        along += rows[LAST, k] * before
        speed += before * before
    # First guess: the last posture extrapolated with its velocity and curvature. The remaining error is of third order,
    # so that Newton's method needs one step less.
    bend = 0.5 * (along / speed) ** 2 if speed > 0.0 else 0.0
    for j in range(map.shape[0]):
        tree[TREE_Q, j] += bend * drift[j]
        for k in range(n):
            tree[TREE_Q, j] += map[j, k] * rows[LAST, k]
    for k in range(n):
        tree[TREE_Q, axes[k]], tree[TREE_V, axes[k]] = rows[q, k], rows[v, k]
    code = close_one(loops, closing, tree[TREE_Q], tree[TREE_V], map, drift)
    return DONE if code == 0 else SINGULAR - 1 + code


@njit(**OPTIONS)
def _project(chains, matrices, rows, mass, bias):
    """GᵀMG into matrices[mass] and Gᵀ(h + M g) into rows[bias] of the axes, with M and h those of the tree."""
    own, tree, map, drift, moved, _ = chains
    joints, n = map.shape
    for j in range(joints):
        for c in range(n):
            moved[j, c] = 0.0
    for j in range(joints):
        for k in range(j + 1):
            entry = own[mass, j, k]
            # most are zero: only a joint and its ancestors share an entry
            if entry == 0.0:
                continue
            tree[bias, j] += entry * drift[k]
            for c in range(n):
                moved[j, c] += entry * map[k, c]
            if k < j:
                tree[bias, k] += entry * drift[j]
                for c in range(n):
                    moved[k, c] += entry * map[j, c]
    for a in range(n):
        rows[bias, a] = 0.0
        for b in range(a + 1):
            matrices[mass, a, b] = 0.0
    for j in range(joints):
        for a in range(n):
            share = map[j, a]
            rows[bias, a] += share * tree[bias, j]
            for b in range(a + 1):
                matrices[mass, a, b] += share * moved[j, b]


@njit(**OPTIONS)
def assemble_looped(parent, joints, laws, loaded, loops, work, matrices, rows, chains, memory, q, v):
    """The result of `assemble` for the axes of a tree whose loops are closed at rows[q], rows[v]; returns a code."""
    code = _follow(loops, chains, rows, q, v)
    if code != DONE:
        return code
    assemble(parent, joints, laws, loaded, work, chains.matrices, chains.rows, memory, TREE_Q, TREE_V)
    _project(chains, matrices, rows, MASS, NET)
    if loaded:
        _project(chains, matrices, rows, LOAD_MASS, LOAD_BIAS)
    return DONE
