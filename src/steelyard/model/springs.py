"""Springs, balancers and gas cylinders that carry part of a robot: their geometry. Their torques are in `terms`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, choices


@dataclass(frozen=True)
class GasCompensator:
    """A gas cylinder that carries part of a joint's gravity load: anchors, diameters [m], gas, and the angle [rad] to
    add to the joint's position such that the two anchors are aligned at zero."""

    joint: str
    anchor_below: float
    anchor_above: float
    piston_diameter: float
    rod_diameter: float
    gas_mass: float
    gas_volume: float
    angle: float
    compressibility: float = 1.0
    gas_constant: float = 296.8
    temperature: float = 293.15


@dataclass(frozen=True)
class JointSpring:
    """A spring on the joint's own axis: τ = K (q − free), or K q + K0 where the free position [rad | m] is unknown."""

    name: str
    joint: str
    free: float | None = None


@dataclass(frozen=True)
class CrankSpring:
    """A spring from a point near a revolute joint's axis to a crank on the link it moves: a balancer (P2 eqs 23–33).

    Anchors [m] from the axis and `angle` [rad] as for a `GasCompensator`: they are aligned where q + angle is zero, and
    the spring is then shortest. The force is Kr L + K0, or Kr (L − free) with a stated free length [m].
    """

    name: str
    joint: str
    anchor_below: float
    anchor_above: float
    angle: float
    free: float | None = None

    def __post_init__(self) -> None:
        if not (self.anchor_below > 0.0 and self.anchor_above > 0.0):
            raise RobotError(f"Spring '{self.name}': anchor_below and anchor_above must be positive lengths [m].")


@dataclass(frozen=True)
class Anchor:
    """A point [m] fixed to a link, in the link's frame; one on the base is in the world frame, as gravity is."""

    link: str
    point: Array


@dataclass(frozen=True)
class TensionSpring:
    """A spring between two points: its force is Kr L + K0, or Kr (L − free) with a stated free length [m]."""

    name: str
    ends: tuple[Anchor, Anchor]
    free: float | None = None


@dataclass(frozen=True)
class ConstantForceSpring:
    """A spring that pulls two points together with a constant force F."""

    name: str
    ends: tuple[Anchor, Anchor]


Spring = JointSpring | CrankSpring | TensionSpring | ConstantForceSpring


def check_spring(spring: Spring, links: Sequence[str], joints: Sequence[str], sliding: Sequence[str]) -> None:
    """Raises an error for a spring that does not fit the names of a robot's links (base included), joints and prismatic
    joints."""
    what = f"Spring '{spring.name}': "
    numbers = [x for x in vars(spring).values() if isinstance(x, float | int)]
    numbers += [] if isinstance(spring, JointSpring | CrankSpring) else [x for e in spring.ends for x in e.point]
    if not np.all(np.isfinite(numbers)):
        raise RobotError(f"{what}a number is not finite. Remove 'free' if it is unknown.")
    if isinstance(spring, JointSpring | CrankSpring):
        if spring.joint not in joints:
            raise RobotError(what + choices("joint", spring.joint, joints))
        if isinstance(spring, CrankSpring) and spring.joint in sliding:
            raise RobotError(
                f"{what}a crank needs a revolute joint, and joint '{spring.joint}' is prismatic. Use kind 'tension'."
            )
        return
    for end in spring.ends:
        if end.link not in links:
            raise RobotError(what + choices("link", end.link, links))
    if spring.ends[0].link == spring.ends[1].link:
        raise RobotError(f"{what}both ends are on '{spring.ends[0].link}', so no joint moves it.")
