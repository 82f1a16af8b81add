"""Certificates: whether a standard set is physical, computed with numpy only and independent of the solver's status.

A set from a solver usually lies on the boundary, with rounding errors to either side. They are compared with the size
of each body, so that light and heavy bodies are judged by the same relative tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import few
from steelyard.findings import Finding
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import (
    Consistency,
    LinkVerdict,
    check_body,
    held_columns,
    link_columns,
    negative_drive,
    pseudo_inertia,
)

# A set is accepted as physical when no constraint, scaled to the size of its body, is violated by more than this.
CERTIFIED = 1e-8
# A body closer than this to the boundary, in units of its size, is on the boundary.
ON_BOUNDARY = 1e-6
# A drive parameter that must not be negative may be below zero by this multiple of its σ.
NEGATIVE_SIGMAS = 3.0
# The symbol of rotor inertias.
ROTOR = "Ia"


@dataclass(frozen=True)
class JudgedSet:
    """Whether a standard set is physical: the verdict on every body, and the drive columns that are `negative` by more
    than 3 σ, (name, value). The one judgement for commands, reports and lamps."""

    links: tuple[LinkVerdict, ...]
    negative: tuple[tuple[str, float], ...] = ()

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.links if not link.passes)

    @property
    def edge(self) -> tuple[str, ...]:
        """Bodies on the boundary of what can exist."""
        return tuple(link.name for link in self.links if link.verdict == "on the boundary")

    @property
    def physical(self) -> bool:
        return not self.failing and not self.negative

    @property
    def only_rotors(self) -> bool:
        """Whether nothing but rotor inertias below zero is wrong: efforts that are measured behind the gears."""
        return not self.failing and bool(self.negative) and all(name.endswith(f".{ROTOR}") for name, _ in self.negative)

    @property
    def reason(self) -> str:
        """The judgement in one sentence."""
        if not self.physical:
            parts = []
            if self.failing:
                parts.append(
                    f"{len(self.failing)} of {len(self.links)} bodies of the standard set cannot exist: "
                    f"{few(self.failing)}"
                )
            if self.negative:
                names = [name for name, _ in self.negative]
                parts.append(f"{'below' if parts else 'Below'} zero by more than {NEGATIVE_SIGMAS:g} σ: {few(names)}")
            return f"{'; '.join(parts)}."
        if self.edge:
            return f"Every body can exist; on the boundary of what can: {few(self.edge)}."
        return f"All {len(self.links)} bodies can exist."

    @property
    def findings(self) -> tuple[Finding, ...]:
        return Consistency(self.links, negative=self.negative).findings


def judged_set(layout: Layout, theta: Array, std: Mapping[str, float], tolerance: float = 0.0) -> JudgedSet:
    """The judgement of a standard set theta (C,) that was computed, with the rounding of solvers; `std` are the σ of
    its drive columns by name (none: exact). tolerance [kg·m²] of the bodies."""
    theta = np.where(held_columns(layout), layout.known, theta)
    bodies = {name: theta[columns] for name, columns in link_columns(layout).items()}
    links = tuple(check_body(name, body, tolerance, CERTIFIED, ON_BOUNDARY) for name, body in bodies.items())
    return JudgedSet(links, surely_negative(layout, theta, std))


def surely_negative(layout: Layout, theta: Array, std: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Drive columns of a standard set theta (C,) that are below zero by more than 3 σ, (name, value).

    A rotor inertia that is part of another base parameter has no σ of its own: its value is a choice of the set, so
    that any value below zero counts.
    """
    negative = negative_drive(layout, theta)
    return tuple((name, x) for name, x in negative if -x > NEGATIVE_SIGMAS * std.get(name, 0.0))


def smallest_eigenvalues(layout: Layout, theta: Array) -> dict[str, float]:
    """Body → smallest eigenvalue of its pseudo-inertia [SI]; ≥ 0 for a physical body."""
    bodies = link_columns(layout).items()
    return {name: float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0]) for name, columns in bodies}


def can_exist(name: str, vector: Array, tolerance: float = 0.0) -> bool:
    """Whether a body of ten parameters (10,) is physical, within `tolerance` [kg·m²] and rounding."""
    return check_body(name, vector, tolerance, CERTIFIED).passes


def unphysical(layout: Layout, theta: Array, tolerance: float = 0.0) -> tuple[str, ...]:
    """The links and payloads of theta (C,) that are not physical and the drive columns below zero, by name."""
    theta = np.where(held_columns(layout), layout.known, theta)
    bodies = {name: theta[columns] for name, columns in link_columns(layout).items()}
    wrong = [name for name, vector in bodies.items() if not can_exist(name, vector, tolerance)]
    return (*wrong, *(name for name, _ in negative_drive(layout, theta)))
