"""The robot and its dynamics.

This package exports the parts of a `Robot`, and `Payload`. The dynamics are at the top of the package:
`steelyard.Model` and `steelyard.base_parameters`; the terms identified in addition to rigid bodies are in
`steelyard.model.terms`. Both need compiled kernels and are not loaded here: a robot file can be read without them.
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
