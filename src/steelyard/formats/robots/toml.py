"""Robots as TOML tables of Denavit–Hartenberg parameters.

    name = "arm"
    convention = "mdh"              # or "dh"
    terms = ["rotor", "viscous"]    # optional: terms to identify in addition to the links
    gravity = [0, 0, -9.80665]      # optional; in the world frame
    base_xyz = [0, 0, 0]            # optional, with base_rpy: frame 0 in the world
    base_rpy = ["pi", 0, 0]

    [[joint]]                       # one per joint, with the link it moves
    name = "joint1"
    link = "link1"                  # default: "link" and the joint's number
    parent = "base"                 # default: the link of the joint before
    kind = "revolute"               # default; or continuous, prismatic, fixed, free (the platform of a parallel robot)
    alpha = "-pi/2"                 # mdh: gamma b alpha d theta r (Khalil) or alpha a theta d (Craig);
                                    # dh: theta d a alpha;   default 0
    lower = -3.1                    # optional, with upper, velocity, effort: limits
    rotor = 0.4                     # optional, with viscous, coulomb, offset: nominal drive values
    inertia = { ZZ = 0.1, M = 2 }   # optional: about the link frame; M is required, others are zero by default
    # or: mass = 2, com = [0, 0, 0.1], inertia_com = [xx, xy, xz, yy, yz, zz]

    [coupling]                      # optional: motor 6 turns at q̇5 + q̇6
    joint6 = { joint5 = 1.0 }

    [nominal]                       # optional: values of other columns
    joint6.Fvm = 0.592

    [[spring]]                      # optional: springs and balancers, see `SpringTable`
    kind = "tension"
    links = ["base", "link2"]
    points = [[0, 0, 0.5], [0.3, 0, 0]]

A parallel robot is a tree with loops; the joints driven by motors are named at the top:

    actuated = ["joint1", "joint3"]
    legs = [["joint1", "joint2"], ["joint3", "joint4"]]     # optional: legs of the same design
    home = { joint1 = "pi/2", joint3 = 0.4 }                # optional: posture near which the loops close; default zero

    [[loop]]                        # see `LoopTable`
    kind = "point"
    links = ["link2", "link4"]
    points = [[0.3, 0, 0], [0.3, 0, 0]]

mdh (Khalil–Kleinfinger): ᵃT_j = Rz(γ) Tz(b) Rx(α) Tx(d) Rz(θ) Tz(r), the frame of link j on the axis of joint j.
mdh in Craig's letters, if any row has `a`: ᵃT_j = Rz(γ) Tz(b) Rx(α) Tx(a) Rz(θ) Tz(d). The two differ in what `d` is.
dh (standard, distal):    ᵃT_j = Rz(θ) Tz(d) Tx(a) Rx(α), the frame of link j at its far end.
The joint variable is added to θ of a revolute joint, to r (mdh) or d (dh, Craig) of a prismatic one. A free joint has
six, "joint.x" to "joint.rz", applied after the pose above: Tx(x) Ty(y) Tz(z) Rx(rx) Ry(ry) Rz(rz).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import (
    Connection,
    ConnectionKind,
    assemble,
    checked_limits,
    pose_from_rpy,
    shift,
    turn,
    unique,
)
from steelyard.formats.robots.toml_loops import Home, LoopTable, with_loops
from steelyard.formats.robots.toml_springs import SpringTable, spring_of
from steelyard.formats.robots.toml_values import Angle, Vector, radians, row_name, typed
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.pose import Pose
from steelyard.model.robot import DEGREES_OF_FREEDOM, STANDARD_GRAVITY, Drive, Robot
from steelyard.model.springs import GasCompensator


class Inertia(msgspec.Struct, forbid_unknown_fields=True):
    """Ten parameters about the link frame. M is required, so that no inertia is stated without its mass."""

    M: float
    XX: float = 0.0
    XY: float = 0.0
    XZ: float = 0.0
    YY: float = 0.0
    YZ: float = 0.0
    ZZ: float = 0.0
    MX: float = 0.0
    MY: float = 0.0
    MZ: float = 0.0


class JointRow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields of a joint in both conventions [m, rad, SI]."""

    name: str
    link: str | None = None
    parent: str | None = None
    kind: ConnectionKind = "revolute"
    alpha: Angle = 0.0
    d: float = 0.0
    theta: Angle = 0.0
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
    rotor: float | None = None
    viscous: float | None = None
    coulomb: float | None = None
    offset: float | None = None
    inertia: Inertia | None = None
    mass: float | None = None
    com: Vector | None = None
    inertia_com: tuple[float, float, float, float, float, float] | None = None


