"""Model = Robot + terms: every column named once, and the torques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._notebook import Displayed
from steelyard.errors import ModelError, few
from steelyard.model.columns import Columns, Filling, Mechanism
from steelyard.model.floating.base_motion import ROWS, random_base
from steelyard.model.floating.dynamics import FloatingDynamics
from steelyard.model.loop_dynamics import LoopDynamics
from steelyard.model.parameters import Layout
from steelyard.model.payload import UNLOADED, Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import LOAD, PAST, TIME, Motion, Term, uses
from steelyard.model.tree_dynamics import TreeDynamics

# An entry of the regressor with a root mean square over random states below this is structurally zero [SI]. Real
# entries are lengths, accelerations and their products, many orders of magnitude larger; rounding leaves 1e-14.
ZERO = 1e-10


@dataclass(frozen=True)
class Model(Displayed):
    """A robot and the terms identified in addition to its rigid bodies.

    τ = W(q, q̇, q̈) θ, W (n·N, C), is linear in the standard parameters θ listed by `layout`. Samples run along the
    last axis everywhere: q, v, a and τ are (n, N), with consecutive samples where a term has a state.

    `carried` (bodies, 10) are the inertial parameters for τ_rigid of load friction; None takes the nominal ones.

    A payload adds ten columns after the robot's. It moves with its link, so in the runs that carry it its columns are
    those of the link times `Payload.on_link`, and zero in all others: nothing is computed twice. The argument `load` is
    the load case of the run, "none" without a payload.

    A robot with loops has the columns of its tree and one row per axis (`LoopDynamics`). Samples at which its loops
    cannot be closed are NaN in every result, and `fill` returns their mask.

    A robot on a floating base (`Robot.floats`) needs the motion of its base, `base` (9, N), in addition to q, v and a
    of its axes: see `model.floating.base_motion`.
    """

    robot: Robot
    terms: Sequence[Term] = field(default_factory=tuple)
    carried: Array | None = None
    payloads: Sequence[Payload] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if self.robot.floats and self.robot.loops:
            raise ModelError(
                f"The base of '{self.robot.name}' floats and its joints form loops "
                f"({few([loop.name for loop in self.robot.loops], 3)}), which is not supported together. Hold the "
                'joints of the loops (--hold), or state base = "fixed" if the base did not move in the recordings.'
            )
        object.__setattr__(self, "terms", self.columns.terms)
        object.__setattr__(self, "payloads", self.columns.payloads)

    @cached_property
    def columns(self) -> Columns:
        """Input of the dynamics, with loops cut."""
        return Columns(self.robot.tree, tuple(self.terms), self.carried, tuple(self.payloads))

    @cached_property
    def tree(self) -> Model:
        """The model of the robot with its loops cut; itself without loops."""
        return replace(self, robot=self.robot.tree) if self.robot.loops else self

    @cached_property
    def looped(self) -> LoopDynamics | None:
        """The projection onto the axes of a robot with loops; None if every joint is an axis."""
        return LoopDynamics(self.robot, TreeDynamics(self.columns)) if self.robot.loops else None

    @cached_property
    def _dynamics(self) -> TreeDynamics | LoopDynamics | FloatingDynamics:
        if self.robot.floats:
            return FloatingDynamics(self.robot, TreeDynamics(self.columns, tuple(self.robot.axis_index.tolist())))
        return self.looped or TreeDynamics(self.columns)

    @property
    def fillings(self) -> tuple[Filling, ...]:
        """The terms with the entries of the tree that they fill."""
        return self.columns.fillings

    @property
    def layout(self) -> Layout:
        """Columns joint by joint in the papers' order: ten inertial ones of its link, then its terms (P0 eq. 3).

        Terms that belong to no joint follow, payloads come last.
        """
        return self.columns.layout

    @property
    def own_columns(self) -> int:
        """Number of the robot's own columns; those of payloads follow."""
        return len(self.layout) - 10 * len(self.payloads)

    @property
    def loads(self) -> dict[str, tuple[Payload, NDArray[np.int64], NDArray[np.int64]]]:
        """By load case: the payload, its ten columns, and the ten columns of the link that carries it."""
        return self.columns.loads

    def bearing(self, theta: Array, load: str) -> Array:
        """theta (C,) with the payload of a load case added to the link that carries it.

        The robot's own columns then give the torque of a loaded run.
        """
        return self.columns.bearing(theta, load)

    @property
    def mechanism(self) -> Mechanism:
        """The tree as arrays for the kernels."""
        return self.columns.mechanism

    @property
    def inertial_index(self) -> NDArray[np.int64]:
        """Column of the ten inertial parameters of each link with mass, (bodies, 10)."""
        return self.columns.inertial_index

    def link_inertias(self, theta: Array) -> Array:
        """The ten inertial parameters of every link in theta (C,), zeros for virtual ones, (joints, 10)."""
        return self.columns.link_inertias(theta)

    @property
    def uses(self) -> frozenset[str]:
        """Inputs of the terms in addition to q, v and a: "time", "load", "past"."""
        return self.columns.uses

    @property
    def knows_load(self) -> bool:
        """False if a term needs τ_rigid and neither `carried` nor the robot file gives inertias for it."""
        return self.columns.knows_load

    def load_links(self, load: str = UNLOADED) -> Array:
        """Inertial parameters (joints, 10) for the load of the gears, with the known parameters of the payload."""
        return self.columns.load_links(load)

    @property
    def places(self) -> NDArray[np.int64]:
        """(E, 2) pairs (axis, column) that may be non-zero: ten for each axis and link it moves, then those of terms.

        `fill` writes its tiles in this order, so that the zeros of W cost nothing.
        """
        return self._dynamics.places

    def fill(self, motion: Motion, tile: Array, load: str = UNLOADED) -> NDArray[np.bool_] | None:
        """The robot's non-zero entries of W for a tile of motion (n, B), into tile (E, B) in the order of `places`.

        For a robot with loops, returns the samples (B,) at which they cannot be closed; the tile is zero there.
        """
        return self._dynamics.fill(motion, tile, load)

    def regressor(
        self,
        q: Array,
        v: Array,
        a: Array,
        t: Array | None = None,
        load: str = UNLOADED,
        base: Array | None = None,
    ) -> Array:
        """W as (n, C, N): row j of sample s is W[j, :, s]. For long logs use `observe`, which never stores it.

        t (N,) [s] is needed only if a term uses the time, base (9, N) only on a floating base.
        """
        motion = self._motion(q, v, a, t, base=base)
        tile = np.empty((len(self.places), motion.q.shape[1]))
        lost = self.fill(motion, tile, load)
        if lost is not None:
            tile[:, lost] = np.nan
        out = np.zeros((self.robot.dof, len(self.layout), motion.q.shape[1]))
        out[self.places[:, 0], self.places[:, 1]] = tile
        if load in self.loads:
            payload, own, link = self.loads[load]
            out[:, own] = np.einsum("jks,kp->jps", out[:, link], payload.on_link)
        return out

    def torque(
        self,
        q: Array,
        v: Array,
        a: Array,
        theta: Array,
        t: Array | None = None,
        past: dict[str, Any] | None = None,
        load: str = UNLOADED,
        base: Array | None = None,
    ) -> Array:
        """Inverse dynamics τ (n, N) with standard parameters theta (C,).

        t (N,) [s] is needed only if a term uses the time; `past` carries the state of terms from one call to the next.
        base (9, N) is the motion of a floating base.
        """
        motion, theta = self._motion(q, v, a, t, past, base), self.bearing(self._checked(theta), load)
        return self._dynamics.torque(motion, theta, load)

    def load(self, motion: Motion, load: str = UNLOADED) -> Array:
        """τ_rigid (n, B), the load of the gears: rigid bodies with the inertias of `carried`, the known parameters of
        the payload, the compensator and the nominal springs."""
        return self._dynamics.load(motion, load)

    def mass_matrix(self, q: Array, theta: Array) -> Array:
        """M(q) (n, n, N), rotor inertias included."""
        motion = self._motion(q, q, q, t=np.zeros(0), base=self._still(q))
        return self._dynamics.mass_matrix(motion.q, self._checked(theta))

    def forward(self, q: Array, v: Array, tau: Array, theta: Array) -> Array:
        """Forward dynamics q̈ (n, N): the acceleration due to τ of independent samples; no term may have a state."""
        theta = self._checked(theta)
        looking_back = [term.name for term in self.terms if {PAST, TIME, LOAD} & set(uses(term))]
        if looking_back:
            raise ModelError(
                f"Forward dynamics needs torques that depend on q, v and linearly on a only; {', '.join(looking_back)} "
                "do not. Remove those terms from this model."
            )
        return self._dynamics.forward(*self._motion(q, v, tau, base=self._still(q))[:3], theta)

    def _still(self, q: Array) -> Array | None:
        """The motion of a floating base that is at rest far from any mass; None on a fixed base."""
        return np.zeros((ROWS, np.shape(q)[-1])) if self.robot.floats else None

    @cached_property
    def nonzero(self) -> NDArray[np.bool_]:
        """(n, C): which columns affect which joint, found on random states."""
        w = self.random_regressor(np.random.default_rng(0), 64)
        return np.sqrt(np.mean(w**2, axis=2)) > ZERO

    def random_regressor(self, rng: np.random.Generator, count: int) -> Array:
        """W (n, C, count) at random states within the joint limits.

        With payloads, states without a payload and with each of them alternate.
        """
        q = self.random_positions(rng, count)
        v, a = rng.normal(size=q.shape), rng.normal(size=q.shape)
        t = rng.uniform(0.0, 3600.0, q.shape[1])
        w = self.regressor(q, v, a, t, base=random_base(rng, q.shape[1]) if self.robot.floats else None)
        for turn, (payload, own, link) in enumerate(self.loads.values(), start=1):
            states = slice(turn, None, len(self.loads) + 1)
            w[:, own, states] = np.einsum("jks,kp->jps", w[:, link, states], payload.on_link)
        return w

    def random_positions(self, rng: np.random.Generator, count: int) -> Array:
        """Positions q (n, count) within the joint limits (±π or ±1 m where the file gives none) that can be reached;
        fewer if a robot with loops reaches few."""
        low, high = np.empty(self.robot.dof), np.empty(self.robot.dof)
        for j, joint in enumerate(self.robot.axes):
            reach = 1.0 if joint.is_prismatic else np.pi
            # exporters write 0 to 0 for "no limits"; a range too small to move in would hide the structure
            stated = joint.limits.upper - joint.limits.lower > 0.01 * reach
            low[j] = joint.limits.lower if stated and np.isfinite(joint.limits.lower) else -reach
            high[j] = joint.limits.upper if stated and np.isfinite(joint.limits.upper) else reach
        return self._dynamics.random_positions(rng, low, high, count)

    def _motion(
        self,
        q: Array,
        v: Array,
        a: Array,
        t: Array | None = None,
        past: dict[str, Any] | None = None,
        base: Array | None = None,
    ) -> Motion:
        if t is None and TIME in self.uses:
            timed = ", ".join(term.name for term in self.terms if TIME in uses(term))
            raise ModelError(f"Term {timed} uses the time: give t (samples,) [s] in addition to q, v and a.")
        arrays = [np.ascontiguousarray(x, dtype=float) for x in (q, v, a)]
        if any(x.ndim != 2 or x.shape != arrays[0].shape or len(x) != self.robot.dof for x in arrays):
            shapes = ", ".join(str(x.shape) for x in arrays)
            raise ModelError(f"q, v and a must all be ({self.robot.dof}, samples), one row per axis, not {shapes}.")
        if self.robot.floats and (base is None or base.shape != (ROWS, arrays[0].shape[1])):
            raise ModelError(
                f"The base of '{self.robot.name}' floats: give its motion, base ({ROWS}, samples), in addition to q, v "
                'and a, or read the robot with base = "fixed".'
            )
        return Motion(*arrays, t=t, past={} if past is None else past, base=base)

    def _checked(self, theta: Array) -> Array:
        theta = np.asarray(theta, float)
        if theta.shape != (len(self.layout),):
            raise ModelError(f"theta must contain {len(self.layout)} standard parameters, not shape {theta.shape}.")
        return theta
