"""Loops as equations: the links of a tree relative to the base, the constraints between two of their frames, and J.

Every function works on one sample or on a pack of them, as wide as its first argument `like`, a zero of that kind; the
workspace is flat, and each quantity takes as many numbers as `like` has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from steelyard._kernels.packs import load, store, width
from steelyard._kernels.spatial import OPTIONS, cross, turned
from steelyard._kernels.trigonometry import sine_cosine

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Quantities of one link, relative to the base and about its origin: rotation 9, position 3, the joint's screw 6,
# velocity 6, acceleration without q̈ 6. Link i is number i + 1; number 0 is the base.
LINK = 30
# Quantities of a loop: rotation and position of frame A, then of frame B.
FRAMES = 24
# Form of an entry of J: wrench · screw; moments only (a rotational constraint); forces only (a prismatic joint); 1 for
# a joint that follows another; the slope of the polynomial that it follows.
WRENCH, MOMENT, FORCE, FOLLOWER, SLOPE = 0, 1, 2, 3, 4


class LoopConstraints(NamedTuple):
    """A tree of n joints with m equations c(q) = 0, and the entries of J = ∂c/∂q that are not always zero.

    joint (n, 2): parent, and whether it is revolute; geometry (n, 54): placement and screw, as of `Joint`;
    links (F, 2), poses (F, 2, 12): the frames A and B of every frame loop, as link numbers and row-major R, then p;
    row (m, 2), row_scale (m,): the frame loop of an equation and its component 0–5, or −1 and the number of its joint
    loop; the factor of the equation;
    follower (P, 3), curve (P, K): equation, joint and other of every joint loop, coefficients of its polynomial;
    entry (E, 4): equation, joint, form and slot; entry_scale (E,). Entries of passive joints come first,
    `passive_entries` of them.
    """

    joint: Integers
    geometry: Floats
    links: Integers
    poses: Floats
    row: Integers
    row_scale: Floats
    follower: Integers
    curve: Floats
    entry: Integers
    entry_scale: Floats
    passive_entries: int


@njit(inline="always", **OPTIONS)
def _vector(like, flat, at):
    """Three consecutive quantities."""
    w = width(like)
    return load(like, flat, at), load(like, flat, at + w), load(like, flat, at + 2 * w)


@njit(inline="always", **OPTIONS)
def _set_vector(like, flat, at, x, y, z):
    w = width(like)
    store(flat, at, x)
    store(flat, at + w, y)
    store(flat, at + 2 * w, z)


@njit(inline="always", **OPTIONS)
def _rotation(like, flat, at):
    w = width(like)
    return (
        load(like, flat, at), load(like, flat, at + w), load(like, flat, at + 2 * w),
        load(like, flat, at + 3 * w), load(like, flat, at + 4 * w), load(like, flat, at + 5 * w),
        load(like, flat, at + 6 * w), load(like, flat, at + 7 * w), load(like, flat, at + 8 * w),
    )  # fmt: skip


@njit(inline="always", **OPTIONS)
def _turning(own, i, first, sine, turn):
    """An entry of [R | p](q) of a revolute joint: P₀ + sin q · P₁ + (1 − cos q) · P₂."""
    return own[i, first] + own[i, 12 + first] * sine + own[i, 24 + first] * turn


@njit(**OPTIONS)
def pose_links(like, joint, own, q, sine, cosine, links):
    """Poses and screws of all links at q (n · w,), of joints with `joint` (n, 2) and geometry `own` (n, 54)."""
    w = width(like)
    sine_cosine(q, sine, cosine)
    for i in range(joint.shape[0]):
        up, me = LINK * w * (joint[i, 0] + 1), LINK * w * (i + 1)
        if joint[i, 1]:
            s, t = load(like, sine, i * w), 1.0 - load(like, cosine, i * w)
            a0, a1, a2 = _turning(own, i, 0, s, t), _turning(own, i, 1, s, t), _turning(own, i, 2, s, t)
            b0, b1, b2 = _turning(own, i, 4, s, t), _turning(own, i, 5, s, t), _turning(own, i, 6, s, t)
            c0, c1, c2 = _turning(own, i, 8, s, t), _turning(own, i, 9, s, t), _turning(own, i, 10, s, t)
            a3, b3, c3 = _turning(own, i, 3, s, t), _turning(own, i, 7, s, t), _turning(own, i, 11, s, t)
        else:
            s = load(like, q, i * w)
            a0, a1, a2 = like + own[i, 0], like + own[i, 1], like + own[i, 2]
            b0, b1, b2 = like + own[i, 4], like + own[i, 5], like + own[i, 6]
            c0, c1, c2 = like + own[i, 8], like + own[i, 9], like + own[i, 10]
            a3, b3, c3 = own[i, 3] + own[i, 39] * s, own[i, 7] + own[i, 43] * s, own[i, 11] + own[i, 47] * s
        u0, u1, u2, u3, u4, u5, u6, u7, u8 = _rotation(like, links, up)
        x, y, z = _vector(like, links, up + 9 * w)
        r0, r1, r2 = u0 * a0 + u1 * b0 + u2 * c0, u0 * a1 + u1 * b1 + u2 * c1, u0 * a2 + u1 * b2 + u2 * c2
        r3, r4, r5 = u3 * a0 + u4 * b0 + u5 * c0, u3 * a1 + u4 * b1 + u5 * c1, u3 * a2 + u4 * b2 + u5 * c2
        r6, r7, r8 = u6 * a0 + u7 * b0 + u8 * c0, u6 * a1 + u7 * b1 + u8 * c1, u6 * a2 + u7 * b2 + u8 * c2
        x, y, z = x + u0 * a3 + u1 * b3 + u2 * c3, y + u3 * a3 + u4 * b3 + u5 * c3, z + u6 * a3 + u7 * b3 + u8 * c3
        _set_vector(like, links, me, r0, r1, r2)
        _set_vector(like, links, me + 3 * w, r3, r4, r5)
        _set_vector(like, links, me + 6 * w, r6, r7, r8)
        _set_vector(like, links, me + 9 * w, x, y, z)
        l0, l1, l2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, own[i, 51], own[i, 52], own[i, 53])
        s0, s1, s2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, own[i, 48], own[i, 49], own[i, 50])
        d0, d1, d2 = cross(x, y, z, s0, s1, s2)
        _set_vector(like, links, me + 12 * w, s0, s1, s2)
        _set_vector(like, links, me + 15 * w, l0 + d0, l1 + d1, l2 + d2)


@njit(**OPTIONS)
def move_links(like, joint, v, links):
    """Velocities and accelerations without q̈ of all links, after `pose_links`:  V = V_p + S q̇,  A = A_p + V_p × S q̇."""
    w = width(like)
    for i in range(joint.shape[0]):
        up, me = LINK * w * (joint[i, 0] + 1), LINK * w * (i + 1)
        speed = load(like, v, i * w)
        s0, s1, s2 = _vector(like, links, me + 12 * w)
        l0, l1, l2 = _vector(like, links, me + 15 * w)
        w0, w1, w2 = _vector(like, links, up + 18 * w)
        o0, o1, o2 = _vector(like, links, up + 21 * w)
        a0, a1, a2 = _vector(like, links, up + 24 * w)
        d0, d1, d2 = _vector(like, links, up + 27 * w)
        s0, s1, s2, l0, l1, l2 = s0 * speed, s1 * speed, s2 * speed, l0 * speed, l1 * speed, l2 * speed
        _set_vector(like, links, me + 18 * w, w0 + s0, w1 + s1, w2 + s2)
        _set_vector(like, links, me + 21 * w, o0 + l0, o1 + l1, o2 + l2)
        e0, e1, e2 = cross(w0, w1, w2, s0, s1, s2)
        _set_vector(like, links, me + 24 * w, a0 + e0, a1 + e1, a2 + e2)
        e0, e1, e2 = cross(w0, w1, w2, l0, l1, l2)
        f0, f1, f2 = cross(o0, o1, o2, s0, s1, s2)
        _set_vector(like, links, me + 27 * w, d0 + e0 + f0, d1 + e1 + f1, d2 + e2 + f2)


@njit(**OPTIONS)
def _place_frame(like, pose, f, end, links, link, frames, at):
    """A frame fixed to a link, relative to the base."""
    w = width(like)
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = _rotation(like, links, link)
    x, y, z = _vector(like, links, link + 9 * w)
    for col in range(3):
        a, b, c = turned(
            r0, r1, r2, r3, r4, r5, r6, r7, r8, pose[f, end, col], pose[f, end, 3 + col], pose[f, end, 6 + col]
        )
        store(frames, at + col * w, a)
        store(frames, at + (3 + col) * w, b)
        store(frames, at + (6 + col) * w, c)
    a, b, c = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, pose[f, end, 9], pose[f, end, 10], pose[f, end, 11])
    _set_vector(like, frames, at + 9 * w, x + a, y + b, z + c)


@njit(inline="always", **OPTIONS)
def _column(like, frames, at, col):
    w = width(like)
    return (
        load(like, frames, at + col * w),
        load(like, frames, at + (3 + col) * w),
        load(like, frames, at + (6 + col) * w),
    )


@njit(inline="always", **OPTIONS)
def _turn_axes(kind):
    """rx: −y_A · z_B, ry: x_A · z_B, rz: −x_A · y_B as axis of A, axis of B and sign."""
    if kind == 3:
        return 1, 2, -1.0
    if kind == 4:
        return 0, 2, 1.0
    return 0, 1, -1.0


@njit(**OPTIONS)
def residuals(like, loops, q, links, frames, wrench, c):
    """c (m · w,) and the wrench (moment, force) of every equation, after `pose_links`."""
    w = width(like)
    for f in range(loops.links.shape[0]):
        at = FRAMES * w * f
        _place_frame(like, loops.poses, f, 0, links, LINK * w * loops.links[f, 0], frames, at)
        _place_frame(like, loops.poses, f, 1, links, LINK * w * loops.links[f, 1], frames, at + 12 * w)
    for r in range(loops.row.shape[0]):
        if loops.row[r, 0] < 0:
            continue
        at, kind, scale, to = FRAMES * w * loops.row[r, 0], loops.row[r, 1], loops.row_scale[r], 6 * w * r
        if kind < 3:
            n0, n1, n2 = _column(like, frames, at, kind)
            a0, a1, a2 = _vector(like, frames, at + 9 * w)
            b0, b1, b2 = _vector(like, frames, at + 21 * w)
            n0, n1, n2 = scale * n0, scale * n1, scale * n2
            store(c, r * w, n0 * (b0 - a0) + n1 * (b1 - a1) + n2 * (b2 - a2))
            m0, m1, m2 = cross(b0, b1, b2, n0, n1, n2)
            _set_vector(like, wrench, to, m0, m1, m2)
            _set_vector(like, wrench, to + 3 * w, n0, n1, n2)
        else:
            first, second, sign = _turn_axes(kind)
            scale = scale * sign
            a0, a1, a2 = _column(like, frames, at, first)
            b0, b1, b2 = _column(like, frames, at + 12 * w, second)
            a0, a1, a2 = scale * a0, scale * a1, scale * a2
            store(c, r * w, a0 * b0 + a1 * b1 + a2 * b2)
            m0, m1, m2 = cross(b0, b1, b2, a0, a1, a2)
            _set_vector(like, wrench, to, m0, m1, m2)
    for p in range(loops.follower.shape[0]):
        r, joint, other = loops.follower[p]
        x = load(like, q, other * w)
        value = like
        for k in range(loops.curve.shape[1] - 1, -1, -1):
            value = value * x + loops.curve[p, k]
        store(c, r * w, loops.row_scale[r] * (load(like, q, joint * w) - value))


@njit(**OPTIONS)
def entries(like, loops, first, stop, q, links, wrench, matrix):
    """Entries `first` to `stop` of J into their slots of `matrix`, after `residuals`."""
    w = width(like)
    for e in range(first, stop):
        r, joint, made = loops.entry[e, 0], loops.entry[e, 1], loops.entry[e, 2]
        slot, scale = loops.entry[e, 3] * w, loops.entry_scale[e]
        of, at = 6 * w * r, LINK * w * (joint + 1) + 12 * w
        if made == FORCE:
            f0, f1, f2 = _vector(like, wrench, of + 3 * w)
            l0, l1, l2 = _vector(like, links, at + 3 * w)
            store(matrix, slot, scale * (f0 * l0 + f1 * l1 + f2 * l2))
        elif made <= MOMENT:
            m0, m1, m2 = _vector(like, wrench, of)
            s0, s1, s2 = _vector(like, links, at)
            value = m0 * s0 + m1 * s1 + m2 * s2
            if made == WRENCH:
                f0, f1, f2 = _vector(like, wrench, of + 3 * w)
                l0, l1, l2 = _vector(like, links, at + 3 * w)
                value = value + f0 * l0 + f1 * l1 + f2 * l2
            store(matrix, slot, scale * value)
        elif made == FOLLOWER:
            store(matrix, slot, like + scale)
        else:
            x, p = load(like, q, joint * w), loops.row[r, 1]
            slope = like
            for k in range(loops.curve.shape[1] - 1, 0, -1):
                slope = slope * x + k * loops.curve[p, k]
            store(matrix, slot, -scale * slope)


@njit(**OPTIONS)
def rates(like, loops, q, v, links, frames, wrench, gamma):
    """γ = J̇ q̇ (m · w,), the part of c̈ without q̈, after `residuals` and `move_links`.

    With (α, o̊) the links' accelerations without q̈, p = p_B and u = v₂(p) − v₁(p) their velocity difference there:
        a position:     n·((o̊₂ − o̊₁) + (α₂ − α₁) × p + (ω₂ − ω₁) × v₂(p) − ω₁ × u)
        a rotation a·b: (α₂ − α₁)·(b × a) + (ω₂ − ω₁)·((ω₂ × b) × a + b × (ω₁ × a))
        a joint loop:   −p''(q_other) q̇_other²
    """
    w = width(like)
    for r in range(loops.row.shape[0]):
        f = loops.row[r, 0]
        if f < 0:
            continue
        one, two, at, kind = LINK * w * loops.links[f, 0], LINK * w * loops.links[f, 1], FRAMES * w * f, loops.row[r, 1]
        w0, w1, w2 = _vector(like, links, one + 18 * w)
        x0, x1, x2 = _vector(like, links, two + 18 * w)
        m0, m1, m2 = _vector(like, wrench, 6 * w * r)
        a0, a1, a2 = _vector(like, links, one + 24 * w)
        e0, e1, e2 = _vector(like, links, two + 24 * w)
        value = m0 * (e0 - a0) + m1 * (e1 - a1) + m2 * (e2 - a2)
        if kind < 3:
            n0, n1, n2 = _vector(like, wrench, 6 * w * r + 3 * w)
            p0, p1, p2 = _vector(like, frames, at + 21 * w)
            a0, a1, a2 = _vector(like, links, one + 27 * w)
            e0, e1, e2 = _vector(like, links, two + 27 * w)
            value = value + n0 * (e0 - a0) + n1 * (e1 - a1) + n2 * (e2 - a2)
            a0, a1, a2 = _vector(like, links, one + 21 * w)
            e0, e1, e2 = _vector(like, links, two + 21 * w)
            t0, t1, t2 = cross(x0, x1, x2, p0, p1, p2)
            y0, y1, y2 = e0 + t0, e1 + t1, e2 + t2
            t0, t1, t2 = cross(w0, w1, w2, p0, p1, p2)
            u0, u1, u2 = y0 - a0 - t0, y1 - a1 - t1, y2 - a2 - t2
            t0, t1, t2 = cross(x0 - w0, x1 - w1, x2 - w2, y0, y1, y2)
            u0, u1, u2 = cross(w0, w1, w2, u0, u1, u2)
            store(gamma, r * w, value + n0 * (t0 - u0) + n1 * (t1 - u1) + n2 * (t2 - u2))
        else:
            first, second, sign = _turn_axes(kind)
            scale = sign * loops.row_scale[r]
            a0, a1, a2 = _column(like, frames, at, first)
            b0, b1, b2 = _column(like, frames, at + 12 * w, second)
            t0, t1, t2 = cross(x0, x1, x2, b0, b1, b2)
            t0, t1, t2 = cross(t0, t1, t2, a0, a1, a2)
            u0, u1, u2 = cross(w0, w1, w2, a0, a1, a2)
            u0, u1, u2 = cross(b0, b1, b2, u0, u1, u2)
            turn = (x0 - w0) * (t0 + u0) + (x1 - w1) * (t1 + u1) + (x2 - w2) * (t2 + u2)
            store(gamma, r * w, value + scale * turn)
    for p in range(loops.follower.shape[0]):
        r, other = loops.follower[p, 0], loops.follower[p, 2]
        x, speed = load(like, q, other * w), load(like, v, other * w)
        bend = like
        for k in range(loops.curve.shape[1] - 1, 1, -1):
            bend = bend * x + k * (k - 1) * loops.curve[p, k]
        store(gamma, r * w, -loops.row_scale[r] * bend * speed * speed)


@njit(**OPTIONS)
def equations(loops, q, c, jacobian):
    """c (m,) and J (m, n) of one posture q (n,), with the scales of `loops`, dense: for inspection, not for speed."""
    n, m = loops.joint.shape[0], loops.row.shape[0]
    links, frames = np.zeros((n + 1) * LINK), np.empty(max(loops.links.shape[0], 1) * FRAMES)
    links[0] = links[4] = links[8] = 1.0
    sine, cosine, wrench = np.empty(n), np.empty(n), np.zeros(6 * m)
    slots = np.zeros(1 + np.max(loops.entry[:, 3]))
    pose_links(0.0, loops.joint, loops.geometry, q, sine, cosine, links)
    residuals(0.0, loops, q, links, frames, wrench, c)
    jacobian[:] = 0.0
    for e in range(loops.entry.shape[0]):
        entries(0.0, loops, e, e + 1, q, links, wrench, slots)
        jacobian[loops.entry[e, 0], loops.entry[e, 1]] += slots[loops.entry[e, 3]]