class MdhRow(JointRow, forbid_unknown_fields=True, kw_only=True):
    r: float = 0.0
    gamma: Angle = 0.0
    b: float = 0.0


class CraigRow(JointRow, forbid_unknown_fields=True, kw_only=True):
    """Modified parameters by Craig's letters: a is Khalil's d, d is Khalil's r."""

    a: float = 0.0
    gamma: Angle = 0.0
    b: float = 0.0


class DhRow(JointRow, forbid_unknown_fields=True, kw_only=True):
    a: float = 0.0


class CompensatorTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[compensator]: see `steelyard.robot.GasCompensator` [m, kg, m³, rad, J/(kg·K), K]."""

    joint: str
    anchor_below: float
    anchor_above: float
    piston_diameter: float
    rod_diameter: float
    gas_mass: float
    gas_volume: float
    angle: Angle
    compressibility: float = 1.0
    gas_constant: float = 296.8
    temperature: float = 293.15


class RobotTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A whole file. `description` and `source` are comments for readers."""

    name: str
    convention: Literal["mdh", "dh"]
    joint: list[dict[str, Any]]
    description: str = ""
    source: str = ""
    base: str = "base"
    base_xyz: Vector = (0.0, 0.0, 0.0)
    base_rpy: tuple[Angle, Angle, Angle] = (0.0, 0.0, 0.0)
    gravity: Vector = STANDARD_GRAVITY
    terms: tuple[str, ...] | None = None
    coupling: dict[str, dict[str, float]] = {}
    nominal: dict[str, float | dict[str, float]] = {}
    compensator: CompensatorTable | None = None
    spring: list[dict[str, Any]] = []
    loop: list[dict[str, Any]] = []
    actuated: tuple[str, ...] | None = None
    home: Home | None = None
    legs: tuple[tuple[str, ...], ...] = ()


ROWS: dict[str, type[MdhRow] | type[DhRow]] = {"mdh": MdhRow, "dh": DhRow}
# Sums of the lengths of a table [m] that no robot has: a table in millimetres is above, one in kilometres below.
REACH = (0.005, 50.0)


def read_table(content: bytes, where: str) -> Robot:
    """The robot in a TOML file; `where` is its name in messages."""
    try:
        raw = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise RobotError(f"'{where}' is not UTF-8 text and so not valid TOML: {problem}.") from problem
    except (ValueError, RecursionError) as problem:
        raise RobotError(f"'{where}' is not valid TOML: {problem}.") from problem
    try:
        return _robot(raw)
    except RobotError as problem:
        raise RobotError(f"{where}: {problem}") from problem


