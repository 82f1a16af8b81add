"""Plant: a model with values for all its parameters, as a simulation and a controller see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from steelyard.errors import ModelError, SimulationError, choices
from steelyard.excitation import random_points
from steelyard.kernels import laws as kinds
from steelyard.kernels import plant as kernel
from steelyard.model import Model
from steelyard.parameters import Array
from steelyard.payload import UNLOADED
from steelyard.robot import Robot
from steelyard.terms import Term
from steelyard.terms.compensator import gas_law
from steelyard.terms.term import Law, laws_of

Side = Literal["joint", "motor"]
SIDES = ("joint", "motor")
_WITH_A_SIGN = (kinds.SMOOTH_SIGN, kinds.POSITIVE_SIGN, kinds.NEGATIVE_SIGN, kinds.STRIBECK, kinds.LOAD)
_POSITIVE = ("XX", "YY", "ZZ", "M", "Ia")
# Positions over which inertias are averaged where no motion is given.
_POSITIONS = 256


@dataclass(frozen=True, eq=False)
class Plant:
    """A model with standard parameters `theta` (C,) [SI], carrying the payload of a load case.

    `dynamics` is all that a simulation knows of it, so a plant with closed chains will be another class with the same
    methods whose `dynamics` holds its loops.
    """

    model: Model
    theta: Array
    load: str = UNLOADED

    def __post_init__(self) -> None:
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
        """Joint torque (n,) that holds the robot at rest at q (n,) [N·m | N]."""
        tau, still = np.empty((1, self.robot.dof)), np.zeros((1, self.robot.dof))
        kernel.torques(self.dynamics, np.array(q, float)[None], still, still, tau)
        return tau[0]

    def torque(self, q: Array, v: Array, a: Array) -> Array:
        """Inverse dynamics τ (n, N) of consecutive states."""
        return self.model.torque(q, v, a, self.theta, load=self.load)

    def forward(self, q: Array, v: Array, tau: Array) -> Array:
        """Forward dynamics q̈ (n, N) of states that stand alone: Dahl's state is zero in each."""
        states, speeds, efforts = (np.ascontiguousarray(np.asarray(x, float).T) for x in (q, v, tau))
        out = np.empty_like(states)
        code, sample, joint = kernel.accelerations(self.dynamics, states, speeds, efforts, out)
        if code != kernel.DONE:
            raise SimulationError(self.fault(code, joint, f"state {sample}"))
        return out.T

    def inertia(self, q: Array | None = None, side: Side = "joint") -> Array:
        """Mean inertia (n,) that each joint, or each motor seen from the joint side, moves over positions q (n, N).

        On the motor side it is the diagonal of C⁻ᵀ M C⁻¹. Without q: random positions within the limits.
        """
        if q is None:
            q = random_points(self.robot, _POSITIONS, np.random.default_rng(0))
        mass = self.model.mass_matrix(q, self._bearing)
        if side == "motor":
            back = np.linalg.inv(self.robot.motor_map)
            mass = np.einsum("ij,iks,kl->jls", back, mass, back)
        mean = np.mean(np.diagonal(mass), axis=0)
        for j, value in enumerate(mean):
            if not value > 0.0:
                raise SimulationError(self.fault(kernel.INDEFINITE, j, "its mean over the positions"))
        return mean

    def fault(self, code: int, joint: int, where: str) -> str:
        """What is wrong with an acceleration that could not be computed."""
        name = self.robot.joint_names[joint]
        if code == kernel.UNSETTLED:
            return (
                f"Load friction of '{self.robot.name}' leaves no acceleration of {name} at {where}: its share Fl of "
                "the load is too large to be friction. Check joint.Fl in theta."
            )
        moved = [name, *(x.name for i, x in enumerate(self.robot.links) if joint in self.robot.ancestors(i))]
        columns = zip(self.model.layout.columns, self._bearing, strict=True)
        positive = [(c, x) for c, x in columns if c.symbol in _POSITIVE]
        negative = [f"{c.name} = {x:.3g}" for c, x in positive if x < 0.0]
        own = [f"{c.name} = {x:.3g}" for c, x in positive if c.owner in moved[:2]]
        wrong = f"Negative in theta: {', '.join(negative[:12])}." if negative else "No inertia in theta is negative."
        return (
            f"The mass matrix of '{self.robot.name}' is not positive definite at {where}: {name} has no inertia left "
            f"to move. {wrong} Of {name} itself: {', '.join(own) or 'nothing'}. Give a theta that a robot can have "
            "(`nearest_feasible`), or a smaller step of the estimate."
        )

    @cached_property
    def dynamics(self) -> kernel.Dynamics:
        """The plant as arrays for the compiled loop."""
        robot, n = self.robot, self.robot.dof
        inertia, viscous, constant = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
        elements: dict[tuple[int, bytes, tuple[float, ...]], Array] = {}
        loads: list[list[float]] = []

        def element(law: Law) -> Array:
            """(2, n): how the law's value adds to the torques, and to what the gears carry."""
            return elements.setdefault((law.kind, law.along.tobytes(), law.shape), np.zeros((2, n)))

        for term, laws in self._laws():
            for entry, law in zip(term.entries(robot), laws, strict=True):
                weight = law.share * self._bearing[self.model.layout.index(entry.column.name)]
                if law.kind == kinds.ACCELERATION:
                    inertia[entry.row] += weight * law.along
                elif law.kind == kinds.VISCOUS:
                    viscous[entry.row] += weight * law.along
                elif law.kind == kinds.CONSTANT:
                    constant[entry.row] += weight
                elif weight != 0.0 and law.kind == kinds.LOAD:
                    loads.append([entry.row, weight, *law.shape])
                elif weight != 0.0:
                    element(law)[0, entry.row] += weight
        if loads and robot.compensator is not None:
            element(gas_law(robot, robot.compensator))[1, robot.joint_index(robot.compensator.joint)] += 1.0
        parent, placement, screw, gravity = self.model.mechanism
        own = self._bearing[self.model.inertial_index]
        parts = (placement.reshape(n, 48), screw, own, self._carried if loads else own, inertia, viscous, constant)
        joints = np.column_stack(parts)
        base = np.zeros((1, joints.shape[1]))
        base[0, :3] = gravity
        rows = np.zeros((len(elements), kinds.ALONG + 3 * n))
        for row, ((kind, along, shape), weights) in zip(rows, elements.items(), strict=True):
            parts = np.stack([np.frombuffer(along), *weights])
            about = np.flatnonzero(np.any(parts != 0.0, axis=0))
            row[: len(shape) + 1] = kind, *shape
            row[kinds.JOINT] = about[0] if len(about) == 1 else -1
            row[kinds.ALONG :] = parts.ravel()
        return kernel.Dynamics(parent, np.vstack([base, joints]), rows, np.array(loads, float).reshape(-1, 4))

    def _laws(self) -> list[tuple[Term, Sequence[Law]]]:
        """The laws of every term; an error that names the terms which have none or jump."""
        found = [(term, laws_of(term, self.robot)) for term in self.model.terms]
        lost = [term.name for term, laws in found if laws is None]
        if lost:
            raise SimulationError(
                f"Terms that cannot be simulated: {', '.join(lost)}. They depend on the time, or on springs between "
                "two points. Simulate a model without them."
            )
        jumping = [t.name for t, ls in found for law in ls or () if law.kind in _WITH_A_SIGN and law.shape[0] == 0.0]
        if jumping:
            raise SimulationError(
                f"sign(v) jumps in {', '.join(dict.fromkeys(jumping))}, and no step is short enough for a jump. Make "
                "it tanh(v / width), here and in the regressor alike: sign_width = 0.2 [rad/s | m/s] in a project, or "
                "Coulomb(width=0.2)."
            )
        return [(term, laws) for term, laws in found if laws is not None]

    @property
    def _carried(self) -> Array:
        """Inertial parameters (n, 10) behind τ_rigid, as `Model.load` takes them."""
        model = self.model
        if not model.knows_load:
            raise SimulationError(
                f"Load friction needs the inertias that the gears of '{self.robot.name}' carry, and its file gives "
                "none. Give them as Model(carried=…)."
            )
        return model.load_links(self.load)
