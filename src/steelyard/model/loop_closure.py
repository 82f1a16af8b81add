"""Closure: from the axes of a looped robot to all its joints, and the check that its loops determine them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._kernels.loops import newton as kernels
from steelyard.errors import RobotError
from steelyard.model.elimination import elimination
from steelyard.model.loop_equations import LoopEquations, loop_equations
from steelyard.model.robot import Robot

# Singular values below this fraction of the largest are zero: lengths and angles in robot lengths and radians are of
# order one, and rounding leaves 1e-14.
RANK = 1e-7
# Largest closure error at home, in robot lengths or radians: geometry is given to six digits.
OPEN = 1e-6


class Closed(NamedTuple):
    """Motion of all joints: q, v, a (n_t, N); map (n_t, n_a, N), v = map · v_a; margin (N,), 0 at a singularity; fault
    (N,): 0 for a good sample, 1 singular, 2 out of reach. Faulty samples are NaN except for q of the axes."""

    q: Array
    v: Array
    a: Array
    map: Array
    margin: Array
    fault: NDArray[np.int64]


@final
@dataclass(frozen=True)
class Closure:
    """The loops of a robot as equations c(q_t) = 0, which give its passive joints for known axes (P3 eqs 3–9):

        v_t = G v_a,   a_t = G a_a + g,   G = −J_p⁺ J_a and g = −J_p⁺ J̇ v_t in the passive rows, J = ∂c/∂q.

    The constructor raises an error if the loops do not close near the robot's home, or do not determine every passive
    joint there.
    """

    robot: Robot

    def __post_init__(self) -> None:
        if not self.robot.loops:
            raise RobotError(f"Robot '{self.robot.name}' has no loops to close.")
        self._check_freedoms()

    @cached_property
    def _equations(self) -> LoopEquations:
        return loop_equations(self.robot)

    @cached_property
    def home(self) -> Array:
        """A closed posture (n_t,): axes at the robot's home (zero without one), passive joints by Newton from there."""
        system = self._equations
        q = system.solved(system.start, system.passive)
        opening = self.residual(q)
        worst = {
            loop.name: opening[loop.name]
            for loop in self.robot.loops
            if not np.max(np.abs(system.residual(q)[system.rows_of(loop.name)])) <= OPEN
        }
        if worst:
            self._freedoms(system.solved(system.start, np.arange(len(q))))
            told = ", ".join(f"'{name}' by {gap:.3g}" for name, gap in worst.items())
            where = "zero" if self.robot.home is None else "'home'"
            raise RobotError(
                f"The loops of '{self.robot.name}' do not close with the axes at {where}: the error is {told} [m or "
                "rad]. Give 'home', a position of every joint at which the loops nearly close, or correct the frames "
                "of the loops."
            )
        return q

    def _check_freedoms(self) -> None:
        """Checks by the rank of J at home and near it: that there are as many axes as freedoms, and that they determine
        the passive joints."""
        system, home = self._equations, self.home
        postures = [home, *system.neighbours(home)]
        passive = [_rank(system.jacobian(q)[:, system.passive]) for q in postures]
        freedoms = self._freedoms(*postures)
        axes, name = self.robot.dof, self.robot.name
        if max(passive) < len(system.passive):
            q = postures[int(np.argmax(passive))]
            _, _, rows = np.linalg.svd(system.jacobian(q)[:, system.passive])
            loose = np.max(np.abs(rows[max(passive) :]), axis=0)
            names = [self.robot.joint_names[j] for j, x in zip(system.passive, loose, strict=True) if x > 1e-6]
            raise RobotError(
                f"Robot '{name}' has {freedoms} degrees of freedom and {axes} actuated joints, so {', '.join(names)} "
                "can move without a motor. List other joints in 'actuated', constrain more components in the loops, "
                "or remove a joint that spins freely."
            )
        if passive[0] < len(system.passive):
            raise RobotError(
                f"Robot '{name}' is singular at home: the loops do not determine its passive joints there, although "
                "they do nearby. Give a 'home' away from it, where links of a loop are not aligned."
            )

    def _freedoms(self, *postures: Array) -> int:
        """Degrees of freedom, found at closed postures; raises an error for more axes than these."""
        axes, name = self.robot.dof, self.robot.name
        freedoms = len(self.robot.joints) - max(_rank(self._equations.jacobian(q)) for q in postures)
        if freedoms == 0:
            raise RobotError(
                f"The loops of '{name}' leave it no degree of freedom: remove a loop, or a component of one."
            )
        if axes > freedoms:
            raise RobotError(
                f"Robot '{name}' has {axes} actuated joints and {freedoms} degrees of freedom: its motors can act "
                f"against each other, so the motion does not determine their efforts. List {freedoms} joints in "
                "'actuated', or remove a loop that does not exist on the robot."
            )
        return freedoms

    @cached_property
    def loops(self) -> kernels.Loops:
        """The arrays for the kernels."""
        system = self._equations
        passive, axes = system.passive, self.robot.axis_index
        pattern = system.pattern
        steps = elimination(pattern[:, passive], pattern[:, axes])
        column = {int(j): k for k, j in enumerate(passive)} | {int(j): len(passive) + k for k, j in enumerate(axes)}
        entry, scale, inner = system.placed(lambda row, joint: steps.slot[row, column[joint]])
        constraints = system.constraints._replace(entry=entry, entry_scale=scale, passive_entries=inner)
        order = passive[steps.order]
        loops = kernels.Loops(constraints, steps.plan, axes, order, system.unit[order], self.home, 0.0)
        square = int(np.sum(np.any(pattern[:, passive], axis=1))) == len(passive)
        return loops._replace(side=kernels.side_at(loops, self.home)) if square else loops

    def close(self, q: Array, v: Array, a: Array, past: dict[str, Any] | None = None) -> Closed:
        """All joints of consecutive samples of the axes, each (n_a, N). The path starts at home; past["loops"] carries
        the last good posture from one call to the next."""
        past = {} if past is None else past
        q, v, a = (np.ascontiguousarray(np.atleast_2d(x), float) for x in (q, v, a))
        n, axes, total = len(self.home), self.robot.dof, q.shape[1]
        if any(x.shape != (axes, total) for x in (q, v, a)):
            raise RobotError(f"q, v and a of '{self.robot.name}' must each be ({axes}, N), one row per axis.")
        closed = Closed(
            np.empty((n, total)),
            np.empty((n, total)),
            np.empty((n, total)),
            np.empty((n, axes, total)),
            np.empty(total),
            np.zeros(total, np.int64),
        )
        state = np.array(past.get("loops", self.home), float)
        kernels.close(self.loops, state, q, v, a, *closed)
        past["loops"] = state
        return closed

    def residual(self, q_tree: Array) -> dict[str, float]:
        """Largest |c| [m | rad] of every loop, over the postures q_tree (n_t,) or (n_t, N)."""
        system = self._equations
        postures = np.asarray(q_tree, float).reshape(len(self.robot.joints), -1)
        scale = system.constraints.row_scale
        c = np.stack([np.abs(system.residual(q)) / scale for q in postures.T], axis=1)
        return {loop.name: float(np.max(c[system.rows_of(loop.name)])) for loop in self.robot.loops}


def _rank(matrix: Array) -> int:
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(sizes > RANK * max(sizes[0], RANK))) if sizes.size else 0
