"""Dynamics of an open robot: every joint of its tree is an axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels import dynamics
from steelyard._kernels.regressor import regressor
from steelyard.errors import ModelError
from steelyard.model.columns import Columns, Filling
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import LOAD, Motion
from steelyard.model.terms.compensator import compensator_torque
from steelyard.model.terms.springs import nominal_spring_torque


@final
@dataclass(frozen=True)
class TreeDynamics:
    """W and τ of a tree, one row per joint. Parameters theta (C,) include the load case already (`Columns.bearing`).

    `axes` are the joints that have rows in W, in order; None for all. τ has a row for every joint.
    """

    columns: Columns
    axes: tuple[int, ...] | None = None

    @cached_property
    def _row(self) -> dict[int, int]:
        """The row of W of every joint that has one."""
        axes = range(len(self.columns.robot.joints)) if self.axes is None else self.axes
        return {joint: row for row, joint in enumerate(axes)}

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """(E, 2) pairs (joint row, column) that may be non-zero: ten per joint and link it carries, then terms.

        `fill` writes its tiles in this order, so that the zeros of W cost nothing.
        """
        rigid = [
            (self._row[j], int(column))
            for j, body in self._carried_bodies
            for column in self.columns.inertial_index[body]
        ]
        other = dict.fromkeys(
            (self._row[entry.row], self.columns.layout.index(entry.column.name))
            for filling in self.columns.fillings
            for entry in filling.entries
        )
        return np.array(rigid + list(other), np.int64)

    @cached_property
    def _carried_bodies(self) -> list[tuple[int, int]]:
        """(joint, body) for every link with mass that a joint with a row carries."""
        return sorted(
            (j, body)
            for body, i in enumerate(self.columns.robot.bodies)
            for j in self.columns.robot.ancestors(int(i))
            if j in self._row
        )

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Tile row at which the ten columns of (joint, link) start, −1 where zero, (n, n)."""
        n = self.columns.robot.dof
        slots = np.full((n, n), -1, np.int64)
        for k, (j, body) in enumerate(self._carried_bodies):
            slots[j, self.columns.robot.bodies[body]] = 10 * k
        return slots

    @cached_property
    def _term_targets(self) -> tuple[tuple[Filling, NDArray[np.int64] | slice, list[int] | None], ...]:
        """For every term, the tile rows of its entries: a slice where they are contiguous, which is faster.

        A term that shares entries with an earlier one adds to them; the third entry lists those of its rows that are
        not set before. It is None for a term that shares no entries and can simply set them.
        """
        where = {(int(row), int(column)): k for k, (row, column) in enumerate(self.places)}
        out = []
        taken: set[int] = set()
        for filling in self.columns.fillings:
            places = ((self._row[entry.row], entry.column.name) for entry in filling.entries)
            target = [where[row, self.columns.layout.index(name)] for row, name in places]
            if len(set(target)) != len(target):
                raise ModelError(f"Term '{filling.term.name}' fills one entry of the regressor twice.")
            if not target:
                continue
            together = target == list(range(target[0], target[0] + len(target)))
            rows = slice(target[0], target[-1] + 1) if together else np.array(target, np.int64)
            out.append((filling, rows, [k for k in target if k not in taken] if taken & set(target) else None))
            taken.update(target)
        return tuple(out)

    def fill(self, motion: Motion, tile: Array, load: str = UNLOADED) -> None:
        """The robot's non-zero entries of W for a tile of motion (n, B), into tile (E, B) in the order of `places`."""
        regressor(*self.columns.mechanism, *motion[:3], self._slots, tile)
        if LOAD in self.columns.uses:
            motion = motion._replace(load=self.load(motion, load))
        for filling, target, blank in self._term_targets:
            values = filling.values(self.columns.robot, motion)
            if blank is None:
                tile[target] = values
            else:
                tile[blank] = 0.0
                tile[target] += values

    def torque(self, motion: Motion, theta: Array, load: str = UNLOADED) -> Array:
        """Inverse dynamics τ (n, N)."""
        return self.rigid_torque(motion, theta) + self.term_torque(motion, theta, load)

    def rigid_torque(self, motion: Motion, theta: Array) -> Array:
        """Torque (joints, N) of the rigid bodies of a tree."""
        tau = np.empty_like(motion.q)
        dynamics.inverse_dynamics(*self.columns.mechanism, self.columns.link_inertias(theta), *motion[:3], tau)
        return tau

    def term_torque(self, motion: Motion, theta: Array, load: str = UNLOADED) -> Array:
        """Torque (joints, N) of the terms in a tree; the load of the gears is computed unless the motion holds it."""
        tau = np.zeros_like(motion.q)
        if LOAD in self.columns.uses and motion.load is None:
            motion = motion._replace(load=self.load(motion, load))
        for filling in self.columns.fillings:
            for entry, values in zip(filling.entries, filling.values(self.columns.robot, motion), strict=True):
                tau[entry.row] += theta[self.columns.layout.index(entry.column.name)] * values
        return tau

    def _drive_inertia(self, theta: Array) -> Array:
        """Contribution of the terms to M: their torque for a unit acceleration of each joint, (n, n)."""
        n = self.columns.robot.dof
        still, clock = np.zeros((n, n)), np.zeros(n)
        moving = self.term_torque(Motion(still, still, np.eye(n), clock), theta)
        return moving - self.term_torque(Motion(still, still, still, clock), theta)

    def load(self, motion: Motion, load: str = UNLOADED) -> Array:
        """τ_rigid (n, B), the load of the gears: rigid bodies with the inertias of `carried`, the known parameters of
        the payload, the compensator and the nominal springs."""
        tau = np.empty_like(motion.q)
        dynamics.inverse_dynamics(*self.columns.mechanism, self.columns.load_links(load), *motion[:3], tau)
        cylinder = self.columns.robot.compensator
        if cylinder is not None:
            row = self.columns.robot.joint_index(cylinder.joint)
            tau[row] += compensator_torque(cylinder, motion.q[row])
        if self.columns.robot.springs:
            tau += nominal_spring_torque(self.columns.robot, motion.q)
        return tau

    def mass_matrix(self, q: Array, theta: Array) -> Array:
        """M(q) (n, n, N), rotor inertias included."""
        parent, placement, screw, _ = self.columns.mechanism
        mass = np.empty((self.columns.robot.dof, self.columns.robot.dof, q.shape[1]))
        dynamics.mass_matrix(parent, placement, screw, self.columns.link_inertias(theta), q, mass)
        return mass + self._drive_inertia(theta)[:, :, None]

    def forward(self, q: Array, v: Array, tau: Array, theta: Array) -> Array:
        """q̈ (n, N) of M q̈ = τ − h(q, q̇), terms included."""
        net = tau - self.term_torque(Motion(q, v, np.zeros_like(q)), theta)
        out = np.empty_like(net)
        bad = dynamics.forward_dynamics(
            *self.columns.mechanism, self.columns.link_inertias(theta), self._drive_inertia(theta), q, v, net, out
        )
        if bad >= 0:
            raise ModelError(
                f"The mass matrix of '{self.columns.robot.name}' is not positive definite for these parameters (no "
                f"inertia is left at {self.columns.robot.joint_names[bad]}), so they are not those of a physical "
                "robot. Check masses, inertias and Ia."
            )
        return out

    def random_positions(self, rng: np.random.Generator, low: Array, high: Array, count: int) -> Array:
        """Positions q (n, count) within a box."""
        return rng.uniform(low[:, None], high[:, None], (len(low), count))
