"""What the terms of a model add to its torques, as expressions: laws of `kernels.laws`, springs between two points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steelyard._kernels import laws
from steelyard.export.code.expressions import (
    ZERO,
    Expression,
    Program,
    Vector,
    combination,
    cross,
    dot,
    named,
    number,
    numbers,
    plus,
    scaled,
    transposed,
    turned,
)
from steelyard.export.code.frames import Frames, Screw
from steelyard.export.code.parts import Effect, Parts, Remembered, SpringPull
from steelyard.model.terms.term import Law

_HALF = number(0.5)


def kind_of(effect: Effect) -> int | None:
    return effect.value.kind if isinstance(effect.value, Law) else None


def value_of(
    program: Program,
    parts: Parts,
    frames: Frames,
    effect: Effect,
    moving: bool,
    gears: list[Expression] | None,
) -> Expression:
    """f of a law (see `kernels.laws`); at rest everything that takes a velocity or an acceleration is zero."""
    value = effect.value
    if isinstance(value, SpringPull):
        return _pull(program, parts, frames, value)
    if isinstance(value, Remembered):
        return named(f"z[{value.state}]") if moving else ZERO
    kind, shape = value.kind, value.shape
    if kind == laws.CONSTANT:
        return number(1.0)
    at_position = kind >= laws.LINEAR
    if not at_position and not moving:
        return ZERO
    signal = "a" if kind == laws.ACCELERATION else "q" if at_position else "v"
    x = combination(value.along, signal)
    if kind in (laws.ACCELERATION, laws.VISCOUS):
        return x
    if kind == laws.LINEAR:
        return x - number(shape[0])
    count = len(program.statements)
    at = str(x) if x.simple else str(program.call(f"x{count}", str(x)))
    return _nonlinear(program, kind, at, shape, gears[effect.row] if gears else ZERO)


def _nonlinear(program: Program, kind: int, x: str, shape: tuple[float, ...], load: Expression) -> Expression:
    """f(x; shape) of the laws that are no polynomials; `x` is a name."""

    def call(text: str) -> Expression:
        return program.call(f"y{len(program.statements)}", text)

    if kind == laws.ABSOLUTE:
        return call(f"fabs({x})")
    if kind == laws.POWER:
        size = f"sqrt(fabs({x}))" if shape[0] == 0.5 else f"pow(fabs({x}), {shape[0]!r})"
        return call(f"copysign({size}, {x})")
    if kind in (laws.SINE, laws.COSINE):
        return call(f"{'sin' if kind == laws.SINE else 'cos'}({shape[0]!r}*{x})")
    if kind in (laws.CRANK, laws.GAS):
        return _crank(call, kind, x, shape)
    sign = call(f"sign({x})" if shape[0] == 0.0 else f"tanh({x}/{shape[0]!r})")
    if kind == laws.POSITIVE_SIGN:
        return _HALF * sign + _HALF * call(f"fabs({sign})")
    if kind == laws.NEGATIVE_SIGN:
        return _HALF * sign - _HALF * call(f"fabs({sign})")
    if kind == laws.STRIBECK:
        return sign * call(f"exp(-({x}/{shape[1]!r})*({x}/{shape[1]!r}))")
    if kind == laws.LOAD:
        size = f"fabs({load})"
        return sign * call(size if shape[1] == 1.0 else f"pow({size}, {shape[1]!r})")
    assert kind == laws.SMOOTH_SIGN
    return sign


def _crank(call: Callable[[str], Expression], kind: int, x: str, shape: tuple[float, ...]) -> Expression:
    """A triangle with two fixed sides: L ∂L/∂q = D k sin δ, L² = (D − k)² + 4 D k sin² δ/2; a spring or a cylinder."""
    below, above, angle = shape[:3]
    delta = call(f"{x} + {angle!r}")
    half = call(f"sin(0.5*{delta})")
    stretch = call(f"{below * above!r}*sin({delta})")
    length = call(f"sqrt({(below - above) ** 2!r} + {4.0 * below * above!r}*{half}*{half})")
    slope = call(_over(str(stretch), str(length)))
    if kind == laws.CRANK:
        return number(shape[3]) * stretch + number(shape[4]) * slope
    area, volume, charge = shape[3:]
    return slope * call(f"{charge * area!r}/({volume!r} - ({length} - {below - above!r})*{area!r})")


def _over(stretch: str, length: str) -> str:
    """∂L/∂q from L ∂L/∂q, zero where L is (see `terms.springs.over_length`)."""
    return f"{stretch}/fmax({length}, 1e-150)"


def _pull(program: Program, parts: Parts, frames: Frames, pull: SpringPull) -> Expression:
    """L ∂L/∂q_j = ± dᵀ ∂p/∂q_j of the joint's row, d from the first point to the second (see `terms.springs`)."""
    robot = parts.robot
    first, second = (robot.ancestors(robot.link_index(end.link)) for end in pull.ends)
    shared = set(first) & set(second)
    points: list[Vector] = []
    ways: list[list[tuple[int, Vector]]] = []
    for end, chain in zip(pull.ends, (first, second), strict=True):
        branch = [j for j in chain if j not in shared]
        point, way = numbers(np.asarray(end.point, float)), []
        for j in branch:
            screw, (rotation, position) = Screw.of(robot.joints[j]), frames[j]
            way.append((j, plus(cross(screw.angular, point), screw.linear)))
            point = _let_once(program, plus(turned(rotation, point), position))
        points.append(point)
        ways.append(way)
    difference = _let_once(program, plus(points[1], scaled(number(-1.0), points[0])))
    length = program.call(f"y{len(program.statements)}", f"sqrt({dot(difference, difference)})")
    for sign, way in zip((-1.0, 1.0), ways, strict=True):
        seen = difference
        for j, velocity in reversed(way):
            seen = _let_once(program, turned(transposed(frames[j][0]), seen))
            if j == pull.row:
                found = number(sign) * dot(velocity, seen)
                stretch = program.call(f"y{len(program.statements)}", str(found))
                if pull.slope == 0.0:
                    return number(pull.stretch) * stretch
                slope = program.call(f"y{len(program.statements)}", _over(str(stretch), str(length)))
                return number(pull.stretch) * stretch + number(pull.slope) * slope
    raise AssertionError("a spring pulls only at joints between its ends")


def _let_once(program: Program, vector: Vector) -> Vector:
    """The vector under names; the same sum is computed once, whatever asks for it."""
    x, y, z = (v if v.simple else program.call(f"y{len(program.statements)}", str(v)) for v in vector)
    return x, y, z