def _robot(raw: dict[str, Any]) -> Robot:
    table = typed(raw, RobotTable, "the robot", {"convention": ROWS})
    row_type, kinds = _row_type(table), {"kind": DEGREES_OF_FREEDOM}
    rows = [typed(row, row_type, row_name("joint", row, i), kinds) for i, row in enumerate(table.joint)]
    connections: list[Connection] = []
    bodies: dict[str, Array | None] = {table.base: None}
    before = table.base
    for i, row in enumerate(rows):
        link = row.link or f"link{i + 1}"
        unique("link", [*bodies, link])
        bodies[link] = _inertia(row)
        connections.append(_connection(row, row.parent or before, link))
        before = link
    base_rpy = [radians(angle, "base_rpy") for angle in table.base_rpy]
    tree = assemble(table.name, bodies, connections, pose_from_rpy(table.base_xyz, base_rpy))
    names = [joint.name for joint in tree.joints]
    motors = names if table.actuated is None else [name for name in table.actuated if name in names]
    robot = Robot(
        table.name,
        tree.links,
        tree.joints,
        gravity=np.array(table.gravity, float),
        coupling=_coupling(table.coupling, motors),
        nominal=_nominal(table.nominal),
        base=tree.base,
        fixed=tree.fixed,
        terms=table.terms,
        compensator=_compensator(table.compensator, names),
        findings=_questions(rows),
    )
    springs = [typed(row, SpringTable, row_name("spring", row, i)) for i, row in enumerate(table.spring)]
    robot = replace(robot, springs=tuple(spring_of(robot, table) for table in springs))
    loops = [typed(row, LoopTable, row_name("loop", row, i)) for i, row in enumerate(table.loop)]
    return with_loops(robot, loops, table.actuated, table.home, table.legs)


def _row_type(table: RobotTable) -> type[MdhRow] | type[CraigRow] | type[DhRow]:
    """The rows of the table's convention; modified parameters with `a` in a row are written in Craig's letters."""
    if table.convention == "dh":
        return DhRow
    craig, khalil = ([row_name("joint", row, i) for i, row in enumerate(table.joint) if key in row] for key in "ar")
    if craig and khalil:
        raise RobotError(
            f"{craig[0]} has 'a' and {khalil[0]} has 'r': these are letters of two conventions, in which 'd' is "
            "different. Write the lengths along x and z as d and r (Khalil) or as a and d (Craig) in every row."
        )
    return CraigRow if craig else MdhRow


def _questions(rows: Sequence[MdhRow | CraigRow | DhRow]) -> tuple[Finding, ...]:
    """A finding where the sum of all lengths is not that of a robot."""
    reach = sum(abs(getattr(row, key, 0.0)) for row in rows for key in ("a", "b", "d", "r"))
    if reach == 0.0 or REACH[0] <= reach <= REACH[1]:
        return ()
    message = f"the lengths of the table add up to {reach:.4g} m"
    fix = f"write lengths in metres: {reach:.4g} mm would be {reach / 1000.0:.3g} m" if reach > REACH[1] else ""
    return (Finding("table-questioned", "warning", message, "", fix),)


def _compensator(table: CompensatorTable | None, names: list[str]) -> GasCompensator | None:
    if table is None:
        return None
    if table.joint not in names:
        raise RobotError("[compensator]: " + choices("joint", table.joint, names))
    values: dict[str, Any] = msgspec.structs.asdict(table) | {"angle": radians(table.angle, "[compensator] angle")}
    wrong = [key for key, x in values.items() if key not in ("joint", "angle") and not x > 0.0]
    if wrong:
        raise RobotError(f"[compensator]: {', '.join(wrong)} must be positive.")
    if table.rod_diameter >= table.piston_diameter:
        raise RobotError("[compensator]: rod_diameter must be smaller than piston_diameter.")
    return GasCompensator(**values)


# --- Checked values ---------------------------------------------------------------------------------------------------


def _inertia(row: JointRow) -> Array | None:
    what = f"joint '{row.name}'"
    by_com = (row.mass, row.com, row.inertia_com)
    if row.inertia is not None:
        if by_com != (None, None, None):
            raise RobotError(
                f"{what} gives the inertia of its link twice: keep either inertia, or mass, com and inertia_com."
            )
        vector = np.array([getattr(row.inertia, symbol) for symbol in INERTIAL], float)
    elif row.mass is not None and row.com is not None and row.inertia_com is not None:
        xx, xy, xz, yy, yz, zz = row.inertia_com
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], float)
        vector = inertial_vector(row.mass, np.array(row.com, float), tensor)
    elif by_com == (None, None, None):
        return None
    else:
        raise RobotError(f"{what} gives only part of the inertia of its link: give mass, com and inertia_com together.")
    if vector[9] < 0:
        raise RobotError(f"{what}: the mass {vector[9]:g} kg of its link is negative.")
    return vector


