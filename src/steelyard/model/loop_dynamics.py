"""Dynamics of a looped robot in the coordinates of its axes: those of its tree, projected (P3 eqs 11–15)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels.regressor import looped_regressor
from steelyard.errors import ModelError
from steelyard.model.columns import Filling
from steelyard.model.loop_closure import Closure
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.model.terms import LOAD, Motion
from steelyard.model.tree_dynamics import TreeDynamics


class Followed(NamedTuple):
    """The motion of every joint of the tree, G (n_t, n, B) with q̇_tree = G q̇, and where (B,) it is not closed (NaN)."""

    motion: Motion
    map: Array
    lost: NDArray[np.bool_]


class _Targets(NamedTuple):
    """Destination of a term's values: tile[place] adds G[joint, axis] · value[entry]. Where the entries belong to the
    term alone and are contiguous, `own` from the first to the last, they are set instead."""

    filling: Filling
    entry: NDArray[np.int64]
    joint: NDArray[np.int64]
    axis: NDArray[np.int64]
    place: NDArray[np.int64]
    own: slice | None


@final
@dataclass(frozen=True)
class LoopDynamics:
    """τ = Gᵀ τ_tree(q_t, G q̇, G q̈ + g): the virtual work of the tree on every motion that the loops allow.

    `tree` is the robot with its loops cut: same columns, one row per joint. Where the loops cannot be closed (a posture
    out of reach, a singularity) the results are NaN.
    """

    robot: Robot
    tree: TreeDynamics

    @cached_property
    def closure(self) -> Closure:
        return Closure(self.robot)

    def follow(self, motion: Motion) -> Followed:
        """All joints from the axes' motion; `motion.past` carries the posture to the next tile."""
        closed = self.closure.close(motion.q, motion.v, motion.a, motion.past)
        return Followed(motion._replace(q=closed.q, v=closed.v, a=closed.a), closed.map, closed.fault != 0)

    # --- Regressor ----------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """(E, 2) pairs (axis, column) that may be non-zero: ten per axis and link it moves, then those of terms."""
        rigid = [(a, int(column)) for a, body in self._moved for column in self.tree.columns.inertial_index[body]]
        other = dict.fromkeys(
            (int(a), self.tree.columns.layout.index(entry.column.name))
            for filling in self.tree.columns.fillings
            for entry in filling.entries
            for a in np.flatnonzero(self.robot.reach[entry.row])
        )
        return np.array(rigid + list(other), np.int64)

    @cached_property
    def _moved(self) -> list[tuple[int, int]]:
        """(axis, body) for every link with mass that an axis moves."""
        reach = [np.any(self.robot.reach[list(self.robot.ancestors(int(i)))], axis=0) for i in self.robot.bodies]
        return [(a, body) for a in range(self.robot.dof) for body, moves in enumerate(reach) if moves[a]]

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Tile row at which the ten columns of (axis, link) start, −1 where zero, (n, n_t)."""
        slots = np.full((self.robot.dof, len(self.robot.links)), -1, np.int64)
        for k, (a, body) in enumerate(self._moved):
            slots[a, self.robot.bodies[body]] = 10 * k
        return slots

    @cached_property
    def _targets(self) -> tuple[_Targets, ...]:
        where = {(int(a), int(column)): k for k, (a, column) in enumerate(self.places)}
        taken: set[int] = set()
        out = []
        for filling in self.tree.columns.fillings:
            rows = [
                (e, entry.row, int(a), where[int(a), self.tree.columns.layout.index(entry.column.name)])
                for e, entry in enumerate(filling.entries)
                for a in np.flatnonzero(self.robot.reach[entry.row])
            ]
            entry, joint, axis, place = np.array(rows, np.int64).reshape(-1, 4).T
            alone = len(place) > 0 and not taken & set(place.tolist()) and bool(np.all(np.diff(place) == 1))
            own = slice(int(place[0]), int(place[-1]) + 1) if alone else None
            out.append(_Targets(filling, entry, joint, axis, place, own))
            taken.update(place.tolist())
        return tuple(out)

    def fill(self, motion: Motion, tile: Array, load: str = UNLOADED) -> NDArray[np.bool_]:
        """The non-zero entries of W for a tile of motion (n, B), into tile (E, B).

        Returns the samples (B,) at which the loops cannot be closed; the tile is zero there.
        """
        followed = self.follow(motion)
        # samples that do not close are NaN: no warnings for these
        with np.errstate(invalid="ignore"):
            self._fill(followed, tile, load)
        tile[:, followed.lost] = 0.0
        return followed.lost

    def _fill(self, followed: Followed, tile: Array, load: str) -> None:
        mechanism = self.tree.columns.mechanism
        looped_regressor(*mechanism, *followed.motion[:3], followed.map, self._slots, tile)
        if any(target.own is None for target in self._targets):
            tile[10 * len(self._moved) :] = 0.0
        moving, shares = self._with_load(followed, load), {}
        for filling, entry, joint, axis, place, own in self._targets:
            # most terms have one entry per joint, and therefore the same shares
            pairs = joint.tobytes() + axis.tobytes()
            if pairs not in shares:
                shares[pairs] = followed.map[joint, axis]
            values = filling.values(self.robot.tree, moving)[entry]
            if own is not None:
                np.multiply(shares[pairs], values, out=tile[own])
            else:
                np.add.at(tile, place, shares[pairs] * values)

    # --- Torque, inertia, acceleration --------------------------------------------------------------------------------

    def torque(self, motion: Motion, theta: Array, load: str = UNLOADED) -> Array:
        """Inverse dynamics τ (n, N) with a theta that includes the load."""
        followed = self.follow(motion)
        tau = self.tree.rigid_torque(followed.motion, theta)
        tau += self.tree.term_torque(self._with_load(followed, load), theta)
        return _projected(followed, tau)

    def load(self, motion: Motion, load: str = UNLOADED) -> Array:
        """τ_rigid (n, B), the load of the axes' gears."""
        followed = self.follow(motion)
        return _projected(followed, self.tree.load(followed.motion, load))

    def mass_matrix(self, q: Array, theta: Array) -> Array:
        """M = Gᵀ M_tree G, (n, n, N)."""
        followed = self.follow(Motion(q, np.zeros_like(q), np.zeros_like(q)))
        mass = self.tree.mass_matrix(followed.motion.q, theta)
        return np.einsum("jas,jks,kbs->abs", followed.map, mass, followed.map, optimize=True)

    def forward(self, q: Array, v: Array, tau: Array, theta: Array) -> Array:
        """q̈ (n, N) of M q̈ = τ − Gᵀ τ_tree(q_t, G q̇, g)."""
        motion = Motion(q, v, np.zeros_like(q))
        mass = self.mass_matrix(q, theta).transpose(2, 0, 1)
        net = tau - self.torque(motion, theta)
        try:
            return np.asarray(np.linalg.solve(mass, net.T[:, :, None])[:, :, 0].T, float)
        except np.linalg.LinAlgError:
            raise ModelError(
                f"The mass matrix of '{self.robot.name}' is singular for these parameters, so they are not those of a "
                "physical robot. Check masses, inertias and Ia."
            ) from None

    def _with_load(self, followed: Followed, load: str) -> Motion:
        """The tree's motion with the load of its gears: at the axes the load of the robot, at passive joints none."""
        if LOAD not in self.tree.columns.uses:
            return followed.motion
        carried = np.zeros_like(followed.motion.q)
        carried[self.robot.axis_index] = _projected(followed, self.tree.load(followed.motion, load))
        return followed.motion._replace(load=carried)

    def random_positions(self, rng: np.random.Generator, low: Array, high: Array, count: int) -> Array:
        """Positions q (n, count) of the axes within a box at which the loops close; near home where few do.

        The corners of a box of joint limits may be out of reach. They are left out, as are postures near singularities,
        where rounding looks like structure; if too few are left, the box shrinks towards home.
        """
        home = self.closure.home[self.robot.axis_index]
        least = _REGULAR * self._margins(home[:, None])[0]
        found = np.empty((self.robot.dof, 0))
        for _ in range(_BOXES):
            tried = rng.uniform(low[:, None], high[:, None], (self.robot.dof, 2 * count))
            reached = self._margins(tried) > least
            found = np.hstack([found, tried[:, reached]])[:, :count]
            # the path from one to the next has changed
            found = found[:, self._margins(found) > least]
            if found.shape[1] == count:
                break
            if 2 * reached.sum() < tried.shape[1]:
                low, high = (home + 0.7 * (bound - home) for bound in (low, high))
        while found.shape[1] and not np.all(regular := self._margins(found) > least):
            found = found[:, regular]
        if not found.shape[1]:
            raise ModelError(
                f"No posture of '{self.robot.name}' within its limits can be reached from home: check the limits of "
                "its axes, and 'home'."
            )
        return found

    def _margins(self, q: Array) -> Array:
        """Distance of postures (n, N) of the axes from a singularity, zero where they cannot be reached."""
        closed = self.closure.close(q, np.zeros_like(q), np.zeros_like(q))
        return np.where(closed.fault == 0, closed.margin, 0.0)


# Largest number of times that a box of joint limits is shrunk, to a hundredth of its size.
_BOXES = 14
# Postures whose margin is below this fraction of that at home are left out.
_REGULAR = 0.2


def _projected(followed: Followed, tau: Array) -> Array:
    """Gᵀ τ_tree."""
    return np.einsum("jas,js->as", followed.map, tau)
