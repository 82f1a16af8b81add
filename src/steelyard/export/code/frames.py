"""Frames and motion of the links of a tree, as expressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.export.code.expressions import (
    NOWHERE,
    ZERO,
    Expression,
    Matrix,
    Program,
    Vector,
    cross,
    matrix,
    named,
    number,
    numbers,
    plus,
    scaled,
    transposed,
    turned,
    vector,
)
from steelyard.export.code.parts import Parts
from steelyard.model.robot import BASE, Joint

# Entries of rotations and positions below this are rounding of zeros, as cos 90° is [1, m].
_ROUNDING = 1e-15
# The six entries of a symmetric matrix.
PAIRS = (("x", "x"), ("x", "y"), ("x", "z"), ("y", "y"), ("y", "z"), ("z", "z"))
# Rotation and position of every link's frame in its parent's.
Frames = list[tuple[Matrix, Vector]]


@dataclass(frozen=True)
class Screw:
    """S of a joint: the axis, and the velocity of the child's origin per unit of joint velocity."""

    angular: Vector
    linear: Vector

    @staticmethod
    def of(joint: Joint) -> Screw:
        screw = _clean(joint.screw)
        return Screw(numbers(screw[:3]), numbers(screw[3:]))


def frames_of(program: Program, parts: Parts) -> Frames:
    """[R | p](q) of every joint: P₀ + P₂ + sin q · P₁ − cos q · P₂ + q · P₃."""
    out = []
    for i, joint in enumerate(parts.robot.joints):
        program.heading = f"joint {i + 1}: {joint.name}"
        constant, sine, cosine, slide = (
            _clean(x) for x in (joint.placement[0] + joint.placement[2], joint.placement[1], *joint.placement[2:])
        )
        s = program.call(f"s{i + 1}", f"sin(q[{i}])") if sine.any() else ZERO
        c = program.call(f"c{i + 1}", f"cos(q[{i}])") if cosine.any() else ZERO
        own = named(f"q[{i}]")

        def entry(row: int, col: int, name: str) -> Expression:
            turn = number(sine[row, col]) * s - number(cosine[row, col]) * c  # noqa: B023  (used at once)
            return program.let(name, number(constant[row, col]) + turn + number(slide[row, col]) * own)  # noqa: B023

        entries = [[entry(row, col, f"R{i + 1}_{row}{col}") for col in range(3)] for row in range(3)]
        position = [entry(row, 3, f"p{i + 1}{axis}") for row, axis in enumerate("xyz")]
        out.append((matrix(entries), vector(position)))
    return out


def _clean(values: Array) -> Array:
    """Without the rounding of angles that are multiples of 90°."""
    nearest = np.round(values)
    return np.where(np.abs(values - nearest) < _ROUNDING, nearest, values)


@dataclass(frozen=True)
class LinkMotion:
    """ω, α, d and U = α× + ω×ω× of a link, in its own frame."""

    velocity: Vector
    acceleration: Vector
    origin: Vector
    spread: Matrix


def motions_of(program: Program, parts: Parts, frames: Frames, moving: bool) -> list[LinkMotion]:
    """ω = Rᵀω_p + s q̇,  α = Rᵀα_p + Rᵀω_p × s q̇ + s q̈,  d = Rᵀ(d_p + U_p p) + (2Rᵀω_p + s q̇) × l q̇ + l q̈."""
    base = LinkMotion(NOWHERE, NOWHERE, numbers(-parts.robot.gravity), (NOWHERE, NOWHERE, NOWHERE))
    out: list[LinkMotion] = []
    for i, joint in enumerate(parts.robot.joints):
        program.heading = f"link {i + 1}: {parts.robot.links[i].name}"
        up, (rotation, position) = base if joint.parent == BASE else out[joint.parent], frames[i]
        screw, back = Screw.of(joint), transposed(rotation)
        speed, rate = (named(f"v[{i}]"), named(f"a[{i}]")) if moving else (ZERO, ZERO)
        k = i + 1
        before = program.let_vector(f"u{k}", turned(back, up.velocity))
        turn, slide = scaled(speed, screw.angular), scaled(speed, screw.linear)
        point = program.let_vector(f"e{k}", plus(up.origin, turned(up.spread, position)))
        velocity = program.let_vector(f"w{k}", plus(before, turn))
        acceleration = program.let_vector(
            f"b{k}", plus(turned(back, up.acceleration), cross(before, turn), scaled(rate, screw.angular))
        )
        swing = program.let_vector(f"g{k}", plus(scaled(number(2.0), before), turn)) if _slides(screw) else turn
        origin = program.let_vector(f"d{k}", plus(turned(back, point), cross(swing, slide), scaled(rate, screw.linear)))
        out.append(LinkMotion(velocity, acceleration, origin, _spread(program, k, velocity, acceleration)))
    return out


def _slides(screw: Screw) -> bool:
    """Whether motion of the joint moves the origin of its link."""
    return any(x.terms for x in screw.linear)


def _spread(program: Program, k: int, w: Vector, b: Vector) -> Matrix:
    """U = α× + ω×ω× (3, 3) with the products of ω computed once."""
    square = {i + j: program.let(f"w{k}{i}{j}", w["xyz".index(i)] * w["xyz".index(j)]) for i, j in PAIRS}
    xx, xy, xz, yy, yz, zz = square.values()
    entries = (
        (-yy - zz, xy - b[2], xz + b[1]),
        (xy + b[2], -xx - zz, yz - b[0]),
        (xz - b[1], yz + b[0], -xx - yy),
    )
    return matrix(
        [
            [program.let(f"U{k}_{row}{col}", value) for col, value in enumerate(values)]
            for row, values in enumerate(entries)
        ]
    )
