"""Inverse dynamics, mass matrix and forward dynamics of a tree of rigid bodies, in lanes."""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard.kernels.spatial import (
    LANES,
    OPTIONS,
    WORKSPACE,
    cross,
    placements,
    rotation,
    turned,
    vector,
    velocities,
)


@njit(**OPTIONS)
def _newton_euler(here, theta, count, wrench):
    """Force and moment a link needs at its origin: f = m d + Λ mc,  n = I α + ω × I ω + mc × d."""
    xx, xy, xz, yy, yz, zz = theta[0], theta[1], theta[2], theta[3], theta[4], theta[5]
    h0, h1, h2, mass = theta[6], theta[7], theta[8], theta[9]
    for b in range(count):
        w0, w1, w2 = vector(here, 12 * LANES + b)
        a0, a1, a2 = vector(here, 15 * LANES + b)
        d0, d1, d2 = vector(here, 18 * LANES + b)
        t0, t1, t2 = cross(w0, w1, w2, h0, h1, h2)
        c0, c1, c2 = cross(w0, w1, w2, t0, t1, t2)
        e0, e1, e2 = cross(a0, a1, a2, h0, h1, h2)
        wrench[b] = mass * d0 + e0 + c0
        wrench[LANES + b] = mass * d1 + e1 + c1
        wrench[2 * LANES + b] = mass * d2 + e2 + c2
        g0, g1, g2 = xx * w0 + xy * w1 + xz * w2, xy * w0 + yy * w1 + yz * w2, xz * w0 + yz * w1 + zz * w2
        t0, t1, t2 = cross(w0, w1, w2, g0, g1, g2)
        c0, c1, c2 = cross(h0, h1, h2, d0, d1, d2)
        wrench[3 * LANES + b] = xx * a0 + xy * a1 + xz * a2 + t0 + c0
        wrench[4 * LANES + b] = xy * a0 + yy * a1 + yz * a2 + t1 + c1
        wrench[5 * LANES + b] = xz * a0 + yz * a1 + zz * a2 + t2 + c2


@njit(**OPTIONS)
def _handed_down(here, wrench, screw, count, below, tau):
    """The joint's torque s·n + l·f, and the link's wrench added to its parent's: f_p += R f, n_p += R n + p × R f."""
    s0, s1, s2, l0, l1, l2 = screw[0], screw[1], screw[2], screw[3], screw[4], screw[5]
    for b in range(count):
        f0, f1, f2 = vector(wrench, b)
        n0, n1, n2 = vector(wrench, 3 * LANES + b)
        tau[b] = s0 * n0 + s1 * n1 + s2 * n2 + l0 * f0 + l1 * f1 + l2 * f2
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(here, b)
        x, y, z = vector(here, 9 * LANES + b)
        f0, f1, f2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, f0, f1, f2)
        n0, n1, n2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, n0, n1, n2)
        c0, c1, c2 = cross(x, y, z, f0, f1, f2)
        below[b] += f0
        below[LANES + b] += f1
        below[2 * LANES + b] += f2
        below[3 * LANES + b] += n0 + c0
        below[4 * LANES + b] += n1 + c1
        below[5 * LANES + b] += n2 + c2


@njit(**OPTIONS)
def _torque(parent, screw, gravity, theta, v, a, start, count, motion, wrench, tau):
    """Inverse dynamics of one set of lanes whose placements stand in `motion` already."""
    n = parent.shape[0]
    velocities(parent, screw, gravity, v, a, start, count, motion)
    wrench[0] = 0.0
    for i in range(n):
        _newton_euler(motion[i + 1], theta[i], count, wrench[i + 1])
    for i in range(n - 1, -1, -1):
        _handed_down(
            motion[i + 1], wrench[i + 1], screw[i], count, wrench[parent[i] + 1], tau[i, start : start + count]
        )


@njit(**OPTIONS)
def inverse_dynamics(parent, placement, screw, gravity, theta, q, v, a, tau):
    """τ (n, N) of the rigid bodies with inertial parameters theta (n, 10) at q, v, a (n, N)."""
    n, total = q.shape
    motion, wrench = np.empty((n + 1, WORKSPACE)), np.empty((n + 1, 6 * LANES))
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        _torque(parent, screw, gravity, theta, v, a, start, count, motion, wrench, tau)


@njit(**OPTIONS)
def mass_matrix(parent, placement, screw, theta, q, mass):
    """M (n, n, N): column k is the torque of a unit acceleration of joint k at rest and without gravity."""
    n, total = q.shape
    motion, wrench = np.empty((n + 1, WORKSPACE)), np.empty((n + 1, 6 * LANES))
    weightless, still, unit, tau = np.zeros(3), np.zeros((n, LANES)), np.zeros((n, LANES)), np.empty((n, LANES))
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        for k in range(n):
            unit[k] = 1.0
            _torque(parent, screw, weightless, theta, still, unit, 0, count, motion, wrench, tau)
            unit[k] = 0.0
            for j in range(n):
                mass[j, k, start : start + count] = tau[j, :count]


@njit(**OPTIONS)
def solve_symmetric(matrix, rhs):
    """Solve A x = b in place by A = L D Lᵀ (no pivoting: A should be positive definite); returns the smallest pivot."""
    n = rhs.shape[0]
    smallest = np.inf
    for j in range(n):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k] * matrix[k, k]
        matrix[j, j] = pivot
        smallest = min(smallest, pivot)
        for i in range(j + 1, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k] * matrix[k, k]
            matrix[i, j] = entry / pivot
        for k in range(j):
            rhs[j] -= matrix[j, k] * rhs[k]
    for j in range(n):
        rhs[j] /= matrix[j, j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            rhs[j] -= matrix[k, j] * rhs[k]
    return smallest


@njit(**OPTIONS)
def forward_dynamics(parent, placement, screw, gravity, theta, drive_inertia, q, v, effort, a):
    """q̈ (n, N) with (M(q) + drive_inertia) q̈ = effort − h(q, q̇), one sample after another; returns the smallest pivot.

    Each sample spends its lanes on the columns of M: lane k carries the unit acceleration of joint k. `effort` is the
    net effort (n, N) after friction and the other terms; `drive_inertia` (n, n) holds rotor inertias and couplings.
    """
    n, total = q.shape
    motion, wrench = np.empty((n + 1, WORKSPACE)), np.empty((n + 1, 6 * LANES))
    weightless, still, unit = np.zeros(3), np.zeros((n, n)), np.eye(n)
    here, speed, bias, matrix = np.empty((n, n)), np.empty((n, 1)), np.empty((n, 1)), np.empty((n, n))
    smallest = np.inf
    for s in range(total):
        for j in range(n):
            here[j] = q[j, s]
            speed[j, 0] = v[j, s]
        placements(placement, here, 0, n, motion)
        _torque(parent, screw, weightless, theta, still, unit, 0, n, motion, wrench, matrix)
        _torque(parent, screw, gravity, theta, speed, still, 0, 1, motion, wrench, bias)
        for j in range(n):
            a[j, s] = effort[j, s] - bias[j, 0]
            for k in range(n):
                matrix[j, k] += drive_inertia[j, k]
        smallest = min(smallest, solve_symmetric(matrix, a[:, s]))
    return smallest
