"""URDF, with the standard library only.

Frames and axes are kept as in the file. A joint with <mimic> follows another: it is passive, all others are driven. Not
read, because they have no rigid-body dynamics: transmissions and simulator plugins. Visuals and collisions are read by
`shapes`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from steelyard._arrays import LARGEST, Array
from steelyard.errors import RobotError, choices, few
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import (
    WORLD,
    Connection,
    ConnectionKind,
    assemble,
    checked_limits,
    on_free_base,
    pose_from_rpy,
    refuse_adrift,
    unique,
)
from steelyard.model.loops import JointLoop
from steelyard.model.parameters import inertial_vector, transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import Drive, Limits, Robot

KINDS = ("revolute", "continuous", "prismatic", "fixed")
PRODUCTS = ("ixy", "ixz", "iyz")
_EXPANDED = "xacro robot.xacro > robot.urdf"
LONGEST_PROLOG = 2**16  # largest number of bytes before the root element; real files have a comment of a few lines


def read_urdf(content: bytes, where: str, *, floating: bool = False) -> Robot:
    """The robot in a URDF file; `where` is its name in messages. With `floating`, its base is free in the world."""
    root = parse(content, where)
    try:
        return _robot(root, floating)
    except RobotError as problem:
        raise RobotError(f"{where}: {problem}") from problem


def root_tag(content: bytes, where: str) -> str:
    """Name of the root element of an XML file, read without parsing its contents."""
    seen: list[str] = []
    parser = _parser(where)
    parser.StartElementHandler = lambda tag, _: seen.append(tag)
    _feed_prolog(parser, content, where, seen)
    if not seen:
        _feed(parser, b"", where, last=True)
    return seen[0]


# --- XML --------------------------------------------------------------------------------------------------------------


def parse(content: bytes, where: str) -> Element:
    """The element tree of an XML file without a DOCTYPE."""
    builder = TreeBuilder()
    started: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        started.append(tag)
        builder.start(tag, attributes)

    parser = _parser(where)
    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    consumed = _feed_prolog(parser, content, where, started)
    _feed(parser, content[consumed:], where, last=True)
    return cast(Element, builder.close())


def _parser(where: str) -> expat.XMLParserType:
    def refuse(name: str, *_: object) -> None:
        if name.lower() == "html":
            raise RobotError(
                f"'{where}' is a web page, not a robot file. Download the file itself: where a page shows it, by the "
                "button for the raw file."
            )
        raise RobotError(
            f"'{where}' has a DOCTYPE, which can declare entities that read other files or fill the memory and is "
            "refused. Remove the <!DOCTYPE …> declaration."
        )

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    if hasattr(parser, "SetReparseDeferralEnabled"):  # newer expat may otherwise delay bytes
        parser.SetReparseDeferralEnabled(False)
    return parser


def _feed_prolog(parser: expat.XMLParserType, content: bytes, where: str, started: list[str]) -> int:
    """Feed bytes until the root element starts; returns their number.

    One byte at a time: expat processes the rest of a chunk after a handler has raised, so with larger chunks the
    declarations after the DOCTYPE would still be processed. After the root has started no DOCTYPE can follow. The
    length is bounded because expat parses an unfinished comment again with every byte.
    """
    for i in range(len(content)):
        if i == LONGEST_PROLOG:
            raise RobotError(f"'{where}' has no element in its first {i} bytes. Shorten the comment at its start.")
        _feed(parser, content[i : i + 1], where, last=False)
        if started:
            return i + 1
    return len(content)


def _feed(parser: expat.XMLParserType, data: bytes, where: str, *, last: bool) -> None:
    try:
        parser.Parse(data, last)
    except (expat.ExpatError, LookupError, ValueError) as problem:  # the latter two: encodings unknown to Python
        raise RobotError(f"'{where}' is not well-formed XML: {problem}. Copy or export it again.") from problem


# --- Elements ---------------------------------------------------------------------------------------------------------


def expanded_xacro(path: Path) -> bytes:
    """The URDF that a xacro file makes, by the package xacro; it evaluates the expressions in the file."""
    try:
        import xacro  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise RobotError(
            f"'{path}' is a xacro file, which the package xacro expands: it is not installed. Install it "
            f"(pip install xacro), or expand the file first: {_EXPANDED}"
        ) from None
    try:
        return xacro.process_file(str(path)).toxml().encode()
    except Exception as problem:  # whatever an expression in the file raises
        raise RobotError(f"xacro cannot expand '{path}': {' '.join(str(problem).split())}.") from problem


def _robot(root: Element, floating: bool) -> Robot:
    if root.tag != "robot":
        raise RobotError(f"The root element is <{root.tag}>; a URDF file starts with <robot>.")
    if any(element.tag.startswith("xacro:") for element in root.iter()):
        raise RobotError(f"This is an unexpanded xacro file. Expand it first: {_EXPANDED}")
    name = root.get("name") or "robot"
    links = root.findall("link")
    if not links:
        raise RobotError("The file has no <link>: it describes no robot. Give the file that has its links and joints.")
    unique("link", (name_of(link) for link in links))
    connections = [connection_of(joint) for joint in root.findall("joint")]
    bodies = {name_of(link): _inertia(link) for link in links}
    if WORLD not in bodies and any(c.parent == WORLD for c in connections):
        bodies[WORLD] = None  # often not declared
    connections, findings = _one_base(bodies, connections)
    if floating:
        bodies, connections = on_free_base(bodies, connections)
    if any(inertia is not None for inertia in bodies.values()):
        # URDF: a link without <inertial> has no mass. But a file without any <inertial> has unknown inertias.
        moving = {c.child for c in connections if c.kind != "fixed"}
        bodies = {k: np.zeros(10) if v is None and k in moving else v for k, v in bodies.items()}
    tree = assemble(name, bodies, connections)
    mimics, independent = _followers(root, [joint.name for joint in tree.joints])
    findings = (*findings, *independent, *_placeholders(root))
    robot = Robot(name, tree.links, tree.joints, base=tree.base, fixed=tree.fixed, findings=findings)
    refuse_adrift(robot)
    if not mimics:
        return robot
    driven = tuple(joint.name for joint in robot.joints if not joint.bare and joint.name not in mimics)
    return replace(robot, loops=tuple(mimics.values()), actuated=driven)


def _one_base(
    bodies: Mapping[str, Array | None], connections: list[Connection]
) -> tuple[list[Connection], tuple[Finding, ...]]:
    """The connections with all links without a parent but one fixed to that one, and a finding that names them.

    A URDF states no place for them, so they are put where the base is. The base is the first that carries a joint.
    """
    children, parents = {c.child for c in connections}, {c.parent for c in connections}
    roots = [name for name in bodies if name not in children]
    if len(roots) < 2:
        return connections, ()
    base = next((name for name in roots if name in parents), roots[0])
    others = [name for name in roots if name != base]
    joined = [Connection(f"{name}_fixed", "fixed", base, name, Pose()) for name in others]
    message = f"links without a parent: {few(roots)}; '{base}' is the base, the others are fixed to it at its origin"
    return [*connections, *joined], (Finding("several-bases", "warning", message),)


def _followers(root: Element, joints: Collection[str]) -> tuple[dict[str, JointLoop], list[Finding]]:
    """The joints that follow another, by name, and findings on those that follow a joint that does not exist."""
    mimics = {loop.joint: loop for joint in root.findall("joint") for loop in _mimics(joint)}
    fixed = {name_of(joint) for joint in root.findall("joint")} - set(joints)
    findings = []
    for follower, loop in list(mimics.items()):
        if loop.other in fixed:
            raise RobotError(
                f"joint '{follower}' <mimic>: it follows '{loop.other}', which is fixed, so it does not move. Make it "
                "fixed too, or remove <mimic>."
            )
        if loop.other not in joints:
            del mimics[follower]
            message = f"it follows '{loop.other}', which the file does not have: read as an independent joint"
            near = get_close_matches(loop.other, joints, n=1)
            fix = f"correct <mimic joint>: did you mean '{near[0]}'?" if near else ""
            findings.append(Finding("mimic-master-missing", "warning", message, follower, fix))
    for follower in mimics:
        _refuse_circle(follower, mimics)
    return mimics, findings


def _mimics(joint: Element) -> Iterator[JointLoop]:
    """<mimic joint multiplier offset>: the joint follows another, q = multiplier · q_other + offset."""
    element = joint.find("mimic")
    if element is None or joint.get("type") == "fixed":
        return
    name = name_of(joint)
    what = f"joint '{name}' <mimic>"
    other = element.get("joint", "").strip()
    if not other:
        raise RobotError(f'{what} has no joint="…": name the joint that it follows.')
    multiplier, offset = _optional(element, "multiplier", what), _optional(element, "offset", what)
    yield JointLoop(f"{name}_mimic", name, other, (offset or 0.0, 1.0 if multiplier is None else multiplier))


def _refuse_circle(joint: str, mimics: dict[str, JointLoop]) -> None:
    chain = [joint]
    while chain[-1] in mimics:
        chain.append(mimics[chain[-1]].other)
        if chain[-1] in chain[:-1]:
            raise RobotError(
                f"The joints {' → '.join(chain)} follow each other by <mimic>, so no motor drives them. Remove one."
            )


def connection_of(joint: Element) -> Connection:
    name = name_of(joint)
    what = f"joint '{name}'"
    kind = joint.get("type")
    if kind == "planar":
        raise RobotError(
            f"{what} is of type 'planar', which is not supported: describe it by two prismatic joints and a revolute "
            "one, or make it fixed if it does not move in the recordings."
        )
    if kind == "floating":
        place = _end(joint, "parent", what), _end(joint, "child", what), origin_of(joint, what)
        return Connection(name, "free", *place)
    if kind not in KINDS:
        raise RobotError(f"{what}: {choices('joint type', kind, KINDS)}")
    place = _end(joint, "parent", what), _end(joint, "child", what), origin_of(joint, what)
    if kind == "fixed":  # its axis, limits and friction mean nothing: exporters write zeros there
        return Connection(name, "fixed", *place)
    return Connection(
        name,
        cast(ConnectionKind, kind),
        *place,
        axis=_axis(joint, what),
        limits=_limits(joint, name, kind),
        drive=_drive(joint, what),
    )


def name_of(element: Element) -> str:
    name = element.get("name", "").strip()
    if not name:
        raise RobotError(f'A <{element.tag}> has no name. Give it a name="…" attribute.')
    return name


def _end(joint: Element, role: str, what: str) -> str:
    element = joint.find(role)
    link = None if element is None else element.get("link")
    if not link:
        raise RobotError(f'{what} has no <{role} link="…"/>.')
    return link.strip()


def origin_of(element: Element, what: str) -> Pose:
    origin = element.find("origin")
    if origin is None:
        return Pose()
    return pose_from_rpy(vector_of(origin, "xyz", what), vector_of(origin, "rpy", what))


def _axis(joint: Element, what: str) -> Array:
    """Unit axis in the joint's frame; x by default, as URDF specifies."""
    element = joint.find("axis")
    axis = np.array([1.0, 0.0, 0.0] if element is None else vector_of(element, "xyz", what, (1.0, 0.0, 0.0)))
    scale = float(np.max(np.abs(axis)))
    if scale < 1e-9:
        raise RobotError(f"{what} has a zero axis: {axis.tolist()}. Give the direction of rotation or translation.")
    axis = axis / scale  # keeps the norm of huge numbers finite
    return axis / np.linalg.norm(axis)


