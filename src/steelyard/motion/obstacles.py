"""Surroundings: the obstacles of a robot, and the capsules that represent its links.

Frozen shapes in metres, in the root frame of the robot description (the world in which gravity is given, where a base
link may stand on a pedestal). `clearance` computes their distances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.model.pose import Pose


@final
@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` [m] of the segment from `start` to `end` (3,) [m], in the frame of a link or the base.

    `link` is a moving link of the robot, or "base". A sphere has equal ends. A link may have several capsules.
    """

    link: str
    start: Array
    end: Array
    radius: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, _three(f"The {name} of the capsule of {self.link}", getattr(self, name)))
        object.__setattr__(self, "radius", _positive(f"The radius of the capsule of {self.link}", self.radius))


@final
@dataclass(frozen=True, eq=False)
class Plane:
    """The robot stays where normal · x ≥ offset, with x in the root frame of the robot description.

    normal     (3,) of any non-zero length, stored with length 1
    offset     distance of the plane from the root's origin along the normal [m], for any length of the normal
    """

    name: str
    normal: Array
    offset: float

    def __post_init__(self) -> None:
        normal = _three(f"The normal of plane '{self.name}'", self.normal)
        largest = float(np.abs(normal).max())
        if largest == 0.0:
            raise DataError(
                f"The normal of plane '{self.name}' is zero: give the direction of the side on which the robot stays."
            )
        # scaled by the largest entry first, so that no square overflows or underflows
        object.__setattr__(self, "normal", _frozen(normal / largest / np.linalg.norm(normal / largest)))
        if not np.isfinite(self.offset):
            raise DataError(f"The offset of plane '{self.name}' must be finite [m], not {self.offset}.")

    def placed(self, frame: Pose) -> Plane:
        """A plane stated in a frame, transformed by the frame's pose: n' = R n, offset' = offset + n' · p."""
        normal = frame.rotation @ self.normal
        return Plane(self.name, normal, self.offset + float(normal @ frame.position))


@final
@dataclass(frozen=True, eq=False)
class Box:
    """A box that the robot must not enter: `centre` (3,) and `size` (3,) [m], in the root frame of the description.

    The columns of `rotation` (3, 3) are the directions of its edges.
    """

    name: str
    centre: Array
    size: Array
    rotation: Array = field(default_factory=lambda: np.eye(3))

    def __post_init__(self) -> None:
        what = f"of box '{self.name}'"
        object.__setattr__(self, "centre", _three(f"The centre {what}", self.centre))
        size = _three(f"The size {what}", self.size)
        if np.any(size <= 0.0):
            raise DataError(f"The size {what} must be three positive lengths [m], not {size.tolist()}.")
        object.__setattr__(self, "size", size)
        rotation = np.array(self.rotation, float)
        if rotation.shape != (3, 3) or not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-6):
            raise DataError(f"The rotation {what} must be a rotation matrix (3, 3).")
        object.__setattr__(self, "rotation", _frozen(rotation))

    def placed(self, frame: Pose) -> Box:
        """A box stated in a frame, transformed by the frame's pose."""
        seen = frame @ Pose(self.rotation, self.centre)
        return Box(self.name, seen.position, self.size, seen.rotation)


@final
@dataclass(frozen=True, eq=False)
class Surroundings:
    """Obstacles, the robot's shape, and the required distance.

    capsules        the robot, link by link; made by `capsules.skeleton` or `formats.shapes.read_capsules`
    planes, boxes   obstacles
    margin          smallest distance allowed everywhere [m]
    self_collision  whether links must stay clear of one another and of the base. Pairs of capsules that touch in every
                    posture are left out, e.g. those that meet at a joint: a tool that could fold back onto the
                    forearm, which it meets at the wrist, needs a second capsule for its far end
    ignored         pairs of names (links, planes, boxes) that may touch
    """

    capsules: tuple[Capsule, ...]
    planes: tuple[Plane, ...] = ()
    boxes: tuple[Box, ...] = ()
    margin: float = 0.0
    self_collision: bool = True
    ignored: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name in ("capsules", "planes", "boxes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "ignored", tuple((str(a), str(b)) for a, b in self.ignored))
        if not self.capsules:
            raise DataError(
                "Surroundings need at least one capsule, one per link that may touch something: see `skeleton`."
            )
        if not (np.isfinite(self.margin) and self.margin >= 0.0):
            raise DataError(f"margin must be zero or positive [m], not {self.margin}.")
        names = [thing.name for thing in (*self.planes, *self.boxes)]
        links = {capsule.link for capsule in self.capsules}
        for k, name in enumerate(names):
            if not name or name in names[:k] or name in links:
                raise DataError(f"Every plane and box needs a unique name that no link has, not '{name}'.")


def _frozen(values: Array) -> Array:
    values.flags.writeable = False
    return values


def _three(what: str, values: ArrayLike) -> Array:
    """A read-only copy (3,) of finite numbers."""
    try:
        array = np.array(values, float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise DataError(f"{what} must be three finite numbers [m], not {values!r}.")
    return _frozen(array)


def _positive(what: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise DataError(f"{what} must be a positive length [m], not {value}.")
    return float(value)
