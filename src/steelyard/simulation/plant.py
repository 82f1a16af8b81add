"""Plant: a model with values for all its parameters, for simulations and controllers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels import equations as parts
from steelyard._kernels import laws as switch
from steelyard._kernels import plant as kernel
from steelyard.errors import ModelError, SimulationError, choices
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.model.terms import AppliedLaw, Entry, Law
from steelyard.model.terms.compensator import gas_law
from steelyard.model.terms.term import laws_of
from steelyard.motion.random import random_points

Side = Literal["joint", "motor"]
SIDES = ("joint", "motor")
_POSITIVE = ("XX", "YY", "ZZ", "M", "Ia")
# Positions over which inertias are averaged where no motion is given.
_POSITIONS = 256


@dataclass(frozen=True, eq=False)
class Plant:
    """A model with standard parameters `theta` (C,) [SI], carrying the payload of a load case.

    `dynamics` is all that a simulation takes from it, loops included. Everything is in the coordinates of the axes: all
    n joints of an open robot, the actuated ones of a robot with loops.
    """

    model: Model
    theta: Array
    load: str = UNLOADED

    def __post_init__(self) -> None:
        if self.model.robot.floats:
            raise ModelError(
                f"The base of '{self.model.robot.name}' floats: how it moves depends on its contacts, which are not "
                'simulated. Read the robot with base = "fixed" to simulate its limbs on a base that is held.'
            )
        theta = np.array(self.theta, float)
        layout = self.model.layout
        if theta.shape != (len(layout),):
            raise ModelError(f"theta must hold {len(layout)} standard parameters, not shape {theta.shape}.")
        if not np.all(np.isfinite(theta)):
            lost = [name for name, x in zip(layout.names, theta, strict=True) if not np.isfinite(x)]
            raise ModelError(f"theta is not finite at {', '.join(lost[:10])}. Give every parameter a number.")
        if self.load not in (UNLOADED, *self.model.loads):
            raise ModelError(choices("load case", self.load, (UNLOADED, *self.model.loads)))
        theta.flags.writeable = False
        object.__setattr__(self, "theta", theta)

    @property
    def robot(self) -> Robot:
        return self.model.robot

    @cached_property
    def _bearing(self) -> Array:
        return self.model.bearing(self.theta, self.load)

    def static_torque(self, q: Array) -> Array:
        """Torque (n,) of the axes that holds the robot at rest at q (n,) [N·m | N]."""
        here, still, tau = np.array(q, float)[None], np.zeros((1, self.robot.dof)), np.empty((1, self.robot.dof))
        where, space = "the given position", kernel.space_of(self.dynamics)
        code, _ = kernel.torques(self.dynamics, space, here, still, still, self.postures(here.T, (where,)), tau)
        if code != parts.DONE:
            raise SimulationError(self.fault(code, 0, where, space))
        return tau[0]

    def postures(self, q: Array, places: Sequence[str] | None = None) -> Array:
        """Positions (N, joints) of all joints with the axes at q (n, N), from which the kernels close loops.

        An error that names the first place where they cannot be closed.
        """
        looped = self.model.looped
        if looped is None:
            return np.ascontiguousarray(np.asarray(q, float).T)
        still = np.zeros_like(q, float)
        closed = looped.closure.close(q, still, still)
        if np.any(closed.fault):
            sample = int(np.argmax(closed.fault != 0))
            where = f"state {sample}" if places is None else places[sample]
            raise SimulationError(self._loop_fault(parts.SINGULAR - 1 + int(closed.fault[sample]), where, q[:, sample]))
        return np.ascontiguousarray(closed.q.T)

    def torque(self, q: Array, v: Array, a: Array) -> Array:
        """Inverse dynamics τ (n, N) of consecutive states."""
        return self.model.torque(q, v, a, self.theta, load=self.load)

    def forward(self, q: Array, v: Array, tau: Array) -> Array:
        """Forward dynamics q̈ (n, N) of unrelated states: Dahl's state is zero in each."""
        states, speeds, efforts = (np.ascontiguousarray(np.asarray(x, float).T) for x in (q, v, tau))
        out, space = np.empty_like(states), kernel.space_of(self.dynamics)
        postures = self.postures(states.T)
        code, sample, axis = kernel.accelerations(self.dynamics, space, states, speeds, efforts, postures, out)
        if code != parts.DONE:
            raise SimulationError(self.fault(code, axis, f"state {sample}", space))
        return out.T

    def inertia(self, q: Array | None = None, side: Side = "joint") -> Array:
        """Mean inertia (n,) that each axis, or each motor seen from the joint side, moves over positions q (n, N).

        On the motor side it is the diagonal of C⁻ᵀ M C⁻¹. Without q: random positions within the limits.
        """
        if q is None:
            rng = np.random.default_rng(0)
            looped = self.model.looped is not None
            q = self.model.random_positions(rng, _POSITIONS) if looped else random_points(self.robot, _POSITIONS, rng)
        mass = self.model.mass_matrix(q, self._bearing)
        if side == "motor":
            back = np.linalg.inv(self.robot.motor_map)
            mass = np.einsum("ij,iks,kl->jls", back, mass, back)
        mean = np.mean(np.diagonal(mass), axis=0)
        if np.any(np.isnan(mean)):
            self.postures(q)  # names the first one out of reach
        for j, value in enumerate(mean):
            if not value > 0.0:
                raise SimulationError(self._indefinite(j, "its mean over the positions"))
        return mean

    def fault(self, code: int, axis: int, where: str, space: parts.Space) -> str:
        """What is wrong with an acceleration that could not be computed; `space` is as that left it."""
        if space.chains is not None and code in (parts.SINGULAR, parts.UNREACHABLE):
            q = space.chains.rows[parts.TREE_Q, self.robot.axis_index]
            return self._loop_fault(code, where, q, np.abs(space.chains.map))
        if code == parts.UNSETTLED:
            return (
                f"Load friction of '{self.robot.name}' leaves no acceleration of {self.robot.axis_names[axis]} at "
                f"{where}: its share of the load is too large to be friction. Check its Fl and Fb in theta."
            )
        return self._indefinite(axis, where)

    def _indefinite(self, axis: int, where: str) -> str:
        """What leaves an axis without inertia."""
        name, joint = self.robot.axis_names[axis], int(self.robot.axis_index[axis])
        moved = [name, *(x.name for i, x in enumerate(self.robot.links) if joint in self.robot.ancestors(i))]
        columns = zip(self.model.layout.columns, self._bearing, strict=True)
        positive = [(c, x) for c, x in columns if c.symbol in _POSITIVE]
        negative = [f"{c.name} = {x:.3g}" for c, x in positive if x < 0.0]
        own = [f"{c.name} = {x:.3g}" for c, x in positive if c.owner in moved[:2]]
        wrong = f"Negative in theta: {', '.join(negative[:12])}." if negative else "No inertia in theta is negative."
        return (
            f"The mass matrix of '{self.robot.name}' is not positive definite at {where}: {name} has no inertia left "
            f"to move. {wrong} Parameters of {name} itself: {', '.join(own) or 'none'}. Give a theta that a robot can "
            "have (`nearest_feasible`), or a smaller step of the estimate."
        )

    def _loop_fault(self, code: int, where: str, q: Array, map: Array | None = None) -> str:
        """Why loops are not closed with the axes at q (n,); `map` (joints, n) holds |G| of the posture before."""
        robot = self.robot
        at = ", ".join(f"{name} = {x:.4g}" for name, x in zip(robot.axis_names, q, strict=True))
        what = "are at a singularity" if code == parts.SINGULAR else "cannot be closed"
        message = f"The loops of '{robot.name}' {what} at {where}, with {at}."
        if map is not None and np.any(map):
            joint, axis = np.unravel_index(int(np.argmax(map)), map.shape)
            message += (
                f" Just before, {robot.axis_names[axis]} moved {robot.joint_names[joint]} "
                f"{map[joint, axis]:.3g} times as fast as itself."
            )
        return (
            f"{message} The legs do not reach there, or would fold over. Keep the motion within reach and away from "
            "singularities; if it is, state a 'home' of the assembly that is meant."
        )

    @cached_property
    def dynamics(self) -> parts.Dynamics:
        """The plant as arrays for the compiled loop."""
        robot, tree = self.robot, self.model.tree
        n = len(robot.joints)
        inertia, viscous, constant = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
        elements: dict[tuple[Law, bytes, tuple[float, ...]], Array] = {}
        loads: list[list[float]] = []
        axis_of = {int(joint): axis for axis, joint in enumerate(robot.axis_index)}

        def element(one: AppliedLaw) -> Array:
            """(2, n): how the law's value adds to the torques, and to what the gears carry."""
            return elements.setdefault((one.law, one.along.tobytes(), one.shape), np.zeros((2, n)))

        for entry, one in self._laws():
            law, weight = one.law, one.share * self._bearing[self.model.layout.index(entry.column.name)]
            if law.of == "a":
                inertia[entry.row] += weight * one.along
            elif law.linear and law.of == "v":
                viscous[entry.row] += weight * one.along
            elif law.of is None:
                constant[entry.row] += weight
            elif weight != 0.0 and law.loaded and law.kind is not None:
                carrier = entry.row if one.load_of is None else one.load_of
                # a passive joint has no gear, and so no load
                if carrier not in axis_of:
                    continue
                if entry.row not in axis_of:
                    raise SimulationError(
                        f"{entry.column.name}: friction by the load of a neighbour cannot be simulated on the passive "
                        f"joint '{entry.column.owner}'. Put the term on axes only, with joints = [ … ] or on_joints."
                    )
                loads.append([axis_of[entry.row], weight, *one.shape, entry.row, axis_of[carrier]])
            elif weight != 0.0:
                element(one)[0, entry.row] += weight
        if loads and robot.compensator is not None:
            element(gas_law(robot.tree, robot.compensator))[1, robot.joint_index(robot.compensator.joint)] += 1.0
        parent, placement, screw, gravity = tree.mechanism
        own = self.model.link_inertias(self._bearing)
        blocks = (placement.reshape(n, 48), screw, own, self._carried if loads else own, inertia, viscous, constant)
        joints = np.column_stack(blocks)
        base = np.zeros((1, joints.shape[1]))
        base[0, :3] = gravity
        rows = np.zeros((len(elements), switch.ALONG + 3 * n))
        for row, ((law, along, shape), weights) in zip(rows, elements.items(), strict=True):
            shares = np.stack([np.frombuffer(along), *weights])
            about = np.flatnonzero(np.any(shares != 0.0, axis=0))
            row[: switch.JOINT] = law.row(shape)
            row[switch.JOINT] = about[0] if len(about) == 1 else -1
            row[switch.ALONG :] = shares.ravel()
        return parts.Dynamics(
            parent,
            np.vstack([base, joints]),
            rows,
            np.array(loads, float).reshape(-1, 6),
            None if self.model.looped is None else self.model.looped.closure.loops,
        )

    def _laws(self) -> list[tuple[Entry, AppliedLaw]]:
        """Places of the terms with their laws; an error that names the terms which have none or jump."""
        found = [(filling, laws_of(filling.term, self.robot.tree)) for filling in self.model.fillings]
        lost = [filling.term.name for filling, laws in found if laws is None]
        if lost:
            raise SimulationError(
                f"Terms that cannot be simulated: {', '.join(lost)}. They depend on the time, are springs "
                "between two points, or have no `laws`. Simulate a model without them."
            )
        kept: list[tuple[Entry, AppliedLaw]] = []
        jumping: list[str] = []
        for filling, laws in found:
            every = tuple(laws or ())
            own = every if filling.kept is None else [every[k] for k in filling.kept]
            kept += zip(filling.entries, own, strict=True)
            jumping += [filling.term.name for one in own if one.law.jumps(one.shape)]
        if jumping:
            raise SimulationError(
                f"sign(v) jumps in {', '.join(dict.fromkeys(jumping))}, and no step is short enough for a jump. Use "
                "tanh(v / width) in both simulation and regressor: sign_width = 0.2 [rad/s | m/s] in a project, or "
                "Coulomb(width=0.2)."
            )
        return kept

    @property
    def _carried(self) -> Array:
        """Inertial parameters (joints, 10) behind τ_rigid, as `Model.load` takes them."""
        model = self.model
        if not model.knows_load:
            raise SimulationError(
                f"Load friction needs the inertias that the gears of '{self.robot.name}' carry, and its file gives "
                "none. Give them as Model(carried=…)."
            )
        return model.load_links(self.load)
