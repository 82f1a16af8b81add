"""check: faults of a project's logs and map, found before any fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, SteelyardError
from steelyard.findings import Finding
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification.first_fit import to_scale
from steelyard.identification.legs import posture_findings
from steelyard.identification.verdict import (
    JointError,
    errors_by_unit,
    explained,
    joint_errors,
    listed,
    worst_first,
    written,
)
from steelyard.model.robot import Robot
from steelyard.project.checks.channel_map import order, sides, signs, units
from steelyard.project.checks.channel_map.edits import conjugated
from steelyard.project.checks.channel_map.suspects import Suspect, best_accepted
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.clocks import drift_finding, time_factor, time_finding
from steelyard.project.checks.delay import delay_findings, read_later
from steelyard.project.checks.first_look import is_suspicious
from steelyard.project.checks.hypotheses import mounting
from steelyard.project.checks.hypotheses.drifts import drift_findings
from steelyard.project.checks.hypotheses.loads import load_findings
from steelyard.project.checks.hypotheses.rates import rate_findings
from steelyard.project.checks.hypotheses.zeros import zero_findings
from steelyard.project.checks.limits import limit_findings
from steelyard.project.checks.lost_samples import effort_faults
from steelyard.project.checks.motion import hardly_moving, motion_findings
from steelyard.project.checks.signals import Fault, signal_faults
from steelyard.project.checks.springs import spring_findings
from steelyard.project.checks.tracks import Track, band_of, read_track, traces_of
from steelyard.project.checks.velocities import Slopes, conflicts, slopes_of
from steelyard.project.checks.wrong_robot import check_terms, likeness, robot_finding
from steelyard.project.project import AUTO, Project, TermSpec
from steelyard.project.spec import per_joint
from steelyard.regression.observe import Progress
from steelyard.signals.channels import UNKNOWN, resolve

# Number of successive edits after which the check stops.
_MOST_EDITS = 3
_FAMILIES = (signs.suspects, mounting.suspects, order.suspects, units.suspects, sides.suspects)
# Findings of the preparation that are explained by a fault of the map or of a channel.
_EXPLAINED = ("beyond-limits", "position-jump", "joint-not-moving", "constant-effort", "saturated-effort")


@dataclass(frozen=True)
class Check:
    """Findings of a check, most severe first, and the error of the robot on the logs after the edits found.

    `relative_error` is that of every joint on rows left out, `total` that of all efforts together, `errors` are those
    of the joints in N·m or N; None and empty where the model could not be tried. Without `thorough` the edits in
    `first_look.NOT_TRIED` were not tried.
    """

    project: str
    robot: str
    runs: tuple[str, ...]
    findings: tuple[Finding, ...]
    relative_error: dict[str, float] | None
    total: float | None = None
    errors: tuple[JointError, ...] = ()
    thorough: bool = True

    @property
    def failed(self) -> bool:
        """True when a finding says that the data or the map are wrong."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The result as one sentence."""
        errors = [finding for finding in self.findings if finding.severity == "error"]
        if errors:
            first = f"{errors[0].code} ({errors[0].where})"
            return f"Not usable for identification: {first}" + (f" and {len(errors) - 1} more." if errors[1:] else ".")
        if self.total is None:
            return "No fault found in the logs, but the robot model could not be tested on them."
        error = " and ".join(f"{x:.3g} {written(unit)}" for unit, x in errors_by_unit(self.errors).items())
        said = (
            f"No fault found: '{self.robot}' explains {explained(self.total)} of the effort of these logs on rows left "
            f"out (error {error})"
        )
        if self.unexplained:
            said += f", but not that of {listed(self.unexplained)}"
        return f"{said}."

    @property
    def unexplained(self) -> tuple[JointError, ...]:
        """Joints with more than half of their effort left, the worst first."""
        return worst_first(self.errors)


