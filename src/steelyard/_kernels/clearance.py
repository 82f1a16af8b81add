"""Distances from capsules to planes, boxes and other capsules, and their gradients in the posture, in lanes.

A distance is that of the closest points c₁ and c₂ along the unit normal n from the second to the first. Moving either
point along its body changes it to second order only, so  ∂d/∂q = n · (∂c₁/∂q − ∂c₂/∂q)  with both fixed to their
bodies: a force n at c₁ and −n at c₂, projected on the screw of every joint.
"""

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
    turned_back,
    vector,
)

# Kind of the other side of a pair.
PLANE, BOX, CAPSULE = 0, 1, 2
# Halvings to find the deepest point of a segment inside a box: to 1e-12 of its length.
_HALVINGS = 40
# Squared gap [m²] below which a segment touches a box: rounding must not hide that it continues inside.
_TOUCHING = 1e-20


@njit(**INLINED)
def _frames(parent, motion, count, frames):
    """[R | p] of every link relative to the base, (n + 1, 12 · LANES), from `placements`; row 0 is the base."""
    frames[0] = 0.0
    for k in (0, 4, 8):
        frames[0, k * LANES : (k + 1) * LANES] = 1.0
    for i in range(parent.shape[0]):
        up, here, frame = frames[parent[i] + 1], motion[i + 1], frames[i + 1]
        for b in range(count):
            r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(up, b)
            for column in range(4):
                k, step = (9 * LANES + b, LANES) if column == 3 else (column * LANES + b, 3 * LANES)
                x, y, z = turned(
                    r0, r1, r2, r3, r4, r5, r6, r7, r8, here[k], here[k + step], here[k + 2 * step]
                )  # fmt: skip
                if column == 3:
                    x, y, z = x + up[k], y + up[k + LANES], z + up[k + 2 * LANES]
                frame[k], frame[k + step], frame[k + 2 * step] = x, y, z


@njit(**INLINED)
def _placed(frames, link, ends, count, placed):
    """Both ends of every capsule relative to the base, (C, 6 · LANES), from those in its link's frame, (C, 2, 3)."""
    for c in range(link.shape[0]):
        frame, here = frames[link[c] + 1], placed[c]
        for end in range(2):
            e0, e1, e2 = ends[c, end, 0], ends[c, end, 1], ends[c, end, 2]
            for b in range(count):
                r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(frame, b)
                x, y, z = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, e0, e1, e2)
                k = 3 * end * LANES + b
                here[k] = x + frame[9 * LANES + b]
                here[k + LANES] = y + frame[10 * LANES + b]
                here[k + 2 * LANES] = z + frame[11 * LANES + b]


@njit(inline="always", **OPTIONS)
def _within(s):
    return min(max(s, 0.0), 1.0)


@njit(**INLINED)
def _to_plane(capsule, b, plane):
    """Distance of a capsule's axis to a plane; the closest point is the lower end. Returns d, c₁, c₂ and n."""
    n0, n1, n2 = plane[0], plane[1], plane[2]
    x, y, z = vector(capsule, b)
    d = n0 * x + n1 * y + n2 * z
    x1, y1, z1 = vector(capsule, 3 * LANES + b)
    d1 = n0 * x1 + n1 * y1 + n2 * z1
    if d1 < d:
        d, x, y, z = d1, x1, y1, z1
    d -= plane[3]
    return d, x, y, z, x - d * n0, y - d * n1, z - d * n2, n0, n1, n2


@njit(inline="always", **OPTIONS)
def _square_gap(s, x, u, half):
    """e · u of the point x + s u, e its excess outside the box on every axis: half the slope of the squared gap."""
    slope = 0.0
    for k in range(3):
        at = x[k] + s * u[k]
        slope += (at - min(max(at, -half[k]), half[k])) * u[k]
    return slope


