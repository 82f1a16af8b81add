"""Lamps: whether to trust a model, what for, and what to do next, each with the number that it rests on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

import msgspec

from steelyard.identification.result import Identification
from steelyard.identification.verdict import UNEXPLAINED, FitVerdict, worse
from steelyard.physical.certificates import judged_set
from steelyard.report import numerals

Answer = Literal["yes", "with care", "no", "not known"]
Target = Literal["simulation", "feed-forward", "payload"]
TARGETS: tuple[Target, ...] = ("simulation", "feed-forward", "payload")


class LampLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of the lamps, all ratios, and the target; keys of [lamps] in a project file. See docs/lamps.md.

    target        what the model is for: "simulation", "feed-forward" or "payload"
    unseen        relative error on unseen motion up to which it is predicted
    unseen_care   the same up to which it is predicted with care
    transfer      error on unseen over error on fitted motion up to which the fit transfers
    joint         relative error of a single joint up to which the joint is explained
    known         share of the parameters known to better than half their value, below which other motion is a risk
    simulation    relative error up to which the model is good enough to simulate with
    feed_forward  the same for feed-forward torques of a controller
    payload       the same for weighing payloads
    """

    target: Target = "simulation"
    unseen: float = 0.10
    unseen_care: float = 0.25
    transfer: float = 2.0
    joint: float = UNEXPLAINED
    known: float = 0.30
    simulation: float = 0.15
    feed_forward: float = 0.10
    payload: float = 0.05

    def __post_init__(self) -> None:
        for name in self.__struct_fields__[1:]:
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name):g}")

    def of(self, target: Target) -> float:
        """The limit of a target."""
        return {"simulation": self.simulation, "feed-forward": self.feed_forward, "payload": self.payload}[target]


@dataclass(frozen=True)
class Lamp:
    """An answer to a question, its reason in one sentence with the number it rests on, and one command to type."""

    question: str
    answer: Answer
    reason: str
    command: str

    def __str__(self) -> str:
        return f"{self.question}: {self.answer}. {self.reason}"


@dataclass(frozen=True)
class ResultFiles:
    """Where a result is, for commands: its project file, its run folder, and the robot file; "" for a built-in one.

    `rotorless` is the line of the project file that lists its terms without the term rotor; "" if it is not known.
    """

    project: str = "project.toml"
    folder: str = "project-run"
    robot: str = ""
    rotorless: str = ""

    def command(self, verb: str, *words: str) -> str:
        """`steelyard VERB …`, with paths quoted for a shell where they need it."""
        return shlex.join(["steelyard", verb, *words])


def lamps(
    result: Identification, limits: LampLimits | None = None, place: ResultFiles | None = None
) -> tuple[Lamp, Lamp, Lamp]:
    """The three lamps of a result: predicts unseen motion, parameters physical, good enough for the target.

    They rest on the verdict, the standard set and the estimated σ only; the same result gives the same lamps.
    """
    limits, place = limits or LampLimits(), place or ResultFiles()
    physical = _physical(result, place)
    return _predicts(result.judged, limits, place), physical, _target(result, limits, place, physical)


def _predicts(judged: FitVerdict, limits: LampLimits, place: ResultFiles) -> Lamp:
    """Whether other motion is predicted: the error on it, that of each joint, and that of the fit."""

    def lamp(answer: Answer, reason: str, command: str) -> Lamp:
        return Lamp("Predicts unseen motion", answer, reason, command)

    check = place.command("check", place.project)
    error = numerals.share(judged.relative)
    on = {"unseen": "on unseen motion", "expected": "expected on other motion", "fitted": "on the fitted motion"}
    said = f"Relative error {error} {'on a repetition of the fitted motion' if judged.repeated else on[judged.kind]}"
    bad = [joint for joint in judged.joints if joint.rows and not joint.relative <= limits.joint]
    if not judged.relative <= limits.unseen_care:
        return lamp("no", f"{said}, above {limits.unseen_care:.0%}.", check)
    if bad:
        worst = max(bad, key=lambda joint: joint.relative)
        reason = f"{said}, but joint {worst.joint} has {numerals.share(worst.relative)}, above {limits.joint:.0%}."
        return lamp("no", reason, check)
    if judged.nominal is not None and worse(judged.relative, judged.nominal):
        reason = f"{said}, more than the robot file has without a fit ({numerals.share(judged.nominal)})."
        return lamp("no", reason, check)
    if judged.kind == "fitted":
        reason = f"{said}; no other motion was scored."
        return lamp("not known", reason, place.command("validate", place.folder, "OTHER-LOG.csv"))
    ratio = judged.relative / judged.fitted if judged.fitted > 0.0 else 1.0
    if ratio > limits.transfer:
        fitted = numerals.share(judged.fitted)
        reason = f"{said}, {ratio:.1f} times that of the fit ({fitted}; limit {limits.transfer:g})."
        if judged.needs_more_motion:
            return lamp("with care", f"{reason[:-1]} with few rows: over-fitted.", _excite(place))
        return lamp("with care", reason, place.command("crossvalidate", place.project))
    if judged.relative > limits.unseen:
        return lamp("with care", f"{said}, above {limits.unseen:.0%}.", check)
    if judged.kind == "expected":
        reason = f"{said}, by leaving out rows; no unseen run was scored."
        return lamp("with care", reason, place.command("validate", place.folder, "OTHER-LOG.csv"))
    if judged.repeated:
        reason = f"{said}; no other motion was scored."
        return lamp("with care", reason, place.command("validate", place.folder, "OTHER-LOG.csv"))
    return lamp("yes", f"{said}, at most {limits.unseen:.0%}.", place.command("twin", place.folder))


