"""Reverse mode of the regressor: the gradient of a weighted sum of its entries in q, v and a, in lanes.

For weights u the scalar of every sample is  φ = Σ_j Σ_i u_ji · W_ji(q, v, a), ten entries for each joint j and link i
it carries. With u_ji read as inertial parameters (I, c, m) of a body on link i for joint j only,

    φ = Σ s·(I α + ω × I ω + c × d) + l·(m d + α × c + ω × (ω × c))

with (s, l) the screw of joint j in the frame of link i: Newton–Euler with a body for each pair. One pass from the tips
to the base gives the gradient in all of q, v and a, at a few times the cost of the regressor for any number of joints.
The screws S of the joints are constant in their own frames, so dR/dq = R [s]ₓ and dp/dq = R l: derivatives of rotations
need not be stored.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.regressor import carried
from steelyard._kernels.spatial import (
    INLINED,
    LANES,
    OPTIONS,
    WORKSPACE,
    cross,
    placements,
    rotation,
    turned,
    turned_back,
    vector,
    velocities,
)


@njit(inline="always", **OPTIONS)
def _inertia(xx, xy, xz, yy, yz, zz, x, y, z):
    """I x for the six entries of a symmetric I."""
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z


@njit(inline="always", **OPTIONS)
def _centripetal(l0, l1, l2, w0, w1, w2, c0, c1, c2):
    """∂/∂ω of l·(ω × (ω × c)) = (l·ω)(ω·c) − (l·c) ω²."""
    lw, wc, lc = l0 * w0 + l1 * w1 + l2 * w2, w0 * c0 + w1 * c1 + w2 * c2, 2.0 * (l0 * c0 + l1 * c1 + l2 * c2)
    return l0 * wc + c0 * lw - lc * w0, l1 * wc + c1 * lw - lc * w1, l2 * wc + c2 * lw - lc * w2


@njit(**INLINED)
def _moved_back(here, axis, weight, count, link_bar):
    """Adds the part of the body `weight` (10 · LANES) for one joint's screw to the adjoints of ω, α and d of a link."""
    for b in range(count):
        s0, s1, s2 = vector(axis, b)
        l0, l1, l2 = vector(axis, 3 * LANES + b)
        w0, w1, w2 = vector(here, 12 * LANES + b)
        xx, xy, xz = vector(weight, b)
        yy, yz, zz = vector(weight, 3 * LANES + b)
        c0, c1, c2 = vector(weight, 6 * LANES + b)
        m = weight[9 * LANES + b]
        # ω: (I ω) × s + I (s × ω), and the centripetal part
        i0, i1, i2 = _inertia(xx, xy, xz, yy, yz, zz, w0, w1, w2)
        a0, a1, a2 = cross(i0, i1, i2, s0, s1, s2)
        t0, t1, t2 = cross(s0, s1, s2, w0, w1, w2)
        e0, e1, e2 = _inertia(xx, xy, xz, yy, yz, zz, t0, t1, t2)
        f0, f1, f2 = _centripetal(l0, l1, l2, w0, w1, w2, c0, c1, c2)
        link_bar[b] += a0 + e0 + f0
        link_bar[LANES + b] += a1 + e1 + f1
        link_bar[2 * LANES + b] += a2 + e2 + f2
        # α: I s + c × l
        a0, a1, a2 = _inertia(xx, xy, xz, yy, yz, zz, s0, s1, s2)
        e0, e1, e2 = cross(c0, c1, c2, l0, l1, l2)
        link_bar[3 * LANES + b] += a0 + e0
        link_bar[4 * LANES + b] += a1 + e1
        link_bar[5 * LANES + b] += a2 + e2
        # d: s × c + m l
        a0, a1, a2 = cross(s0, s1, s2, c0, c1, c2)
        link_bar[6 * LANES + b] += a0 + m * l0
        link_bar[7 * LANES + b] += a1 + m * l1
        link_bar[8 * LANES + b] += a2 + m * l2


@njit(**INLINED)
def _screw_back(here, weight, count, axis_bar):
    """Adds to the adjoint of a joint's screw the moment and force of the body `weight` that moves with the link."""
    for b in range(count):
        w0, w1, w2 = vector(here, 12 * LANES + b)
        a0, a1, a2 = vector(here, 15 * LANES + b)
        d0, d1, d2 = vector(here, 18 * LANES + b)
        xx, xy, xz = vector(weight, b)
        yy, yz, zz = vector(weight, 3 * LANES + b)
        c0, c1, c2 = vector(weight, 6 * LANES + b)
        m = weight[9 * LANES + b]
        i0, i1, i2 = _inertia(xx, xy, xz, yy, yz, zz, w0, w1, w2)
        e0, e1, e2 = _inertia(xx, xy, xz, yy, yz, zz, a0, a1, a2)
        f0, f1, f2 = cross(w0, w1, w2, i0, i1, i2)
        g0, g1, g2 = cross(c0, c1, c2, d0, d1, d2)
        axis_bar[b] += e0 + f0 + g0
        axis_bar[LANES + b] += e1 + f1 + g1
        axis_bar[2 * LANES + b] += e2 + f2 + g2
        t0, t1, t2 = cross(w0, w1, w2, c0, c1, c2)
        e0, e1, e2 = cross(a0, a1, a2, c0, c1, c2)
        f0, f1, f2 = cross(w0, w1, w2, t0, t1, t2)
        axis_bar[3 * LANES + b] += m * d0 + e0 + f0
        axis_bar[4 * LANES + b] += m * d1 + e1 + f1
        axis_bar[5 * LANES + b] += m * d2 + e2 + f2


