"""Angle units: degrees stated as radians, or radians stated as degrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.suspects import Suspect, joint_list, profile, tried
from steelyard.project.checks.channel_map.trial import Trial

DEGREE = np.pi / 180.0
# Range of plausible travels of a joint [rad].
PLAUSIBLE_TRAVEL = (0.01, 5.0 * np.pi)
# A factor further than this from that of a degree is another factor.
_TOLERANCE = np.log(1.2)


def suspects(trial: Trial, among: Sequence[int] | None = None) -> Iterator[Suspect]:
    """All rotary joints together, then each alone (or each of `among`), in degrees or in radians."""
    n = trial.model.robot.dof
    rotary = [j for j, joint in enumerate(trial.model.robot.axes) if not joint.is_prismatic]
    alone = [j for j in (trial.active if among is None else among) if j in rotary and len(rotary) > 1]
    groups = [tuple(rotary), *((j,) for j in alone)] if rotary else []
    for joints in groups:
        name = joint_list(trial, joints) if len(joints) == 1 else "all joints"
        for factor in (DEGREE, 1.0 / DEGREE):
            if not _plausible(trial, joints, factor):
                continue

            def scaled(size: float, joints: tuple[int, ...] = joints) -> Edit:
                return Edit(joints, q=scaling(n, dict.fromkeys(joints, size)))

            found = tried(trial, scaled(factor), lambda s, name=name, factor=factor: _finding(s, name, factor))
            if found.accepted and not _is_degree(trial, scaled, factor):
                continue
            yield found


def _is_degree(trial: Trial, scaled: Callable[[float], Edit], factor: float) -> bool:
    """True when no factor nearby explains more than that of a degree: a gear ratio of 50 is not a unit."""
    found = profile(trial, scaled, np.log(factor) + np.linspace(-0.6, 0.6, 7))
    return near_degree(np.sign(np.log(factor)) * found.log_size, found.spread)


def near_degree(log_size: float, spread: float) -> bool:
    """Whether a factor may be that of a degree, 180/π, within its deviation."""
    return bool(abs(log_size + np.log(DEGREE)) < max(_TOLERANCE, 3.0 * spread))


def _plausible(trial: Trial, joints: tuple[int, ...], factor: float) -> bool:
    travel = factor * trial.travel[list(joints)]
    return bool(np.all(travel < PLAUSIBLE_TRAVEL[1]) and np.any(travel > PLAUSIBLE_TRAVEL[0]))


def _finding(suspect: Suspect, name: str, factor: float) -> Finding:
    said, is_in = ("rad", "deg") if factor < 1.0 else ("deg", "rad")
    return Finding(
        "wrong-angle-unit",
        "error",
        f"the positions of {name} are logged in {is_in} but mapped as {said}, off by a factor of {1.0 / factor:.4g}: "
        f"{suspect.evidence} in {is_in}",
        name,
        f'set unit = "{is_in}" for q of {name} in [channels], and check the unit of v',
    )
