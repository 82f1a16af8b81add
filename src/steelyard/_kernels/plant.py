"""Dynamics of a plant at one state: rigid bodies, rotors, friction, springs and pre-sliding, forward and inverse."""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.dynamics import SCALAR_WORKSPACE, factorise, substitute
from steelyard._kernels.equations import (
    COORDINATE,
    DAMPING,
    DONE,
    EFFORT,
    FACTOR,
    FRICTION,
    INDEFINITE,
    LAST,
    LOAD,
    LOAD_BIAS,
    LOAD_MASS,
    MASS,
    MATRICES,
    NET,
    NOW,
    ROWS,
    SPARE,
    STATE,
    STIFFNESS,
    TREE_A,
    TREE_MATRICES,
    TREE_Q,
    UNSETTLED,
    Chains,
    Dynamics,
    Space,
    assemble,
    assemble_looped,
)
from steelyard._kernels.laws import DAHL, value
from steelyard._kernels.loops.newton import closing_scratch
from steelyard._kernels.spatial import OPTIONS

# Pivots of M below this fraction of its diagonal are rounding.
PIVOT = 1e-12
_FIXED_POINTS = 200


def space_of(plant: Dynamics) -> Space:
    """Memory of a plant's evaluations."""
    joints = len(plant.parent)
    n = joints if plant.loops is None else len(plant.loops.axes)
    chains = None
    if plant.loops is not None:
        chains = Chains(
            np.zeros((TREE_MATRICES, joints, joints)),
            np.zeros((ROWS, joints)),
            *(np.zeros((joints, n)), np.zeros(joints), np.zeros((joints, n))),
            closing_scratch(plant.loops),
        )
    return Space(np.zeros((joints + 1, SCALAR_WORKSPACE)), np.zeros((MATRICES, n, n)), np.zeros((ROWS, n)), chains)


@njit(**OPTIONS)
def times(matrices, a, rows, x, out):
    """rows[out] = A rows[x] of a symmetric A given by the lower triangle of matrices[a]."""
    n = matrices.shape[1]
    for j in range(n):
        total = 0.0
        for k in range(j + 1):
            total += matrices[a, j, k] * rows[x, k]
        for k in range(j + 1, n):
            total += matrices[a, k, j] * rows[x, k]
        rows[out, j] = total


@njit(**OPTIONS)
def _load_friction(loads, matrices, rows, v, a):
    """rows[FRICTION] = gain sign(q̇) |τ_rigid|^p at the acceleration rows[a]; leaves τ_rigid in rows[LOAD]."""
    n = matrices.shape[1]
    times(matrices, LOAD_MASS, rows, a, LOAD)
    for j in range(n):
        rows[LOAD, j] += rows[LOAD_BIAS, j]
        rows[FRICTION, j] = 0.0
    for k in range(loads.shape[0]):
        j = int(loads[k, 0])
        size = abs(rows[LOAD, int(loads[k, 5])])
        if loads[k, 3] != 1.0:
            size = size ** loads[k, 3]
        rows[FRICTION, j] += loads[k, 1] * np.tanh(rows[v, j] / loads[k, 2]) * size


