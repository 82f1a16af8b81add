"""The standard regressor of a tree of rigid bodies, in lanes."""

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
    turned_back,
    vector,
    velocities,
)

# Rows of the wrench regressor of one link: moment of the six inertias 3×6, force of the first moments 3×3.
_BODY_ROWS = 27


@njit(**INLINED)
def _wrench(here, count, body):
    """Force and moment at the link's origin per unit of each inertial parameter (Newton–Euler).

    moment of I:  K(α) + ω × K(ω), I ω = K(ω) [XX XY XZ YY YZ ZZ]ᵀ    rows 0–17, row 3·k + axis of parameter k
    force of mc:  Λ = [α]ₓ + [ω]ₓ²                                    rows 18–26, row-major
    """
    for b in range(count):
        x, y, z = vector(here, 12 * LANES + b)
        u, v, w = vector(here, 15 * LANES + b)
        xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
        # XX
        body[b], body[LANES + b], body[2 * LANES + b] = u, xz, -xy
        # XY: K = (y, x, 0)
        body[3 * LANES + b], body[4 * LANES + b], body[5 * LANES + b] = v - xz, u + yz, xx - yy
        # XZ: K = (z, 0, x)
        body[6 * LANES + b], body[7 * LANES + b], body[8 * LANES + b] = w + xy, zz - xx, u - yz
        # YY
        body[9 * LANES + b], body[10 * LANES + b], body[11 * LANES + b] = -yz, v, xy
        # YZ: K = (0, z, y)
        body[12 * LANES + b], body[13 * LANES + b], body[14 * LANES + b] = yy - zz, w - xy, v + xz
        # ZZ
        body[15 * LANES + b], body[16 * LANES + b], body[17 * LANES + b] = yz, -xz, w
        body[18 * LANES + b], body[19 * LANES + b], body[20 * LANES + b] = -yy - zz, xy - w, xz + v
        body[21 * LANES + b], body[22 * LANES + b], body[23 * LANES + b] = xy + w, -xx - zz, yz - u
        body[24 * LANES + b], body[25 * LANES + b], body[26 * LANES + b] = xz - v, yz + u, -xx - yy


@njit(**INLINED)
def _project(here, body, axis, count, ten):
    """Ten columns of one joint's row: s·moment + l·force for the joint's screw (s, l) in the link's frame."""
    for b in range(count):
        s0, s1, s2 = vector(axis, b)
        l0, l1, l2 = vector(axis, 3 * LANES + b)
        d0, d1, d2 = vector(here, 18 * LANES + b)
        ten[b] = s0 * body[b] + s1 * body[LANES + b] + s2 * body[2 * LANES + b]
        ten[LANES + b] = s0 * body[3 * LANES + b] + s1 * body[4 * LANES + b] + s2 * body[5 * LANES + b]
        ten[2 * LANES + b] = s0 * body[6 * LANES + b] + s1 * body[7 * LANES + b] + s2 * body[8 * LANES + b]
        ten[3 * LANES + b] = s0 * body[9 * LANES + b] + s1 * body[10 * LANES + b] + s2 * body[11 * LANES + b]
        ten[4 * LANES + b] = s0 * body[12 * LANES + b] + s1 * body[13 * LANES + b] + s2 * body[14 * LANES + b]
        ten[5 * LANES + b] = s0 * body[15 * LANES + b] + s1 * body[16 * LANES + b] + s2 * body[17 * LANES + b]
        # the moment of mc is mc × d, so its column k is e_k × d and s·(e_k × d) = e_k·(d × s)
        m0, m1, m2 = cross(d0, d1, d2, s0, s1, s2)
        ten[6 * LANES + b] = m0 + l0 * body[18 * LANES + b] + l1 * body[21 * LANES + b] + l2 * body[24 * LANES + b]
        ten[7 * LANES + b] = m1 + l0 * body[19 * LANES + b] + l1 * body[22 * LANES + b] + l2 * body[25 * LANES + b]
        ten[8 * LANES + b] = m2 + l0 * body[20 * LANES + b] + l1 * body[23 * LANES + b] + l2 * body[26 * LANES + b]
        ten[9 * LANES + b] = l0 * d0 + l1 * d1 + l2 * d2


