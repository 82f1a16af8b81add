"""Physical consistency of bodies, prior knowledge of them, and the nearest consistent set.

`check_links` tests standard parameters body by body; `nearest_feasible` finds the physical set nearest to base values
under `Constraints`. `Prior` and `Widths` describe the knowledge before the data.
"""

from __future__ import annotations

from steelyard.physical.certificates import can_exist, smallest_eigenvalues, unphysical
from steelyard.physical.consistency import (
    Consistency,
    LinkVerdict,
    MassMatrixFloor,
    check_bodies,
    check_body,
    check_links,
    check_stated,
    mass_matrix_floor,
    pseudo_inertia,
    pseudo_inertia_vector,
    robot_bodies,
)
from steelyard.physical.constraints import Constraints
from steelyard.physical.nearest import Feasibility, nearest_feasible
from steelyard.physical.prior import Prior, Widths, nominal_prior, with_friction

__all__ = [
    "Consistency",
    "Constraints",
    "Feasibility",
    "LinkVerdict",
    "MassMatrixFloor",
    "Prior",
    "Widths",
    "can_exist",
    "check_bodies",
    "check_body",
    "check_links",
    "check_stated",
    "mass_matrix_floor",
    "nearest_feasible",
    "nominal_prior",
    "pseudo_inertia",
    "pseudo_inertia_vector",
    "robot_bodies",
    "smallest_eigenvalues",
    "unphysical",
    "with_friction",
]