@single_threaded
def check(project: Project, progress: Progress | None = None, thorough: bool = True) -> Check:
    """Check the logs of a project, then try its robot on them under every single edit of the channel map.

    Direct evidence comes first (clock, dead and frozen channels, travel). Its faults are corrected before the model is
    tried, so that one fault is not reported twice. Without `thorough`, a log that raises no suspicion at first
    (`first_look`) gets no more trials than those of drifts and loads of runs.
    """
    robot = project.robot()
    project, unscaled = _to_scale(project, progress)
    tracks, found = _read(project, robot)
    found += [*unscaled, *_untried(project)]
    trial = None
    if tracks:
        slopes = slopes_of(tracks)
        factor = time_factor(tracks, slopes)
        if factor != 1.0:
            found.append(time_finding(tracks, factor, slopes))
        elif (drifting := drift_finding(tracks, factor)) is not None:
            found.append(drifting)
        faults = [fault for track in tracks for fault in _faults(track, factor, robot.axis_names)]
        found += _once(faults)
        travel = np.max([np.ptp(track.q, axis=1) for track in tracks], axis=0)
        still = [j for j in hardly_moving(robot, travel) if j not in {fault.joint for fault in faults}]
        if not (any(fault.spoils_motion for fault in faults) or any(f.severity == "error" for f in unscaled)):
            trial = _trial(project, robot, tracks, factor, faults)
        if trial is None:
            found += motion_findings(robot, travel, still)
        else:
            if trial.model.looped is not None:
                for track in tracks:
                    postures = [(factor * track.t, track.q, True)]
                    found += posture_findings(trial.model.looped.closure, track.name, postures)
            thorough = thorough or bool(faults) or bool(still) or is_suspicious(trial)
            trial, findings = _tried(project, trial, still, travel, slopes, factor, progress, bool(faults), thorough)
            found += findings
            if trial is not None and not any(finding.severity == "error" for finding in found):
                found += rate_findings(trial, project.spec.channels.time.rate_hz)
    relative, total, errors = None, None, ()
    if trial is not None:
        relative = dict(zip(robot.axis_names, trial.baseline.relative.tolist(), strict=True))
        total, errors = trial.baseline.total, tuple(joint_errors(trial.model.layout, trial.baseline.score))
    runs = tuple(track.name for track in tracks)
    lesser = _prepared(project) if thorough else ()
    return Check(project.name, robot.name, runs, _sorted(found, lesser), relative, total, errors, thorough)


def _faults(track: Track, factor: float, joints: tuple[str, ...]) -> Iterator[Fault]:
    """Faults of the columns of a track; an effort that is already accused is not accused again."""
    known = list(signal_faults(track, factor, joints))
    yield from known
    accused = {fault.joint for fault in known}
    yield from (fault for fault in effort_faults(track, factor, joints) if fault.joint not in accused)


def _to_scale(project: Project, progress: Progress | None) -> tuple[Project, list[Finding]]:
    """The project with gains of a first fit, if gains are to be identified: efforts are tried as torques."""
    spec, unknown = project.spec, project.spec.channels.effort.gain == UNKNOWN
    if not project.identifies_gains:
        return project, []
    try:
        model = project.model()
        problem = project.problem(model, project.samples(model.robot, "identify", progress))
        factor = to_scale(problem, project.estimator(), progress).factor
    except SteelyardError as error:
        if not unknown:
            return project, []
        told = (
            f"the gains are unknown and a first fit does not determine them, so the robot model is not tested: {error}"
        )
        return project, [
            Finding("gains-unknown", "error", told, "all joints", "identify the gains with a [[payload]] of known mass")
        ]
    stated = None if problem.drives is None else problem.drives.gain
    gains = [float(f"{x:.4g}") for x in np.nan_to_num(factor, nan=1.0) * (1.0 if stated is None else np.array(stated))]
    effort = msgspec.structs.replace(spec.channels.effort, gain=gains)
    channels = msgspec.structs.replace(spec.channels, effort=effort)
    told = (
        f"gains are to be identified: the robot model is tested with those of a first fit, {', '.join(map(str, gains))}"
    )
    found = Finding("gains-unknown", "info", told, "all joints")
    return project.with_spec(channels=channels), [found]


def _untried(project: Project) -> list[Finding]:
    """Finding on the runs that are not checked: those of another load than the first."""
    first = project.spec.run[0].load
    others = [run.label for run in project.spec.run if run.load != first]
    if not others:
        return []
    told = f'only the runs with load "{first}" are checked, not {", ".join(others)}'
    return [
        Finding("not-detectable", "info", told, ", ".join(others), "to check another load, list one of its runs first")
    ]


def _read(project: Project, robot: Robot) -> tuple[list[Track], list[Finding]]:
    """The tracks of every run of the first load, and a finding for each log that cannot be read."""
    spec = project.spec
    channels = resolve(spec.channels.channel_map(), robot)
    tracks, found = [], []
    for run in spec.run:
        if run.load != spec.run[0].load:
            continue
        recording = project.recording(run)
        missing = [name for name in channels.columns if name not in recording.columns]
        if missing:
            raise DataError(
                f"'{recording.name}' lacks the columns {', '.join(missing)}. It has: "
                f"{', '.join(recording.columns[:20])}. Correct [channels]."
            )
        try:
            tracks.append(read_track(recording, channels, run.rows, run.seconds, spec.prepare.missing == "drop"))
        except DataError as error:
            found.append(
                Finding("unreadable-log", "error", str(error), recording.name, "fix the log, or remove the run")
            )
    return tracks, found