@njit(**INLINED)
def _handed_back(here, screw, axis, axis_bar, count, up_bar, position_bar):
    """The adjoint of a joint's screw passed from a link to its parent, and its part of ∂φ/∂q for the link's own q.

    s' = Rᵀ s, l' = Rᵀ(l + s × p):  ∂s'/∂q = s' × s_i,  ∂l'/∂q = l' × s_i + s' × l_i  with the link's screw (s_i, l_i)
    """
    u0, u1, u2, v0, v1, v2 = screw[0], screw[1], screw[2], screw[3], screw[4], screw[5]
    for b in range(count):
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(here, b)
        x, y, z = vector(here, 9 * LANES + b)
        s0, s1, s2 = vector(axis, b)
        l0, l1, l2 = vector(axis, 3 * LANES + b)
        a0, a1, a2 = vector(axis_bar, b)
        e0, e1, e2 = vector(axis_bar, 3 * LANES + b)
        t0, t1, t2 = cross(s0, s1, s2, u0, u1, u2)
        f0, f1, f2 = cross(l0, l1, l2, u0, u1, u2)
        g0, g1, g2 = cross(s0, s1, s2, v0, v1, v2)
        position_bar[b] += (
            a0 * t0 + a1 * t1 + a2 * t2 + e0 * (f0 + g0) + e1 * (f1 + g1) + e2 * (f2 + g2)
        )  # fmt: skip
        a0, a1, a2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, a0, a1, a2)
        e0, e1, e2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, e0, e1, e2)
        t0, t1, t2 = cross(x, y, z, e0, e1, e2)
        up_bar[b] += a0 + t0
        up_bar[LANES + b] += a1 + t1
        up_bar[2 * LANES + b] += a2 + t2
        up_bar[3 * LANES + b] += e0
        up_bar[4 * LANES + b] += e1
        up_bar[5 * LANES + b] += e2


