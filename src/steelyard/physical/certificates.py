"""Certificates: whether a standard set can exist, by numpy alone, whatever a solver said of it.

A set from a solver lies on the boundary as a rule, and its last digits on either side: they are held against the size
of each body, so that a gram is judged as a ton is.
"""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import check_body, held_columns, link_columns, negative_drive, pseudo_inertia

# A set counts as one that can exist when it misses no constraint, scaled to the size of its body, by more than this.
CERTIFIED = 1e-8


def smallest_eigenvalues(layout: Layout, theta: Array) -> dict[str, float]:
    """Body → smallest eigenvalue of its pseudo-inertia [SI]; ≥ 0 where it can exist."""
    bodies = link_columns(layout).items()
    return {name: float(np.linalg.eigvalsh(pseudo_inertia(theta[columns]))[0]) for name, columns in bodies}


def can_exist(name: str, vector: Array, tolerance: float = 0.0) -> bool:
    """Whether a body of ten parameters (10,) can exist, but for `tolerance` [kg·m²] and the last digits."""
    return check_body(name, vector, tolerance + CERTIFIED * float(np.abs(vector[:6]).max())).passes


def unphysical(layout: Layout, theta: Array, tolerance: float = 0.0) -> tuple[str, ...]:
    """The links and payloads of theta (C,) that cannot exist and the drive columns below zero, by name."""
    theta = np.where(held_columns(layout), layout.known, theta)
    bodies = {name: theta[columns] for name, columns in link_columns(layout).items()}
    wrong = [name for name, vector in bodies.items() if not can_exist(name, vector, tolerance)]
    return (*wrong, *(name for name, _ in negative_drive(layout, theta)))