@njit(**OPTIONS)
def accelerate(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, q, v, a):
    """q̈ into rows[a] at rows[q], rows[v] under the torque rows[EFFORT] of the axes; returns a code and the axis.

    Load friction depends on q̈ itself. It is a small fraction of the torque, so q̈ ← M⁻¹(τ − … − f(q̈)) converges.
    """
    n = rows.shape[1]
    if loops is None:
        assemble(parent, joints, laws, loads.shape[0] > 0, work, matrices, rows, memory, q, v)
    else:
        code = assemble_looped(
            parent, joints, laws, loads.shape[0] > 0, loops, work, matrices, rows, chains, memory, q, v
        )
        if code != DONE:
            return code, 0
    for j in range(n):
        rows[NET, j] = rows[EFFORT, j] - rows[NET, j]
        rows[a, j] = rows[NET, j]
        for k in range(j + 1):
            matrices[FACTOR, j, k] = matrices[MASS, j, k]
    bad = factorise(matrices, FACTOR, PIVOT)
    if bad >= 0:
        return INDEFINITE, bad
    substitute(matrices, FACTOR, rows, a)
    if loads.shape[0] == 0:
        return DONE, 0
    worst = 0
    for _ in range(_FIXED_POINTS):
        _load_friction(loads, matrices, rows, v, a)
        for j in range(n):
            rows[LAST, j] = rows[a, j]
            rows[a, j] = rows[NET, j] - rows[FRICTION, j]
        substitute(matrices, FACTOR, rows, a)
        change, size = 0.0, 0.0
        for j in range(n):
            size = max(size, abs(rows[a, j]))
            if abs(rows[a, j] - rows[LAST, j]) > change:
                change, worst = abs(rows[a, j] - rows[LAST, j]), j
        if change <= 1e-13 * (1.0 + size):
            return DONE, 0
    return UNSETTLED, worst


@njit(**OPTIONS)
def command_torque(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, q, v, a, out):
    """Inverse dynamics: rows[out] = τ of the axes at rows[q], rows[v], rows[a]; returns a code."""
    if loops is None:
        assemble(parent, joints, laws, loads.shape[0] > 0, work, matrices, rows, memory, q, v)
    else:
        code = assemble_looped(
            parent, joints, laws, loads.shape[0] > 0, loops, work, matrices, rows, chains, memory, q, v
        )
        if code != DONE:
            return code
    times(matrices, MASS, rows, a, out)
    for j in range(rows.shape[1]):
        rows[out, j] += rows[NET, j]
    if loads.shape[0] > 0:
        _load_friction(loads, matrices, rows, v, a)
        for j in range(rows.shape[1]):
            rows[out, j] += rows[FRICTION, j]
    return DONE


@njit(**OPTIONS)
def remember(laws, memory):
    """Dahl's states at the last evaluation of the laws, after a monotone motion from the previous ones."""
    for e in range(laws.shape[0]):
        if laws[e, 0] == DAHL:
            memory[STATE, e] = value(laws, e, memory[NOW, e], memory[COORDINATE, e], memory[STATE, e])
            memory[COORDINATE, e] = memory[NOW, e]


# --- Dampers and springs of the joints, projected to the axes ---------------------------------------------------------


@njit(**OPTIONS)
def joint_rows(loops, rows, chains):
    """The rows of all joints: those of the axes if there are no loops."""
    if loops is None:
        return rows
    return chains.rows


@njit(**OPTIONS)
def joint_accelerations(loops, rows, chains, a):
    """The row of `joint_rows` that holds q̈ of all joints; rows[a] is that of the axes."""
    if loops is None:
        return a
    _, tree, map, drift, _, _ = chains
    for j in range(map.shape[0]):
        tree[TREE_A, j] = drift[j]
        for k in range(map.shape[1]):
            tree[TREE_A, j] += map[j, k] * rows[a, k]
    return TREE_A


@njit(**OPTIONS)
def rates(loops, matrices, rows, chains, spare):
    """Traces Σ_j D_j (G M⁻¹ Gᵀ)_jj of M⁻¹GᵀDG, with D in row DAMPING and then in row STIFFNESS of all joints.

    M is that of the last acceleration.
    """
    n, damping, stiffness = rows.shape[1], 0.0, 0.0
    if loops is None:
        for j in range(n):
            yields = 0.0
            for i in range(j, n):
                entry = 1.0 if i == j else 0.0
                for k in range(j, i):
                    entry -= matrices[FACTOR, i, k] * rows[spare, k]
                rows[spare, i] = entry
                yields += entry * entry / matrices[FACTOR, i, i]
            damping += rows[DAMPING, j] * yields
            stiffness += rows[STIFFNESS, j] * yields
    else:
        tree, map = chains.rows, chains.map
        for j in range(map.shape[0]):
            if tree[DAMPING, j] == 0.0 and tree[STIFFNESS, j] == 0.0:
                continue
            yields = 0.0
            for i in range(n):
                entry = map[j, i]
                for k in range(i):
                    entry -= matrices[FACTOR, i, k] * rows[spare, k]
                rows[spare, i] = entry
                yields += entry * entry / matrices[FACTOR, i, i]
            damping += tree[DAMPING, j] * yields
            stiffness += tree[STIFFNESS, j] * yields
    return damping, stiffness