def _placeholders(root: Element) -> Iterator[Finding]:
    """A finding that names the moving joints with limits of zero, which exporters write where none were entered."""
    joints = []
    for joint, kind in ((joint, joint.get("type")) for joint in root.findall("joint")):
        if kind != "fixed" and (limit := joint.find("limit")) is not None:
            low, high, *most = (_optional(limit, key, "<limit>") for key in ("lower", "upper", "velocity", "effort"))
            if 0.0 in most or (kind != "continuous" and low is not None and low == high):
                joints.append(name_of(joint))
    if joints:
        message = f"a range, velocity or effort of zero in <limit> is read as no limit: {few(joints)}"
        yield Finding("placeholder-limits", "info", message, "", "write the limits of the robot's data sheet")


def _limits(joint: Element, name: str, kind: str) -> Limits:
    element = joint.find("limit")
    if element is None:
        return Limits()
    what = f"joint '{name}' <limit>"
    lower, upper, velocity, effort = (_optional(element, key, what) for key in ("lower", "upper", "velocity", "effort"))
    if kind == "continuous":  # URDF: a continuous joint has no position limits, even if some are written
        lower = upper = None
    return checked_limits(name, lower, upper, velocity, effort)


def _drive(joint: Element, what: str) -> Drive:
    element = joint.find("dynamics")
    if element is None:
        return Drive()
    viscous, coulomb = (_optional(element, key, f"{what} <dynamics>") for key in ("damping", "friction"))
    for key, value in (("damping", viscous), ("friction", coulomb)):
        if value is not None and value < 0:
            raise RobotError(f"{what} <dynamics>: {key} {value:g} is negative.")
    return Drive(viscous=viscous, coulomb=coulomb)


