"""Columns: the standard parameters of a tree of links and its terms, each named once, and their arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.model.parameters import Column, Layout, inertial_columns
from steelyard.model.payload import UNLOADED, Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import LOAD, Entry, Motion, Term, uses


class Mechanism(NamedTuple):
    """The robot as arrays for the kernels: parent (n,), placement (n, 4, 3, 4), screw (n, 6), gravity (3,)."""

    parent: NDArray[np.int64]
    placement: Array
    screw: Array
    gravity: Array


class Filling(NamedTuple):
    """A term, the entries it fills in the tree, and which of its own rows they are (None: all).

    Columns of a term on the bare joints of a free body are left out: there is no friction there.
    """

    term: Term
    entries: tuple[Entry, ...]
    kept: list[int] | None

    def values(self, robot: Robot, motion: Motion) -> Array:
        found = self.term.fill(robot, motion)
        return found if self.kept is None else found[self.kept]


@final
@dataclass(frozen=True)
class Columns:
    """Input of `TreeDynamics`: a robot without loops, its terms, `carried` and payloads (see `Model`).

    The constructor raises an error for terms, payloads and `carried` that do not fit the robot; payloads are assigned
    to a link.
    """

    robot: Robot
    terms: tuple[Term, ...] = ()
    carried: Array | None = None
    payloads: tuple[Payload, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "payloads", tuple(self._on_a_link(payload) for payload in self.payloads))
        names = [term.name for term in self.terms]
        for term in self.terms:
            for needed in getattr(term, "needs", ()):
                if needed not in names:
                    raise ModelError(f"Term '{term.name}' needs the term '{needed}' in addition: add it to terms.")
        places = [
            (term.name, *place)
            for term in self.terms
            for place in {(e.row, e.column.name) for e in term.entries(self.robot)}
        ]
        if len(set(places)) != len(places):
            term, _, column = min(place for place in places if places.count(place) > 1)
            raise ModelError(
                f"Two terms fill the column '{column}' ({term}, {term}): make the symbol depend on the options, or "
                "list the term once."
            )
        bodies = len(self.robot.bodies)
        if self.carried is not None and self.carried.shape != (bodies, 10):
            raise ModelError(
                f"carried (inertias used for load friction) must have the shape ({bodies}, 10), one row per link, not "
                f"{self.carried.shape}."
            )

    def _on_a_link(self, payload: Payload) -> Payload:
        names = [self.robot.links[i].name for i in self.robot.bodies]
        if payload.link and payload.link not in names:
            raise ModelError(f"Payload '{payload.name}': " + choices("link", payload.link, names))
        return payload if payload.link else replace(payload, link=names[-1])

    @cached_property
    def fillings(self) -> tuple[Filling, ...]:
        """The terms with the entries of the tree that they fill."""
        bare = {joint.name for joint in self.robot.joints if joint.bare}
        out = []
        for term in self.terms:
            entries = term.entries(self.robot)
            kept = [k for k, entry in enumerate(entries) if entry.column.owner not in bare]
            out.append(Filling(term, tuple(entries[k] for k in kept), None if len(kept) == len(entries) else kept))
        return tuple(out)

    @cached_property
    def layout(self) -> Layout:
        """Columns joint by joint in the papers' order: ten inertial ones of its link, then its terms (P0 eq. 3).

        Terms that belong to no joint follow, payloads come last.
        """
        offered: dict[str, Column] = {}
        for filling in self.fillings:
            for entry in filling.entries:
                offered.setdefault(entry.column.name, entry.column)
        columns: list[Column] = []
        for link, joint in zip(self.robot.links, self.robot.joints, strict=True):
            columns += () if link.virtual else inertial_columns(link.name, link.inertia)
            columns += [c for c in offered.values() if c.owner == joint.name]
        columns += [c for c in offered.values() if c.owner not in self.robot.joint_names]
        columns += [c for payload in self.payloads for c in payload.columns]
        return Layout(tuple(columns))

    @cached_property
    def loads(self) -> dict[str, tuple[Payload, NDArray[np.int64], NDArray[np.int64]]]:
        """By load case: the payload, its ten columns, and the ten columns of the link that carries it."""
        links = {self.robot.links[i].name: row for i, row in zip(self.robot.bodies, self.inertial_index, strict=True)}
        return {
            payload.name: (
                payload,
                np.array([self.layout.index(c.name) for c in payload.columns]),
                links[payload.link],
            )
            for payload in self.payloads
        }

    def bearing(self, theta: Array, load: str) -> Array:
        """theta (C,) with the payload of a load case added to the link that carries it.

        The robot's own columns then give the torque of a loaded run.
        """
        if load not in self.loads:
            return theta
        payload, own, link = self.loads[load]
        out = theta.copy()
        out[link] += payload.on_link @ theta[own]
        return out

    @cached_property
    def mechanism(self) -> Mechanism:
        joints = self.robot.joints
        return Mechanism(
            np.array(self.robot.parents, np.int64),
            np.stack([joint.placement for joint in joints]),
            np.stack([joint.screw for joint in joints]),
            np.ascontiguousarray(self.robot.gravity, dtype=float),
        )

    @cached_property
    def inertial_index(self) -> NDArray[np.int64]:
        """Column of the ten inertial parameters of each link with mass, (bodies, 10)."""
        names = [self.robot.links[i].name for i in self.robot.bodies]
        return np.array([[self.layout.index(c.name) for c in inertial_columns(name, None)] for name in names])

    def link_inertias(self, theta: Array) -> Array:
        """The ten inertial parameters of every link in theta (C,), zeros for virtual ones, (joints, 10)."""
        bodies = theta[self.inertial_index]
        if len(bodies) == len(self.robot.links):
            return bodies
        out = np.zeros((len(self.robot.links), 10))
        out[self.robot.bodies] = bodies
        return out

    @cached_property
    def uses(self) -> frozenset[str]:
        """Inputs of the terms in addition to q, v and a: "time", "load", "past"."""
        return frozenset(need for term in self.terms for need in uses(term))

    @property
    def knows_load(self) -> bool:
        """False if a term needs τ_rigid and neither `carried` nor the robot file gives inertias for it."""
        return LOAD not in self.uses or self.carried is not None or self._nominal_links is not None

    @cached_property
    def _nominal_links(self) -> Array | None:
        links = [self.robot.links[i].inertia for i in self.robot.bodies]
        if any(inertia is None for inertia in links):
            return None
        return np.stack([np.asarray(inertia, float) for inertia in links])

    @cached_property
    def _load_links(self) -> Array:
        """Inertias for τ_rigid; without any, unit bodies, which are used only to find the structure."""
        if self.carried is not None:
            return self.carried
        if self._nominal_links is not None:
            return self._nominal_links
        return np.tile([1.0, 0.1, 0.1, 1.0, 0.1, 1.0, 0.3, 0.3, 0.3, 1.0], (len(self.robot.bodies), 1))

    def load_links(self, load: str = UNLOADED) -> Array:
        """Inertial parameters (joints, 10) for the load of the gears, with the known parameters of the payload."""
        theta = self.layout.known.copy()
        theta[self.inertial_index] = self._load_links
        return self.link_inertias(self.bearing(theta, load))
