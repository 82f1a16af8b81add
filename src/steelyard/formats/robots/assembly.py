"""From named bodies and connections, in any order, to the links and joints of a `Robot`.

Shared by all readers, so that trees are checked, ordered and lumped in one way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np

from steelyard._arrays import LARGEST, Array
from steelyard.errors import RobotError, choices, few
from steelyard.model.loops import FrameLoop
from steelyard.model.parameters import transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Joint, JointKind, Limits, Link, Lump, Robot

WORLD = "world"  # name of the link that does not move, by custom
ConnectionKind = Literal["revolute", "continuous", "prismatic", "fixed", "free", "ball"]
# Coordinates of a free body or a ball joint in order, and the axes they translate along or rotate about: each is a
# joint of its own, in the frame of the one before.
COORDINATES: dict[str, tuple[str, ...]] = {"free": ("x", "y", "z", "rx", "ry", "rz"), "ball": ("rx", "ry", "rz")}


@dataclass(frozen=True)
class Connection:
    """One joint of a file: ᵖᵃʳᵉⁿᵗT_child(q) = pose · exp([S]ₓ q), S = (axis, point × axis); the identity if fixed.

    A free body has pose · Tx(x) Ty(y) Tz(z) Rx(rx) Ry(ry) Rz(rz), a ball joint pose · Rx(rx) Ry(ry) Rz(rz) about
    `point`. The coordinates of both are singular at ry = ±π/2; `limits` and `drive` do not apply to them.
    """

    name: str
    kind: ConnectionKind
    parent: str
    child: str
    pose: Pose
    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    point: Array = field(default_factory=lambda: np.zeros(3))
    limits: Limits = Limits()
    drive: Drive = Drive()


@dataclass(frozen=True)
class Tree:
    """The result of `assemble`: the moving links and joints of a robot, the name of its base, and the poses of the
    bodies that do not move."""

    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    base: str
    fixed: dict[str, Pose]


def assemble(
    robot: str, bodies: Mapping[str, Array | None], connections: Sequence[Connection], base_pose: Pose | None = None
) -> Tree:
    """Links and joints of a tree, parents first and otherwise in the order given.

    `bodies` maps a name to its ten inertial parameters, None if unknown. A body on a fixed joint is added to the moving
    link that carries it (`lumped`); one that is fixed to the base does not move and is left out. `base_pose` is the
    base's frame in the world frame, in which gravity is given.
    """
    base = _root(robot, bodies, connections)
    carrier: dict[str, tuple[int, Pose]] = {base: (BASE, base_pose or Pose())}
    links: list[Link] = []
    joints: list[Joint] = []
    lumps: dict[int, list[Lump]] = defaultdict(list)
    for c in _parents_first(robot, base, connections):
        parent, pose = carrier[c.parent][0], carrier[c.parent][1] @ c.pose
        if c.kind == "fixed":
            carrier[c.child] = (parent, pose)
            if parent != BASE:
                lumps[parent].append(Lump(c.child, pose, bodies[c.child], c.name))
            continue
        _refuse_infinite(c, pose)
        for link, joint in _moving(c, parent, len(links), pose, bodies[c.child]):
            links.append(link)
            joints.append(joint)
        carrier[c.child] = (len(links) - 1, Pose())
    fixed = {name: pose for name, (link, pose) in carrier.items() if link == BASE}
    return Tree(tuple(_finite(lumped(link, lumps[i])) for i, link in enumerate(links)), tuple(joints), base, fixed)


def _moving(c: Connection, parent: int, first: int, pose: Pose, inertia: Array | None) -> Iterator[tuple[Link, Joint]]:
    """The links and joints of one connection, the body last; `first` is the index of the first of them."""
    kind = c.kind
    if kind == "revolute" or kind == "continuous" or kind == "prismatic":
        yield Link(c.child, inertia), Joint(c.name, kind, parent, pose, c.axis, c.point, c.limits, c.drive)
        return
    for k, coordinate in enumerate(COORDINATES[kind]):
        last = coordinate == COORDINATES[kind][-1]
        link = Link(c.child, inertia) if last else Link(f"{c.child}.{coordinate}", np.zeros(10), virtual=True)
        axis = np.eye(3)["xyz".index(coordinate[-1])]
        turns = coordinate.startswith("r")
        slides_or_turns: JointKind = "continuous" if turns else "prismatic"
        point = c.point if turns else np.zeros(3)
        yield link, Joint(f"{c.name}.{coordinate}", slides_or_turns, parent, pose, axis, point, bare=True)
        parent, pose = first + k, Pose()


def on_free_base(
    bodies: Mapping[str, Array | None], connections: Sequence[Connection]
) -> tuple[dict[str, Array | None], list[Connection]]:
    """Bodies and connections of a tree with its root on a free joint in the world.

    Where the root is a body "world" without mass, the joint is the one fixed joint on it, made free.
    """
    children = {c.child for c in connections}
    root = next((name for name in bodies if name not in children), WORLD)
    if root != WORLD or bodies[root] is not None:
        free = Connection(f"{root}_free", "free", WORLD, root, Pose())
        return {**bodies, WORLD: None}, [free, *connections]
    below = [c for c in connections if c.parent == WORLD]
    if len(below) != 1 or below[0].kind not in ("fixed", "free"):
        raise RobotError(
            f'base = "floating" needs one body that carries all others; {few([c.child for c in below])} are joined to '
            "'world'. Remove 'world' from the file, or join them by fixed joints to one body."
        )
    return dict(bodies), [replace(c, kind="free") if c is below[0] else c for c in connections]


def lumped(link: Link, lumps: Sequence[Lump]) -> Link:
    """The link with the bodies on fixed joints added to its nominal inertia and stored as lumps.

    A link of unknown inertia stays unknown; a lump without inertia (a frame, a flange) adds nothing.
    """
    if link.inertia is None:
        return replace(link, lumps=link.lumps + tuple(lumps))
    total = link.inertia.copy()
    for lump in lumps:
        if lump.inertia is not None:
            total = total + transformed_inertia(lump.inertia, lump.pose.rotation, lump.pose.position)
    return replace(link, inertia=total, lumps=link.lumps + tuple(lumps))


def carrier_of(robot: Robot, body: str, what: str) -> tuple[str, Pose]:
    """The link that carries a body of the file, and the body's frame relative to it.

    The base, by its name or "base", is given relative to the world: its pose is the identity.
    """
    carriers = {lump.name: (link.name, lump.pose) for link in robot.links for lump in link.lumps}
    names = [link.name for link in robot.links if not link.virtual]
    if body in names:
        return body, Pose()
    if body in carriers:
        return carriers[body]
    if body in ("base", robot.base):
        return robot.base, Pose()
    valid = dict.fromkeys(("base", robot.base, *names, *carriers))
    raise RobotError(
        f"{what}: {choices('link', body, valid)} 'base' is the fixed base of the robot, whatever its name."
    )


def refuse_adrift(robot: Robot) -> None:
    """Raises an error for a free body or ball joint that is neither a floating base nor constrained by a loop: nothing
    would drive it."""
    ends = [end.link for loop in robot.loops if isinstance(loop, FrameLoop) for end in loop.ends]
    held = {joint for link in ends for joint in robot.ancestors(robot.link_index(link))}
    for i, joint in enumerate(robot.joints[6 * robot.floats :], start=6 * robot.floats):
        if joint.bare and i not in held:
            name, _, first = joint.name.rpartition(".")
            kind = next(kind for kind, coordinates in COORDINATES.items() if coordinates[0] == first)
            body = robot.links[i + len(COORDINATES[kind]) - 1].name
            raise RobotError(
                f"Joint '{name}' of '{body}' is a {kind} joint that nothing drives: '{body}' is not part of a loop, "
                "and a floating base is one free body that carries every other joint. Remove the bodies that are not "
                "part of the robot, add the loops that constrain it, or make it fixed if it does not move in the "
                "recordings."
            )


def _refuse_infinite(c: Connection, pose: Pose) -> None:
    """Finite numbers in a file can still overflow, and compiled models can hold NaN."""
    drive = [value for value in (c.drive.rotor, c.drive.viscous, c.drive.coulomb, c.drive.offset) if value is not None]
    limits = np.array([c.limits.lower, c.limits.upper, c.limits.velocity, c.limits.effort])
    geometry = (pose.rotation, pose.position, c.axis, c.point, drive)
    if not all(np.all(np.abs(values) <= LARGEST) for values in geometry) or np.any(np.isnan(limits)):
        raise RobotError(
            f"Joint '{c.name}' has a number that is not finite or too large. Check its placement and limits."
        )


def _finite(link: Link) -> Link:
    if link.inertia is not None and not np.all(np.abs(link.inertia) <= LARGEST):
        raise RobotError(f"Link '{link.name}' has an inertia that is not finite: a mass or length is too large.")
    return link


def unique(what: str, names: Iterable[str]) -> None:
    """Raises an error for a name that is given twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RobotError(f"Two {what}s are named '{twice[0]}'. Give every {what} its own name.")