@njit(**INLINED)
def carried(here, before, count, after):
    """A joint's screw transformed from a link's parent frame to its own: s' = Rᵀs, l' = Rᵀ(l + s × p)."""
    for b in range(count):
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(here, b)
        x, y, z = vector(here, 9 * LANES + b)
        s0, s1, s2 = vector(before, b)
        l0, l1, l2 = vector(before, 3 * LANES + b)
        t0, t1, t2 = cross(s0, s1, s2, x, y, z)
        after[b], after[LANES + b], after[2 * LANES + b] = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2)
        after[3 * LANES + b], after[4 * LANES + b], after[5 * LANES + b] = turned_back(
            r0, r1, r2, r3, r4, r5, r6, r7, r8, l0 + t0, l1 + t1, l2 + t2
        )


@njit(**OPTIONS)
def regressor(parent, placement, screw, gravity, q, v, a, slot, out):
    """Columns of the standard inertial parameters: τ_j = Σ_i W[j, i] · [XX … M]_i over the links i that j carries.

    q, v, a (n, N); slot (n, n): row of `out` where the ten columns of (joint j, link i) start, −1 where zero; out
    (rows, N) is written only at those rows.
    """
    n, total = q.shape
    motion = np.empty((n + 1, WORKSPACE))
    body = np.empty(_BODY_ROWS * LANES)
    ten = np.empty(10 * LANES)
    # axes[i, j] is joint j's screw in the frame of link i
    axes = np.empty((n, n, 6 * LANES))
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        velocities(parent, screw, gravity, v, a, start, count, motion)
        for i in range(n):
            here = motion[i + 1]
            _wrench(here, count, body)
            for part in range(6):
                axes[i, i, part * LANES : part * LANES + count] = screw[i, part]
            j = i
            while j >= 0:
                if j != i:
                    carried(here, axes[parent[i], j], count, axes[i, j])
                if slot[j, i] >= 0:
                    _project(here, body, axes[i, j], count, ten)
                    for k in range(10):
                        out[slot[j, i] + k, start : start + count] = ten[k * LANES : k * LANES + count]
                j = parent[j]


@njit(**INLINED)
def _set_out(screw, share, count, after):
    """The motion of a link on the base per unit of an axis."""
    for part in range(6):
        s = screw[part]
        for b in range(count):
            after[part * LANES + b] = s * share[b]


@njit(**INLINED)
def _led(here, before, screw, share, count, after):
    """The motion of a link per unit of an axis: that of its parent, transformed, and its own joint's screw times G."""
    carried(here, before, count, after)
    for part in range(6):
        s = screw[part]
        for b in range(count):
            after[part * LANES + b] += s * share[b]


@njit(**OPTIONS)
def looped_regressor(parent, placement, screw, gravity, q, v, a, share, slot, out):
    """The same columns of a tree whose joints follow n axes, q̇ = G q̇_axes: W = Gᵀ W_tree, without W_tree.

    q, v, a (n_t, N) of the tree's joints; share G (n_t, n, N); slot (n, n_t): row of `out` where the ten columns of
    (axis, link) start, −1 where zero. For every link, the screw with which an axis moves it, Σ_j G_j S_j over the
    joints j that carry it, is passed from parent to child; a joint's own screw is that of an axis which moves only this
    joint.
    """
    n, total = q.shape
    axes = share.shape[1]
    motion = np.empty((n + 1, WORKSPACE))
    body = np.empty(_BODY_ROWS * LANES)
    ten = np.empty(10 * LANES)
    # led[i, k] is the screw with which axis k moves link i, in the frame of link i
    led = np.empty((n, axes, 6 * LANES))
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        velocities(parent, screw, gravity, v, a, start, count, motion)
        for i in range(n):
            here = motion[i + 1]
            weighed = False
            for k in range(axes):
                own = share[i, k, start : start + count]
                if parent[i] < 0:
                    _set_out(screw[i], own, count, led[i, k])
                else:
                    _led(here, led[parent[i], k], screw[i], own, count, led[i, k])
                weighed = weighed or slot[k, i] >= 0
            if not weighed:
                continue
            _wrench(here, count, body)
            for k in range(axes):
                if slot[k, i] >= 0:
                    _project(here, body, led[i, k], count, ten)
                    for part in range(10):
                        row = ten[part * LANES : part * LANES + count]
                        out[slot[k, i] + part, start : start + count] = row