@njit(**OPTIONS)
def add_damping(loops, matrices, rows, chains, weight, into):
    """matrices[into] += weight · GᵀDG, with the diagonal D in row DAMPING of all joints."""
    n = rows.shape[1]
    if loops is None:
        for j in range(n):
            matrices[into, j, j] += weight * rows[DAMPING, j]
        return
    tree, map = chains.rows, chains.map
    for j in range(map.shape[0]):
        if tree[DAMPING, j] == 0.0:
            continue
        for a in range(n):
            share = weight * tree[DAMPING, j] * map[j, a]
            for b in range(a + 1):
                matrices[into, a, b] += share * map[j, b]


# --- Many states ------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _assume(loops, chains, posture):
    """Set the posture (n,) of all joints from which loops are closed next."""
    if loops is not None:
        chains.rows[TREE_Q] = posture
        chains.map[:] = 0.0
        chains.drift[:] = 0.0


@njit(**OPTIONS)
def stand(plant, space, memory, q, posture):
    """A plant at rest at q (n_a,), with Dahl's states zero; loops are closed from `posture` (n,). Returns a code."""
    parent, joints, laws, loads, loops = plant
    work, matrices, rows, chains = space
    here, still, out = SPARE, SPARE + 1, SPARE + 2
    _assume(loops, chains, posture)
    rows[here] = q
    rows[still] = 0.0
    memory[:] = 0.0
    code = command_torque(
        parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, here, still, still, out
    )
    memory[COORDINATE] = memory[NOW]
    return code


@njit(**OPTIONS)
def accelerations(plant, space, q, v, effort, postures, a):
    """Forward dynamics q̈ (N, n_a) of independent states, Dahl's states zero; returns a code, the sample, the axis.

    Loops are closed from `postures` (N, n).
    """
    parent, joints, laws, loads, loops = plant
    work, matrices, rows, chains = space
    q_, v_, a_, memory = SPARE, SPARE + 1, SPARE + 2, np.zeros((3, laws.shape[0]))
    for k in range(q.shape[0]):
        code, axis = stand(plant, space, memory, q[k], postures[k]), 0
        if code == DONE:
            rows[q_], rows[v_], rows[EFFORT] = q[k], v[k], effort[k]
            code, axis = accelerate(
                parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, q_, v_, a_
            )
        if code != DONE:
            return code, k, axis
        a[k] = rows[a_]
    return DONE, 0, 0


@njit(**OPTIONS)
def torques(plant, space, q, v, a, postures, tau):
    """Inverse dynamics τ (N, n_a) of consecutive states, Dahl's states zero at the first; returns a code, the sample.

    Loops are closed from `postures` (N, n).
    """
    parent, joints, laws, loads, loops = plant
    work, matrices, rows, chains = space
    q_, v_, a_, out, memory = SPARE, SPARE + 1, SPARE + 2, SPARE + 3, np.zeros((3, laws.shape[0]))
    stand(plant, space, memory, q[0], postures[0])
    for k in range(q.shape[0]):
        _assume(loops, chains, postures[k])
        rows[q_], rows[v_], rows[a_] = q[k], v[k], a[k]
        code = command_torque(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, q_, v_, a_, out)
        if code != DONE:
            return code, k
        remember(laws, memory)
        tau[k] = rows[out]
    return DONE, 0