def _root(robot: str, bodies: Mapping[str, Array | None], connections: Sequence[Connection]) -> str:
    """The one body without a parent."""
    unique("joint", (c.name for c in connections))
    parent_joint: dict[str, str] = {}
    for c in connections:
        for role, name in (("parent", c.parent), ("child", c.child)):
            if name not in bodies:
                raise RobotError(f"The {role} of joint '{c.name}' is missing. {choices('link', name, bodies)}")
        if c.child in parent_joint:
            raise RobotError(
                f"Link '{c.child}' has two parents, by the joints '{parent_joint[c.child]}' and '{c.name}': this file "
                "can describe trees only. Remove one of the two joints; if it closes a moving loop, describe the "
                "robot in a table (.toml) with a [[loop]], or in MJCF with an <equality>."
            )
        parent_joint[c.child] = c.name
    roots = [name for name in bodies if name not in parent_joint]
    if not roots:
        raise RobotError(f"Robot '{robot}' has no base: every link has a parent, so its joints form a cycle.")
    if len(roots) > 1:
        raise RobotError(
            f"Robot '{robot}' has {len(roots)} base links ({', '.join(roots)}); it needs exactly one. "
            "Join the others to it, by a fixed joint if they do not move."
        )
    return roots[0]


def _parents_first(robot: str, base: str, connections: Sequence[Connection]) -> list[Connection]:
    """The order of the file, except that parents come before their children."""
    below: dict[str, list[int]] = defaultdict(list)
    for i, c in enumerate(connections):
        below[c.parent].append(i)
    ready = list(below[base])
    heapify(ready)
    ordered: list[Connection] = []
    while ready:
        ordered.append(connections[heappop(ready)])
        for i in below[ordered[-1].child]:
            heappush(ready, i)
    if len(ordered) < len(connections):
        reached = {c.name for c in ordered}
        lost = ", ".join(c.name for c in connections if c.name not in reached)
        raise RobotError(f"Robot '{robot}': the joints {lost} form a cycle that is not connected to '{base}'.")
    return ordered


