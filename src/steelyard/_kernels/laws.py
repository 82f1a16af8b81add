"""The laws that terms add to the joint torques, as data: one compiled switch over the kinds of law.

A law is a function f(x; shape) of one coordinate x: a combination of joint positions or velocities (a joint's own, or
the speed of a motor that turns with several joints). `model.terms.laws` describes each law; this switch is the only
other place with its formula, and tests/model/test_laws.py compares the two.

    kind             f(x)                                    shape
    ACCELERATION     x of q̈: constant inertia                 –
    VISCOUS          x of q̇                                  –
    CONSTANT         1                                       –
    SMOOTH_SIGN      s = tanh(x / width)                     width
    POSITIVE_SIGN    max(s, 0)                               width
    NEGATIVE_SIGN    min(s, 0)                               width
    ABSOLUTE         |x|                                     –
    POWER            sign(x) |x|^exponent                    exponent
    STRIBECK         s exp(−(x / speed)²)                    width, speed
    LOAD             s |τ_rigid|^exponent                    width, exponent
    OWN_OF_SPEED     a law of the user's own, of q̇           up to six numbers
    LINEAR           x − free, of q                          free
    SINE, COSINE     sin, cos(cycles x)                      cycles
    DAHL             z, dz/dx = (1 − z sign(dx)) / length    length
    CRANK            m L L' + n L', L² as of a crank         below, above, angle, m, n
    GAS              L' p A, p = charge / (volume − (L − below + above) A)    below, above, angle, A, volume, charge
    OWN_OF_POSITION  a law of the user's own, of q           up to six numbers

The first three are linear and become matrices before a simulation starts. Kinds from LINEAR on are functions of
positions, those before it of velocities. The row of a law of the user's own holds the addresses of its f and f'
(`machine_code`), so that the kernels themselves are neither changed nor compiled again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.machine_code import call_at
from steelyard._kernels.spatial import OPTIONS

ACCELERATION, VISCOUS, CONSTANT = 0, 1, 2
SMOOTH_SIGN, POSITIVE_SIGN, NEGATIVE_SIGN, ABSOLUTE, POWER, STRIBECK, LOAD, OWN_OF_SPEED = 3, 4, 5, 6, 7, 8, 9, 10
LINEAR, SINE, COSINE, DAHL, CRANK, GAS, OWN_OF_POSITION = 11, 12, 13, 14, 15, 16, 17
# Columns of a law's row: kind, six numbers of the shape, the addresses of f and f' of a law of the user's own, the
# joint it acts on (−1 if several), and from ALONG on for every joint its part in the coordinate, then what the value
# adds to the torques, then to the load that the gears carry.
VALUE, SLOPE, JOINT, ALONG = 7, 8, 9, 10
# Below this speed [rad/s | m/s] the infinite slope of a root at rest is taken as that of its chord.
_SLOWEST = 1e-6
# Speeds at which a law of the user's own is searched for its steepest slope: each this part of the one before.
_FINER = 0.25


# --- Laws of the user's own -------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _own(laws, e, which, x):
    """f or f' of a law of the user's own: `which` is VALUE or SLOPE."""
    return call_at(laws[e, which], x, laws[e, 1], laws[e, 2], laws[e, 3], laws[e, 4], laws[e, 5], laws[e, 6])


@njit(**OPTIONS)
def _own_slope(laws, e, x):
    """|f'(x)| of a law of the user's own; a slope at rest, where it may be infinite, is that at the slowest speed."""
    if laws[e, 0] == OWN_OF_SPEED:
        x = np.copysign(max(abs(x), _SLOWEST), x)
    return abs(_own(laws, e, SLOPE, x))


@njit(**OPTIONS)
def _own_steepest(laws, e, x):
    """The largest |f'| of a law of the user's own between rest and twice the speed x, or at the position x."""
    largest, y = _own_slope(laws, e, x), 2.0 * abs(x)
    while laws[e, 0] == OWN_OF_SPEED and y > _FINER * _SLOWEST:
        largest = max(largest, _own_slope(laws, e, y), _own_slope(laws, e, -y))
        y *= _FINER
    return largest


# --- The switch -------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def value(laws, e, x, before, memory):
    """f(x) of law e; Dahl's state was `memory` at the coordinate `before`, and x moved one way since."""
    kind = laws[e, 0]
    if kind == SMOOTH_SIGN:
        return np.tanh(x / laws[e, 1])
    if kind == POSITIVE_SIGN:
        return max(np.tanh(x / laws[e, 1]), 0.0)
    if kind == NEGATIVE_SIGN:
        return min(np.tanh(x / laws[e, 1]), 0.0)
    if kind == ABSOLUTE:
        return abs(x)
    if kind == POWER:
        return np.copysign(np.sqrt(abs(x)) if laws[e, 1] == 0.5 else abs(x) ** laws[e, 1], x)
    if kind == STRIBECK:
        return np.tanh(x / laws[e, 1]) * np.exp(-((x / laws[e, 2]) ** 2))
    if kind == LINEAR:
        return x - laws[e, 1]
    if kind == SINE:
        return np.sin(laws[e, 1] * x)
    if kind == COSINE:
        return np.cos(laws[e, 1] * x)
    if kind == DAHL:
        way = np.sign(x - before)
        return way + (memory - way) * np.exp(-abs(x - before) / laws[e, 1])
    if kind in (OWN_OF_SPEED, OWN_OF_POSITION):
        return _own(laws, e, VALUE, x)
    below, above, delta = laws[e, 1], laws[e, 2], x + laws[e, 3]
    stretch = below * above * np.sin(delta)
    length = np.sqrt((below - above) ** 2 + 4.0 * below * above * np.sin(0.5 * delta) ** 2)
    slope = stretch / length if length > 0.0 else 0.0
    if kind == CRANK:
        return laws[e, 4] * stretch + laws[e, 5] * slope
    pressure = laws[e, 6] / (laws[e, 5] - (length - (below - above)) * laws[e, 4])
    return slope * pressure * laws[e, 4]