def _inertia(link: Element) -> Array | None:
    """Ten parameters about the link's frame: those about the inertial frame, moved by the inertial origin."""
    inertial = link.find("inertial")
    if inertial is None:
        return None
    what = f"link '{name_of(link)}' <inertial>"
    mass_element, tensor = inertial.find("mass"), inertial.find("inertia")
    if mass_element is None or tensor is None:
        raise RobotError(f"{what} needs both <mass> and <inertia>. Complete it, or remove the whole <inertial>.")
    mass = required(mass_element, "value", f"{what} <mass>")
    if mass < 0:
        raise RobotError(f"{what}: the mass {mass:g} kg is negative.")
    xx, yy, zz = (required(tensor, key, f"{what} <inertia>") for key in ("ixx", "iyy", "izz"))
    xy, xz, yz = (_optional(tensor, key, f"{what} <inertia>") or 0.0 for key in PRODUCTS)
    about_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    origin = origin_of(inertial, what)
    return transformed_inertia(inertial_vector(mass, np.zeros(3), about_com), origin.rotation, origin.position)


# --- Numbers ----------------------------------------------------------------------------------------------------------


def vector_of(element: Element, key: str, what: str, default: tuple[float, ...] = (0.0, 0.0, 0.0)) -> tuple[float, ...]:
    text = element.get(key)
    if text is None:
        return default
    parts = text.split()
    if len(parts) != 3:
        raise RobotError(f'{what} <{element.tag} {key}="{text}">: three numbers are needed, not {len(parts)}.')
    return tuple(_within(_number(part, f"{what} <{element.tag} {key}>"), what, key) for part in parts)


def _optional(element: Element, key: str, what: str) -> float | None:
    text = element.get(key)
    return None if text is None else _number(text, f"{what} {key}")


def required(element: Element, key: str, what: str) -> float:
    value = _optional(element, key, what)
    if value is None:
        raise RobotError(f'{what} has no {key}="…".')
    return _within(value, what, key)


def _within(value: float, what: str, key: str) -> float:
    """A size, place or mass; limits of joints may be any number."""
    if abs(value) > LARGEST:
        raise RobotError(f"{what} {key}: {value:g} is too large: no unit has numbers beyond {LARGEST:g}.")
    return value


def _number(text: str, what: str) -> float:
    try:
        value = float(text.replace("_", "?"))  # Python would accept 1_000
    except ValueError:
        raise RobotError(f"{what}: '{text}' is not a number.") from None
    if not math.isfinite(value):
        raise RobotError(f"{what}: '{text}' is not a finite number.")
    return value
