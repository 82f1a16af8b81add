"""Derivatives of W and τ along the motion: exact gradients in q, v and a of a weighted sum of regressor entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels.regressor_gradient import regressor_gradient
from steelyard.errors import ModelError
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Motion, Term, on_joints
from steelyard.model.terms.law import AppliedLaw, Law
from steelyard.model.terms.on_joints import OnJoints
from steelyard.model.terms.term import Width, laws_of, uses

# Places of q, v and a in a motion.
_ORDER = {"q": 0, "v": 1, "a": 2}


def smoothed(model: Model, width: float) -> Model:
    """The model with tanh(v / width) in the place of every sign(v); terms with a width of their own keep it.

    The step of a sign has no gradient, so a search could not see that a sample would change sides.
    """
    return replace(model, terms=tuple(_smooth(term, width) for term in model.terms))


def _smooth(term: Term, width: float) -> Term:
    if isinstance(term, OnJoints):
        return on_joints(_smooth(term.term, width), term.joints)
    if isinstance(term, Width) and term.width == 0.0:
        return replace(term, width=width)
    return term


class _Group(NamedTuple):
    """Entries of terms with one law: what it is a function of (0 q, 1 v, 2 a), its slope, and per entry its place,
    along and share."""

    order: int
    slope: Callable[[Array], Array]
    places: NDArray[np.int64]
    along: Array
    share: Array


@final
@dataclass(frozen=True)
class RegressorGradient:
    """W of an open robot in a load case, and for weights u the gradient of Σ u·W in q, v and a.

    Tiles are those of `Model.fill`: (E, N) in the order of `Model.places`.
    """

    model: Model
    load: str = UNLOADED

    def __post_init__(self) -> None:
        robot = self.model.robot
        if robot.loops:
            raise ModelError(
                f"Robot '{robot.name}' has loops, and gradients through their closure are not available: design "
                "motions for open robots, or draw them at random (`random_fourier`) and compare their forecasts."
            )
        for term in self.model.terms:
            if uses(term) or laws_of(term, robot) is None:
                reason = f"uses {' and '.join(uses(term))}" if uses(term) else "has no law"
                raise ModelError(
                    f"Term '{term.name}' {reason}, so its gradient is not available. Design the motion with a model "
                    "without it: a motion that shows the other parameters shows it too; then make a forecast with it."
                )

    def fill(self, motion: Motion, tile: Array | None = None) -> Array:
        """The non-zero places of W, (E, N), into `tile` where it is given: new memory costs more than the values."""
        tile = np.empty((len(self.model.places), motion.q.shape[1])) if tile is None else tile
        self.model.fill(motion, tile, self.load)
        return tile

    def back(self, motion: Motion, weights: Array, out: Array | None = None) -> Array:
        """(3, n, N): ∂φ/∂q, ∂φ/∂v and ∂φ/∂a of φ_s = Σ_e weights[e, s] W[e, s], sample by sample."""
        out = np.empty((3, *motion.q.shape)) if out is None else out
        regressor_gradient(*self.model.mechanism, *motion[:3], self._slots, weights, out)
        coordinates = (motion.q, motion.v, motion.a)
        for group in self._groups:
            slope = group.slope(group.along @ coordinates[group.order])
            out[group.order] += group.along.T @ (group.share * slope * weights[group.places])
        return out

    def torque_weights(self, theta: Array) -> Array:
        """θ (E,) at the places of W, with the payload of the load case borne: τ_j = Σ over the places of row j."""
        return self.model.bearing(theta, self.load)[self.model.places[:, 1]]

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Tile row at which the ten columns of (joint, link) start, −1 where zero, (n, n)."""
        where = {(int(row), int(column)): k for k, (row, column) in enumerate(self.model.places)}
        slots = np.full((self.model.robot.dof,) * 2, -1, np.int64)
        for i, columns in zip(self.model.robot.bodies, self.model.inertial_index, strict=True):
            for j in self.model.robot.ancestors(int(i)):
                slots[j, i] = where[j, int(columns[0])]
        return slots

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """The terms' entries by law, so that each law takes one call."""
        robot, layout = self.model.robot, self.model.layout
        where = {(int(row), int(column)): k for k, (row, column) in enumerate(self.model.places)}
        found: dict[tuple[Law, tuple[float, ...]], list[tuple[int, AppliedLaw]]] = {}
        for filling in self.model.fillings:
            every = laws_of(filling.term, robot) or ()
            kept = every if filling.kept is None else [every[k] for k in filling.kept]
            for entry, one in zip(filling.entries, kept, strict=True):
                place = where[entry.row, layout.index(entry.column.name)]
                found.setdefault((one.law, one.shape), []).append((place, one))
        return tuple(
            _Group(
                _ORDER[law.of],
                lambda x, law=law, shape=shape: law.slope(x, *shape),
                np.array([place for place, _ in members], np.int64),
                np.stack([one.along for _, one in members]),
                np.array([[one.share] for _, one in members]),
            )
            for (law, shape), members in found.items()
            if law.of is not None
        )