@njit(**OPTIONS)
def steepest(laws, e, x):
    """A bound of |f'| near x, which limits the step; zero for laws that are never stiff."""
    kind = laws[e, 0]
    if kind in (SMOOTH_SIGN, POSITIVE_SIGN, NEGATIVE_SIGN, STRIBECK):
        return 1.0 / laws[e, 1]
    if kind in (ABSOLUTE, LINEAR):
        return 1.0
    if kind == POWER:
        return max(1.0, laws[e, 1]) * max(abs(x), _SLOWEST) ** (laws[e, 1] - 1.0)
    if kind in (SINE, COSINE):
        return laws[e, 1]
    if kind == DAHL:
        return 2.0 / laws[e, 1]
    if kind in (OWN_OF_SPEED, OWN_OF_POSITION):
        return _own_steepest(laws, e, x)
    return 0.0


@njit(**OPTIONS)
def slope_at(laws, e, x):
    """|f'(x)| of a velocity law; that of its chord for a root at rest, and without the falling part for Stribeck's."""
    kind = laws[e, 0]
    if kind == POWER:
        return laws[e, 1] * max(abs(x), _SLOWEST) ** (laws[e, 1] - 1.0)
    if kind == ABSOLUTE:
        return 1.0
    if kind == OWN_OF_SPEED:
        return _own_slope(laws, e, x)
    if (kind == POSITIVE_SIGN and x < 0.0) or (kind == NEGATIVE_SIGN and x > 0.0):
        return 0.0
    sign = np.tanh(x / laws[e, 1])
    slope = (1.0 - sign * sign) / laws[e, 1]
    return slope * np.exp(-((x / laws[e, 2]) ** 2)) if kind == STRIBECK else slope


@njit(**OPTIONS)
def chord(laws, e, x):
    """|f(x) / x| of a velocity law: a damping that never reverses a speed."""
    if abs(x) < _SLOWEST * 1e-6 or (laws[e, 0] == POWER and abs(x) < _SLOWEST):
        return steepest(laws, e, x)
    return abs(value(laws, e, x, 0.0, 0.0) / x)


@njit(**OPTIONS)
def dahl_states(q, length, carried, out):
    """z (n, B) of positions q (n, B): z ← s + (z − s) exp(−|Δq| / length), s = sign(Δq), exact for any step.

    `carried` (2, n) holds the position and state before the first sample, and is left with those of the last.
    """
    for j in range(q.shape[0]):
        last, z = carried[0, j], carried[1, j]
        for b in range(q.shape[1]):
            step = q[j, b] - last
            last = q[j, b]
            s = np.sign(step)
            z = s + (z - s) * np.exp(-abs(step) / length)
            out[j, b] = z
        carried[0, j] = last
        carried[1, j] = z
