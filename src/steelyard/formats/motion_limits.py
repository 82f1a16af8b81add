"""A limits file (TOML): the limits of an exciting motion of a robot, and its obstacles.

share = 0.95             # of the robot file's ranges and velocities; torque_share = 0.9 of its efforts
acceleration = 8.0       # all joints [rad/s² | m/s²]; also lower, upper, velocity, jerk, torque

[joint.joint3]           # one joint, replaces the values above
upper = "pi/2"
torque = 40.0

[[plane]]                # everything stays where normal · x ≥ offset [m]
name = "floor"
normal = [0, 0, 1]
offset = -0.3

[[box]]                  # the robot stays outside
name = "table"
centre = [0.6, 0.0, 0.1]
size = [0.4, 0.8, 0.2]
rpy = [0, 0, 0.3]

[[capsule]]              # the shape of a link, in its frame; default: those of the robot file, or a skeleton
link = "link3"
start = [0, 0, 0]
end = [0, -0.2, 0]
radius = 0.08

[collision]
frame = "base_link"      # frame of planes and boxes; default: the root of the robot description
margin = 0.02            # smallest distance [m] from everything
radius = 0.06            # [m] of the skeleton, for links without shapes in the robot file
ignore = [["link2", "link4"]]
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from steelyard.errors import RobotError, SteelyardError, choices
from steelyard.formats.robots.assembly import pose_from_rpy
from steelyard.formats.robots.shapes import read_capsules
from steelyard.formats.robots.toml_values import Angle, Vector, radians, row_name, typed
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot
from steelyard.motion.capsules import skeleton, skeleton_length
from steelyard.motion.limits import MotionLimits, completed
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings

# Default margin [m].
MARGIN = 0.02
# Default radius of a skeleton: this fraction of its length, but at least this [m].
SKELETON_SHARE, SKELETON_RADIUS = 0.08, 0.06


class JointTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[joint.NAME]: limits of one joint [rad | m, /s, /s², /s³, N·m | N]."""

    lower: Angle | None = None
    upper: Angle | None = None
    velocity: float | None = None
    acceleration: float | None = None
    jerk: float | None = None
    torque: float | None = None


class PlaneTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[[plane]]: the robot stays where normal · x ≥ offset."""

    name: str
    normal: Vector
    offset: float = 0.0


class BoxTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[[box]]: the robot stays outside; rpy rotates it about its centre."""

    name: str
    centre: Vector
    size: Vector
    rpy: tuple[Angle, Angle, Angle] = (0.0, 0.0, 0.0)


class CapsuleTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[[capsule]]: all points within `radius` of a line, in the frame of a link."""

    link: str
    start: Vector
    end: Vector
    radius: float


class CollisionTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """[collision]: the frame of planes and boxes, the smallest distance [m], the skeleton's radius [m], and pairs of
    links that may touch."""

    frame: str | None = None
    margin: float | None = None
    radius: float | None = None
    self_collision: bool = True
    ignore: list[tuple[str, str]] = []


class LimitsTable(JointTable, forbid_unknown_fields=True, kw_only=True):
    """The whole file; limits at the top are those of every joint."""

    share: float = 0.95
    torque_share: float = 0.9
    joint: dict[str, dict[str, Any]] = {}
    plane: list[dict[str, Any]] = []
    box: list[dict[str, Any]] = []
    capsule: list[dict[str, Any]] = []
    collision: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Allowed:
    """Limits of a motion; `surroundings` is None where only joints are limited, `notes` lists the defaults used.

    `torque_stated`: whether torques are limited by a file, and not only by the robot's efforts.
    """

    limits: MotionLimits
    surroundings: Surroundings | None
    notes: tuple[str, ...]
    torque_stated: bool = False


def own_limits(robot: Robot) -> Allowed:
    """Without a file: fractions of the robot file's own limits, with defaults for what is missing
    (`motion_limits.completed`)."""
    limits, notes = completed(robot, MotionLimits.of(robot, np.inf))
    return Allowed(
        limits, None, ("No limits file: 95 % of the ranges and speeds of the robot file, 90 % of its efforts.", *notes)
    )


def read_limits(path: str | Path, robot: Robot, source: str | Path) -> Allowed:
    """A limits file for a robot; `source` is the file of the robot, from which its shapes are read."""
    file = Path(path)
    table = typed(_tables(file), LimitsTable, f"'{file}'")
    try:
        limits = MotionLimits.of(robot, np.inf, share=table.share, torque_share=table.torque_share)
        limits, notes = completed(robot, _stated(table, limits, robot))
    except SteelyardError as error:
        raise RobotError(f"'{file}': {error}") from None
    torque_stated = table.torque is not None or any("torque" in raw for raw in table.joint.values())
    if table.collision is None and not (table.plane or table.box or table.capsule):
        return Allowed(limits, None, notes, torque_stated)
    surroundings, taken = _surroundings(table, robot, source, file)
    return Allowed(limits, surroundings, (*notes, *taken), torque_stated)


def _tables(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8-sig"))
    except (FileNotFoundError, IsADirectoryError):
        raise RobotError(f"The limits file '{file}' does not exist: correct the path, or remove --limits.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RobotError(f"'{file}' is not valid TOML: {error}.") from None
    except (OSError, ValueError) as error:
        raise RobotError(f"Cannot read '{file}': {error}.") from None


def _stated(table: LimitsTable, limits: MotionLimits, robot: Robot) -> MotionLimits:
    """The limits with the values of the file, a joint's own table first. The robot file's limits are upper bounds."""
    own = {}
    for name, raw in table.joint.items():
        robot.joint_index(name)
        own[name] = typed(raw, JointTable, f"[joint.{name}]")
    values = {key: np.array(getattr(limits, key)) for key in JointTable.__struct_fields__}
    for i, joint in enumerate(robot.axes):
        most = joint.limits
        bounds = {"lower": most.lower, "upper": most.upper, "velocity": most.velocity, "torque": most.effort}
        for key in JointTable.__struct_fields__:
            stated = getattr(own.get(joint.name), key, None)
            stated = getattr(table, key) if stated is None else stated
            if stated is None:
                continue
            value = radians(stated, f"{key} of {joint.name}")
            beyond = (bounds["lower"] - value) if key == "lower" else value - bounds.get(key, np.inf)
            if beyond > 0.0:
                raise RobotError(
                    f"the {key} limit of {joint.name}, {value:.6g}, is {beyond:.4g} beyond the {bounds[key]:.6g} of "
                    "the robot file. Lower it, or correct the robot file."
                )
            values[key][i] = value
    return MotionLimits(**values)


def _surroundings(
    table: LimitsTable, robot: Robot, source: str | Path, file: Path
) -> tuple[Surroundings, tuple[str, ...]]:
    """The obstacles, and sentences on the source of the link shapes, the frame of the obstacles and the margin."""

    def rows(name: str, kind: type[Any]) -> list[Any]:
        listed: list[dict[str, Any]] = getattr(table, name)
        return [typed(raw, kind, f"'{file}', {row_name(name, raw, i)}") for i, raw in enumerate(listed)]

    collision = typed(table.collision or {}, CollisionTable, f"'{file}', [collision]")
    capsules = tuple(
        Capsule(c.link, np.array(c.start), np.array(c.end), c.radius) for c in rows("capsule", CapsuleTable)
    )
    capsules, notes = _whole(robot, capsules, collision.radius, source, file)
    frame, seen = _frame(robot, collision.frame, file)
    planes = tuple(Plane(p.name, np.array(p.normal), p.offset).placed(frame) for p in rows("plane", PlaneTable))
    boxes = []
    for box in rows("box", BoxTable):
        rpy = [radians(angle, f"rpy of box '{box.name}'") for angle in box.rpy]
        turned = pose_from_rpy(box.centre, rpy).rotation
        boxes.append(Box(box.name, np.array(box.centre), np.array(box.size), turned).placed(frame))
    margin = MARGIN if collision.margin is None else collision.margin
    kept = f"Margin kept to all shapes: {margin:g} m{', the default' if collision.margin is None else ''}."
    found = Surroundings(
        capsules, planes, tuple(boxes), margin, collision.self_collision, tuple(collision.ignore)
    )  # fmt: skip
    return found, (notes, *([seen] if planes or boxes else []), kept)


def _whole(
    robot: Robot, stated: tuple[Capsule, ...], radius: float | None, source: str | Path, file: Path
) -> tuple[tuple[Capsule, ...], str]:
    """Capsules for every link, and a sentence on their source: stated, else from the robot file, else a skeleton."""
    known = {"base" if c.link == robot.base else c.link for c in stated}
    read = read_capsules(source, without=known)
    bones, bare = _skeleton(robot, radius, known | {c.link for c in read})
    parts = [
        f"{len(some)} capsule{'' if len(some) == 1 else 's'} {whence}"
        for some, whence in ((stated, f"of '{file.name}'"), (read, f"enclosing those of {_file_of(robot)}"))
        if some
    ]
    capsules = sorted((*stated, *read, *bones), key=lambda capsule: robot.link_index(capsule.link))
    return tuple(capsules), f"Shapes of the links: {'; '.join([*parts, *([bare] if bare else [])])}."


def _skeleton(robot: Robot, radius: float | None, known: Collection[str] = ()) -> tuple[tuple[Capsule, ...], str]:
    """A skeleton of the given radius (default: in proportion to the robot) for links not `known`, and its omissions."""
    why = "stated"
    if radius is None:
        radius = max(SKELETON_RADIUS, SKELETON_SHARE * skeleton_length(robot))
        why = f"the default: {SKELETON_SHARE:.0%} of its length, at least {SKELETON_RADIUS:g} m"
    bones = tuple(capsule for capsule in skeleton(robot, radius) if capsule.link not in known)
    bare = list(dict.fromkeys(capsule.link for capsule in bones))
    if not bare:
        return (), ""
    whose = f"for {', '.join(bare)}, which have none" if known else "as the robot file has none"
    carrying = {joint.parent for joint in robot.joints}
    last = [link.name for i, link in enumerate(robot.links) if i not in carrying and link.name in bare]
    end = (
        f". It ends at the frame of {', '.join(last)} and the parts fixed to it: a flange or tool has no extent "
        "beyond, unless you add a [[capsule]]"
    )
    return bones, f"a skeleton of {radius:.3g} m radius ({why}), {whose}{end if last else ''}"


def _frame(robot: Robot, name: str | None, file: Path) -> tuple[Pose, str]:
    """The frame of a link that does not move, in the root frame of the robot description; and a sentence on it."""
    base = robot.fixed.get(robot.base, Pose())
    placed = not np.allclose(base.position, 0.0) or not np.allclose(base.rotation, np.eye(3))
    # a table places its base in the world (base_xyz, base_rpy); in other formats the root is the world
    world = ("the world of " if placed else f"the frame of '{robot.base}', the root of ") + _file_of(robot)
    if name is None or (name == robot.base and not placed):
        stands = f", in which '{robot.base}' is at {_at(base)}" if placed else ""
        return Pose(), f"Obstacles are given in {world}{stands}."
    if name in [link.name for link in robot.links] or any(name == b.name for link in robot.links for b in link.lumps):
        raise RobotError(
            f"'{file}', [collision]: frame '{name}' moves with the robot, but obstacles are fixed. Valid: "
            f"{', '.join(robot.fixed)}."
        )
    if name not in robot.fixed:
        raise RobotError(f"'{file}', [collision]: {choices('frame', name, robot.fixed)}")
    own = robot.fixed[name]
    return own, f"Obstacles are given in the frame of '{name}', which is at {_at(own)} in {world}."


def _at(pose: Pose) -> str:
    turned = "" if np.allclose(pose.rotation, np.eye(3)) else " and rotated"
    return f"({', '.join(f'{x:z.4g}' for x in pose.position)}) m{turned}"


def _file_of(robot: Robot) -> str:
    """A file by its name; a built-in robot is described as such."""
    return robot.source if robot.source.startswith("built-in") else f"'{Path(robot.source).name}'"
