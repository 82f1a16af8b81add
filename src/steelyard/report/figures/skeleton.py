"""The robot in three dimensions: its skeleton and the inertia ellipsoid of every body, moved by a slider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.model.model import Model
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE
from steelyard.motion.capsules import skeleton, skeleton_length
from steelyard.physical.consistency import centre_of_mass, com_inertia, second_moments

Json = dict[str, Any]
# Meridians and parallels of an ellipsoid, and positions of the slider.
MERIDIANS, PARALLELS, STEPS = 12, 7, 24
# A body whose centre of mass is farther from its joint than this multiple of the robot's length is not drawn.
FAR = 1.0


@dataclass(frozen=True)
class Ellipsoid:
    """The solid ellipsoid of uniform density with the mass and inertia of a body, in the frame of its link.

    centre (3,) [m], semi-axes (3,) [m] ascending, and their directions (3, 3) as columns. The second moments Σ_c about
    the centre of mass have the eigenvalues m a²/5.
    """

    centre: Array
    axes: Array
    directions: Array

    @property
    def slenderness(self) -> float:
        """Smallest over largest semi-axis: near zero for a needle or a plate, 1 for a ball."""
        return float(self.axes[0] / self.axes[2]) if self.axes[2] > 0.0 else 0.0


def ellipsoid(vector: Array) -> Ellipsoid | None:
    """The ellipsoid of ten inertial parameters (10,); None where no body has them."""
    centre = centre_of_mass(vector)
    if centre is None or not vector[9] > 0.0:
        return None
    moments, directions = np.linalg.eigh(second_moments(com_inertia(vector)))
    # semi-axes of rounding errors are those of a body without an extent
    if moments[0] < -1e-6 * max(abs(moments[2]), 1e-300):
        return None
    return Ellipsoid(np.asarray(centre), np.sqrt(5.0 * np.maximum(moments, 0.0) / vector[9]), directions)


def link_poses(model: Model, q: Array) -> list[list[Pose]]:
    """World poses of every link, for positions of the axes (n, K): one list of links per posture."""
    robot = model.robot
    if model.looped is not None:
        q = model.looped.closure.close(q, np.zeros_like(q), np.zeros_like(q)).q
    if robot.floats:  # drawn where its base is at the origin
        q = np.concatenate([np.zeros((6, q.shape[1])), q[-(len(robot.joints) - 6) :]])
    base = robot.fixed.get(robot.base, Pose())
    out = []
    for k in range(q.shape[1]):
        poses: list[Pose] = []
        for joint, x in zip(robot.joints, q[:, k], strict=True):
            placed = np.tensordot([1.0, np.sin(x), 1.0 - np.cos(x), x], joint.placement, 1)
            own = Pose(placed[:, :3], placed[:, 3])
            poses.append((base if joint.parent == BASE else poses[joint.parent]) @ own)
        out.append(poses)
    return out


def robot_figure(model: Model, q: Array, t: Array, bodies: dict[str, list[Ellipsoid | None]]) -> Json:
    """Skeleton and ellipsoids at postures (n, K) of times (K,) [s]; `bodies` by role ("file", "identified"), each one
    per link. The first posture is drawn, the others are frames of a slider."""
    postures = [one for one in link_poses(model, q) if all(np.isfinite(pose.position).all() for pose in one)]
    frames = [[_bones(model, poses), *(_mesh(poses, own) for own in bodies.values())] for poses in postures]
    frames = [
        [*frame, _marks(poses, next(iter(bodies.values()), []))] for frame, poses in zip(frames, postures, strict=True)
    ]
    looks: list[Json] = [
        {"type": "scatter3d", "mode": "lines+markers", "name": "skeleton", "meta": "skeleton", "hoverinfo": "skip"},
        *(
            {"type": "mesh3d", "name": role, "meta": role, "hoverinfo": "skip", "showlegend": True, **_faces(own)}
            for role, own in bodies.items()
        ),
        {
            "type": "scatter3d",
            "mode": "text",
            "name": "number of the body",
            "meta": "numbers",
            "hoverinfo": "skip",
            "showlegend": False,
        },
    ]
    frames = [[{"type": look["type"], **part} for look, part in zip(looks, one, strict=True)] for one in frames]
    data = [look | part for look, part in zip(looks, frames[0], strict=True)] if frames else []
    steps = [
        {"label": f"{at:.3g}", "method": "animate",
         "args": [[f"{k}"], {"mode": "immediate", "transition": {"duration": 0},
                             "frame": {"duration": 0, "redraw": True}}]}
        for k, at in enumerate(t[: len(frames)].tolist())
    ]  # fmt: skip
    slider = {
        "active": 0,
        "steps": steps,
        "currentvalue": {"prefix": "t = ", "suffix": " s"},
        "pad": {"t": 10, "b": 20, "r": 24},
    }
    ranges = {x: _range(frames, x) for x in "xyz"}
    layout: Json = {
        "scene": {
            # one scale for all axes, with ranges that hold every posture, so that the view does not jump
            "aspectmode": "manual",
            "aspectratio": {
                x: (b - a) / max(high - low for low, high in ranges.values()) for x, (a, b) in ranges.items()
            },
            **{f"{x}axis": {"title": {"text": f"{x} [m]"}, "range": [a, b]} for x, (a, b) in ranges.items()},
            "camera": {"eye": {"x": 1.25, "y": -1.4, "z": 0.6}},
        },
        "height": 560,
        "margin": {"l": 0, "r": 0, "t": 10, "b": 24},
        "legend": {"orientation": "h", "x": 0.0, "y": 1.0},
        "sliders": [slider] if len(frames) > 1 else [],
    }
    made: Json = {"data": data, "layout": layout}
    if len(frames) > 1:
        traces = list(range(len(looks)))
        made["frames"] = [{"name": f"{k}", "data": frame, "traces": traces} for k, frame in enumerate(frames)]
    return made


def in_picture(model: Model, body: Ellipsoid | None) -> bool:
    """Whether a body is drawn: it can exist and is not far away from its link."""
    length = max(skeleton_length(model.robot), 1e-3)
    return body is not None and float(np.linalg.norm(body.centre)) <= FAR * length and body.axes[2] <= FAR * length


def postures(q: Array, t: Array) -> tuple[Array, Array]:
    """At most STEPS postures (n, K) of rows (n, m), evenly spread, and their times (K,)."""
    chosen = np.unique(np.linspace(0, len(t) - 1, min(STEPS, len(t))).astype(int))
    return q[:, chosen], t[chosen] - t[0]


def _bones(model: Model, poses: list[Pose]) -> Json:
    """The lines of the skeleton, with a gap after each."""
    base = model.robot.fixed.get(model.robot.base, Pose())
    places = {link.name: pose for link, pose in zip(model.robot.links, poses, strict=True)}
    points = []
    for bone in skeleton(model.robot, 1.0):
        pose = places.get(bone.link, base)
        points += [pose.rotation @ end + pose.position for end in (bone.start, bone.end)] + [np.full(3, np.nan)]
    return _coordinates(np.array(points))


def _mesh(poses: list[Pose], bodies: list[Ellipsoid | None]) -> Json:
    parts = [
        ((_ball() * body.axes) @ body.directions.T + body.centre) @ pose.rotation.T + pose.position
        for pose, body in zip(poses, bodies, strict=True)
        if body is not None
    ]
    return _coordinates(np.concatenate(parts) if parts else np.zeros((0, 3)))


def _marks(poses: list[Pose], bodies: list[Ellipsoid | None]) -> Json:
    """The number of every body at its centre of mass."""
    found = [
        (pose.rotation @ body.centre + pose.position, str(k))
        for k, (pose, body) in enumerate(zip(poses, bodies, strict=True), 1)
        if body is not None
    ]
    return _coordinates(np.array([place for place, _ in found]).reshape(-1, 3)) | {"text": [name for _, name in found]}


def _range(frames: list[list[Json]], axis: str) -> tuple[float, float]:
    """The range of a coordinate over all frames, with a margin."""
    every = np.concatenate([part[axis] for frame in frames for part in frame]) if frames else np.zeros(1)
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    margin = 0.05 * (high - low) + 0.02
    return low - margin, high + margin


def _coordinates(points: Array) -> Json:
    return {axis: np.ascontiguousarray(points[:, k]) for k, axis in enumerate("xyz")}


def _ball() -> Array:
    """Points of the unit sphere, (MERIDIANS · PARALLELS + 2, 3)."""
    around = 2.0 * np.pi * np.arange(MERIDIANS) / MERIDIANS
    up = np.pi * np.arange(1, PARALLELS + 1) / (PARALLELS + 1)
    ring = np.stack(
        [
            np.outer(np.sin(up), np.cos(around)),
            np.outer(np.sin(up), np.sin(around)),
            np.outer(np.cos(up), np.ones(MERIDIANS)),
        ],
        axis=-1,
    )
    return np.concatenate([[[0.0, 0.0, 1.0]], ring.reshape(-1, 3), [[0.0, 0.0, -1.0]]])


def _faces(bodies: list[Ellipsoid | None]) -> Json:
    """Triangles of all ellipsoids of a mesh."""
    count = sum(body is not None for body in bodies)
    one = _triangles()
    size = MERIDIANS * PARALLELS + 2
    every = np.concatenate([one + k * size for k in range(count)]) if count else np.zeros((0, 3), np.int64)
    return {axis: np.ascontiguousarray(every[:, k]) for k, axis in enumerate("ijk")}


def _triangles() -> NDArray[np.int64]:
    faces = []
    last = 1 + MERIDIANS * PARALLELS
    for m in range(MERIDIANS):
        n = (m + 1) % MERIDIANS
        faces.append((0, 1 + m, 1 + n))
        for p in range(PARALLELS - 1):
            a, b = 1 + p * MERIDIANS + m, 1 + p * MERIDIANS + n
            faces += [(a, a + MERIDIANS, b), (b, a + MERIDIANS, b + MERIDIANS)]
        faces.append((last, last - MERIDIANS + n, last - MERIDIANS + m))
    return np.array(faces)
