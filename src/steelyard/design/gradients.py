"""How W and τ change with the motion: exact gradients in q, v and a of a weighted sum of regressor entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels import laws
from steelyard._kernels.regressor_gradient import regressor_gradient
from steelyard.errors import ModelError
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Motion, Term, on_joints
from steelyard.model.terms.on_joints import OnJoints
from steelyard.model.terms.term import Law, Width, laws_of, uses

# Below this speed [rad/s | m/s] the infinite slope of a root at rest is taken as that here.
_SLOWEST = 1e-4


def smoothed(model: Model, width: float) -> Model:
    """The model with tanh(v / width) in the place of every sign(v); terms with a width of their own keep it.

    The step of a sign has no gradient, so a search cannot see that a sample would change sides.
    """
    return replace(model, terms=tuple(_smooth(term, width) for term in model.terms))


def _smooth(term: Term, width: float) -> Term:
    if isinstance(term, OnJoints):
        return on_joints(_smooth(term.term, width), term.joints)
    if isinstance(term, Width) and term.width == 0.0:
        return replace(term, width=width)
    return term


class _Group(NamedTuple):
    """Entries of terms with one law: what it takes (0 q, 1 v, 2 a), its slope, and per entry place, along and share."""

    order: int
    slope: Callable[[Array], Array]
    places: NDArray[np.int64]
    along: Array
    share: Array


@final
@dataclass(frozen=True)
class RegressorGradient:
    """W of an open robot in a load case, and the way back: for weights u, the gradient of Σ u·W in q, v and a.

    Tiles are those of `Model.fill`: (E, N) in the order of `Model.places`.
    """

    model: Model
    load: str = UNLOADED

    def __post_init__(self) -> None:
        robot = self.model.robot
        if robot.loops:
            raise ModelError(
                f"Robot '{robot.name}' has loops, and gradients through their closure are not known yet: design "
                "motions for open robots, or draw them at random (`random_fourier`) and compare their forecasts."
            )
        for term in self.model.terms:
            if uses(term) or laws_of(term, robot) is None:
                reason = f"uses {' and '.join(uses(term))}" if uses(term) else "has no law"
                raise ModelError(
                    f"Term '{term.name}' {reason}, so its gradient is not known. Design the motion with a model "
                    "without it: a motion that shows the rest shows it too; then ask for a forecast with it."
                )

    def fill(self, motion: Motion, tile: Array | None = None) -> Array:
        """The non-zero places of W, (E, N), into `tile` where it is given: fresh memory costs more than the work."""
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
        """The terms' entries by law, so that each law is one call."""
        robot, layout = self.model.robot, self.model.layout
        where = {(int(row), int(column)): k for k, (row, column) in enumerate(self.model.places)}
        found: dict[tuple[int, tuple[float, ...]], list[tuple[int, Law]]] = {}
        for filling in self.model.fillings:
            every = laws_of(filling.term, robot) or ()
            kept = every if filling.kept is None else [every[k] for k in filling.kept]
            for entry, law in zip(filling.entries, kept, strict=True):
                place = where[entry.row, layout.index(entry.column.name)]
                found.setdefault((law.kind, law.shape), []).append((place, law))
        return tuple(
            _Group(
                _order(kind),
                lambda x, kind=kind, shape=shape: _slope(kind, shape, x),
                np.array([place for place, _ in members], np.int64),
                np.stack([law.along for _, law in members]),
                np.array([[law.share] for _, law in members]),
            )
            for (kind, shape), members in found.items()
            if kind != laws.CONSTANT
        )


def _order(kind: int) -> int:
    """What a law is a function of: 0 positions, 1 velocities, 2 accelerations."""
    if kind == laws.ACCELERATION:
        return 2
    return 0 if kind >= laws.LINEAR else 1


def _slope(kind: int, shape: tuple[float, ...], x: Array) -> Array:
    """f'(x) of a law of `kernels.laws`; zero for the steps of a sign."""
    if kind in (laws.ACCELERATION, laws.VISCOUS, laws.LINEAR):
        return np.ones_like(x)
    if kind == laws.ABSOLUTE:
        return np.sign(x)
    if kind == laws.POWER:
        return shape[0] * np.maximum(np.abs(x), _SLOWEST) ** (shape[0] - 1.0)
    if kind in (laws.SINE, laws.COSINE):
        return shape[0] * (np.cos(shape[0] * x) if kind == laws.SINE else -np.sin(shape[0] * x))
    if kind in (laws.CRANK, laws.GAS):
        return _crank_slope(kind, shape, x)
    sign = np.sign(x) if shape[0] == 0.0 else np.tanh(x / shape[0])
    steep = np.zeros_like(x) if shape[0] == 0.0 else (1.0 - sign * sign) / shape[0]
    if kind == laws.SMOOTH_SIGN:
        return steep
    if kind == laws.POSITIVE_SIGN:
        return np.where(x > 0.0, steep, 0.0)
    if kind == laws.NEGATIVE_SIGN:
        return np.where(x < 0.0, steep, 0.0)
    assert kind == laws.STRIBECK, kind
    return (steep - 2.0 * x / shape[1] ** 2 * sign) * np.exp(-((x / shape[1]) ** 2))


def _crank_slope(kind: int, shape: tuple[float, ...], x: Array) -> Array:
    """Of a spring or gas cylinder on a crank: L L' = D k sin δ, so L'' = (D k cos δ − L'²) / L."""
    below, above, angle = shape[:3]
    stretch, turn = below * above * np.sin(x + angle), below * above * np.cos(x + angle)
    length = np.sqrt((below - above) ** 2 + 4.0 * below * above * np.sin(0.5 * (x + angle)) ** 2)
    lever = stretch / length
    bend = (turn - lever**2) / length
    if kind == laws.CRANK:
        return shape[3] * turn + shape[4] * bend
    area, volume, charge = shape[3:6]
    room = volume - (length - (below - above)) * area
    return charge * area * (bend / room + area * lever**2 / room**2)
