"""Dynamics of a plant at one state: rigid bodies, rotors, friction, springs and pre-sliding, forward and inverse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from steelyard.kernels.dynamics import (
    CARRIED_LINK,
    DRIVE,
    OWN_LINK,
    SCALAR_WORKSPACE,
    equations_of_motion,
    factorise,
    link_motions,
    substitute,
)
from steelyard.kernels.laws import ALONG, DAHL, JOINT, LINEAR, value
from steelyard.kernels.spatial import OPTIONS

# How it went: all is well; M is not positive definite; load friction found no acceleration.
DONE, INDEFINITE, UNSETTLED = 0, 1, 2
# Pivots of M below this share of its diagonal are rounding.
PIVOT = 1e-12
_FIXED_POINTS = 200

# Matrices of the scratch memory.
MASS, FACTOR, LOAD_MASS, LAGGED, BEFORE = 0, 1, 2, 3, 4
MATRICES = 5
# Rows of the scratch memory; from `SPARE` on they are the caller's.
NET, LOAD_BIAS, LOAD, EFFORT, DAMPING, STIFFNESS, SPARE = 0, 1, 2, 3, 4, 5, 8
_FRICTION, _LAST = 6, 7
ROWS = 20
# Rows of a plant's memory: each law's coordinate and Dahl state at the last step, and its coordinate now.
COORDINATE, STATE, NOW = 0, 1, 2


class Dynamics(NamedTuple):
    """All a plant is to the compiled loop, for n joints:  (M(q) + inertia) q̈ + h(q, q̇) + drive(q, q̇, q̈) = τ.

    parent (n,)           index of each joint's parent, −1 for the base
    joints (n + 1, …)     row 0: gravity (3,). Row j + 1: placement (4, 3, 4), screw (6,), inertial parameters of the
                          link (10,), those behind the load that the gears carry (10,), from column DRIVE on the linear
                          laws: inertia (n,), viscous (n,) and constant
    laws (E, 8 + 3n)      the other laws, as `kernels.laws` says
    loads (K, 4)          load friction: joint, gain, width and exponent

    A plant with closed chains needs its loops here, and `accelerate` to solve for them; a simulation need not know.
    """

    parent: np.ndarray
    joints: np.ndarray
    laws: np.ndarray
    loads: np.ndarray


@njit(**OPTIONS)
def scratch(n):
    """Memory of one evaluation: link motions, matrices and rows."""
    return np.zeros((n + 1, SCALAR_WORKSPACE)), np.zeros((MATRICES, n, n)), np.zeros((ROWS, n))


@njit(**OPTIONS)
def _assemble(parent, joints, laws, loads, work, matrices, rows, memory, q, v):
    """M with the drives' inertia into matrices[MASS], all torque without q̈ and without load friction into rows[NET],
    and where there is load friction τ_rigid's parts into matrices[LOAD_MASS] and rows[LOAD_BIAS]."""
    n = parent.shape[0]
    loaded = loads.shape[0] > 0
    link_motions(parent, joints, rows, q, v, _FRICTION, _LAST, work)
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
    """rows[_FRICTION] = gain sign(q̇) |τ_rigid|^p at the acceleration rows[a]; leaves τ_rigid in rows[LOAD]."""
    n = matrices.shape[1]
    times(matrices, LOAD_MASS, rows, a, LOAD)
    for j in range(n):
        rows[LOAD, j] += rows[LOAD_BIAS, j]
        rows[_FRICTION, j] = 0.0
    for k in range(loads.shape[0]):
        j = int(loads[k, 0])
        size = abs(rows[LOAD, j])
        if loads[k, 3] != 1.0:
            size = size ** loads[k, 3]
        rows[_FRICTION, j] += loads[k, 1] * np.tanh(rows[v, j] / loads[k, 2]) * size