def checked_limits(
    joint: str, lower: float | None, upper: float | None, velocity: float | None, effort: float | None
) -> Limits:
    """Limits of a joint, ±inf where the file gives none; raises an error if they are reversed or negative.

    A range of zero and a velocity or effort of zero are placeholders of exporters: a joint with them could not move.
    """
    low, high = -np.inf if lower is None else lower, np.inf if upper is None else upper
    if low > high:
        raise RobotError(f"Joint '{joint}': the lower limit {low:g} is above the upper limit {high:g}.")
    for what, value in (("velocity", velocity), ("effort", effort)):
        if value is not None and value < 0:
            raise RobotError(f"Joint '{joint}': the {what} limit {value:g} is negative.")
    low, high = (-np.inf, np.inf) if low == high else (low, high)
    return Limits(low, high, velocity or np.inf, effort or np.inf)


def turn(axis: int, angle: float) -> Pose:
    """Rotation [rad] about x (0), y (1) or z (2), exact at multiples of π/2.

    cos(π/2) is 6e-17 in floating point, which would couple columns of the regressor that are independent.
    """
    c, s = (0.0 if abs(value) < 1e-15 else float(value) for value in (np.cos(angle), np.sin(angle)))
    j, k = (axis + 1) % 3, (axis + 2) % 3
    rotation = np.eye(3)
    rotation[[j, j, k, k], [j, k, j, k]] = c, -s, s, c
    return Pose(rotation)


def shift(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
    """Translation [m]."""
    return Pose(position=np.array([x, y, z], float))


def pose_from_rpy(xyz: Sequence[float], rpy: Sequence[float]) -> Pose:
    """T(xyz) · Rz(yaw) · Ry(pitch) · Rx(roll), the convention of URDF [m, rad]."""
    return shift(*xyz) @ turn(2, rpy[2]) @ turn(1, rpy[1]) @ turn(0, rpy[0])