def _physical(result: Identification, place: ResultFiles) -> Lamp:
    """Whether bodies with these parameters can exist, by the standard set of the result."""

    def lamp(answer: Answer, reason: str, command: str) -> Lamp:
        return Lamp("Parameters physical", answer, reason, command)

    if result.standard is None:
        unseen = [name for name, seen in zip(result.base.names, result.excited, strict=True) if not seen]
        count = f"{len(unseen)} of {len(result.base)} base parameters have no value"
        return lamp("not known", f"{count}, so there is no standard set to test.", _excite(place))
    judged = judged_set(result.base.layout, result.standard, result.drive_std)
    if judged.only_rotors:
        write = f": write {place.rotorless} in {place.project}" if place.rotorless else ""
        reason = f"{judged.reason} If the efforts are measured behind the gears, remove the term rotor{write}."
        return lamp("no", reason, place.command("identify", place.project))
    if not judged.physical:
        estimator = "consistent" if result.gains is None else "consistent-gains"
        return lamp("no", judged.reason, place.command("identify", place.project, "--estimator", estimator))
    if judged.edge:
        return lamp("with care", judged.reason, place.command("consistency", place.folder))
    return lamp("yes", judged.reason, place.command("export", place.folder, "--to", "c"))


def _target(result: Identification, limits: LampLimits, place: ResultFiles, physical: Lamp) -> Lamp:
    """Whether the errors are within the limit of the target."""
    judged, target, limit = result.judged, limits.target, limits.of(limits.target)
    names = {"simulation": "simulation", "feed-forward": "feed-forward", "payload": "weighing payloads"}
    of_model = " of the model" if target == "simulation" else ""
    error = f"Relative error{of_model} {numerals.share(judged.relative)}"
    exists = physical.answer != "no"
    good = [names[one] for one in TARGETS if judged.relative <= limits.of(one) and (one != "simulation" or exists)]
    also = f"Enough for: {', '.join(good) or 'none of simulation, feed-forward, weighing payloads'}."
    if target == "simulation":
        also += " A robot file holds less than the model: its export scores the file itself."

    def lamp(answer: Answer, reason: str, command: str) -> Lamp:
        return Lamp(f"Good enough for {names[target]}", answer, reason, command)

    if not judged.relative <= limit or judged.unexplained:
        worst = f"; {judged.unexplained[0].joint} is not explained" if judged.unexplained else f", above {limit:.0%}"
        return lamp("no", f"{error}{worst}. {also}", place.command("check", place.project))
    if target == "simulation" and not exists:
        return lamp("no", f"{error}, but a simulation needs bodies that can exist. {also}", physical.command)
    if judged.unmoved:
        reason = f"{', '.join(judged.unmoved)} did not move: the efforts of its motion are not known"
        return lamp("no", f"{error}, but {reason}. {also}", _excite(place))
    share = judged.known / max(judged.parameters, 1)
    if judged.needs_more_motion or share < limits.known:
        reason = (
            f"{judged.rows_each:.2g} rows per parameter are few"
            if judged.needs_more_motion
            else f"Only {judged.known} of {judged.parameters} parameters are known to better than half their value"
        )
        return lamp("with care", f"{error}. {reason}: other motion may have larger errors. {also}", _excite(place))
    command = {
        "simulation": _simulated(place),
        "feed-forward": place.command("export", place.folder, "--to", "c"),
        "payload": place.command("payload", place.folder, "LOADED-LOG.csv"),
    }[target]
    if judged.kind != "unseen" or judged.repeated:
        reason = f"{error}, at most {limit:.0%}, but not on unseen motion. {also}"
        return lamp("with care", reason, place.command("validate", place.folder, "OTHER-LOG.csv"))
    return lamp("yes", f"{error}, at most {limit:.0%}. {also}", command)


def _excite(place: ResultFiles) -> str:
    return place.command("excite", "--given", place.folder, "--out", "motion.csv")


def _simulated(place: ResultFiles) -> str:
    """The export for a simulator: into a copy of the robot file, in its own format."""
    mjcf = place.robot.lower().endswith((".xml", ".mjcf"))
    source = ["--source", place.robot] if mjcf or place.robot.lower().endswith(".urdf") else []
    return place.command("export", place.folder, "--to", "mjcf" if mjcf else "urdf", *source)
