"""Trajectories, their limits and bounds, and the clearance from obstacles.

A `Trajectory` gives q, v and a at any time. `proven_bounds`, `limit_use` and `proven_clearance` also hold between
samples.
"""

from __future__ import annotations

from steelyard.motion.bounds import LimitUse, MotionBounds, limit_use, proven_bounds
from steelyard.motion.bspline import BSpline
from steelyard.motion.capsules import enclosing_capsule, skeleton
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.limits import MotionLimits
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings
from steelyard.motion.random import limit_findings, random_fourier, random_points
from steelyard.motion.trajectory import Chain, Fourier, Quintic, Trajectory, TrapezoidalAcceleration, chain, dwell

__all__ = [
    "BSpline",
    "Box",
    "Capsule",
    "Chain",
    "Clearance",
    "Fourier",
    "LimitUse",
    "MotionBounds",
    "MotionLimits",
    "Plane",
    "Quintic",
    "Surroundings",
    "Trajectory",
    "TrapezoidalAcceleration",
    "chain",
    "dwell",
    "enclosing_capsule",
    "limit_findings",
    "limit_use",
    "proven_bounds",
    "proven_clearance",
    "random_fourier",
    "random_points",
    "skeleton",
]
