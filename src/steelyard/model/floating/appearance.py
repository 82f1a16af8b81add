"""Does a robot that a file fixes to the ground look as if it walked, rolled or flew?"""

from __future__ import annotations

import re

from steelyard.errors import few
from steelyard.model.robot import Robot

# Names of the parts of a leg, as a word of its own in the name of a joint or link: "FL_thigh_joint", "LHipYaw",
# "RLEG_HIP_R", "lf_haa_joint". Arms, hands and grippers have none of them.
_LEG = re.compile(r"(?:^|[^a-z])[lrfbhm]{0,3}(?:leg|hip|thigh|knee|shank|calf|ankle|foot|feet|haa|hfe|kfe)(?:$|[^a-z])")
_IMU = re.compile(r"(?:^|[^a-z])imu(?:$|[^a-z])")


def signs_of_a_free_base(robot: Robot) -> str:
    """What speaks for a base that is not bolted down, as text; "" if nothing does, or the robot floats.

    Several limbs that start from the base are not enough: hands have fingers, and torsos two arms. Two of them must be
    named as legs, or an IMU must be on the base, which only a base that moves needs. Limbs that a loop joins are those
    of a parallel robot.
    """
    limbs = _limbs(robot)
    if robot.floats or len(limbs) < 2:
        return ""
    legs = [robot.joint_names[limb[0]] for limb in limbs if any(_named(_LEG, name) for name in _names(robot, limb))]
    sensors = [name for name in (robot.base, *robot.fixed) if _named(_IMU, name)]
    if len(legs) < 2 and not sensors:
        return ""
    named = [f"{len(legs)} of them named as legs ({few(legs)})"] if legs else []
    sensing = [f"an IMU on the base ('{sensors[0]}')"] if sensors else []
    return ", ".join([f"{len(limbs)} limbs start from its base", *named, *sensing])


def _limbs(robot: Robot) -> list[list[int]]:
    """The joints of every limb that starts from the base and that no loop joins to another."""
    limbs: dict[int, list[int]] = {}
    for joint in range(len(robot.joints)):
        limbs.setdefault(robot.ancestors(joint)[-1], []).append(joint)
    loops = [set(row.nonzero()[0].tolist()) for row in robot.reach.T]
    return [limb for limb in limbs.values() if all(loop <= set(limb) for loop in loops if loop & set(limb))]


def _names(robot: Robot, limb: list[int]) -> list[str]:
    links = [robot.links[joint] for joint in limb]
    lumps = [lump.name for link in links for lump in link.lumps]
    return [*(robot.joint_names[joint] for joint in limb), *(link.name for link in links), *lumps]


def _named(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a word of the name matches; "LHipYaw" is read as "l hip yaw", "ImuTorso" as "imu torso"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return pattern.search(spaced.lower()) is not None or pattern.search(spaced.lower().replace(" ", "")) is not None
