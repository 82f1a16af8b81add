"""Poses and frames of an SDF model: every <pose> relative to a named frame, as of SDF 1.7; older files are a subset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices
from steelyard.formats.robots.assembly import pose_from_rpy
from steelyard.model.pose import Pose

MODEL = "__model__"
WORLD = "world"


def texts_of(element: Element, tag: str, what: str, count: int, default: tuple[float, ...]) -> tuple[float, ...]:
    """The numbers in the text of a child element."""
    child = element.find(tag)
    if child is None:
        return default
    try:
        numbers = tuple(float(part.replace("_", "?")) for part in (child.text or "").split())
    except ValueError:
        raise RobotError(f"{what} <{tag}>: '{(child.text or '').strip()}' is not {count} numbers.") from None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise RobotError(f"{what} <{tag}>: {count} finite numbers are needed, not '{(child.text or '').strip()}'.")
    return numbers


def number_of(element: Element | None, tag: str, what: str, default: float) -> float:
    return default if element is None else texts_of(element, tag, what, 1, (default,))[0]


def pose_of(element: Element, what: str) -> Pose:
    """The <pose> of an element: x y z roll pitch yaw, in degrees or as a quaternion x y z w where it says so."""
    pose = element.find("pose")
    if pose is None:
        return Pose()
    if pose.get("rotation_format") == "quat_xyzw":
        x, y, z, *quaternion = texts_of(element, "pose", what, 7, ())
        return Pose(_rotation(np.array(quaternion), what), np.array([x, y, z]))
    x, y, z, *angles = texts_of(element, "pose", what, 6, ())
    factor = math.pi / 180.0 if pose.get("degrees") in ("true", "1") else 1.0
    return pose_from_rpy((x, y, z), [factor * angle for angle in angles])


def _rotation(quaternion: Array, what: str) -> Array:
    size = float(np.linalg.norm(quaternion))
    if size < 1e-9:
        raise RobotError(f"{what} <pose>: the quaternion is zero.")
    x, y, z, w = quaternion / size
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


@dataclass(frozen=True)
class SdfFrames:
    """The links, joints and frames of a model by name, and their poses in the model's frame."""

    elements: Mapping[str, Element]
    _found: dict[str, Pose] = field(default_factory=dict)

    @staticmethod
    def of(model: Element) -> SdfFrames:
        named = {e.get("name", "").strip(): e for tag in ("link", "joint", "frame") for e in model.findall(tag)}
        return SdfFrames(named)

    def pose(self, name: str, above: tuple[str, ...] = ()) -> Pose:
        """ᵐᵒᵈᵉˡT of a named frame."""
        if name in ("", MODEL, WORLD):
            return Pose()
        if name in above:
            raise RobotError(f"The frames {' → '.join((*above, name))} are given relative to each other in a circle.")
        if name not in self.elements:
            raise RobotError(f"A <pose> is relative to '{name}'. {choices('frame', name, self.elements)}")
        if name not in self._found:
            element = self.elements[name]
            what = f"{element.tag} '{name}'"
            self._found[name] = self.pose(self._base_of(element), (*above, name)) @ pose_of(element, what)
        return self._found[name]

    def _base_of(self, element: Element) -> str:
        """The frame that an element's pose is relative to."""
        pose = element.find("pose")
        stated = "" if pose is None else pose.get("relative_to", "")
        if stated or element.tag == "link":
            return stated
        return (element.findtext("child") or "").strip() if element.tag == "joint" else element.get("attached_to", "")

    def link_of(self, name: str, what: str) -> str:
        """The link that a frame is attached to; a link is its own."""
        seen: list[str] = []
        while name not in seen:
            seen.append(name)
            element = self.elements.get(name)
            if name == WORLD or (element is not None and element.tag == "link"):
                return name
            if element is None:
                raise RobotError(f"{what}: {choices('link', name, dict(self._links()))}")
            name = (element.findtext("child") or "") if element.tag == "joint" else element.get("attached_to", "")
            name = name.strip()
        raise RobotError(f"{what}: the frames {' → '.join(seen)} are attached to each other in a circle.")

    def _links(self) -> Iterator[tuple[str, Element]]:
        return ((name, element) for name, element in self.elements.items() if element.tag == "link")
