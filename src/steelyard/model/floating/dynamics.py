"""Dynamics of a robot on a floating base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.floating.base_motion import coordinates
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.model.terms import Motion
from steelyard.model.tree_dynamics import TreeDynamics


@final
@dataclass(frozen=True)
class FloatingDynamics:
    """τ of the axes: the rows of the tree that they are, for the tree's motion on the moving base.

    `tree` has the base's six joints as its first ones and rows for the axes only: those of the limbs, after those of
    the base where the wrench on it is known. The base's own rows of q, q̇ and q̈ are not used: `Motion.base` has them.
    """

    robot: Robot
    tree: TreeDynamics

    def on_base(self, motion: Motion) -> Motion:
        """The motion of every joint of the tree."""
        assert motion.base is not None
        limbs = slice(motion.q.shape[0] - (len(self.robot.joints) - 6), None)
        parts = zip(coordinates(motion.base), motion[:3], strict=True)
        q, v, a = (np.concatenate([base, own[limbs]]) for base, own in parts)
        return motion._replace(q=q, v=v, a=a)

    @property
    def places(self) -> NDArray[np.int64]:
        """(E, 2) pairs (axis, column) that may be non-zero."""
        return self.tree.places

    def fill(self, motion: Motion, tile: Array, load: str = UNLOADED) -> None:
        """The non-zero entries of W for a tile of motion, into tile (E, B)."""
        self.tree.fill(self.on_base(motion), tile, load)

    def torque(self, motion: Motion, theta: Array, load: str = UNLOADED) -> Array:
        """Inverse dynamics τ (n, N) of the axes."""
        return self.tree.torque(self.on_base(motion), theta, load)[self.robot.axis_index]

    def load(self, motion: Motion, load: str = UNLOADED) -> Array:
        """τ_rigid (n, B), the load of the axes' gears."""
        return self.tree.load(self.on_base(motion), load)[self.robot.axis_index]

    def mass_matrix(self, q: Array, theta: Array) -> Array:
        self._refuse("The mass matrix of the axes alone")

    def forward(self, q: Array, v: Array, tau: Array, theta: Array) -> Array:
        self._refuse("Forward dynamics")

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(
            f"{what} is not defined for '{self.robot.name}', whose base floats: it moves as its contacts let it. Read "
            'the robot with base = "fixed" to simulate its limbs on a base that is held.'
        )

    def random_positions(self, rng: np.random.Generator, low: Array, high: Array, count: int) -> Array:
        """Positions q (n, count) within a box."""
        return rng.uniform(low[:, None], high[:, None], (len(low), count))
