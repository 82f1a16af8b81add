"""The equations of an identified model as text: inverse dynamics, gravity and mass matrix of a tree.

The recursions are those of `_kernels`, carried out on expressions; `LEGEND` explains the names in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.export.code.effects import value_of
from steelyard.export.code.expressions import (
    NOWHERE,
    ZERO,
    Expression,
    Matrix,
    Program,
    Vector,
    cross,
    dot,
    number,
    plus,
    scaled,
    turned,
)
from steelyard.export.code.frames import PAIRS, Frames, LinkMotion, Screw, frames_of, motions_of
from steelyard.export.code.parts import Parts
from steelyard.model.robot import BASE
from steelyard.model.terms.law import AppliedLaw

_HALF = number(0.5)
LEGEND = (
    "Names, for joint k and the link k it moves, in the link's own frame unless stated otherwise:",
    "s, c: sine and cosine of q; R, p: rotation and position of the frame in its parent's; w, b: angular velocity and "
    "acceleration (u: the parent's velocity); d: acceleration of the origin less gravity (e: in the parent's frame); "
    "U: how a point accelerates against the origin; h: angular momentum; f, n: force and moment that the link and all "
    "it carries need at its origin (F: f in the parent's frame).",
    "Mass matrix: I, h, M: inertia, first moment and mass of all that joint k carries; f, n: what its unit "
    "acceleration needs, passed down to joint j as f k_j, n k_j.",
    "XX_k ... M_k, Ia_k, Fv_k and others: the parameters.",
)


def inverse_dynamics(parts: Parts) -> Program:
    """τ = M q̈ + h(q, q̇) + terms, into tau[…]; Dahl's states are z[…]."""
    return _torques(parts, moving=True)


def gravity(parts: Parts) -> Program:
    """The torque at rest: links, springs, cylinders, ripple and offsets, into tau[…]."""
    return _torques(parts, moving=False)


def mass_matrix(parts: Parts) -> Program:
    """M(q), rotor inertias included, into mass[…][…], by composite bodies: M_ji = S_jᵀ I_i S_i, I_i what i carries."""
    program = Program()
    robot, n = parts.robot, parts.robot.dof
    frames = frames_of(program, parts)
    bodies = [_Body.of(link) for link in parts.links]
    entries: dict[tuple[int, int], Expression] = {}
    for i in range(n - 1, -1, -1):
        program.heading = f"joint {i + 1}: {robot.joint_names[i]}"
        screw = Screw.of(robot.joints[i])
        body = bodies[i].let(program, i)
        force = program.let_vector(
            f"f{i + 1}_", plus(scaled(body.mass, screw.linear), cross(screw.angular, body.moment))
        )
        moment = program.let_vector(
            f"n{i + 1}_", plus(turned(body.inertia, screw.angular), cross(body.moment, screw.linear))
        )
        child = i
        while child != BASE:
            across = Screw.of(robot.joints[child])
            value = dot(across.angular, moment) + dot(across.linear, force)
            entries[child, i] = entries[i, child] = program.let(f"m{child + 1}_{i + 1}", value)
            up = robot.parents[child]
            if up != BASE:
                mark = f"{i + 1}_{up + 1}"
                rotation, position = frames[child]
                force = program.let_vector(f"f{mark}", turned(rotation, force))
                moment = program.let_vector(f"n{mark}", plus(turned(rotation, moment), cross(position, force)))
            child = up
        if robot.parents[i] != BASE:
            bodies[robot.parents[i]] += body.seen(program, i, *frames[i])
    drives = [
        (effect, effect.value.along)
        for effect in parts.effects
        if isinstance(effect.value, AppliedLaw) and effect.value.law.of == "a"
    ]
    for j in range(n):
        for k in range(n):
            total = entries.get((j, k), ZERO)
            for effect, along in drives:
                if effect.row == j:
                    total = total + effect.weight * number(along[k])
            program.give(f"mass[{j}][{k}]", total)
    return program


# --- Torques ----------------------------------------------------------------------------------------------------------


def _torques(parts: Parts, moving: bool) -> Program:
    program = Program()
    frames = frames_of(program, parts)
    motions = motions_of(program, parts, frames, moving)
    rigid = _rigid(program, parts, parts.links, frames, motions, "")
    gears: list[Expression] | None = None
    if moving and parts.carried is not None:
        gears = _rigid(program, parts, parts.carried, frames, motions, "c")
        program.heading = "what the gears carry"
        for effect in parts.held:
            gears[effect.row] += effect.weight * value_of(program, parts, frames, effect, moving, None)
        gears = [program.let(f"load{j + 1}", total) for j, total in enumerate(gears)]
    totals = list(rigid)
    for effect in parts.effects:
        program.heading = "terms"
        totals[effect.row] += effect.weight * value_of(program, parts, frames, effect, moving, gears)
    for j, total in enumerate(totals):
        program.give(f"tau[{j}]", total)
    return program


