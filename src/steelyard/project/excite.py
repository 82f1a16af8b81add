"""excite: from a robot, or a result of it, to exciting motions with ramps, their extremes and the expected σ."""

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
from steelyard.formats.robots.bases import on_base
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import named_terms, plain_terms
from steelyard.model.terms.term import laws_of, uses
from steelyard.motion.bounds import LimitUse
from steelyard.motion.clearance import Clearance
from steelyard.motion.trajectory import Trajectory
from steelyard.project.project import read_project
from steelyard.project.reopen import Reopened, reopen
from steelyard.signals.recording import Progress

FAMILIES = (FourierFamily.name, BSplineFamily.name)
# Default rate of the rows of the later identification [Hz].
ROWS_HZ = 50.0
# Default of `targets`: this fraction of every parameter's scale, if there is a result.
AIM = 0.05


@dataclass(frozen=True, eq=False)
class Subject:
    """Input of a design: a model, its values θ (C,) for torques, the result it comes from, if any.

    source    file or name of the robot
    rows_hz   rows per second of an identification: those of the result, else `ROWS_HZ`
    notes     decisions made, as text
    """

    model: Model
    theta: Array | None
    source: str | Path
    result: Identification | None = None
    rows_hz: float = ROWS_HZ
    notes: tuple[str, ...] = ()

    @cached_property
    def base(self) -> BaseParameters:
        return base_parameters(self.model)

    @cached_property
    def known(self) -> Known | None:
        return None if self.result is None else known(self.result, self.base)


class TargetReached(NamedTuple):
    """A base parameter, its target σ and the expected σ, relative to its value."""

    name: str
    wanted: float
    reached: float

    @property
    def met(self) -> bool:
        return self.reached <= self.wanted


