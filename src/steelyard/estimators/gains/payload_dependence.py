"""Dependence of each drive gain on the payload parameters: growth of its σ without the information of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.estimators.estimator import GainDependence
from steelyard.estimators.gains.equations import DriveBlocks, DriveEquations, GainSolution
from steelyard.estimators.least_squares import DATA_TOLERANCE
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import triangular

ALL = "all payload parameters"
# Growth of σ(gain) from which a parameter is reported, and from which the growth is reported as unbounded.
LEAST, MOST = 1.05, 1e6
# A gain is weak when its relative σ is this many times the median of the others, or exceeds this value.
WEAK, UNCERTAIN = 5.0, 0.1


def payload_dependences(
    base: BaseParameters,
    blocks: DriveBlocks,
    equations: DriveEquations,
    at: GainSolution,
    used: NDArray[np.int64],
    names: Sequence[str],
) -> tuple[GainDependence, ...]:
    """For every motor, the payload parameters that its gain depends on, strongest first, and all of them together.

    The rows of motor j get their own copy of the parameter, so that the parameter carries no information for them;
    σ(g_j) then grows by the stated factor. The known parameters of a payload count as one.
    """
    columns = {name: k for k, name in enumerate(base.names[c] for c in used)}
    payload = {c.name for c in base.layout.columns if c.kind == "payload"}
    jacobian = equations.jacobian(at)
    weight = 1.0 / (at.factor * equations.deviation)[equations.motor]
    copies = {name: jacobian[:, k] for name, k in columns.items() if name in payload}
    copies |= {_known_name(base, load): weight * equations.known[:, k] for k, load in enumerate(blocks.loads)}
    out: list[GainDependence] = []
    for j, joint in enumerate(names):
        own = {name: np.where(equations.motor == j, x, 0.0) for name, x in copies.items()}
        found = [
            GainDependence(joint, name, x) for name, x in _inflations(jacobian, len(at.value) + j, own) if x > LEAST
        ]
        out += sorted(found, key=lambda one: -one.inflation)
    return tuple(out)


def _inflations(jacobian: Array, column: int, copies: dict[str, Array]) -> Iterator[tuple[str, float]]:
    """Growth of the σ of one column's parameter with each copy added to the columns, and with all of them."""
    others = np.delete(jacobian, column, axis=1)
    others = others[:, list(independent_columns(others, DATA_TOLERANCE).kept)]
    added = {name: x / norm for name, x in copies.items() if (norm := np.linalg.norm(x)) > 0.0}
    target = jacobian[:, column] / np.linalg.norm(jacobian[:, column])
    r = triangular(np.column_stack([others / np.linalg.norm(others, axis=0), *added.values(), target]))
    left = r[others.shape[1] :, others.shape[1] :]
    target = left[:, -1]
    size = np.linalg.norm(target)
    if size <= DATA_TOLERANCE:
        return
    # where only this motor excites the parameter, the copy adds no column but rounding
    new = [k for k in range(len(added)) if np.linalg.norm(left[:, k]) > DATA_TOLERANCE]
    for chosen, name in [([k], name) for k, name in enumerate(added) if k in new] + [(new, ALL)]:
        rest = target - left[:, chosen] @ np.linalg.lstsq(left[:, chosen], target, rcond=DATA_TOLERANCE)[0]
        yield name, float(size / max(np.linalg.norm(rest), size / MOST))


def _known_name(base: BaseParameters, load: str) -> str:
    names = [c.name for c in base.layout.columns if c.owner == load and c.known]
    return names[0] if len(names) == 1 else f"the known parameters of {load}"


def dependence_findings(
    names: Sequence[str], found: Sequence[GainDependence], equations: DriveEquations, relative: Array
) -> Iterator[Finding]:
    """Findings `gain-dependence`: one line for all gains; `gain-uncertain`: those known far worse than the others.

    relative (n,): σ(g_j)/|g_j|.
    """
    said = {joint: _said([one for one in found if one.joint == joint and one.parameter != ALL]) for joint in names}
    told = "; ".join(f"{joint}: {what}" for joint, what in said.items())
    yield Finding("gain-dependence", "info", f"what each gain depends on, and the factor on its σ without it: {told}")
    for k, joint in enumerate(names):
        others = np.delete(relative, k)
        usual = float(np.median(others)) if len(others) else np.inf
        if relative[k] <= min(UNCERTAIN, WEAK * usual):
            continue
        felt = np.any(equations.known[equations.motor == k])
        reason = "has little torque at this joint" if felt else "has no torque at this joint (its column is zero)"
        yield Finding(
            "gain-uncertain",
            "warning",
            f"the gain of {joint} has a relative σ of {relative[k]:.2%} (classical), the others {usual:.2%}: the known "
            f"payload mass {reason}, and its first moments across the axis are zero or too small. The gain depends on "
            f"{said[joint]}, so it absorbs errors of the model",
            joint,
            f"mount the payload off the axis of {joint}, or use a heavier one",
        )


def _said(found: Sequence[GainDependence]) -> str:
    shown = ", ".join(f"{one.parameter} (σ × {one.inflation:.3g})" for one in found[:2])
    return shown or "no single parameter of the payload"
