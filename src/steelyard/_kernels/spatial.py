"""Kinematics in lanes: the motion of every link, the first half of every kernel.

Samples are processed in lanes of `LANES`; a row of the flat workspace is one quantity of one link for all lanes. Scalar
building blocks are inlined by LLVM so that the loops around them vectorise. `MATH` is fastmath without `nnan` and
`ninf`: equally fast, and a NaN in the data still gives a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from steelyard._kernels.trigonometry import sine_cosine

MATH: set[str] = {"reassoc", "contract", "arcp", "nsz", "afn"}
OPTIONS: dict[str, Any] = {"cache": True, "fastmath": MATH, "nogil": True, "error_model": "numpy"}
# For functions that other kernels call. If LLVM decides, the process that compiles a kernel calls another copy of the
# function than those that load it from the cache; fastmath rounds the two differently, and a search from the same seed
# would end elsewhere.
INLINED: dict[str, Any] = {**OPTIONS, "forceinline": True}

# A compile-time constant, so that LLVM knows the distance between any two rows of the workspace and can prove
# that they do not overlap.
LANES = 128
# Rows of one link: rotation to the parent 9, position in the parent 3, ω 3, α 3, acceleration d of the origin 3.
LINK_ROWS = 21
WORKSPACE = LINK_ROWS * LANES


@njit(inline="always", **OPTIONS)
def cross(ax, ay, az, bx, by, bz):
    """a × b."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@njit(inline="always", **OPTIONS)
def turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, x, y, z):
    """Rᵀ x for a row-major R."""
    return r0 * x + r3 * y + r6 * z, r1 * x + r4 * y + r7 * z, r2 * x + r5 * y + r8 * z


@njit(inline="always", **OPTIONS)
def turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, x, y, z):
    """R x for a row-major R."""
    return r0 * x + r1 * y + r2 * z, r3 * x + r4 * y + r5 * z, r6 * x + r7 * y + r8 * z


@njit(inline="always", **OPTIONS)
def rotation(motion, k):
    """The nine entries of the rotation stored at flat index k."""
    return (
        motion[k], motion[k + LANES], motion[k + 2 * LANES],
        motion[k + 3 * LANES], motion[k + 4 * LANES], motion[k + 5 * LANES],
        motion[k + 6 * LANES], motion[k + 7 * LANES], motion[k + 8 * LANES],
    )  # fmt: skip


@njit(inline="always", **OPTIONS)
def vector(motion, k):
    """Three consecutive rows at flat index k."""
    return motion[k], motion[k + LANES], motion[k + 2 * LANES]


@njit(**INLINED)
def placements(placement, q, start, count, motion):
    """[R | p](q) of every joint: P₀ + sin q · P₁ + (1 − cos q) · P₂ + q · P₃.

    placement (n, 4, 3, 4), q (n, N) → motion (n + 1, LINK_ROWS · LANES); row i + 1 is link i, row 0 the base.
    """
    sine, cosine = np.empty(LANES), np.empty(LANES)
    for i in range(placement.shape[0]):
        here = motion[i + 1]
        position = q[i, start : start + count]
        turning = np.any(placement[i, 1] != 0.0)
        if turning:
            sine_cosine(position, sine, cosine)
        for row in range(3):
            for col in range(4):
                k = ((3 * row + col) if col < 3 else (9 + row)) * LANES
                c0, c1 = placement[i, 0, row, col], placement[i, 1, row, col]
                c2, c3 = placement[i, 2, row, col], placement[i, 3, row, col]
                entry = here[k : k + count]
                if turning:
                    for b in range(count):
                        entry[b] = c0 + c1 * sine[b] + c2 * (1.0 - cosine[b])
                else:
                    for b in range(count):
                        entry[b] = c0 + c3 * position[b]


@njit(**INLINED)
def _moved(up, here, screw, v, a, count):
    """One link's ω, α and d from its parent's; see `velocities`."""
    s0, s1, s2, l0, l1, l2 = screw[0], screw[1], screw[2], screw[3], screw[4], screw[5]
    for b in range(count):
        qd, qdd = v[b], a[b]
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(here, b)
        x, y, z = vector(here, 9 * LANES + b)
        a0, a1, a2 = vector(up, 12 * LANES + b)
        c0, c1, c2 = vector(up, 15 * LANES + b)
        d0, d1, d2 = vector(up, 18 * LANES + b)
        t0, t1, t2 = cross(a0, a1, a2, x, y, z)
        f0, f1, f2 = cross(c0, c1, c2, x, y, z)
        h0, h1, h2 = cross(a0, a1, a2, t0, t1, t2)
        w0, w1, w2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, a0, a1, a2)
        c0, c1, c2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, c0, c1, c2)
        d0, d1, d2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, d0 + f0 + h0, d1 + f1 + h1, d2 + f2 + h2)
        m0, m1, m2 = s0 * qd, s1 * qd, s2 * qd
        e0, e1, e2 = cross(w0, w1, w2, m0, m1, m2)
        g0, g1, g2 = cross(2 * w0 + m0, 2 * w1 + m1, 2 * w2 + m2, l0 * qd, l1 * qd, l2 * qd)
        here[12 * LANES + b] = w0 + m0
        here[13 * LANES + b] = w1 + m1
        here[14 * LANES + b] = w2 + m2
        here[15 * LANES + b] = c0 + e0 + s0 * qdd
        here[16 * LANES + b] = c1 + e1 + s1 * qdd
        here[17 * LANES + b] = c2 + e2 + s2 * qdd
        here[18 * LANES + b] = d0 + g0 + l0 * qdd
        here[19 * LANES + b] = d1 + g1 + l1 * qdd
        here[20 * LANES + b] = d2 + g2 + l2 * qdd


@njit(**INLINED)
def velocities(parent, screw, gravity, v, a, start, count, motion):
    """ω, α and the conventional acceleration d of the origin of every link, in its own frame.

    With S = (s, l) the joint's screw, p the child's origin in the parent and gravity entering as −g of the base:
        ω = Rᵀω_p + s q̇        α = Rᵀα_p + (Rᵀω_p) × s q̇ + s q̈
        d = Rᵀ(d_p + α_p × p + ω_p × (ω_p × p)) + (2 Rᵀω_p + s q̇) × l q̇ + l q̈
    """
    motion[0, 12 * LANES : 18 * LANES] = 0.0
    for axis in range(3):
        motion[0, (18 + axis) * LANES : (19 + axis) * LANES] = -gravity[axis]
    for i in range(parent.shape[0]):
        # separate views, so that one runtime check shows that parent and child do not overlap
        _moved(
            motion[parent[i] + 1],
            motion[i + 1],
            screw[i],
            v[i, start : start + count],
            a[i, start : start + count],
            count,
        )
