"""Inverse dynamics, mass matrix and forward dynamics of a tree of rigid bodies, in lanes."""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.spatial import (
    INLINED,
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
from steelyard._kernels.trigonometry import sine_cosine

# Columns of the scalar workspace, all in the base's frame and about its origin: rotation 9, position 3, screw 6,
# velocity 6, acceleration without q̈ 6, the ten inertial parameters, moment and force 6. The last twelve temporarily
# hold the pose in the parent.
SCALAR_WORKSPACE = 48
# First columns of a joint's row: placement 4 × 3 × 4, screw 6, inertial parameters 10 and a second set of 10; later
# columns are not used in this module. Row 0 is the base and holds gravity.
SCREW, OWN_LINK, CARRIED_LINK, DRIVE = 48, 54, 64, 74


@njit(**INLINED)
def _newton_euler(here, theta, count, wrench):
    """Force and moment that a link needs at its origin: f = m d + Λ mc,  n = I α + ω × I ω + mc × d."""
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


@njit(**INLINED)
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


@njit(**INLINED)
def _torque(parent, screw, gravity, theta, v, a, start, count, motion, wrench, tau):
    """Inverse dynamics of one set of lanes whose placements are already in `motion`."""
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
def forward_dynamics(parent, placement, screw, gravity, theta, drive_inertia, q, v, effort, a):
    """q̈ (n, N) with (M(q) + drive_inertia) q̈ = effort − h(q, q̇), one sample after another.

    Returns the first joint for which the matrix has no positive pivot, and stops there; −1 if there is none. The lanes
    of each sample are the columns of M: lane k has the unit acceleration of joint k. `effort` is the net effort (n, N)
    after friction and the other terms; `drive_inertia` (n, n) holds rotor inertias and couplings.
    """
    n, total = q.shape
    motion, wrench = np.empty((n + 1, WORKSPACE)), np.empty((n + 1, 6 * LANES))
    weightless, still, unit = np.zeros(3), np.zeros((n, n)), np.eye(n)
    here, speed, bias = np.empty((n, n)), np.empty((n, 1)), np.empty((n, 1))
    matrices, rows = np.empty((1, n, n)), np.empty((1, n))
    matrix = matrices[0]
    for s in range(total):
        for j in range(n):
            here[j] = q[j, s]
            speed[j, 0] = v[j, s]
        placements(placement, here, 0, n, motion)
        _torque(parent, screw, weightless, theta, still, unit, 0, n, motion, wrench, matrix)
        _torque(parent, screw, gravity, theta, speed, still, 0, 1, motion, wrench, bias)
        for j in range(n):
            rows[0, j] = effort[j, s] - bias[j, 0]
            for k in range(n):
                matrix[j, k] += drive_inertia[j, k]
        bad = factorise(matrices, 0, 0.0)
        if bad >= 0:
            return bad
        substitute(matrices, 0, rows, 0)
        for j in range(n):
            a[j, s] = rows[0, j]
    return -1


# --- One sample at a time ---------------------------------------------------------------------------------------------
# Vectors and matrices are rows of a few packed arrays and are passed by number: reference-counted views of them would
# cost more than the arithmetic.


@njit(**OPTIONS)
def _place(joints, work, me, up, sine, cosine, q, v):
    """Pose, screw, velocity and acceleration without q̈ of a link in the base's frame, from those of its parent."""
    turn = 1.0 - cosine
    for k in range(12):
        work[me, 36 + k] = (
            joints[me, k] + sine * joints[me, 12 + k] + turn * joints[me, 24 + k] + q * joints[me, 36 + k]
        )
    for row in range(3):
        u0, u1, u2 = work[up, 3 * row], work[up, 3 * row + 1], work[up, 3 * row + 2]
        for col in range(3):
            work[me, 3 * row + col] = u0 * work[me, 36 + col] + u1 * work[me, 40 + col] + u2 * work[me, 44 + col]
        work[me, 9 + row] = work[up, 9 + row] + u0 * work[me, 39] + u1 * work[me, 43] + u2 * work[me, 47]
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = _rotation(work, me)
    s0, s1, s2 = turned(
        r0, r1, r2, r3, r4, r5, r6, r7, r8, joints[me, SCREW], joints[me, SCREW + 1], joints[me, SCREW + 2]
    )
    l0, l1, l2 = turned(
        r0, r1, r2, r3, r4, r5, r6, r7, r8, joints[me, SCREW + 3], joints[me, SCREW + 4], joints[me, SCREW + 5]
    )
    c0, c1, c2 = cross(work[me, 9], work[me, 10], work[me, 11], s0, s1, s2)
    l0, l1, l2 = l0 + c0, l1 + c1, l2 + c2
    work[me, 12], work[me, 13], work[me, 14] = s0, s1, s2
    work[me, 15], work[me, 16], work[me, 17] = l0, l1, l2
    w0, w1, w2 = work[up, 18], work[up, 19], work[up, 20]
    o0, o1, o2 = work[up, 21], work[up, 22], work[up, 23]
    s0, s1, s2, l0, l1, l2 = s0 * v, s1 * v, s2 * v, l0 * v, l1 * v, l2 * v
    work[me, 18], work[me, 19], work[me, 20] = w0 + s0, w1 + s1, w2 + s2
    work[me, 21], work[me, 22], work[me, 23] = o0 + l0, o1 + l1, o2 + l2
    # d/dt of a screw that moves with the link
    a0, a1, a2 = cross(w0, w1, w2, s0, s1, s2)
    b0, b1, b2 = cross(w0, w1, w2, l0, l1, l2)
    c0, c1, c2 = cross(o0, o1, o2, s0, s1, s2)
    work[me, 24], work[me, 25], work[me, 26] = work[up, 24] + a0, work[up, 25] + a1, work[up, 26] + a2
    work[me, 27], work[me, 28], work[me, 29] = work[up, 27] + b0 + c0, work[up, 28] + b1 + c1, work[up, 29] + b2 + c2


@njit(inline="always", **OPTIONS)
def _rotation(work, me):
    return (
        work[me, 0], work[me, 1], work[me, 2], work[me, 3], work[me, 4], work[me, 5], work[me, 6], work[me, 7],
        work[me, 8],
    )  # fmt: skip


@njit(**OPTIONS)
def _weigh(joints, link, work, me):
    """Inertial parameters of a link about the base's origin, and the moment and force of its motion without q̈."""
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = _rotation(work, me)
    x, y, z = work[me, 9], work[me, 10], work[me, 11]
    xx, xy, xz = joints[me, link], joints[me, link + 1], joints[me, link + 2]
    yy, yz, zz, mass = joints[me, link + 3], joints[me, link + 4], joints[me, link + 5], joints[me, link + 9]
    # J = R I Rᵀ
    a0, a1, a2 = r0 * xx + r1 * xy + r2 * xz, r0 * xy + r1 * yy + r2 * yz, r0 * xz + r1 * yz + r2 * zz
    b0, b1, b2 = r3 * xx + r4 * xy + r5 * xz, r3 * xy + r4 * yy + r5 * yz, r3 * xz + r4 * yz + r5 * zz
    c0, c1, c2 = r6 * xx + r7 * xy + r8 * xz, r6 * xy + r7 * yy + r8 * yz, r6 * xz + r7 * yz + r8 * zz
    jxx, jxy, jxz = a0 * r0 + a1 * r1 + a2 * r2, a0 * r3 + a1 * r4 + a2 * r5, a0 * r6 + a1 * r7 + a2 * r8
    jyy, jyz, jzz = b0 * r3 + b1 * r4 + b2 * r5, b0 * r6 + b1 * r7 + b2 * r8, c0 * r6 + c1 * r7 + c2 * r8
    # shifted by p, with h = R mc:  J − m [p]ₓ² − [p]ₓ[h]ₓ − [h]ₓ[p]ₓ
    h0, h1, h2 = turned(
        r0, r1, r2, r3, r4, r5, r6, r7, r8, joints[me, link + 6], joints[me, link + 7], joints[me, link + 8]
    )
    k0, k1, k2 = h0 + h0 + mass * x, h1 + h1 + mass * y, h2 + h2 + mass * z
    jxx += k1 * y + k2 * z
    jyy += k0 * x + k2 * z
    jzz += k0 * x + k1 * y
    jxy -= h0 * y + h1 * x + mass * x * y
    jxz -= h0 * z + h2 * x + mass * x * z
    jyz -= h1 * z + h2 * y + mass * y * z
    h0, h1, h2 = h0 + mass * x, h1 + mass * y, h2 + mass * z
    work[me, 30], work[me, 31], work[me, 32] = jxx, jxy, jxz
    work[me, 33], work[me, 34], work[me, 35] = jyy, jyz, jzz
    work[me, 36], work[me, 37], work[me, 38], work[me, 39] = h0, h1, h2, mass
    w0, w1, w2, o0, o1, o2 = work[me, 18], work[me, 19], work[me, 20], work[me, 21], work[me, 22], work[me, 23]
    a0, a1, a2, d0, d1, d2 = work[me, 24], work[me, 25], work[me, 26], work[me, 27], work[me, 28], work[me, 29]
    # momentum, then I A + V ×* (I V)
    c0, c1, c2 = cross(w0, w1, w2, h0, h1, h2)
    p0, p1, p2 = mass * o0 + c0, mass * o1 + c1, mass * o2 + c2
    c0, c1, c2 = cross(h0, h1, h2, o0, o1, o2)
    g0 = jxx * w0 + jxy * w1 + jxz * w2 + c0
    g1 = jxy * w0 + jyy * w1 + jyz * w2 + c1
    g2 = jxz * w0 + jyz * w1 + jzz * w2 + c2
    e0, e1, e2 = cross(a0, a1, a2, h0, h1, h2)
    c0, c1, c2 = cross(w0, w1, w2, p0, p1, p2)
    work[me, 43], work[me, 44] = mass * d0 + e0 + c0, mass * d1 + e1 + c1
    work[me, 45] = mass * d2 + e2 + c2
    e0, e1, e2 = cross(h0, h1, h2, d0, d1, d2)
    c0, c1, c2 = cross(w0, w1, w2, g0, g1, g2)
    f0, f1, f2 = cross(o0, o1, o2, p0, p1, p2)
    work[me, 40] = jxx * a0 + jxy * a1 + jxz * a2 + e0 + c0 + f0
    work[me, 41] = jxy * a0 + jyy * a1 + jyz * a2 + e1 + c1 + f1
    work[me, 42] = jxz * a0 + jyz * a1 + jzz * a2 + e2 + c2 + f2


@njit(**OPTIONS)
def link_motions(parent, joints, rows, q, v, sine, cosine, work):
    """Poses, screws, velocities and accelerations without q̈ of all links at q and v, rows of `rows` (…, n), into work
    (n + 1, SCALAR_WORKSPACE); row 0 is the base, whose acceleration is −gravity."""
    sine_cosine(rows[q], rows[sine], rows[cosine])
    for k in range(30):
        work[0, k] = 0.0
    work[0, 0] = work[0, 4] = work[0, 8] = 1.0
    for axis in range(3):
        work[0, 27 + axis] = -joints[0, axis]
    for i in range(parent.shape[0]):
        _place(joints, work, i + 1, parent[i] + 1, rows[sine, i], rows[cosine, i], rows[q, i], rows[v, i])


@njit(**OPTIONS)
def equations_of_motion(parent, joints, link, work, matrices, mass, rows, bias):
    """M(q) (lower triangle) and h(q, q̇) of M q̈ + h = τ for the link motions of `link_motions`, with the inertial
    parameters from column `link` of joints on, into matrices[mass] and rows[bias].

    All links are expressed in the base frame, so that inertias and wrenches of a subtree simply add up (composite
    bodies), and an entry of M is S_jᵀ I_i S_i with I_i the inertia that joint i carries.
    """
    n = parent.shape[0]
    for i in range(n):
        _weigh(joints, link, work, i + 1)
    for i in range(n - 1, -1, -1):
        me, up = i + 1, parent[i] + 1
        s0, s1, s2, l0, l1, l2 = work[me, 12], work[me, 13], work[me, 14], work[me, 15], work[me, 16], work[me, 17]
        turning = s0 * work[me, 40] + s1 * work[me, 41] + s2 * work[me, 42]
        rows[bias, i] = turning + l0 * work[me, 43] + l1 * work[me, 44] + l2 * work[me, 45]
        h0, h1, h2, m = work[me, 36], work[me, 37], work[me, 38], work[me, 39]
        c0, c1, c2 = cross(s0, s1, s2, h0, h1, h2)
        f0, f1, f2 = m * l0 + c0, m * l1 + c1, m * l2 + c2
        c0, c1, c2 = cross(h0, h1, h2, l0, l1, l2)
        n0 = work[me, 30] * s0 + work[me, 31] * s1 + work[me, 32] * s2 + c0
        n1 = work[me, 31] * s0 + work[me, 33] * s1 + work[me, 34] * s2 + c1
        n2 = work[me, 32] * s0 + work[me, 34] * s1 + work[me, 35] * s2 + c2
        for j in range(i):
            matrices[mass, i, j] = 0.0
        j = i
        while j >= 0:
            k = j + 1
            turning = work[k, 12] * n0 + work[k, 13] * n1 + work[k, 14] * n2
            matrices[mass, i, j] = turning + work[k, 15] * f0 + work[k, 16] * f1 + work[k, 17] * f2
            j = parent[j]
        if up > 0:
            for k in range(30, 46):
                work[up, k] += work[me, k]


@njit(**OPTIONS)
def factorise(matrices, a, tolerance):
    """A = L D Lᵀ in place of the lower triangle of matrices[a]; returns the first row whose pivot is not above
    `tolerance` times its diagonal entry (A is not positive definite), −1 if there is none."""
    n = matrices.shape[1]
    for j in range(n):
        own = matrices[a, j, j]
        pivot = own
        for k in range(j):
            pivot -= matrices[a, j, k] * matrices[a, j, k] * matrices[a, k, k]
        matrices[a, j, j] = pivot
        # written so that a NaN is detected too
        if not (own > 0.0 and pivot > tolerance * own):
            return j
        for i in range(j + 1, n):
            entry = matrices[a, i, j]
            for k in range(j):
                entry -= matrices[a, i, k] * matrices[a, j, k] * matrices[a, k, k]
            matrices[a, i, j] = entry / pivot
    return -1


@njit(**OPTIONS)
def substitute(matrices, a, rows, b):
    """Solve A x = b in place of rows[b], with the factor of matrices[a]."""
    n = matrices.shape[1]
    for j in range(n):
        for k in range(j):
            rows[b, j] -= matrices[a, j, k] * rows[b, k]
    for j in range(n):
        rows[b, j] /= matrices[a, j, j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            rows[b, j] -= matrices[a, k, j] * rows[b, k]
