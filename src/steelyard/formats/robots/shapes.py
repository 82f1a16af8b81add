"""The shapes in a robot file as capsules that enclose them: URDF collisions or visuals, MJCF geoms."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlparse
from xml.etree.ElementTree import Element

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices
from steelyard.formats.robots import builtin_robots
from steelyard.formats.robots.meshes import mesh_corners
from steelyard.formats.robots.mjcf_compile import CompiledModel, Frames, compiled, kind_of, name_of
from steelyard.formats.robots.urdf import connection_of, origin_of, parse, required, root_tag, vector_of
from steelyard.formats.robots.urdf import name_of as named
from steelyard.model.pose import Pose
from steelyard.motion.capsules import enclosing, enclosing_capsule
from steelyard.motion.obstacles import Capsule

_GEOMETRIES = ("box", "cylinder", "sphere", "capsule", "mesh")
# Kinds of geoms that are not part of a robot: the ground.
_GROUND = ("plane", "hfield")


def read_capsules(source: str | Path, without: Collection[str] = ()) -> tuple[Capsule, ...]:
    """A capsule around every shape of a robot file, on the moving link that carries it, or on the base.

    For a URDF link the <collision> elements, else the <visual> ones; for an MJCF body the geoms that can touch, else
    all. Tables (`.toml`, built-in robots) have no shapes, and those of SDF are not read: the result is empty, and
    `capsules.skeleton` can be used instead. A mesh that cannot be found or read raises an error that names it. Shapes
    of the links in `without`, which are known otherwise, are not read.
    """
    path = Path(source)
    if (isinstance(source, str) and source in builtin_robots()) or path.suffix.lower() in (".toml", ".sdf"):
        return ()
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise RobotError(f"Cannot read the robot file '{path}': {problem}.") from problem
    if root_tag(content, str(path)) == "mujoco":
        return tuple(_of_mjcf(compiled(path, shapes=True), without))
    try:
        return tuple(_of_urdf(parse(content, str(path)), path.resolve().parent, without))
    except RobotError as problem:
        raise RobotError(f"{path}: {problem}") from problem


def _along_z(link: str, pose: Pose, along: Array, off: Array) -> Capsule:
    """The capsule about the z axis of a frame around circles of radius `off` at `along`."""
    start, end, radius = enclosing(along, off)
    z = pose.rotation[:, 2]
    return Capsule(link, pose.position + start * z, pose.position + end * z, radius)


def _cylinder(link: str, pose: Pose, radius: float, length: float) -> Capsule:
    return _along_z(link, pose, np.array([-0.5, 0.5]) * length, np.full(2, radius))


def _capsule(link: str, pose: Pose, radius: float, length: float) -> Capsule:
    half = 0.5 * length * pose.rotation[:, 2]
    return Capsule(link, pose.position - half, pose.position + half, radius)


def _box(link: str, pose: Pose, size: Array) -> Capsule:
    signs = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T
    return _cloud(link, pose, signs * size)


def _cloud(link: str, pose: Pose, points: Array) -> Capsule:
    return enclosing_capsule(points @ pose.rotation.T + pose.position, link)


# --- URDF -------------------------------------------------------------------------------------------------------------


def _of_urdf(root: Element, folder: Path, without: Collection[str]) -> Iterator[Capsule]:
    joints = {c.child: c for c in map(connection_of, root.findall("joint"))}
    for link in root.findall("link"):
        name, pose = named(link), Pose()
        carrier = name
        # up along fixed joints, to the moving link or the base
        while carrier in joints and joints[carrier].kind == "fixed":
            pose = joints[carrier].pose @ pose
            carrier = joints[carrier].parent
        carrier = carrier if carrier in joints else "base"
        if carrier in without:
            continue
        for shape in link.findall("collision") or link.findall("visual"):
            what = f"link '{name}' <{shape.tag}>"
            geometry = shape.find("geometry")
            if geometry is None or not len(geometry):
                raise RobotError(f"{what} has no <geometry> with a shape. Valid: {', '.join(_GEOMETRIES)}.")
            yield _of_geometry(geometry[0], carrier, pose @ origin_of(shape, what), what, folder)


def _of_geometry(shape: Element, link: str, pose: Pose, what: str, folder: Path) -> Capsule:
    what = f"{what} <{shape.tag}>"
    if shape.tag == "mesh":
        scale = np.array(vector_of(shape, "scale", what, (1.0, 1.0, 1.0)))
        return _cloud(link, pose, scale * mesh_corners(_found(shape.get("filename", ""), folder, what)))
    if shape.tag == "box":
        return _box(link, pose, np.array(vector_of(shape, "size", what)))
    if shape.tag not in _GEOMETRIES:
        raise RobotError(f"{what}: {choices('shape', shape.tag, _GEOMETRIES)}")
    radius = required(shape, "radius", what)
    if shape.tag == "sphere":
        return Capsule(link, pose.position, pose.position, radius)
    return (_cylinder if shape.tag == "cylinder" else _capsule)(link, pose, radius, required(shape, "length", what))


def _found(name: str, folder: Path, what: str) -> Path:
    """The file of a mesh: relative to the robot file, or in the package of that name in a folder above it."""
    address = urlparse(name)
    inner = unquote(address.path).lstrip("/")
    if address.scheme == "package":
        package = unquote(address.netloc)
        tried = [up / package / inner for up in (folder, *folder.parents)]
        tried += [up / inner for up in (folder, *folder.parents) if up.name == package]
    elif address.scheme == "file":
        tried = [Path(unquote(address.path))]
    else:
        tried = [folder / name]
    for path in tried:
        if os.path.isfile(path):  # false, not an error, for a name that no system has
            return path
    raise RobotError(
        f"{what}: the mesh '{name}' was not found at the path in the robot file, relative to {folder}. Put it there (a "
        "package into a folder above the file), or add capsules for the links instead."
    )


# --- MJCF -------------------------------------------------------------------------------------------------------------


def _of_mjcf(file: CompiledModel, without: Collection[str]) -> Iterator[Capsule]:
    mujoco, model = file.mujoco, file.model
    frames = Frames(mujoco, model)
    body = np.array(model.geom_bodyid)
    solid = (np.array(model.geom_contype) | np.array(model.geom_conaffinity)) != 0
    for geom in range(model.ngeom):
        if not solid[geom] and np.any(solid & (body == body[geom])):
            continue
        kind = kind_of(mujoco, "Geom", model.geom_type[geom])
        if kind in _GROUND:
            continue
        seat = frames.of_geom(geom)
        link = "base" if seat.link == frames.names[0] else seat.link
        if link not in without:
            yield _of_geom(mujoco, model, geom, kind, link, seat.pose)


def _of_geom(mujoco: ModuleType, model: Any, geom: int, kind: str, link: str, pose: Pose) -> Capsule:
    size = np.array(model.geom_size[geom], float)
    if kind == "sphere":
        return Capsule(link, pose.position, pose.position, float(size[0]))
    if kind == "capsule":
        return _capsule(link, pose, float(size[0]), 2.0 * float(size[1]))
    if kind == "cylinder":
        return _cylinder(link, pose, float(size[0]), 2.0 * float(size[1]))
    if kind == "box":
        return _box(link, pose, 2.0 * size)
    if kind == "ellipsoid":
        return _ellipsoid(link, pose, size)
    if kind == "mesh":
        mesh = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        return _cloud(link, pose, np.array(model.mesh_vert[first : first + count], float))
    raise RobotError(
        f"Geom '{name_of(mujoco, model, 'GEOM', geom)}' has the type {kind}, which cannot be enclosed in a capsule: "
        "use a mesh or a simple shape, or add capsules for the links instead."
    )


def _ellipsoid(link: str, pose: Pose, half: Array) -> Capsule:
    """Half axes a ≥ b ≥ c: enclosed by the capsule along a of radius b whose caps end where the ellipsoid does."""
    order = np.argsort(half)[::-1]
    longest, radius = float(half[order[0]]), float(half[order[1]])
    turned = replace(pose, rotation=pose.rotation[:, np.roll(order, -1)])
    return _capsule(link, turned, radius, 2.0 * (longest - radius))
