"""Independent geometry: 4×4 matrices, written out; and robot files as text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.model.robot import BASE, Joint, Robot


def rot(axis: str, t: float) -> Array:
    c, s = math.cos(t), math.sin(t)
    block = {
        "x": [[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]],
        "y": [[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1]],
        "z": [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    }
    return np.array(block[axis], float)


def trans(x: float, y: float, z: float) -> Array:
    t = np.eye(4)
    t[:3, 3] = x, y, z
    return t


def joint_transform(joint: Joint, q: float) -> Array:
    """ᵖᵃʳᵉⁿᵗT_child(q) from the joint's Rodrigues coefficients, the ones the kernels use."""
    p = joint.placement
    top = p[0] + math.sin(q) * p[1] + (1 - math.cos(q)) * p[2] + q * p[3]
    return np.vstack([top, [0, 0, 0, 1]])


def link_transforms(robot: Robot, q: Array) -> list[Array]:
    """World pose of every link."""
    out: list[Array] = []
    for joint, qi in zip(robot.joints, q, strict=True):
        before = np.eye(4) if joint.parent == BASE else out[joint.parent]
        out.append(before @ joint_transform(joint, float(qi)))
    return out


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