@njit(**INLINED)
def _nearest_to_box(x, u, half):
    """s in [0, 1] at which x + s u is nearest to a box of half edges about the origin.

    The slope of the squared gap increases with s and is linear between the points where a coordinate passes a face:
    once these have narrowed the interval of its zero, the zero is known exactly.
    """
    low, high = 0.0, 1.0
    if _square_gap(low, x, u, half) >= 0.0 and _square_gap(high, x, u, half) > 0.0:
        return low
    if _square_gap(high, x, u, half) <= 0.0 and _square_gap(low, x, u, half) < 0.0:
        return high
    for k in range(3):
        for side in (-1.0, 1.0):
            if u[k] != 0.0:
                s = (side * half[k] - x[k]) / u[k]
                if low < s < high:
                    if _square_gap(s, x, u, half) < 0.0:
                        low = s
                    else:
                        high = s
    below, above = _square_gap(low, x, u, half), _square_gap(high, x, u, half)
    if above <= below:
        return 0.5 * (low + high)
    return _within(low + (high - low) * -below / (above - below))


@njit(inline="always", **OPTIONS)
def _face(s, x, u, half):
    """The face nearest to the point x + s u from within: the distance outside (negative inside), and its axis."""
    most, axis = -np.inf, 0
    for k in range(3):
        out = abs(x[k] + s * u[k]) - half[k]
        if out > most:
            most, axis = out, k
    return most, axis


