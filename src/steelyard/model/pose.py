"""Pose of one frame relative to another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from steelyard._arrays import Array


@dataclass(frozen=True)
class Pose:
    """ᴬT_B: `rotation` (3, 3) and `position` (3,) [m] of frame B relative to frame A."""

    rotation: Array = field(default_factory=lambda: np.eye(3))
    position: Array = field(default_factory=lambda: np.zeros(3))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.rotation @ other.rotation, self.rotation @ other.position + self.position)

    def inverse(self) -> Pose:
        return Pose(self.rotation.T, -self.rotation.T @ self.position)
