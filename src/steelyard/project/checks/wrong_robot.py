"""The wrong robot: no edit of the map corrects the fit, or another robot fits the log far better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.errors import SteelyardError
from steelyard.findings import Finding
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import DEFAULT_TERMS, Term, named_terms
from steelyard.project.checks.channel_map.suspects import SURE
from steelyard.project.checks.channel_map.trial import Trial, Verdict

# Amount by which another robot must explain the joints' efforts better than the best edit, as a sum of logarithms.
BETTER = 1.5
# Mean and worst relative error of the joints above which the log is not this robot's (clean logs: 0.1 and 0.3).
BAD_MEAN, BAD_JOINT = 0.2, 0.6


def likeness(trial: Trial, others: Sequence[Robot]) -> tuple[Robot, Verdict] | None:
    """The robot among `others` that explains the log under the stated map best; None if none can be tried."""
    found: list[tuple[Robot, Verdict]] = []
    kinds = [joint.is_prismatic for joint in trial.model.robot.axes]
    for robot in others:
        if [joint.is_prismatic for joint in robot.axes] != kinds:
            continue
        model = Model(robot, check_terms(robot))
        try:
            found.append((robot, Trial(model, trial.channels, trial.traces, trial.band, trial.without_rows).baseline))
        except SteelyardError:  # skip a robot that cannot be tried
            continue
    return min(found, key=lambda one: float(np.nansum(np.log(one[1].relative))), default=None)


def robot_finding(robot: Robot, verdict: Verdict, other: tuple[Robot, Verdict] | None) -> Finding | None:
    """A finding when the log is not this robot's; `verdict` is that of the map after every accepted edit."""
    if other is not None:
        gain, spread = other[1].gain_over(verdict)
        if gain >= BETTER and gain >= SURE * spread:
            return Finding(
                "wrong-robot",
                "error",
                f"'{robot.name}' leaves an error of {verdict.total:.1%} and '{other[0].name}' one of "
                f"{other[1].total:.1%}: the log appears to be of '{other[0].name}', or of a robot of similar design",
                robot.name,
                "set robot in the project to the right file; or compare lengths, axes and joint zeros with the real "
                "robot",
            )
    worst = int(np.nanargmax(verdict.relative))
    if verdict.total > BAD_MEAN or verdict.relative[worst] > BAD_JOINT:
        return Finding(
            "wrong-robot",
            "error" if verdict.total > BAD_MEAN else "warning",
            f"'{robot.name}' does not explain these efforts, and no single change of the channel map fixes it: an "
            f"error of {verdict.total:.1%} is left, {verdict.relative[worst]:.1%} on {robot.axis_names[worst]}",
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
