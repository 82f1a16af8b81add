"""excite: from a robot, or a result of it, to exciting motions with ramps, what they reach and what they promise."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.design.constraints import MotionRules, check_rows, holds_always
from steelyard.design.criteria import Criterion, DeviationTargets, deviation_scale
from steelyard.design.design import Design, design_excitation
from steelyard.design.families import BSplineFamily, Family, FourierFamily
from steelyard.design.feasibility import check_posture, torque_caveats
from steelyard.design.forecast import Forecast, so_far
from steelyard.design.prior_knowledge import Known, known
from steelyard.design.ramps import ramped, whole_steps
from steelyard.errors import DataError, ModelError, ProjectError, choices
from steelyard.formats.motion_limits import Allowed, own_limits, read_limits
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import named_terms, plain_terms
from steelyard.model.terms.term import laws_of, uses
from steelyard.motion.bounds import Reached
from steelyard.motion.clearance import Clearance
from steelyard.motion.trajectory import Trajectory
from steelyard.project.project import read_project
from steelyard.project.reopen import Reopened, reopen
from steelyard.signals.recording import Progress

FAMILIES = (FourierFamily.name, BSplineFamily.name)
# Rows a second of an identification to come of which nothing is known.
ROWS_HZ = 50.0
# What `targets` aims at where nobody names any: this share of every parameter's scale, once something is known.
AIM = 0.05


@dataclass(frozen=True, eq=False)
class Subject:
    """What is to be excited: a model, its values θ (C,) for torques, the result it is known from, if any.

    source    what the robot was read from
    rows_hz   rows a second of an identification: those of the result, else `ROWS_HZ`
    said      what was decided on the way
    """

    model: Model
    theta: Array | None
    source: str | Path
    result: Identification | None = None
    rows_hz: float = ROWS_HZ
    said: tuple[str, ...] = ()

    @cached_property
    def base(self) -> BaseParameters:
        return base_parameters(self.model)

    @cached_property
    def known(self) -> Known | None:
        return None if self.result is None else known(self.result, self.base)


class TargetReached(NamedTuple):
    """A base parameter, the σ wanted and the σ to expect, as shares of its value."""

    name: str
    wanted: float
    reached: float

    @property
    def met(self) -> bool:
        return self.reached <= self.wanted


@dataclass(frozen=True, eq=False)
class Excitation:
    """Designed motions as they are to be played, one for every load case.

    motions   with ramps where a start posture was asked for
    rules     what each keeps to; `limits` how near it comes, row by row
    before    σ of what is known already; None where nothing is
    scale     what σ are compared with, (b,): `criteria.deviation_scale`, None where nothing is known
    targets   σ that were asked for, as shares of the values
    """

    subject: Subject
    allowed: Allowed
    design: Design
    motions: tuple[Trajectory, ...]
    rules: tuple[MotionRules, ...]
    limits: tuple[tuple[Reached, ...], ...]
    before: Forecast | None = None
    scale: Array | None = None
    targets: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> Array:
        """Base values (b,) of θ; NaN without."""
        forecast, theta = self.design.forecast, self.subject.theta
        return forecast.value if theta is None else forecast.base.map @ theta

    @property
    def posture(self) -> Array:
        """Where the motions start, at rest (n,)."""
        return self.motions[0].at([0.0])[0][:, 0]

    @cached_property
    def worst(self) -> tuple[tuple[str, float], tuple[str, float]] | None:
        """The parameter with the largest σ / scale, and that ratio, before and after; None where nothing is known."""
        if self.before is None or self.scale is None:
            return None
        return self.before.worst(self.scale), self.design.forecast.worst(self.scale)

    @property
    def relative(self) -> Array:
        """σ to expect as a share of the value (b,); NaN where that is zero or unknown."""
        value = np.abs(self.values)
        return self.design.forecast.std / np.where(value > 0.0, value, np.nan)

    @property
    def reached(self) -> tuple[TargetReached, ...]:
        """Every target beside what the motions promise."""
        names = self.design.forecast.base.names
        return tuple(
            TargetReached(name, wanted, float(self.relative[names.index(name)]))
            for name, wanted in self.targets.items()
        )

    @cached_property
    def unbounded(self) -> tuple[str, ...]:
        """What nothing limits, in sentences: torques without a limit, and what they reach; what limited ones leave out;
        collisions."""
        subject = self.subject
        left_out = torque_caveats(subject.model, subject.theta, self.allowed.limits, self.design.loads)
        return (*self._free_torques(), *left_out, *self._unchecked_collisions())

    def _free_torques(self) -> Iterator[str]:
        robot, limits = self.subject.model.robot, self.allowed.limits
        free = [i for i in range(robot.dof) if not np.isfinite(limits.torque[i])]
        if self.subject.theta is None:
            yield "Torques are not limited: the robot file gives no inertias to compute them from."
        elif free:
            peaks = [own.peak_torque(motion) for own, motion in zip(self.rules, self.motions, strict=True)]
            peak = np.max([one for one in peaks if one is not None], axis=0)
            units = ["N" if joint.is_prismatic else "N·m" for joint in robot.axes]
            listed = ", ".join(f"{robot.axis_names[i]} {_plainly(peak[i])} {units[i]}" for i in free)
            yield (
                "Torques are not limited: the robot file states no efforts, and no limits file states torques, of some "
                f"joints. By the nominal model these reach {listed}."
            )

    def _unchecked_collisions(self) -> Iterator[str]:
        around = self.allowed.surroundings
        if around is None:
            yield "Collisions are not checked: no [[plane]], [[box]] or [collision] in the limits."
            return
        if not any(row.quantity == "clearance" for row in self.limits[0]):
            yield "Nothing is kept apart: no two shapes count as a pair. See what is left out, and why."
        if not around.planes and not around.boxes:
            yield "Collisions with surroundings are not checked: no [[plane]] or [[box]] in the limits."
        if not around.self_collision:
            yield "Collisions of the robot with itself are not checked: self_collision = false in the limits."

    def remarks(self, k: int) -> tuple[str, ...]:
        """What the file of motion k should say about itself."""
        robot, motion = self.subject.model.robot, self.motions[k]
        first, last = (
            ", ".join(f"{name} {x:z.4f}" for name, x in zip(robot.axis_names, q, strict=True))
            for q in motion.at([0.0, motion.duration])[0].T.tolist()
        )
        kept = ", ".join(dict.fromkeys(row.quantity for row in self.limits[k] if holds_always(row)))
        load = "" if self.design.loads[k] == UNLOADED else f" carrying {self.design.loads[k]}"
        return (
            f"Exciting motion of '{robot.name}'{load} by Steelyard: {self.design.criterion}, {motion.duration:.3f} s.",
            f"It starts at rest, at {first} (rad or m), and ends at rest {'there' if first == last else f'at {last}'}.",
            f"Proven for all t: {kept}. Torques are those of a nominal model. Run it slowly first.",
            *self.unbounded,
            *self.allowed.said,
        )


def _plainly(x: float) -> str:
    return f"{x:.0f}" if x >= 1000.0 else f"{x:.3g}"


def subject_of(robot: str, terms: Sequence[str] | None = None) -> Subject:
    """A robot by name or file with these terms, by default its plain ones; or a project file, with its own terms and
    payloads."""
    if is_project(robot):
        project = read_project(robot)
        model = project.model()
        return _designable(Subject(model, model.layout.nominal, project.robot_source))
    described = read_robot(robot)
    model = Model(described, named_terms(plain_terms(described) if terms is None else terms))
    return Subject(model, model.layout.nominal, robot)


def is_project(robot: str) -> bool:
    """A TOML file with a channel map; anything that cannot be read is left to `read_robot` to name."""
    if robot in builtin_robots() or Path(robot).suffix.lower() != ".toml":
        return False
    try:
        return "channels" in tomllib.loads(Path(robot).read_text("utf-8-sig"))
    except (OSError, ValueError):
        return False


def subject_of_result(given: Path, robot: str | None = None) -> Subject:
    """The model behind a result, and what the result knows of it; `robot`, if it is named too, must be its robot."""
    opened = reopen(given, [])
    model, result = opened.model, opened.result
    if robot is not None and read_robot(robot).sha256 != model.robot.sha256:
        raise ProjectError(
            f"The result '{given}' is of '{opened.project.spec.robot}', not of '{robot}': leave the robot "
            "out, or name that one."
        )
    # a set with holes gives no torques
    whole = result.standard is not None and bool(np.all(np.isfinite(result.standard)))
    theta = result.standard if whole else model.layout.nominal
    said = f"Torques are those of {'the identified standard set' if whole else 'the values of the robot file'}."
    place = opened.project.robot_source
    return _designable(Subject(model, theta, place, result, _rows_hz(opened), () if theta is None else (said,)))


def _rows_hz(opened: Reopened) -> float:
    """Rows a second of the fit: what its decimation left of the slowest log (`Problem.decimate`)."""
    spec = opened.project.spec.prepare
    rate = min(run.rate_hz for run in opened.result.runs if run.role == "identify")
    if spec.decimate is not None:
        return rate / spec.decimate
    return rate if isinstance(spec.lowpass_hz, str) else min(rate, 2.5 * spec.lowpass_hz)


def _designable(subject: Subject) -> Subject:
    """The subject without terms that have no gradient; what is known of the others stays."""
    model = subject.model
    left = [term for term in model.terms if uses(term) or laws_of(term, model.robot) is None]
    if not left:
        return subject
    smaller = replace(model, terms=tuple(term for term in model.terms if term not in left))
    names = [model.layout.index(name) for name in smaller.layout.names]
    theta = None if subject.theta is None else subject.theta[names]
    result = subject.result
    if result is not None:
        base = base_parameters(smaller)
        missing = [name for name in base.names if name not in result.base.names]
        if missing:
            raise ModelError(f"Without {', '.join(t.name for t in left)} the result has no {', '.join(missing[:5])}.")
        own = [result.base.names.index(name) for name in base.names]
        square = np.ix_(own, own)
        result = replace(
            result,
            base=base,
            value=result.value[own],
            covariance=result.covariance[square],
            covariance_classical=result.covariance_classical[square],
            standard=None if result.standard is None else result.standard[names],
        )
    said = (
        f"Designed without {', '.join(term.name for term in left)}, which have no gradient: a motion that shows the "
        "rest shows them too."
    )
    return replace(subject, model=smaller, theta=theta, result=result, said=(*subject.said, said))


def family_of(name: str, harmonics: int) -> Family:
    """A Fourier series, or a B-spline with as many control points as it has numbers, and three more for its ends."""
    if name not in FAMILIES:
        raise DataError(choices("family", name, FAMILIES))
    return FourierFamily(harmonics) if name == FourierFamily.name else BSplineFamily(2 * harmonics + 2)


def every_target(subject: Subject, allowed: Allowed) -> DeviationTargets | None:
    """The same share of its scale for every parameter; None without a result to tell how large efforts are."""
    scale = scale_of(subject, allowed)
    if scale is None:
        return None
    return DeviationTargets(absolute=dict(zip(subject.base.names, (AIM * scale).tolist(), strict=True)))


def scale_of(subject: Subject, allowed: Allowed) -> Array | None:
    """What σ are to be compared with, (b,); None without a result to tell how large efforts are."""
    if subject.known is None:
        return None
    return deviation_scale(subject.model, subject.base, allowed.limits, subject.known.effort, subject.theta)


def allowed_of(subject: Subject, limits: Path | None) -> Allowed:
    """A limits file, or shares of the robot file's own limits. Efforts of the robot file bound no torque that cannot be
    computed; torques that a limits file states need values."""
    robot = subject.model.robot
    allowed = own_limits(robot) if limits is None else read_limits(limits, robot, subject.source)
    if subject.theta is None and np.isfinite(allowed.limits.torque).any():
        if allowed.torque_stated:
            raise DataError(
                f"'{limits}' limits torques, and the file of '{robot.name}' gives no inertias to compute them from: "
                "take torque out of it, or start from a result that has them."
            )
        # `Excitation.unbounded` says so
        return replace(allowed, limits=replace(allowed.limits, torque=np.array(np.inf)))
    return allowed


def excite(
    subject: Subject,
    allowed: Allowed,
    duration: float = 10.0,
    criterion: Criterion | None = None,
    family: Family | None = None,
    *,
    loads: Sequence[str] = (UNLOADED,),
    noise: Array | float | None = None,
    start: Array | None = None,
    rows_hz: float | None = None,
    step: float = 0.0,
    seed: int = 0,
    starts: int = 8,
    iterations: int = 300,
    progress: Progress | None = None,
    heard: Callable[[int, float], None] | None = None,
) -> Excitation:
    """Design motions within what is allowed and lead them from a `start` posture (n,) and back.

    noise, seed, starts, iterations   of `design_excitation`; rows_hz is its rate, None takes the subject's
    step      time between the samples that will be written [s]: motion and ramps last whole numbers of it, for a
              controller that interpolates over the end of one would see another jerk there
    heard     hears of every step of the search: which, and its objective
    """
    model, theta = subject.model, subject.theta
    duration = whole_steps(duration, step)
    clearance = None if allowed.surroundings is None else Clearance.of(model.robot, allowed.surroundings)
    if start is not None:
        check_posture(clearance, allowed.limits, start, "The start posture", model.robot)
    rules = tuple(MotionRules(model, allowed.limits, theta, load, clearance) for load in loads)

    def with_ramps(paths: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
        pairs = zip(paths, rules, strict=True)
        return tuple(path if start is None else ramped(path, start, own, step) for path, own in pairs)

    design = design_excitation(
        model, allowed.limits, duration, criterion, family,
        loads=loads, noise=noise, given=subject.known, theta=theta,
        rate_hz=subject.rows_hz if rows_hz is None else rows_hz, seed=seed, starts=starts, iterations=iterations,
        surroundings=allowed.surroundings, progress=progress, heard=heard,
        check=None if start is None else with_ramps,
    )  # fmt: skip
    motions = with_ramps(design.trajectories)
    limits = tuple(own.reached(motion) for own, motion in zip(rules, motions, strict=True))
    for rows in limits:
        check_rows(rows, "The designed motion")
    before = None if subject.known is None else so_far(subject.known, theta)
    targets = criterion.relative if isinstance(criterion, DeviationTargets) else {}
    return Excitation(subject, allowed, design, motions, rules, limits, before, scale_of(subject, allowed), targets)
