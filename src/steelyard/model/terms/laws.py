"""The built-in laws: value, slope and C text of each, in one place.

The compiled switch of `_kernels.laws` has every formula a second time; tests/model/test_laws.py compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels import laws as switch
from steelyard._kernels.machine_code import compilable
from steelyard.model.terms.law import Code, Law

# Below this speed [rad/s | m/s] the slope of a power is that at this speed: a root has an infinite one at rest.
_SLOWEST = 1e-4
# A length whose square is still a number [m]: two points this close are one, and L ∂L/∂q is zero there.
_NO_LENGTH = 1e-150


# --- Linear laws ------------------------------------------------------------------------------------------------------


def _ones(x: Array, *_: float) -> Array:
    return np.ones_like(x)


ACCELERATION = Law(
    "acceleration", lambda x: x, lambda x: _ones(x), lambda let, x: x,
    of="a", linear=True, passive=True, kind=switch.ACCELERATION,
)  # fmt: skip
VISCOUS = Law(
    "viscous", lambda x: x, lambda x: _ones(x), lambda let, x: x, linear=True, passive=True, kind=switch.VISCOUS
)
CONSTANT = Law(
    "constant", lambda x: _ones(x), lambda x: np.zeros_like(x), lambda let, x: 1.0,
    of=None, linear=True, kind=switch.CONSTANT,
)  # fmt: skip
# x − free: a spring on a joint
LINEAR = Law(
    "linear", lambda x, free: x - free, lambda x, free: _ones(x), lambda let, x, free: x - free,
    of="q", linear=True, kind=switch.LINEAR,
)  # fmt: skip


# --- Laws with a sign -------------------------------------------------------------------------------------------------


@compilable
def smooth_sign(x: Any, width: float) -> Any:
    """sign(x), or tanh(x / width) where a width [rad/s | m/s] is stated."""
    return np.sign(x) if width == 0.0 else np.tanh(x / width)


@compilable
def smooth_sign_slope(x: Any, width: float) -> Any:
    """The derivative of `smooth_sign` in x; zero for the step of a sign."""
    return 0.0 * x if width == 0.0 else (1.0 - np.tanh(x / width) ** 2) / width


def smooth_sign_code(let: Callable[[str], Code], x: str, width: float) -> Code:
    """C text of `smooth_sign`."""
    return let(f"sign({x})" if width == 0.0 else f"tanh({x}/{width!r})")


def _half_code(let: Callable[[str], Code], x: str, width: float, side: float) -> Code:
    """max(s, 0) for side 1 and min(s, 0) for side −1: (s ± |s|) / 2."""
    sign = smooth_sign_code(let, x, width)
    return 0.5 * sign + (0.5 * side) * let(f"fabs({sign})")


SMOOTH_SIGN = Law("sign", smooth_sign, smooth_sign_slope, smooth_sign_code, passive=True, kind=switch.SMOOTH_SIGN)
POSITIVE_SIGN = Law(
    "positive sign",
    lambda x, width: np.maximum(smooth_sign(x, width), 0.0),
    lambda x, width: np.where(x > 0.0, smooth_sign_slope(x, width), 0.0),
    lambda let, x, width: _half_code(let, x, width, 1.0),
    passive=True,
    kind=switch.POSITIVE_SIGN,
)
NEGATIVE_SIGN = Law(
    "negative sign",
    lambda x, width: np.minimum(smooth_sign(x, width), 0.0),
    lambda x, width: np.where(x < 0.0, smooth_sign_slope(x, width), 0.0),
    lambda let, x, width: _half_code(let, x, width, -1.0),
    passive=True,
    kind=switch.NEGATIVE_SIGN,
)
# s exp(−(x / speed)²)
STRIBECK = Law(
    "stribeck",
    lambda x, width, speed: smooth_sign(x, width) * np.exp(-((x / speed) ** 2)),
    lambda x, width, speed: (
        (smooth_sign_slope(x, width) - 2.0 * x / speed**2 * smooth_sign(x, width)) * np.exp(-((x / speed) ** 2))
    ),
    lambda let, x, width, speed: (
        smooth_sign_code(let, x, width) * let(f"exp(-({x}/{speed!r})*({x}/{speed!r}))")
    ),
    passive=True,
    kind=switch.STRIBECK,
)  # fmt: skip


def _size(load: Array, exponent: float) -> Array:
    return np.abs(load) if exponent == 1.0 else np.abs(load) ** exponent


# s |load|^exponent, the slope being that at a constant load
LOAD = Law(
    "load",
    lambda x, load, width, exponent: smooth_sign(x, width) * _size(load, exponent),
    lambda x, load, width, exponent: smooth_sign_slope(x, width) * _size(load, exponent),
    lambda let, x, load, width, exponent: (
        smooth_sign_code(let, x, width)
        * let(f"fabs({load})" if exponent == 1.0 else f"pow(fabs({load}), {exponent!r})")
    ),
    passive=True,
    kind=switch.LOAD,
)


# --- Powers -----------------------------------------------------------------------------------------------------------


def _power(x: Array, exponent: float) -> Array:
    """sign(x) |x|^exponent."""
    return np.copysign(np.sqrt(np.abs(x)) if exponent == 0.5 else np.abs(x) ** exponent, x)


def _power_code(let: Callable[[str], Code], x: str, exponent: float) -> str:
    size = f"sqrt(fabs({x}))" if exponent == 0.5 else f"pow(fabs({x}), {exponent!r})"
    return f"copysign({size}, {x})"


POWER = Law(
    "power",
    _power,
    lambda x, exponent: exponent * np.maximum(np.abs(x), _SLOWEST) ** (exponent - 1.0),
    _power_code,
    passive=True,
    kind=switch.POWER,
)
ABSOLUTE = Law("absolute", lambda x: np.abs(x), lambda x: np.sign(x), lambda let, x: f"fabs({x})", kind=switch.ABSOLUTE)


# --- Laws of positions ------------------------------------------------------------------------------------------------

SINE = Law(
    "sine",
    lambda x, cycles: np.sin(cycles * x),
    lambda x, cycles: cycles * np.cos(cycles * x),
    lambda let, x, cycles: f"sin({cycles!r}*{x})",
    of="q",
    kind=switch.SINE,
)
COSINE = Law(
    "cosine",
    lambda x, cycles: np.cos(cycles * x),
    lambda x, cycles: cycles * -np.sin(cycles * x),
    lambda let, x, cycles: f"cos({cycles!r}*{x})",
    of="q",
    kind=switch.COSINE,
)


def _dahl(x: Array, before: Array, state: Array, length: float) -> Array:
    """Dahl's state after a travel d = x − before in one direction: sign(d) + (state − sign(d)) exp(−|d| / length)."""
    way = np.sign(x - before)
    return way + (state - way) * np.exp(-np.abs(x - before) / length)


