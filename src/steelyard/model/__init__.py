"""What the robot is and what torque it takes.

The parts that a `Robot` is made of, and `Payload`. Its dynamics are at the top of the package: `steelyard.Model` and
`steelyard.base_parameters`; what is identified besides rigid bodies is in `steelyard.model.terms`. They need compiled
kernels, so this room does not load them: a robot file is read without.
"""

from __future__ import annotations

from steelyard.model.loops import Attachment, FrameLoop, JointLoop
from steelyard.model.parameters import Column, Layout, inertial_vector, transformed_inertia
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import Drive, Joint, Limits, Link, Lump, Robot
from steelyard.model.springs import Anchor, ConstantForceSpring, CrankSpring, GasCompensator, JointSpring, TensionSpring

__all__ = [
    "Anchor",
    "Attachment",
    "Column",
    "ConstantForceSpring",
    "CrankSpring",
    "Drive",
    "FrameLoop",
    "GasCompensator",
    "Joint",
    "JointLoop",
    "JointSpring",
    "Layout",
    "Limits",
    "Link",
    "Lump",
    "Payload",
    "Pose",
    "Robot",
    "TensionSpring",
    "inertial_vector",
    "transformed_inertia",
]
