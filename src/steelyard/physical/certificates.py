"""Certificates: whether a standard set is physical, computed with numpy only and independent of the solver's status.

A set from a solver usually lies on the boundary, with rounding errors to either side. They are compared with the size
of each body, so that light and heavy bodies are judged by the same relative tolerance.
"""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import check_body, held_columns, link_columns, negative_drive, pseudo_inertia

# A set is accepted as physical when no constraint, scaled to the size of its body, is violated by more than this.
CERTIFIED = 1e-8


def smallest_eigenvalues(layout: Layout, theta: Array) -> dict[str, float]:
    """Body → smallest eigenvalue of its pseudo-inertia [SI]; ≥ 0 for a physical body."""
    bodies = link_columns(layout).items()
    return {name: float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0]) for name, columns in bodies}


def can_exist(name: str, vector: Array, tolerance: float = 0.0) -> bool:
    """Whether a body of ten parameters (10,) is physical, within `tolerance` [kg·m²] and rounding."""
    return check_body(name, vector, tolerance + CERTIFIED * float(np.abs(vector[:6]).max())).passes


def unphysical(layout: Layout, theta: Array, tolerance: float = 0.0) -> tuple[str, ...]:
    """The links and payloads of theta (C,) that are not physical and the drive columns below zero, by name."""
    theta = np.where(held_columns(layout), layout.known, theta)
    bodies = {name: theta[columns] for name, columns in link_columns(layout).items()}
    wrong = [name for name, vector in bodies.items() if not can_exist(name, vector, tolerance)]
    return (*wrong, *(name for name, _ in negative_drive(layout, theta)))
