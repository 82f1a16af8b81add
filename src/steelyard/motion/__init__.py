"""Trajectories, what bounds them and what they must not touch.

A `Trajectory` gives q, v and a at any time. `proven_bounds`, `reached` and `proven_clearance` hold between samples too.
"""

from __future__ import annotations

from steelyard.motion.bounds import MotionBounds, Reached, proven_bounds, reached
from steelyard.motion.bspline import BSpline
from steelyard.motion.capsules import around, skeleton
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.limits import MotionLimits
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings
from steelyard.motion.random import limits_of, random_fourier, random_points
from steelyard.motion.trajectory import Chain, Fourier, Quintic, Trajectory, TrapezoidalAcceleration, chain, dwell

__all__ = [
    "BSpline",
    "Box",
    "Capsule",
    "Chain",
    "Clearance",
    "Fourier",
    "MotionBounds",
    "MotionLimits",
    "Plane",
    "Quintic",
    "Reached",
    "Surroundings",
    "Trajectory",
    "TrapezoidalAcceleration",
    "around",
    "chain",
    "dwell",
    "limits_of",
    "proven_bounds",
    "proven_clearance",
    "random_fourier",
    "random_points",
    "reached",
    "skeleton",
]