@njit(**INLINED)
def _velocities_back(up, here, screw, v, link_bar, count, up_bar, position_bar, velocity_bar, acceleration_bar):
    """`spatial.velocities` of one link backwards: adjoints of its ω, α, d to its parent's and to its q, v and a.

    With w = Rᵀω_p, β = Rᵀα_p and y = Rᵀ(d_p + α_p × p + ω_p × (ω_p × p)):
        ∂ω/∂q = w × s       ∂α/∂q = β × s + (w × s) × s q̇     ∂d/∂q = y × s + β × l + w × (w × l) + 2 (w × s) × l q̇
        ∂ω/∂q̇ = s           ∂α/∂q̇ = w × s                     ∂d/∂q̇ = 2 (w + s q̇) × l
        ∂α/∂q̈ = s           ∂d/∂q̈ = l
    """
    s0, s1, s2, l0, l1, l2 = screw[0], screw[1], screw[2], screw[3], screw[4], screw[5]
    n0, n1, n2 = cross(s0, s1, s2, l0, l1, l2)
    for b in range(count):
        qd = v[b]
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(here, b)
        x, y, z = vector(here, 9 * LANES + b)
        o0, o1, o2 = vector(up, 12 * LANES + b)
        c0, c1, c2 = vector(up, 15 * LANES + b)
        d0, d1, d2 = vector(up, 18 * LANES + b)
        p0, p1, p2 = vector(link_bar, b)
        k0, k1, k2 = vector(link_bar, 3 * LANES + b)
        h0, h1, h2 = vector(link_bar, 6 * LANES + b)
        # forward again: w, β, y
        w0, w1, w2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, o0, o1, o2)
        e0, e1, e2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, c0, c1, c2)
        t0, t1, t2 = cross(o0, o1, o2, x, y, z)
        f0, f1, f2 = cross(c0, c1, c2, x, y, z)
        g0, g1, g2 = cross(o0, o1, o2, t0, t1, t2)
        y0, y1, y2 = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, d0 + f0 + g0, d1 + f1 + g1, d2 + f2 + g2)
        # own q
        a0, a1, a2 = cross(w0, w1, w2, s0, s1, s2)
        slope = p0 * a0 + p1 * a1 + p2 * a2
        t0, t1, t2 = cross(e0 + qd * a0, e1 + qd * a1, e2 + qd * a2, s0, s1, s2)
        slope += k0 * t0 + k1 * t1 + k2 * t2
        t0, t1, t2 = cross(y0, y1, y2, s0, s1, s2)
        slope += h0 * t0 + h1 * t1 + h2 * t2
        t0, t1, t2 = cross(e0 + 2.0 * qd * a0, e1 + 2.0 * qd * a1, e2 + 2.0 * qd * a2, l0, l1, l2)
        slope += h0 * t0 + h1 * t1 + h2 * t2
        f0, f1, f2 = cross(w0, w1, w2, l0, l1, l2)
        t0, t1, t2 = cross(w0, w1, w2, f0, f1, f2)
        position_bar[b] += slope + h0 * t0 + h1 * t1 + h2 * t2
        # own v and a
        velocity_bar[b] += (
            p0 * s0 + p1 * s1 + p2 * s2 + k0 * a0 + k1 * a1 + k2 * a2
            + 2.0 * (h0 * (f0 + qd * n0) + h1 * (f1 + qd * n1) + h2 * (f2 + qd * n2))
        )  # fmt: skip
        acceleration_bar[b] += k0 * s0 + k1 * s1 + k2 * s2 + h0 * l0 + h1 * l1 + h2 * l2
        # the parent's: w̄ = ω̄ + s q̇ × ᾱ + 2 l q̇ × d̄, then back through R and the lever p
        t0, t1, t2 = cross(s0, s1, s2, k0, k1, k2)
        f0, f1, f2 = cross(l0, l1, l2, h0, h1, h2)
        p0, p1, p2 = p0 + qd * (t0 + 2.0 * f0), p1 + qd * (t1 + 2.0 * f1), p2 + qd * (t2 + 2.0 * f2)
        p0, p1, p2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, p0, p1, p2)
        k0, k1, k2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, k0, k1, k2)
        h0, h1, h2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, h0, h1, h2)
        f0, f1, f2 = _centripetal(h0, h1, h2, o0, o1, o2, x, y, z)
        t0, t1, t2 = cross(x, y, z, h0, h1, h2)
        up_bar[b] += p0 + f0
        up_bar[LANES + b] += p1 + f1
        up_bar[2 * LANES + b] += p2 + f2
        up_bar[3 * LANES + b] += k0 + t0
        up_bar[4 * LANES + b] += k1 + t1
        up_bar[5 * LANES + b] += k2 + t2
        up_bar[6 * LANES + b] += h0
        up_bar[7 * LANES + b] += h1
        up_bar[8 * LANES + b] += h2


@njit(**OPTIONS)
def regressor_gradient(parent, placement, screw, gravity, q, v, a, slot, weights, out):
    """∂φ/∂q, ∂φ/∂v and ∂φ/∂a of φ = Σ weights · W, sample by sample.

    q, v, a (n, N); slot (n, n) as for `regressor`; weights (rows, N) in the rows of the tile that `regressor` writes;
    out (3, n, N) is the result.
    """
    n, total = q.shape
    motion = np.empty((n + 1, WORKSPACE))
    weight = np.empty(10 * LANES)
    axes = np.empty((n, n, 6 * LANES))
    axes_bar = np.empty((n, n, 6 * LANES))
    links_bar = np.empty((n + 1, 9 * LANES))
    out[:] = 0.0
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        velocities(parent, screw, gravity, v, a, start, count, motion)
        for i in range(n):
            for part in range(6):
                axes[i, i, part * LANES : part * LANES + count] = screw[i, part]
            j = parent[i]
            while j >= 0:
                carried(motion[i + 1], axes[parent[i], j], count, axes[i, j])
                j = parent[j]
        axes_bar[:] = 0.0
        links_bar[:] = 0.0
        for i in range(n - 1, -1, -1):
            here, up = motion[i + 1], parent[i]
            position_bar = out[0, i, start : start + count]
            j = i
            while j >= 0:
                if slot[j, i] >= 0:
                    for k in range(10):
                        weight[k * LANES : k * LANES + count] = weights[slot[j, i] + k, start : start + count]
                    _moved_back(here, axes[i, j], weight, count, links_bar[i + 1])
                    if j != i:
                        _screw_back(here, weight, count, axes_bar[i, j])
                if j != i:
                    _handed_back(here, screw[i], axes[i, j], axes_bar[i, j], count, axes_bar[up, j], position_bar)
                j = parent[j]
            _velocities_back(
                motion[up + 1],
                here,
                screw[i],
                v[i, start : start + count],
                links_bar[i + 1],
                count,
                links_bar[up + 1],
                position_bar,
                out[1, i, start : start + count],
                out[2, i, start : start + count],
            )
