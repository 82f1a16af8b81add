"""Reader of SDF. Not read, because they have no rigid-body dynamics: visuals, collisions, sensors and plugins.

The base is the link that is fixed to the world or has no parent. A link without <inertial> has the values that SDF
gives it, 1 kg and 1 kg·m²; if no link has one, the inertias are unknown.
"""

from __future__ import annotations

from typing import cast
from xml.etree.ElementTree import Element

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices, few
from steelyard.formats.robots.assembly import (
    Connection,
    ConnectionKind,
    assemble,
    checked_limits,
    on_free_base,
    unique,
)
from steelyard.formats.robots.sdf.frames import MODEL, WORLD, SdfFrames, number_of, pose_of, texts_of
from steelyard.formats.robots.urdf import name_of, parse
from steelyard.model.parameters import inertial_vector, transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import Drive, Limits, Robot

KINDS = ("revolute", "continuous", "prismatic", "fixed", "ball")
# A limit of this size or more means that there is none.
UNLIMITED = 1e16
TENSOR = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def read_sdf(content: bytes, where: str, *, floating: bool = False) -> Robot:
    """The robot in an SDF file; `where` is its name in messages. With `floating`, its base is free in the world."""
    root = parse(content, where)
    try:
        return _robot(root, floating)
    except RobotError as problem:
        raise RobotError(f"{where}: {problem}") from problem


def model_of(root: Element) -> Element:
    """The one <model> of a file, alone or the only one in its <world> that can move."""
    if root.tag != "sdf":
        raise RobotError(f"The root element is <{root.tag}>; an SDF file starts with <sdf>.")
    models = [*root.findall("model"), *(model for world in root.findall("world") for model in world.findall("model"))]
    moving = [model for model in models if model.find("joint") is not None]
    found = moving or models
    if len(found) != 1:
        names = few([model.get("name", "") for model in found]) if found else "none"
        raise RobotError(f"An SDF file needs exactly one <model> with joints; this one has {names}. Keep one of them.")
    return found[0]


def _robot(root: Element, floating: bool) -> Robot:
    model = model_of(root)
    for tag in ("include", "model"):
        if model.find(tag) is not None:
            raise RobotError(f"The model has an <{tag}> inside, which is not read. Expand it first: gz sdf -p FILE.")
    version = tuple(int(part[:9]) for part in root.get("version", "1.7").split(".")[:2] if part.isdecimal())
    links = model.findall("link")
    unique("link", (name_of(link) for link in links))
    frames, top = SdfFrames.of(model), pose_of(model, "model")
    bodies: dict[str, Array | None] = {name_of(link): _inertia(link) for link in links}
    if all(link.find("inertial") is None for link in links):
        bodies = dict.fromkeys(bodies)
    connections = [_connection(joint, frames, version) for joint in model.findall("joint")]
    if any(c.parent == WORLD for c in connections):
        bodies[WORLD] = None
        # the world's frame is that of its gravity, the model stands in it
        connections = [_stood(c, top) if c.parent == WORLD else c for c in connections]
        base_pose = Pose()
    else:
        children = {c.child for c in connections}
        base = next((name for name in bodies if name not in children), "")
        base_pose = top @ frames.pose(base) if base else top
    if floating:
        bodies, connections = on_free_base(bodies, connections)
        base_pose = Pose()
    tree = assemble(model.get("name") or "robot", bodies, connections, base_pose)
    return Robot(model.get("name") or "robot", tree.links, tree.joints, base=tree.base, fixed=tree.fixed)


def _stood(connection: Connection, top: Pose) -> Connection:
    return Connection(**{**vars(connection), "pose": top @ connection.pose})


