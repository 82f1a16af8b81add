"""Edits of a channel map. A fault is identified by the edit that corrects it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.project.checks.tracks import Trace
from steelyard.signals.channels import Linear, ResolvedChannels


@dataclass(frozen=True)
class Edit:
    """Raw position columns x → q x and raw effort columns y → effort y, both (n, n); `joints` are those concerned.

    `gravity` (3,) is that of another mounting of the robot [m/s²].
    """

    joints: tuple[int, ...]
    q: Array | None = None
    effort: Array | None = None
    gravity: Array | None = None

    def reached(self, channels: ResolvedChannels) -> NDArray[np.bool_]:
        """Joints (n,) whose position or effort the edit changes: more than `joints` where the map couples columns."""
        changes = [
            conjugated(linear, edit) - np.eye(len(edit))
            for linear, edit in ((channels.q, self.q), (channels.effort, self.effort))
            if edit is not None
        ]
        return np.any([change.any(axis=1) for change in changes], axis=0)

    def applied(self, traces: Sequence[Trace], channels: ResolvedChannels) -> tuple[Trace, ...]:
        """The traces under the edited map."""
        turn = None if self.q is None else conjugated(channels.q, self.q)
        load = None if self.effort is None else conjugated(channels.effort, self.effort)
        zero = channels.q.offset[:, None]
        out = []
        for trace in traces:
            q, v, a, effort = trace.arrays
            if turn is not None:
                q, v, a = turn @ (q - zero) + zero, turn @ v, turn @ a
            if load is not None:
                effort = load @ effort
            out.append(replace(trace, q=q, v=v, a=a, effort=effort))
        return tuple(out)


def conjugated(linear: Linear, edit: Array) -> Array:
    """M E M⁻¹: the effect of an edit of the raw columns on the joint's signals, whose map is M."""
    return linear.matrix @ edit @ np.linalg.inv(linear.matrix)


def scaling(dof: int, factors: dict[int, float]) -> Array:
    """diag(1, …, factor_j, …)."""
    out = np.eye(dof)
    for j, factor in factors.items():
        out[j, j] = factor
    return out


def exchange(dof: int, i: int, j: int) -> Array:
    """The permutation that exchanges columns i and j."""
    order = list(range(dof))
    order[i], order[j] = j, i
    return np.eye(dof)[order]