def _trial(
    project: Project, robot: Robot, tracks: Sequence[Track], factor: float, faults: Sequence[Fault]
) -> Trial | None:
    """The robot on the tracks with corrected clock; None if they are too short."""
    spec = project.spec.prepare
    band = band_of(tracks, (spec.cutoff_hz, spec.lowpass_hz), factor)
    traces = traces_of(tracks, band, factor)
    if not traces:
        return None
    if not isinstance(spec.delay, str):
        late = np.array(per_joint("prepare.delay", spec.delay, robot))
        traces = tuple(read_later(trace, late) for trace in traces)
    spoilt = frozenset(fault.joint for fault in faults if fault.joint is not None)
    tried = project.with_spec(terms=[TermSpec.of(term) for term in check_terms(robot)], payload=[])
    return Trial(tried.model(), tracks[0].channels, traces, band, spoilt)


def _tried(
    project: Project,
    trial: Trial,
    still: list[int],
    travel: Array,
    slopes: Slopes | None,
    factor: float,
    progress: Progress | None,
    spoilt: bool,
    thorough: bool,
) -> tuple[Trial | None, list[Finding]]:
    """The trial under all accepted edits, and their findings."""
    robot, logged = trial.model.robot, trial
    edits: list[Suspect] = []
    # a joint that hardly moves may be in the wrong unit: only this is tried before its rows are left out
    if still and (unit := best_accepted(units.suspects(trial, still))) is not None:
        edits, still = [unit], [j for j in still if j not in unit.edit.joints]
        trial = trial.edited(unit.edit)
    found = list(motion_findings(robot, travel, still))
    if len(still) == robot.dof:
        return None, found
    trial = replace(trial, without_rows=trial.without_rows | set(still))
    if not trial.active:
        return None, found
    for done in range(_MOST_EDITS if thorough else 0):
        best = None
        for k, family in enumerate(_FAMILIES):
            if best is not None and best.is_conclusive:
                break
            if progress is not None:
                progress("edits of the map", done * len(_FAMILIES) + k, _MOST_EDITS * len(_FAMILIES))
            best = best_accepted([*family(trial), *([best] if best else [])])
        if best is None:
            break
        edits.append(best)
        trial = trial.edited(best.edit)
    # without the motion of a joint the others' efforts cannot be explained either
    blind = spoilt or bool(still)
    wrong = (
        None
        if blind or not thorough
        else robot_finding(robot, trial.baseline, likeness(logged, _others(project, robot)))
    )
    if wrong is not None and wrong.severity == "error":
        return logged, [wrong, *found]
    found += [*(suspect.finding(suspect) for suspect in edits), *([wrong] if wrong else [])]
    if slopes is not None:
        turned = np.eye(robot.dof)
        for suspect in edits:
            if suspect.edit.q is not None:
                turned = conjugated(trial.channels.q, suspect.edit.q) @ turned
        corrected = Slopes(slopes.factor / factor, slopes.correlation)
        # a velocity that agreed with its position as logged has the same fault, which was reported
        at_first = {finding.where for finding in conflicts(corrected, np.eye(robot.dof), robot.axis_names)}
        found += [f for f in conflicts(corrected, turned, robot.axis_names) if f.where in at_first]
    if not blind:
        corrected = project.spec.prepare.delay == AUTO
        found += [*(delay_findings(trial, corrected) if thorough else ()), *_hidden(trial, thorough)]
    if not thorough:
        return trial, found
    return trial, [*found, *limit_findings(trial), *spring_findings(trial)]


def _hidden(trial: Trial, thorough: bool) -> list[Finding]:
    """Faults that add unknowns to the fit: of runs, else of zeros, else drifts. One of them can look like another."""
    for look in (load_findings, *((zero_findings,) if thorough else ()), drift_findings):
        if found := list(look(trial)):
            return found
    return []


def _others(project: Project, robot: Robot) -> list[Robot]:
    """The built-in robots with as many joints, mounted as this one."""
    names = [name for name in builtin_robots() if name != project.spec.robot]
    return [other for name in names if (other := read_robot(name, project.spec.gravity)).dof == robot.dof]


def _once(faults: Sequence[Fault]) -> list[Finding]:
    """The faults' findings, each code and joint once, from the first run."""
    seen: dict[tuple[str, str], Finding] = {}
    for fault in faults:
        seen.setdefault((fault.finding.code, fault.finding.where), fault.finding)
    return list(seen.values())


def _prepared(project: Project) -> tuple[Finding, ...]:
    """The findings of the preparation, if the project can be prepared."""
    try:
        model = project.model()
        return project.problem(model, project.samples(model.robot, "identify")).findings
    except SteelyardError:
        return ()


def _sorted(found: Sequence[Finding], lesser: Sequence[Finding]) -> tuple[Finding, ...]:
    """The check's findings by severity, then those of the preparation that no error explains."""
    failed = any(finding.severity == "error" for finding in found)
    named = {finding.code for finding in found}
    rest = [f for f in lesser if not (failed and f.code in _EXPLAINED) and f.code not in named]
    ranks = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted([*found, *dict.fromkeys(rest)], key=lambda finding: ranks[finding.severity]))