def _rigid(
    program: Program,
    parts: Parts,
    links: tuple[tuple[Expression, ...], ...],
    frames: Frames,
    motions: list[LinkMotion],
    mark: str,
) -> list[Expression]:
    """Torques of the links: f = M d + U mc,  n = I α + ω × I ω + mc × d, then f_p += R f, n_p += R n + p × R f."""
    n = parts.robot.dof
    forces: list[Vector] = [NOWHERE] * n
    moments: list[Vector] = [NOWHERE] * n
    out = [ZERO] * n
    for i in range(n - 1, -1, -1):
        body, motion, k = _Body.of(links[i]), motions[i], f"{i + 1}{mark}"
        program.heading = f"link {i + 1}: {parts.robot.links[i].name}" + (" as the gears carry it" if mark else "")
        spin = program.let_vector(f"h{k}", turned(body.inertia, motion.velocity))
        own_force = plus(scaled(body.mass, motion.origin), turned(motion.spread, body.moment))
        own_moment = plus(
            turned(body.inertia, motion.acceleration), cross(motion.velocity, spin), cross(body.moment, motion.origin)
        )
        force = program.let_vector(f"f{k}", plus(forces[i], own_force))
        moment = program.let_vector(f"n{k}", plus(moments[i], own_moment))
        screw, up = Screw.of(parts.robot.joints[i]), parts.robot.parents[i]
        out[i] = dot(screw.angular, moment) + dot(screw.linear, force)
        if up != BASE:
            rotation, position = frames[i]
            passed = program.let_vector(f"F{k}", turned(rotation, force))
            forces[up] = plus(forces[up], passed)
            moments[up] = plus(moments[up], turned(rotation, moment), cross(position, passed))
    return out


@dataclass(frozen=True)
class _Body:
    """Ten inertial parameters as expressions."""

    inertia: Matrix
    moment: Vector
    mass: Expression

    @staticmethod
    def of(ten: tuple[Expression, ...]) -> _Body:
        xx, xy, xz, yy, yz, zz, mx, my, mz, mass = ten
        return _Body(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)), (mx, my, mz), mass)

    def __add__(self, other: _Body) -> _Body:
        x, y, z = (plus(a, b) for a, b in zip(self.inertia, other.inertia, strict=True))
        return _Body((x, y, z), plus(self.moment, other.moment), self.mass + other.mass)

    def let(self, program: Program, i: int) -> _Body:
        """The same parameters as names of link i, so that sums are written only once."""
        k = i + 1
        ten = [program.let(f"I{k}{a}{b}", self.inertia["xyz".index(a)]["xyz".index(b)]) for a, b in PAIRS]
        moment = program.let_vector(f"h{k}", self.moment)
        return _Body.of((*ten, *moment, program.let(f"M{k}", self.mass)))

    def seen(self, program: Program, i: int, rotation: Matrix, position: Vector) -> _Body:
        """The body in its parent's frame: I = R I Rᵀ − m p×p× − p×h× − h×p×, h = R mc (`transformed_inertia`)."""
        k = i + 1
        h = program.let_vector(f"t{k}", turned(rotation, self.moment))
        x, y, z = (program.let_vector(f"T{k}{row}", turned(self.inertia, rotation[at])) for at, row in enumerate("xyz"))
        half = program.let_vector(f"o{k}", plus(scaled(_HALF * self.mass, position), h))
        # −m p×p× − p×h× − h×p× = 2 (p·g) 1 − p gᵀ − g pᵀ with g = m p / 2 + h
        inner = program.let(f"r{k}", number(2.0) * dot(position, half))
        rows = (x, y, z)

        def entry(a: int, b: int) -> Expression:
            turned_inertia = dot(rotation[a], rows[b])
            shift = (inner if a == b else ZERO) - position[a] * half[b] - half[a] * position[b]
            return turned_inertia + shift

        ten = [entry("xyz".index(a), "xyz".index(b)) for a, b in PAIRS]
        return _Body.of((*ten, *plus(h, scaled(self.mass, position)), self.mass))