def _dahl_slope(x: Array, before: Array, state: Array, length: float) -> Array:
    """dz/dx = (1 − z sign(dx)) / length."""
    return (1.0 - _dahl(x, before, state, length) * np.sign(x - before)) / length


DAHL = Law("dahl", _dahl, _dahl_slope, None, of="q", passive=True, kind=switch.DAHL, steady=lambda v: np.sign(v))


# --- Springs and cylinders on a crank ---------------------------------------------------------------------------------


def crank(below: float, above: float, delta: Array) -> tuple[Array, Array]:
    """Length L and L ∂L/∂δ of a triangle with two fixed sides and the angle δ between them.

    L² = D² + k² − 2 D k cos δ, written so that nothing cancels near δ = 0, and L ∂L/∂δ = D k sin δ.
    """
    length = np.sqrt((below - above) ** 2 + 4.0 * below * above * np.sin(0.5 * delta) ** 2)
    return length, below * above * np.sin(delta)


def over_length(stretch: Array, length: Array) -> Array:
    """∂L/∂q from L ∂L/∂q; zero where L is zero, the middle of the jump it makes there."""
    return stretch / np.maximum(length, _NO_LENGTH)


def over_length_code(stretch: Code | str, length: Code | str) -> str:
    """C text of `over_length`."""
    return f"{stretch}/fmax({length}, {_NO_LENGTH!r})"


def _crank(x: Array, below: float, above: float, angle: float, m: float, n: float) -> Array:
    """m L L' + n L' of a spring on a crank."""
    length, stretch = crank(below, above, x + angle)
    return m * stretch + n * over_length(stretch, length)


def _gas(x: Array, below: float, above: float, angle: float, area: float, volume: float, charge: float) -> Array:
    """L' p A of a gas cylinder on a crank, with the pressure p = charge / (volume − (L − below + above) A)."""
    length, stretch = crank(below, above, x + angle)
    pressure = charge / (volume - (length - (below - above)) * area)
    return over_length(stretch, length) * pressure * area


def _bent(x: Array, below: float, above: float, angle: float) -> tuple[Array, Array, Array, Array]:
    """L, L', (L L')' and L'' of a crank: L L' = D k sin δ, so L'' = (D k cos δ − L'²) / L."""
    length, stretch = crank(below, above, x + angle)
    lever, turn = over_length(stretch, length), below * above * np.cos(x + angle)
    return length, lever, turn, (turn - lever**2) / length


def _crank_slope(x: Array, below: float, above: float, angle: float, m: float, n: float) -> Array:
    _, _, turn, bend = _bent(x, below, above, angle)
    return m * turn + n * bend


def _gas_slope(x: Array, below: float, above: float, angle: float, area: float, volume: float, charge: float) -> Array:
    length, lever, _, bend = _bent(x, below, above, angle)
    room = volume - (length - (below - above)) * area
    return charge * area * (bend / room + area * lever**2 / room**2)


def _lever_code(
    let: Callable[[str], Code], x: str, below: float, above: float, angle: float
) -> tuple[Code, Code, Code]:
    """L, L L' and L' of a crank."""
    delta = let(f"{x} + {angle!r}")
    half = let(f"sin(0.5*{delta})")
    stretch = let(f"{below * above!r}*sin({delta})")
    length = let(f"sqrt({(below - above) ** 2!r} + {4.0 * below * above!r}*{half}*{half})")
    return length, stretch, let(over_length_code(stretch, length))


def _crank_code(
    let: Callable[[str], Code], x: str, below: float, above: float, angle: float, m: float, n: float
) -> Code:
    _, stretch, lever = _lever_code(let, x, below, above, angle)
    return m * stretch + n * lever


def _gas_code(
    let: Callable[[str], Code], x: str, below: float, above: float, angle: float,
    area: float, volume: float, charge: float,
) -> Code:  # fmt: skip
    length, _, lever = _lever_code(let, x, below, above, angle)
    return lever * let(f"{charge * area!r}/({volume!r} - ({length} - {below - above!r})*{area!r})")


CRANK = Law("crank", _crank, _crank_slope, _crank_code, of="q", kind=switch.CRANK)
GAS = Law("gas", _gas, _gas_slope, _gas_code, of="q", kind=switch.GAS)

LAWS = (
    ACCELERATION, VISCOUS, CONSTANT, LINEAR, SMOOTH_SIGN, POSITIVE_SIGN, NEGATIVE_SIGN, STRIBECK, LOAD, POWER,
    ABSOLUTE, SINE, COSINE, DAHL, CRANK, GAS,
)  # fmt: skip