def _coupling(table: dict[str, dict[str, float]], names: list[str]) -> Array | None:
    """C with q̇_motor = C q̇, both on the joint side: ones on the diagonal, other entries from the table."""
    if not table:
        return None
    c = np.eye(len(names))
    for motor, row in table.items():
        for joint, factor in row.items():
            for name in (motor, joint):
                if name not in names:
                    raise RobotError(f"[coupling]: {choices('moving joint', name, names)}")
            if motor == joint:
                raise RobotError(
                    f"[coupling] {motor}: the ratio of its own joint is 1 by definition. List other joints only."
                )
            c[names.index(motor), names.index(joint)] = factor
    return c


def _nominal(table: dict[str, float | dict[str, float]]) -> dict[str, float]:
    """Values by column name, written "joint6.Fvm" = 1 or joint6.Fvm = 1 (which TOML reads as a table)."""
    flat: dict[str, float] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat.update((f"{name}.{symbol}", number) for symbol, number in value.items())
        elif "." in name.strip("."):
            flat[name] = value
        else:
            raise RobotError(f"[nominal]: '{name}' is not the name of a column. Write owner.symbol, e.g. joint6.Fvm.")
    return flat


# --- Geometry ---------------------------------------------------------------------------------------------------------


def _connection(row: MdhRow | CraigRow | DhRow, parent: str, link: str) -> Connection:
    if row.kind == "free":
        _refuse_drive(row)
    alpha, theta = radians(row.alpha, f"joint '{row.name}' alpha"), radians(row.theta, f"joint '{row.name}' theta")
    if isinstance(row, MdhRow | CraigRow):
        gamma = radians(row.gamma, f"joint '{row.name}' gamma")
        along_x, along_z = (row.d, row.r) if isinstance(row, MdhRow) else (row.a, row.d)
        pose = mdh_pose(gamma, row.b, alpha, along_x, theta, along_z)
        axis, point = np.array([0.0, 0.0, 1.0]), np.zeros(3)
    else:
        pose, axis, point = dh_screw(theta, row.d, row.a, alpha)
    if row.kind in ("prismatic", "free"):
        point = np.zeros(3)
    limits = checked_limits(row.name, row.lower, row.upper, row.velocity, row.effort)
    drive = Drive(row.rotor, row.viscous, row.coulomb, row.offset)
    return Connection(row.name, row.kind, parent, link, pose, axis, point, limits, drive)


def _refuse_drive(row: JointRow) -> None:
    keys = ("lower", "upper", "velocity", "effort", "rotor", "viscous", "coulomb", "offset")
    given = [key for key in keys if getattr(row, key) is not None]
    if given:
        raise RobotError(f"joint '{row.name}' is free: it has no motor and no friction. Remove {', '.join(given)}.")


def mdh_pose(gamma: float, b: float, alpha: float, d: float, theta: float, r: float) -> Pose:
    """Rz(γ) Tz(b) Rx(α) Tx(d) Rz(θ) Tz(r); the joint rotates about, or translates along, z of this pose by q."""
    return turn(2, gamma) @ shift(z=b) @ turn(0, alpha) @ shift(x=d) @ turn(2, theta) @ shift(z=r)


def dh_screw(theta: float, d: float, a: float, alpha: float) -> tuple[Pose, Array, Array]:
    """Pose, axis and point with pose · exp(S q) = Rz(θ + q) Tz(d) Tx(a) Rx(α).

    The joint's z axis is that of the frame before; in the new frame it points along (0, sin α, cos α) and passes
    through (−a, 0, 0).
    """
    pose = turn(2, theta) @ shift(z=d) @ shift(x=a) @ turn(0, alpha)
    return pose, turn(0, alpha).rotation.T @ np.array([0.0, 0.0, 1.0]), np.array([-a, 0.0, 0.0])