@njit(**OPTIONS)
def accelerate(parent, joints, laws, loads, work, matrices, rows, memory, q, v, a):
    """q̈ into rows[a] at rows[q], rows[v] under the joint torque rows[EFFORT]; returns how it went and the joint.

    Load friction depends on q̈ itself. It is a small share of the torque, so q̈ ← M⁻¹(τ − … − f(q̈)) contracts.
    """
    n = parent.shape[0]
    _assemble(parent, joints, laws, loads, work, matrices, rows, memory, q, v)
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
            rows[_LAST, j] = rows[a, j]
            rows[a, j] = rows[NET, j] - rows[_FRICTION, j]
        substitute(matrices, FACTOR, rows, a)
        change, size = 0.0, 0.0
        for j in range(n):
            size = max(size, abs(rows[a, j]))
            if abs(rows[a, j] - rows[_LAST, j]) > change:
                change, worst = abs(rows[a, j] - rows[_LAST, j]), j
        if change <= 1e-13 * (1.0 + size):
            return DONE, 0
    return UNSETTLED, worst


@njit(**OPTIONS)
def command_torque(parent, joints, laws, loads, work, matrices, rows, memory, q, v, a, out):
    """Inverse dynamics: rows[out] = τ at rows[q], rows[v], rows[a]."""
    _assemble(parent, joints, laws, loads, work, matrices, rows, memory, q, v)
    times(matrices, MASS, rows, a, out)
    for j in range(parent.shape[0]):
        rows[out, j] += rows[NET, j]
    if loads.shape[0] > 0:
        _load_friction(loads, matrices, rows, v, a)
        for j in range(parent.shape[0]):
            rows[out, j] += rows[_FRICTION, j]


@njit(**OPTIONS)
def remember(laws, memory, rows, q):
    """Dahl's states at rows[q], after a monotone way from where they were."""
    n = rows.shape[1]
    for e in range(laws.shape[0]):
        if laws[e, 0] == DAHL:
            x = 0.0
            for j in range(n):
                x += laws[e, ALONG + j] * rows[q, j]
            memory[STATE, e] = value(laws, e, x, memory[COORDINATE, e], memory[STATE, e])
            memory[COORDINATE, e] = x


@njit(**OPTIONS)
def memory_at(laws, q):
    """Memory (3, E) of a plant that stood at q (n,) for ever, Dahl's states zero."""
    memory = np.zeros((3, laws.shape[0]))
    for e in range(laws.shape[0]):
        for j in range(q.shape[0]):
            memory[COORDINATE, e] += laws[e, ALONG + j] * q[j]
    return memory


@njit(**OPTIONS)
def accelerations(plant, q, v, effort, a):
    """Forward dynamics q̈ (N, n) of states that stand alone, Dahl's states zero; how it went, the sample, the joint."""
    parent, joints, laws, loads = plant
    work, matrices, rows = scratch(q.shape[1])
    for k in range(q.shape[0]):
        memory = memory_at(laws, q[k])
        rows[SPARE], rows[SPARE + 1], rows[EFFORT] = q[k], v[k], effort[k]
        code, joint = accelerate(parent, joints, laws, loads, work, matrices, rows, memory, SPARE, SPARE + 1, SPARE + 2)
        if code != DONE:
            return code, k, joint
        a[k] = rows[SPARE + 2]
    return DONE, 0, 0


@njit(**OPTIONS)
def torques(plant, q, v, a, tau):
    """Inverse dynamics τ (N, n) of consecutive states, Dahl's states zero at the first."""
    parent, joints, laws, loads = plant
    work, matrices, rows = scratch(q.shape[1])
    memory = memory_at(laws, q[0])
    for k in range(q.shape[0]):
        rows[SPARE], rows[SPARE + 1], rows[SPARE + 2] = q[k], v[k], a[k]
        remember(laws, memory, rows, SPARE)
        command_torque(
            parent, joints, laws, loads, work, matrices, rows, memory, SPARE, SPARE + 1, SPARE + 2, SPARE + 3
        )
        tau[k] = rows[SPARE + 3]