@dataclass(frozen=True, eq=False)
class Excitation:
    """Designed motions, ready to be played, one per load case.

    motions   with ramps if a start posture was given
    rules     the limits of each; `limits` how close it comes, row by row
    before    σ of what is already known; None without a result
    scale     scale for σ, (b,): `criteria.deviation_scale`, None without a result
    targets   requested σ, relative to the values
    """

    subject: Subject
    allowed: Allowed
    design: Design
    motions: tuple[Trajectory, ...]
    rules: tuple[MotionRules, ...]
    limits: tuple[tuple[LimitUse, ...], ...]
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
        """Start posture of the motions, at rest (n,)."""
        return self.motions[0].at([0.0])[0][:, 0]

    @cached_property
    def worst(self) -> tuple[tuple[str, float], tuple[str, float]] | None:
        """The parameter with the largest σ / scale, and that ratio, before and after; None without a result."""
        if self.before is None or self.scale is None:
            return None
        return self.before.worst(self.scale), self.design.forecast.worst(self.scale)

    @property
    def relative(self) -> Array:
        """Expected σ relative to the value (b,); NaN where that is zero or unknown."""
        value = np.abs(self.values)
        return self.design.forecast.std / np.where(value > 0.0, value, np.nan)

    @property
    def reached(self) -> tuple[TargetReached, ...]:
        """Every target with the expected σ of the motions."""
        names = self.design.forecast.base.names
        return tuple(
            TargetReached(name, wanted, float(self.relative[names.index(name)]))
            for name, wanted in self.targets.items()
        )

    @cached_property
    def unbounded(self) -> tuple[str, ...]:
        """Sentences on quantities without a limit: torques and the values they reach, what limited ones leave out, and
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
                "Torques are not limited: neither the robot file nor a limits file gives torque limits of some "
                f"joints. With the nominal model these reach {listed}."
            )

    def _unchecked_collisions(self) -> Iterator[str]:
        around = self.allowed.surroundings
        if around is None:
            yield "Collisions are not checked: no [[plane]], [[box]] or [collision] in the limits."
            return
        if not any(row.quantity == "clearance" for row in self.limits[0]):
            yield "No clearance is checked: there is no pair of shapes. See which pairs are left out, and why."
        if not around.planes and not around.boxes:
            yield "Collisions with surroundings are not checked: no [[plane]] or [[box]] in the limits."
        if not around.self_collision:
            yield "Collisions of the robot with itself are not checked: self_collision = false in the limits."

    def remarks(self, k: int) -> tuple[str, ...]:
        """Remarks for the file of motion k."""
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
            f"Proven for all t: {kept}. Torques are those of a nominal model. Run the motion slowly first.",
            *self.unbounded,
            *self.allowed.notes,
        )


def _plainly(x: float) -> str:
    return f"{x:.0f}" if x >= 1000.0 else f"{x:.3g}"


_HELD = ("The base floats: the motion is that of the limbs while the base is held, for instance in a stand.",)


def subject_of(robot: str, terms: Sequence[str] | None = None, held: Sequence[str] = ()) -> Subject:
    """A robot by name or file with these terms (default: its plain ones); or a project file, with its own terms and
    payloads. `held` are joints that do not move ("finger*=0.02")."""
    if is_project(robot):
        project = read_project(robot).holding(held)
        notes = _HELD if project.robot().floats else ()
        model = (project.with_spec(base="fixed") if notes else project).model()
        return _designable(Subject(model, model.layout.nominal, project.robot_source, notes=notes))
    described = read_robot(robot, held=held)
    notes = _HELD if described.floats else ()
    described = on_base(described, "fixed") if notes else described
    model = Model(described, named_terms(plain_terms(described) if terms is None else terms))
    return Subject(model, model.layout.nominal, robot, notes=notes)


def is_project(robot: str) -> bool:
    """Whether this is a TOML file with a channel map; errors of unreadable files are left to `read_robot`."""
    if robot in builtin_robots() or Path(robot).suffix.lower() != ".toml":
        return False
    try:
        return "channels" in tomllib.loads(Path(robot).read_text("utf-8-sig"))
    except (OSError, ValueError):
        return False


def subject_of_result(given: Path, robot: str | None = None) -> Subject:
    """The model of a result, and the information in the result; `robot`, if named too, must be its robot."""
    opened = reopen(given, [])
    model, result = opened.model, opened.result
    if model.robot.floats:
        raise ProjectError(
            f"The base of '{model.robot.name}' floats, so its information does not add up with that of a motion on a "
            f"base that is held. Design the motion without it: steelyard excite {opened.project.spec.robot}"
        )
    if robot is not None and read_robot(robot).sha256 != model.robot.sha256:
        raise ProjectError(
            f"The result '{given}' is of robot '{opened.project.spec.robot}', not of '{robot}': remove the robot "
            "argument, or give that robot."
        )
    # an incomplete set gives no torques
    whole = result.standard is not None and bool(np.all(np.isfinite(result.standard)))
    theta = result.standard if whole else model.layout.nominal
    note = f"Torques are those of {'the identified standard set' if whole else 'the values of the robot file'}."
    place = opened.project.robot_source
    return _designable(Subject(model, theta, place, result, _rows_hz(opened), () if theta is None else (note,)))


def _rows_hz(opened: Reopened) -> float:
    """Rows per second of the fit: the decimated rate of the slowest log (`Problem.decimate`)."""
    spec = opened.project.spec.prepare
    rate = min(run.rate_hz for run in opened.result.runs if run.role == "identify")
    if spec.decimate is not None:
        return rate / spec.decimate
    return rate if isinstance(spec.lowpass_hz, str) else min(rate, 2.5 * spec.lowpass_hz)


def _designable(subject: Subject) -> Subject:
    """The subject without terms that have no gradient; information on the others is kept."""
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
    note = (
        f"Designed without {', '.join(term.name for term in left)}, which have no gradient: a motion that excites the "
        "other parameters excites them too."
    )
    return replace(subject, model=smaller, theta=theta, result=result, notes=(*subject.notes, note))


def family_of(name: str, harmonics: int) -> Family:
    """A Fourier series, or a B-spline with the same number of coefficients plus three control points for its ends."""
    if name not in FAMILIES:
        raise DataError(choices("family", name, FAMILIES))
    return FourierFamily(harmonics) if name == FourierFamily.name else BSplineFamily(2 * harmonics + 2)


def every_target(subject: Subject, allowed: Allowed) -> DeviationTargets | None:
    """The same fraction of its scale for every parameter; None without a result that gives the size of efforts."""
    scale = scale_of(subject, allowed)
    if scale is None:
        return None
    return DeviationTargets(absolute=dict(zip(subject.base.names, (AIM * scale).tolist(), strict=True)))


def scale_of(subject: Subject, allowed: Allowed) -> Array | None:
    """Scale for σ, (b,); None without a result that gives the size of efforts."""
    if subject.known is None:
        return None
    return deviation_scale(subject.model, subject.base, allowed.limits, subject.known.effort, subject.theta)


def allowed_of(subject: Subject, limits: Path | None) -> Allowed:
    """A limits file, or fractions of the robot file's own limits. Efforts of the robot file are not applied to torques
    that cannot be computed; torque limits of a limits file require parameter values."""
    robot = subject.model.robot
    allowed = own_limits(robot) if limits is None else read_limits(limits, robot, subject.source)
    if subject.theta is None and np.isfinite(allowed.limits.torque).any():
        if allowed.torque_stated:
            raise DataError(
                f"'{limits}' limits torques, and the file of '{robot.name}' gives no inertias to compute them from: "
                "remove torque from it, or start from a result that has inertias."
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
    on_step: Callable[[int, float], None] | None = None,
) -> Excitation:
    """Design motions within the limits and add ramps from a `start` posture (n,) and back.

    noise, seed, starts, iterations   of `design_excitation`; rows_hz is its rate, None takes the subject's
    step      time between the written samples [s]: motion and ramps last whole numbers of it, because a controller that
              interpolates over the end of one would make another jerk there
    on_step   called after every step of the search with its number and its objective
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
        surroundings=allowed.surroundings, progress=progress, on_step=on_step,
        check=None if start is None else with_ramps,
    )  # fmt: skip
    motions = with_ramps(design.trajectories)
    limits = tuple(own.limit_use(motion) for own, motion in zip(rules, motions, strict=True))
    for rows in limits:
        check_rows(rows, "The designed motion")
    before = None if subject.known is None else so_far(subject.known, theta)
    targets = criterion.relative if isinstance(criterion, DeviationTargets) else {}
    return Excitation(subject, allowed, design, motions, rules, limits, before, scale_of(subject, allowed), targets)
