"""Closure: from the axes of a looped robot to all its joints, and whether its loops leave them no other choice."""

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

# Singular values below this part of the largest are none: lengths and angles in robot lengths and radians are of size
# one, and rounding leaves 1e-14.
RANK = 1e-7
# What loops may leave open at home, in robot lengths or radians: geometry given to six digits.
OPEN = 1e-6


class Closed(NamedTuple):
    """Motion of all joints: q, v, a (n_t, N); map (n_t, n_a, N), v = map · v_a; margin (N,), 0 at a singularity; fault
    (N,): 0 a good sample, 1 a singular one, 2 one out of reach. Faulty samples are NaN but for q of the axes."""

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

    Making one fails if the loops do not close near the robot's home, or do not fix every passive joint there.
    """

    robot: Robot

    def __post_init__(self) -> None:
        if not self.robot.loops:
            raise RobotError(f"Robot '{self.robot.name}' has no loops, so there is nothing to close.")
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
                f"Loops of '{self.robot.name}' do not close with the axes at {where}: {told} [m or rad] is left open. "
                "State a 'home', a position of every joint near which the robot is assembled, or mend the frames of "
                "the loops."
            )
        return q

    def _check_freedoms(self) -> None:
        """Rank of J at home and near it: are there as many axes as freedoms, and do they fix the passive joints?"""
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
                f"Robot '{name}' has {freedoms} degrees of freedom and {axes} actuated joints, which leave "
                f"{', '.join(names)} free to move by themselves. Name other joints in 'actuated', keep more components "
                "together in the loops, or leave out a joint that spins on its own."
            )
        if passive[0] < len(system.passive):
            raise RobotError(
                f"Robot '{name}' is at a singularity at home: there the loops do not fix its passive joints, though "
                "they do nearby. State a 'home' away from it, where links of a loop are not in line."
            )

    def _freedoms(self, *postures: Array) -> int:
        """Degrees of freedom, judged at closed postures; more axes than those are refused."""
        axes, name = self.robot.dof, self.robot.name
        freedoms = len(self.robot.joints) - max(_rank(self._equations.jacobian(q)) for q in postures)
        if freedoms == 0:
            raise RobotError(
                f"The loops of '{name}' leave it no freedom to move: remove a loop, or a component of one."
            )
        if axes > freedoms:
            raise RobotError(
                f"Robot '{name}' has {axes} actuated joints and {freedoms} degrees of freedom: its motors can work "
                f"against each other, and their efforts are no function of the motion. Name {freedoms} joints in "
                "'actuated', or remove a loop that is not there."
            )
        return freedoms

    @cached_property
    def loops(self) -> kernels.Loops:
        """The arrays that the kernels work on."""
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
        """All joints of consecutive samples of the axes, each (n_a, N). The way starts at home; past["loops"] carries
        the last good posture on from one call to the next."""
        past = {} if past is None else past
        q, v, a = (np.ascontiguousarray(np.atleast_2d(x), float) for x in (q, v, a))
        n, axes, total = len(self.home), self.robot.dof, q.shape[1]
        if any(x.shape != (axes, total) for x in (q, v, a)):
            raise RobotError(f"q, v and a of '{self.robot.name}' must each be ({axes}, N), one row an axis.")
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
