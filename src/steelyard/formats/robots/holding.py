"""Joints that do not move: their links become part of the link before them, so that nothing else needs to know.

A held joint is a fixed one, ᵖᵃʳᵉⁿᵗT_child = pose · exp([S]ₓ q) with constant q: the body it carries is lumped into the
link before it, as bodies on the fixed joints of a file are (`Link.lumps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices, few
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import lumped
from steelyard.model.loops import Attachment, FrameLoop, JointLoop, Loop
from steelyard.model.parameters import transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, Link, Lump, Robot
from steelyard.model.springs import Anchor, CrankSpring, JointSpring, Spring

# Joints to hold: texts "PATTERN" or "PATTERN=POSITION" as users write them, or positions [rad | m] by pattern, where
# None is home, or zero in a robot without one. A pattern is a joint's name, or has * and ? in it: finger*.
Hold = Sequence[str] | Mapping[str, float | None]
# Rounding of a position at the end of a range [rad | m].
_MARGIN = 1e-6


def hold(robot: Robot, asked: Hold) -> Robot:
    """The robot with the joints that match a pattern fixed: at a position, or at home (zero where the file has none).

    A joint whose range leaves out its home, or zero, is held at the nearer end. A later pattern overrides an earlier
    one. In a robot with loops only axes can be held; passive joints that only held axes move are then held where the
    loops close. Springs and the compensator of a held joint exert nothing and are removed.
    """
    stated = dict(asked) if isinstance(asked, Mapping) else dict(_parsed(text) for text in asked)
    if not stated:
        return robot
    # a floating base stays free, and the loops close on it as they do on one that is bolted down
    values = _positions(bolted(robot), stated)
    if len(values) == len(robot.joints) - 6 * robot.floats:
        raise RobotError(f"hold fixes all {len(values)} joints of '{robot.name}': leave out those that move.")
    _refuse_coupled(robot, values)
    listed = held_positions(robot, {name: value for name, value in values.items() if "." not in name})
    found = Finding("joints-held", "info", f"held, not identified: {listed}")
    return replace(_without(robot, values), held=robot.held | values, findings=(*robot.findings, found))


def bolted(robot: Robot) -> Robot:
    """A robot with its floating base bolted down where its free joint is at zero; itself on a fixed base."""
    return _without(robot, dict.fromkeys(robot.joint_names[:6], 0.0)) if robot.floats else robot


def _without(robot: Robot, values: Mapping[str, float]) -> Robot:
    """The robot with these joints fixed at positions."""
    links, joints, places, fixed = _merged(robot, values)
    kept = [name for name in robot.joint_names if name not in values]
    springs = tuple(spring for one in robot.springs if (spring := _spring(one, values, places)) is not None)
    loops = tuple(loop for one in robot.loops if (loop := _loop(one, values, places)) is not None)
    lost = {*values, *places, *(one.name for one in robot.springs)} - {one.name for one in springs}
    on_axes = [k for k, name in enumerate(robot.axis_names) if name not in values]
    actuated = tuple(robot.axis_names[k] for k in on_axes) if loops else None
    return replace(
        robot,
        links=links,
        joints=joints,
        coupling=None if robot.coupling is None else robot.coupling[np.ix_(on_axes, on_axes)],
        nominal={name: value for name, value in robot.nominal.items() if name.rpartition(".")[0] not in lost},
        fixed=fixed,
        compensator=None if robot.compensator is None or robot.compensator.joint in values else robot.compensator,
        springs=springs,
        loops=loops,
        actuated=actuated,
        home=None if robot.home is None or not loops else _of(robot, robot.home, kept),
        legs=() if any(name in values for leg in robot.legs for name in leg) else robot.legs,
    )


def held_positions(robot: Robot, values: Mapping[str, float]) -> str:
    """Joints and where they are held, as text; `robot` is the one before they were held."""

    def one(name: str, value: float) -> str:
        joint = robot.joints[robot.joint_index(name)]
        without_zero = not joint.limits.lower <= 0.0 <= joint.limits.upper
        at_end = without_zero and value == np.clip(0.0, joint.limits.lower, joint.limits.upper)
        note = " (the end of its range that is nearer to zero, which is outside)" if at_end else ""
        return f"{name} at {value:g} {'m' if joint.is_prismatic else 'rad'}{note}"

    return few(one(name, value) for name, value in values.items())


def _of(robot: Robot, vector: Array, names: Sequence[str]) -> Array:
    return np.asarray(vector, float)[[robot.joint_index(name) for name in names]]


# --- Which joints, and where ------------------------------------------------------------------------------------------


def _parsed(text: str) -> tuple[str, float | None]:
    """("finger*", 0.02) from "finger*=0.02"; None without a position."""
    pattern, equals, value = (part.strip() for part in text.partition("="))
    try:
        position = float(value) if equals else None
    except ValueError:
        position = np.nan
    if not pattern or (position is not None and not np.isfinite(position)):
        raise RobotError(f"hold takes JOINT or JOINT=POSITION [rad | m], e.g. finger* or finger*=0.02, not '{text}'.")
    return pattern, position


def _positions(robot: Robot, stated: Mapping[str, float | None]) -> dict[str, float]:
    """The position of every held joint, in the order of the joints."""
    home = _reference(robot)
    asked: dict[str, float] = {}
    for pattern, value in stated.items():
        found = [name for name in robot.joint_names if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            names = [joint.name for joint in robot.joints if not joint.bare]
            wider = f"*{pattern.strip('*')}*"
            hint = f" '{wider}' would match." if any(fnmatchcase(name, wider) for name in names) else ""
            raise RobotError(f"hold: {choices('joint or pattern', pattern, names)}{hint}")
        asked.update((name, home[robot.joint_index(name)] if value is None else float(value)) for name in found)
    if robot.loops:
        asked = _closed(robot, asked)
    for name, value in asked.items():
        limits = robot.joints[robot.joint_index(name)].limits
        if not limits.lower - _MARGIN <= value <= limits.upper + _MARGIN:
            raise RobotError(
                f"hold: {value:g} is outside the range of '{name}', {limits.lower:g} to {limits.upper:g} [rad | m]."
            )
    return {name: float(asked[name]) for name in robot.joint_names if name in asked}


def _closed(robot: Robot, asked: Mapping[str, float]) -> dict[str, float]:
    """The held axes, and the passive joints that only they move, where the loops close."""
    axes = [name for name in robot.axis_names if name in asked]
    held = np.array([name in asked for name in robot.axis_names])
    follows = ~np.any(robot.reach[:, ~held], axis=1)
    loose = [name for name in asked if not follows[robot.joint_index(name)]]
    if loose:
        masters = [robot.axis_names[k] for k in np.flatnonzero(robot.reach[robot.joint_index(loose[0])] & ~held)]
        raise RobotError(
            f"hold: '{loose[0]}' has no motor: a loop makes it follow {few(masters)}. Hold {few(masters)} instead."
        )
    from steelyard.model.loop_closure import Closure  # compiled, and needed by robots with loops only

    closure = Closure(robot)
    home = _reference(robot)[robot.axis_index]
    q = np.array([asked.get(name, at_home) for name, at_home in zip(robot.axis_names, home, strict=True)])
    still = np.zeros((len(q), 1))
    closed = closure.close(q[:, None], still, still)
    if closed.fault[0]:
        raise RobotError(f"hold: the loops of '{robot.name}' do not close with {few(axes)} at the positions stated.")
    return {name: float(closed.q[k, 0]) for k, name in enumerate(robot.joint_names) if follows[k]}


def _reference(robot: Robot) -> Array:
    """Positions (joints,) where nothing is stated: home, else zero, or the end of the range that is nearer to it."""
    home = np.zeros(len(robot.joints)) if robot.home is None else np.asarray(robot.home, float)
    limits = [joint.limits for joint in robot.joints]
    return np.clip(home, [one.lower for one in limits], [one.upper for one in limits])


def _refuse_coupled(robot: Robot, values: Mapping[str, float]) -> None:
    """Raises an error where the motor of a held joint turns with a joint that moves: its inertia would be lost."""
    for motor, joint in robot.coupled:
        first, second = robot.axis_names[motor], robot.axis_names[joint]
        if (first in values) != (second in values):
            raise RobotError(
                f"hold: the motors of '{first}' and '{second}' are coupled, so both are held or none. Name both."
            )


# --- Merging ----------------------------------------------------------------------------------------------------------


def _merged(
    robot: Robot, values: Mapping[str, float]
) -> tuple[tuple[Link, ...], tuple[Joint, ...], dict[str, tuple[str, Pose]], dict[str, Pose]]:
    """Links and joints that are left, and for every merged link the link that carries it (or the base) and its pose
    there; then the frames that do not move."""
    links: list[Link] = []
    joints: list[Joint] = []
    carrier: list[tuple[int, Pose]] = []  # per old link: the new link that carries it, and its pose there
    places: dict[str, tuple[str, Pose]] = {}
    fixed = dict(robot.fixed)
    for link, joint in zip(robot.links, robot.joints, strict=True):
        parent, before = (BASE, Pose()) if joint.parent == BASE else carrier[joint.parent]
        pose = before @ joint.pose
        if joint.name not in values:
            carrier.append((len(links), Pose()))
            links.append(link)
            joints.append(replace(joint, parent=parent, pose=pose))
            continue
        pose = before @ displaced(joint, values[joint.name])
        carrier.append((parent, pose))
        places[link.name] = (robot.base if parent == BASE else links[parent].name, pose)
        bodies = [] if link.virtual else [*_bodies(link, pose, joint.name)]
        if parent == BASE:
            fixed.update((body.name, body.pose) for body in bodies)
        else:
            unknown = not link.virtual and link.inertia is None
            carries = replace(links[parent], inertia=None) if unknown else links[parent]
            links[parent] = lumped(carries, bodies)
    return tuple(links), tuple(joints), places, fixed


def displaced(joint: Joint, q: float) -> Pose:
    """ᵖᵃʳᵉⁿᵗT_child at a position: pose · exp([S]ₓ q), from the coefficients of `Joint.placement`."""
    placed = np.tensordot(np.array([1.0, np.sin(q), 1.0 - np.cos(q), q]), joint.placement, axes=1)
    return Pose(placed[:, :3], placed[:, 3])


def _bodies(link: Link, pose: Pose, joint: str) -> list[Lump]:
    """A link and the bodies fixed to it, as lumps at `pose` of another link; the link's own is the remainder."""
    own = link.inertia
    for lump in link.lumps:
        if own is not None and lump.inertia is not None:
            own = own - transformed_inertia(lump.inertia, lump.pose.rotation, lump.pose.position)
    return [Lump(link.name, pose, own, joint), *(replace(lump, pose=pose @ lump.pose) for lump in link.lumps)]


def _spring(spring: Spring, values: Mapping[str, float], places: Mapping[str, tuple[str, Pose]]) -> Spring | None:
    """The spring on the links that are left; None if it exerts nothing."""
    if isinstance(spring, JointSpring | CrankSpring):
        return None if spring.joint in values else spring
    ends = [
        Anchor(places[end.link][0], places[end.link][1].rotation @ end.point + places[end.link][1].position)
        if end.link in places
        else end
        for end in spring.ends
    ]
    return None if ends[0].link == ends[1].link else replace(spring, ends=(ends[0], ends[1]))


def _loop(loop: Loop, values: Mapping[str, float], places: Mapping[str, tuple[str, Pose]]) -> Loop | None:
    """The loop on the links that are left; None if nothing moves it."""
    if isinstance(loop, JointLoop):
        return None if loop.joint in values or loop.other in values else loop
    ends = [
        Attachment(places[end.link][0], places[end.link][1] @ end.pose) if end.link in places else end
        for end in loop.ends
    ]
    if ends[0].link == ends[1].link:
        return None
    return FrameLoop(loop.name, (ends[0], ends[1]), loop.components)