def _connection(joint: Element, frames: SdfFrames, version: tuple[int, ...]) -> Connection:
    name = name_of(joint)
    what, kind = f"joint '{name}'", joint.get("type")
    if kind not in KINDS:
        raise RobotError(f"{what}: {choices('joint type', str(kind), KINDS)}")
    ends = [(joint.findtext(role) or "").strip() for role in ("parent", "child")]
    if not all(ends):
        raise RobotError(f"{what} needs <parent> and <child> with the name of a link.")
    parent, child = (frames.link_of(end, what) for end in ends)
    pose = frames.pose(parent).inverse() @ frames.pose(child)
    here = frames.pose(child).inverse() @ frames.pose(name)
    if kind in ("fixed", "ball"):
        return Connection(name, cast(ConnectionKind, kind), parent, child, pose, point=here.position)
    element = joint.find("axis")
    if element is None:
        raise RobotError(f"{what} has no <axis>.")
    return Connection(
        name,
        cast(ConnectionKind, kind),
        parent,
        child,
        pose,
        _axis(element, frames, child, here, version, what),
        np.zeros(3) if kind == "prismatic" else here.position,
        _limits(element, name, kind),
        _drive(element, what),
    )


def _axis(element: Element, frames: SdfFrames, child: str, here: Pose, version: tuple[int, ...], what: str) -> Array:
    """The unit axis in the child's frame. It is given in the joint's frame; in files before 1.5, and where they say so,
    in the model's."""
    axis = np.array(texts_of(element, "xyz", what, 3, (0.0, 0.0, 1.0)))
    size = float(np.linalg.norm(axis))
    if size < 1e-9:
        raise RobotError(f"{what} has a zero axis. Give the direction of rotation or translation.")
    xyz = element.find("xyz")
    stated = "" if xyz is None else xyz.get("expressed_in", "")
    of_model = version < (1, 5) or (element.findtext("use_parent_model_frame") or "").strip() in ("1", "true")
    if stated or of_model:
        turn = frames.pose(child).inverse().rotation @ frames.pose(stated or MODEL).rotation
    else:
        turn = here.rotation
    return turn @ (axis / size)


def _limits(element: Element, name: str, kind: str) -> Limits:
    limit, what = element.find("limit"), f"joint '{name}' <limit>"
    low, high = number_of(limit, "lower", what, -UNLIMITED), number_of(limit, "upper", what, UNLIMITED)
    velocity, effort = (number_of(limit, key, what, -1.0) for key in ("velocity", "effort"))
    return checked_limits(
        name,
        None if low <= -UNLIMITED or kind == "continuous" else low,
        None if high >= UNLIMITED or kind == "continuous" else high,
        None if velocity < 0.0 or velocity >= UNLIMITED else velocity,
        None if effort < 0.0 or effort >= UNLIMITED else effort,
    )


def _drive(element: Element, what: str) -> Drive:
    dynamics = element.find("dynamics")
    if dynamics is None:
        return Drive()
    if number_of(dynamics, "spring_stiffness", what, 0.0):
        raise RobotError(f"{what} has a spring, which is not read from SDF. Set <spring_stiffness> to 0, or use MJCF.")
    viscous, coulomb = (number_of(dynamics, key, what, 0.0) for key in ("damping", "friction"))
    if viscous < 0.0 or coulomb < 0.0:
        raise RobotError(f"{what} <dynamics>: damping {viscous:g} or friction {coulomb:g} is negative.")
    given = [None if dynamics.find(key) is None else x for key, x in (("damping", viscous), ("friction", coulomb))]
    return Drive(viscous=given[0], coulomb=given[1])


def _inertia(link: Element) -> Array | None:
    """Ten parameters about the link's frame; 1 kg and 1 kg·m² where they are not stated, as SDF has it."""
    inertial, what = link.find("inertial"), f"link '{name_of(link)}' <inertial>"
    if inertial is not None and inertial.get("auto") in ("true", "1"):
        return None  # from the shapes, by Gazebo
    mass = number_of(inertial, "mass", what, 1.0)
    if mass < 0.0:
        raise RobotError(f"{what}: the mass {mass:g} kg is negative.")
    tensor = None if inertial is None else inertial.find("inertia")
    xx, xy, xz, yy, yz, zz = (number_of(tensor, key, what, float(key in ("ixx", "iyy", "izz"))) for key in TENSOR)
    about_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    origin = Pose() if inertial is None else pose_of(inertial, what)
    return transformed_inertia(inertial_vector(mass, np.zeros(3), about_com), origin.rotation, origin.position)