@njit(**INLINED)
def _deepest_in_box(x, u, half):
    """s in [0, 1] at which x + s u is deepest in the box; the distance outside decreases, then increases with s."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        s = 0.5 * (low + high)
        _, axis = _face(s, x, u, half)
        at = x[axis] + s * u[axis]
        if u[axis] == 0.0:
            break
        if at * u[axis] > 0.0:
            high = s
        else:
            low = s
    return 0.5 * (low + high)


@njit(**INLINED)
def _to_box(capsule, b, box, x, u):
    """Signed distance of a capsule's axis to a box: that of its nearest point, or of its deepest if it enters.

    box (15,): centre, half edges, rotation; x and u (3,) are workspace. Inside, n is that of the nearest face.
    """
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = box[6], box[7], box[8], box[9], box[10], box[11], box[12], box[13], box[14]
    half = box[3:6]
    x0, y0, z0 = vector(capsule, b)
    x1, y1, z1 = vector(capsule, 3 * LANES + b)
    x[0], x[1], x[2] = turned_back(
        r0, r1, r2, r3, r4, r5, r6, r7, r8, x0 - box[0], y0 - box[1], z0 - box[2]
    )  # fmt: skip
    u[0], u[1], u[2] = turned_back(r0, r1, r2, r3, r4, r5, r6, r7, r8, x1 - x0, y1 - y0, z1 - z0)
    s = _nearest_to_box(x, u, half)
    square = 0.0
    for k in range(3):
        out = max(abs(x[k] + s * u[k]) - half[k], 0.0)
        square += out * out
    e0, e1, e2 = 0.0, 0.0, 0.0
    if square > _TOUCHING:
        d = np.sqrt(square)
        at0, at1, at2 = x[0] + s * u[0], x[1] + s * u[1], x[2] + s * u[2]
        e0 = (at0 - min(max(at0, -half[0]), half[0])) / d
        e1 = (at1 - min(max(at1, -half[1]), half[1])) / d
        e2 = (at2 - min(max(at2, -half[2]), half[2])) / d
    else:
        s = _deepest_in_box(x, u, half)
        d, axis = _face(s, x, u, half)
        way = 1.0 if x[axis] + s * u[axis] >= 0.0 else -1.0
        e0, e1, e2 = way * (axis == 0), way * (axis == 1), way * (axis == 2)
    n0, n1, n2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, e0, e1, e2)
    x0, y0, z0 = x0 + s * (x1 - x0), y0 + s * (y1 - y0), z0 + s * (z1 - z0)
    return d, x0, y0, z0, x0 - d * n0, y0 - d * n1, z0 - d * n2, n0, n1, n2


@njit(inline="always", **OPTIONS)
def _gap(s, t, w0, w1, w2, u0, u1, u2, v0, v1, v2):
    """|w + s u − t v|²."""
    x, y, z = w0 + s * u0 - t * v0, w1 + s * u1 - t * v1, w2 + s * u2 - t * v2
    return x * x + y * y + z * z


@njit(**INLINED)
def _to_capsule(one, two, b):
    """Distance of two capsules' axes. The minimum of a convex quadratic over the unit square is inside or on an edge.

    Every candidate is tried, so that parallel axes, for which the inner one is undetermined, and spheres need no
    special case. Where the axes cross, n is zero.
    """
    x0, y0, z0 = vector(one, b)
    x1, y1, z1 = vector(one, 3 * LANES + b)
    p0, p1, p2 = vector(two, b)
    g0, g1, g2 = vector(two, 3 * LANES + b)
    u0, u1, u2 = x1 - x0, y1 - y0, z1 - z0
    v0, v1, v2 = g0 - p0, g1 - p1, g2 - p2
    w0, w1, w2 = x0 - p0, y0 - p1, z0 - p2
    uu, vv, uv = u0 * u0 + u1 * u1 + u2 * u2, v0 * v0 + v1 * v1 + v2 * v2, u0 * v0 + u1 * v1 + u2 * v2
    uw, vw = u0 * w0 + u1 * w1 + u2 * w2, v0 * w0 + v1 * w1 + v2 * w2
    short, other = (1.0 / uu if uu > 0.0 else 0.0), (1.0 / vv if vv > 0.0 else 0.0)
    s, t = 0.0, _within(vw * other)
    best = _gap(s, t, w0, w1, w2, u0, u1, u2, v0, v1, v2)
    edge = _within((vw + uv) * other)
    gap = _gap(1.0, edge, w0, w1, w2, u0, u1, u2, v0, v1, v2)
    if gap < best:
        best, s, t = gap, 1.0, edge
    edge = _within(-uw * short)
    gap = _gap(edge, 0.0, w0, w1, w2, u0, u1, u2, v0, v1, v2)
    if gap < best:
        best, s, t = gap, edge, 0.0
    edge = _within((uv - uw) * short)
    gap = _gap(edge, 1.0, w0, w1, w2, u0, u1, u2, v0, v1, v2)
    if gap < best:
        best, s, t = gap, edge, 1.0
    whole = uu * vv - uv * uv
    if whole > 1e-14 * uu * vv:
        inner, other = _within((uv * vw - vv * uw) / whole), _within((uu * vw - uv * uw) / whole)
        gap = _gap(inner, other, w0, w1, w2, u0, u1, u2, v0, v1, v2)
        if gap < best:
            best, s, t = gap, inner, other
    d = np.sqrt(best)
    x0, y0, z0 = x0 + s * u0, y0 + s * u1, z0 + s * u2
    p0, p1, p2 = p0 + t * v0, p1 + t * v1, p2 + t * v2
    over = 1.0 / d if d > 0.0 else 0.0
    return d, x0, y0, z0, p0, p1, p2, (x0 - p0) * over, (y0 - p1) * over, (z0 - p2) * over


@njit(**OPTIONS)
def distances(parent, placement, link, ends, pairs, planes, boxes, q, out):
    """Distances between the axes of capsules and the other sides of their pairs, signed for planes and boxes.

    q (n, N); link (C,) and ends (C, 2, 3) of the capsules, link −1 the base; pairs (P, 3): kind, capsule, and index of
    the plane, box or capsule; planes (·, 4): normal and offset; boxes (·, 15): centre, half edges, rotation; out (P,
    N).
    """
    n, total = q.shape
    motion = np.empty((n + 1, WORKSPACE))
    frames = np.empty((n + 1, 12 * LANES))
    placed = np.empty((link.shape[0], 6 * LANES))
    x, u = np.empty(3), np.empty(3)
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        _frames(parent, motion, count, frames)
        _placed(frames, link, ends, count, placed)
        for p in range(pairs.shape[0]):
            kind, one, two = pairs[p, 0], placed[pairs[p, 1]], pairs[p, 2]
            here = out[p, start : start + count]
            if kind == PLANE:
                for b in range(count):
                    here[b] = _to_plane(one, b, planes[two])[0]
            elif kind == BOX:
                for b in range(count):
                    here[b] = _to_box(one, b, boxes[two], x, u)[0]
            else:
                for b in range(count):
                    here[b] = _to_capsule(one, placed[two], b)[0]


@njit(**OPTIONS)
def distances_back(parent, placement, screw, link, ends, pairs, planes, boxes, q, weights, out):
    """Gradient (n, N) in q of Σ_p weights[p, s] · d_p(q_s), sample by sample; arguments as for `distances`.

    Forces weights · n act at the closest points; moments are about the base's origin, so that a link's wrench is simply
    added to its parent's. Pairs of zero weight cost nothing.
    """
    n, total = q.shape
    motion = np.empty((n + 1, WORKSPACE))
    frames = np.empty((n + 1, 12 * LANES))
    placed = np.empty((link.shape[0], 6 * LANES))
    wrench = np.empty((n + 1, 6 * LANES))
    x, u = np.empty(3), np.empty(3)
    for start in range(0, total, LANES):
        count = min(LANES, total - start)
        placements(placement, q, start, count, motion)
        _frames(parent, motion, count, frames)
        _placed(frames, link, ends, count, placed)
        wrench[:] = 0.0
        for p in range(pairs.shape[0]):
            kind, one, two = pairs[p, 0], pairs[p, 1], pairs[p, 2]
            for b in range(count):
                weight = weights[p, start + b]
                if weight == 0.0:
                    continue
                if kind == PLANE:
                    _, x0, x1, x2, y0, y1, y2, n0, n1, n2 = _to_plane(placed[one], b, planes[two])
                elif kind == BOX:
                    _, x0, x1, x2, y0, y1, y2, n0, n1, n2 = _to_box(placed[one], b, boxes[two], x, u)
                else:
                    _, x0, x1, x2, y0, y1, y2, n0, n1, n2 = _to_capsule(placed[one], placed[two], b)
                _pushed(wrench[link[one] + 1], b, weight, x0, x1, x2, n0, n1, n2)
                if kind == CAPSULE:
                    _pushed(wrench[link[two] + 1], b, -weight, y0, y1, y2, n0, n1, n2)
        for i in range(n - 1, -1, -1):
            _felt(frames[i + 1], screw[i], wrench[i + 1], count, out[i, start : start + count])
            wrench[parent[i] + 1] += wrench[i + 1]


@njit(inline="always", **OPTIONS)
def _pushed(wrench, b, weight, x0, x1, x2, n0, n1, n2):
    """Adds the force weight · n at the point x: moment about the base's origin, then force."""
    f0, f1, f2 = weight * n0, weight * n1, weight * n2
    m0, m1, m2 = cross(x0, x1, x2, f0, f1, f2)
    wrench[b] += m0
    wrench[LANES + b] += m1
    wrench[2 * LANES + b] += m2
    wrench[3 * LANES + b] += f0
    wrench[4 * LANES + b] += f1
    wrench[5 * LANES + b] += f2


@njit(inline="always", **OPTIONS)
def _felt(frame, screw, wrench, count, out):
    """Component of a link's wrench along its joint: (R s) · m + (R l + p × R s) · f."""
    for b in range(count):
        r0, r1, r2, r3, r4, r5, r6, r7, r8 = rotation(frame, b)
        x, y, z = vector(frame, 9 * LANES + b)
        s0, s1, s2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, screw[0], screw[1], screw[2])
        l0, l1, l2 = turned(r0, r1, r2, r3, r4, r5, r6, r7, r8, screw[3], screw[4], screw[5])
        t0, t1, t2 = cross(x, y, z, s0, s1, s2)
        m0, m1, m2 = vector(wrench, b)
        f0, f1, f2 = vector(wrench, 3 * LANES + b)
        out[b] = s0 * m0 + s1 * m1 + s2 * m2 + (l0 + t0) * f0 + (l1 + t1) * f1 + (l2 + t2) * f2
