"""The wrong robot: no edit of the map corrects the fit, or another robot fits the log far better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.errors import SteelyardError
from steelyard.findings import Finding
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import DEFAULT_TERMS, Term, named_terms
from steelyard.project.checks.channel_map.suspects import SURE
from steelyard.project.checks.channel_map.trial import Trial, Verdict

# Amount by which another robot must explain the joints' efforts better than the best edit, as a sum of logarithms, and
# the factor by which the error over all joints [N·m | N] must fall: a joint with a tiny torque accuses no robot.
BETTER, BETTER_TOTAL = 1.5, 1.3
# Mean relative error of the joints, and of the efforts together, above which the log is not this robot's (clean logs:
# 0.1 and less). A single joint above BAD_JOINT is a warning if it holds at least this share of the largest effort.
BAD_MEAN, BAD_TOTAL, BAD_JOINT, JOINT_SHARE = 0.2, 0.1, 0.6, 0.05


def likeness(trial: Trial, others: Sequence[Robot]) -> tuple[Robot, Verdict] | None:
    """The robot among `others` that explains the log under the stated map best; None if none can be tried.

    Coupled motors are a term and no sign of another robot: others are tried with them only if this one has them.
    """
    found: list[tuple[Robot, Verdict]] = []
    kinds = [joint.is_prismatic for joint in trial.model.robot.axes]
    for robot in others:
        if [joint.is_prismatic for joint in robot.axes] != kinds:
            continue
        alike = robot if trial.model.robot.coupling is not None else replace(robot, coupling=None)
        model = Model(alike, check_terms(alike))
        try:
            found.append((robot, Trial(model, trial.channels, trial.traces, trial.band, trial.without_rows).baseline))
        except SteelyardError:  # skip a robot that cannot be tried
            continue
    return min(found, key=lambda one: float(np.nansum(np.log(one[1].relative))), default=None)


def robot_finding(robot: Robot, verdict: Verdict, other: tuple[Robot, Verdict] | None) -> Finding | None:
    """A finding when the log is not this robot's; `verdict` is that of the map after every accepted edit."""
    if other is not None:
        gain, spread = other[1].gain_over(verdict)
        if gain >= BETTER and gain >= SURE * spread and other[1].total * BETTER_TOTAL < verdict.total:
            return Finding(
                "wrong-robot",
                "error",
                f"'{robot.name}' leaves an error of {verdict.total:.1%} and '{other[0].name}' one of "
                f"{other[1].total:.1%}: the log appears to be of '{other[0].name}', or of a robot of similar design",
                robot.name,
                "set robot in the project to the right file; or compare lengths, axes and joint zeros with the real "
                "robot",
            )
    score = verdict.score
    largest = max(np.nan_to_num(list(score.effort.values())))
    carrying = {joint: x for joint, x in score.joints.items() if score.effort[joint] >= JOINT_SHARE * largest}
    worst = max(carrying, key=lambda joint: np.nan_to_num(carrying[joint]))
    wrong = verdict.mean > BAD_MEAN and verdict.total > BAD_TOTAL
    if wrong or carrying[worst] > BAD_JOINT:
        return Finding(
            "wrong-robot",
            "error" if wrong else "warning",
            f"'{robot.name}' does not explain these efforts, and no single change of the channel map fixes it: an "
            f"error of {verdict.total:.1%} is left, {carrying[worst]:.1%} on {worst}",
            robot.name,
            "check lengths, axes and joint zeros in the robot file, all columns, and the effort signal",
        )
    return None


def check_terms(robot: Robot) -> tuple[Term, ...]:
    """The terms used in every check: simple friction, and those required by the robot's design."""
    coupled = ("coupling",) if robot.coupling is not None else ()
    balanced = ("compensator",) if robot.compensator is not None else ()
    sprung = ("springs",) if robot.springs else ()
    return named_terms((*DEFAULT_TERMS, *coupled, *balanced, *sprung))
