"""Torques of the terms of a model as expressions: laws, and springs between two points."""

from __future__ import annotations

import numpy as np

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
from steelyard.model.terms.laws import over_length_code


def value_of(
    program: Program,
    parts: Parts,
    frames: Frames,
    effect: Effect,
    moving: bool,
    gears: list[Expression] | None,
) -> Expression:
    """f of a law (see `model.terms.laws`); at rest every law of velocities or accelerations is zero."""
    value = effect.value
    if isinstance(value, SpringPull):
        return _pull(program, parts, frames, value)
    if isinstance(value, Remembered):
        return named(f"z[{value.state}]") if moving else ZERO
    law, shape = value.law, tuple(float(x) for x in value.shape)
    assert law.code is not None
    if law.of in ("v", "a") and not moving:
        return ZERO
    x = ZERO if law.of is None else combination(value.along, law.of)
    at: Expression | str = x
    if not law.linear:
        at = str(x) if x.simple else str(program.call(f"x{len(program.statements)}", str(x)))

    def let(text: str) -> Expression:
        law.check_text(text)
        return program.call(f"y{len(program.statements)}", text)

    carrier = effect.row if value.load_of is None else value.load_of
    loads = (gears[carrier] if gears else ZERO,) if law.loaded else ()
    found = law.code(let, at, *loads, *shape)
    if isinstance(found, str):
        return let(found)
    return number(found) if isinstance(found, float | int) else found


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
                slope = program.call(f"y{len(program.statements)}", over_length_code(stretch, length))
                return number(pull.stretch) * stretch + number(pull.slope) * slope
    raise AssertionError("a spring pulls only at joints between its ends")


def _let_once(program: Program, vector: Vector) -> Vector:
    """The vector with each component named; the same sum is computed once."""
    x, y, z = (v if v.simple else program.call(f"y{len(program.statements)}", str(v)) for v in vector)
    return x, y, z
