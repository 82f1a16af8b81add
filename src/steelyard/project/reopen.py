"""Reopen: the project of a result with other logs as its runs, so that their rows are prepared as in the fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from steelyard.errors import DataError, ProjectError, SteelyardError, choices
from steelyard.export.file_fit.rows import LoggedRows, logged_rows
from steelyard.findings import Finding
from steelyard.formats.contents import check_contents
from steelyard.identification.delays import Delays
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.physical.constraints import PHYSICAL, Constraints
from steelyard.project.documents import restored
from steelyard.project.project import Numbers, Project, ProjectSpec, RunSpec
from steelyard.project.result_file import identification, read_document, result_file
from steelyard.regression.problem import Problem
from steelyard.report.lamps import Lamp
from steelyard.signals.channels import resolve
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Samples, same_log
from steelyard.validation.estimator_scores import EstimatorScores


@dataclass(frozen=True)
class Origin:
    """What a result.json holds in addition to the result: how the same rows are made again.

    project         the project with numbers instead of "auto"; None for a result of a program
    project_folder  the folder that its paths start from, relative to the run folder
    project_file    the name of its file
    rest_speeds     speeds [rad/s | m/s] of the rest mask, joint by joint
    robot_sha256    hash of the robot file
    date            day of the fit, YYYY-MM-DD
    lamps           the answers of the report
    delays          of the efforts, where they were estimated
    estimators      others on the same rows
    """

    project: ProjectSpec | None = None
    project_folder: str | None = None
    project_file: str = "project.toml"
    rest_speeds: tuple[float, ...] | None = None
    robot_sha256: str | None = None
    date: str = ""
    lamps: tuple[Lamp, ...] = ()
    delays: Delays | None = None
    estimators: EstimatorScores | None = None


@dataclass(frozen=True)
class Reopened:
    """A result with its project on other logs, and the model of both; `fitted` are the runs of the fit, `stated` is the
    project as result.json holds it."""

    file: Path
    result: Identification
    project: Project
    model: Model
    fitted: tuple[RunSpec, ...]
    date: str = ""
    lamps: tuple[Lamp, ...] = ()
    stated: ProjectSpec | None = None
    delays: Delays | None = None
    estimators: EstimatorScores | None = None

    @property
    def as_fitted(self) -> Project:
        """The project on the logs of the fit itself."""
        return self.project.with_spec(run=list(self.fitted))

    def fit_problem(self, progress: Progress | None = None) -> Problem:
        """The problem of the fit on its own runs; an error if a log has changed since then."""
        return self.as_fitted.problem(self.model, self.fitted_samples("identify", progress))

    def fitted_samples(self, role: str, progress: Progress | None = None) -> tuple[Samples, ...]:
        """The runs of a role in the project of the fit; an error if a log has changed since then."""
        samples = self.as_fitted.samples(self.model.robot, role, progress)
        known = {one.name: one.sha256 for one in self.result.runs}
        for run in samples:
            if known.get(run.name, run.sha256) != run.sha256:
                raise DataError(f"The log of run '{run.name}' has changed since the fit. Identify again.")
        return samples

    def logged_rows(self, progress: Progress | None = None) -> LoggedRows:
        """The rows of the fit and of the runs to validate, with every column that a robot file can hold."""
        return logged_rows(
            self.fit_problem(progress), self.result, lambda: self.fitted_samples("validate", progress), progress
        )

    @property
    def constraints(self) -> Constraints:
        """What the project states of the bodies, for its estimator."""
        stated: Constraints = getattr(self.project.estimator(), "constraints", PHYSICAL)
        return stated

    def problem(self, progress: Progress | None = None) -> tuple[Problem, tuple[Samples, ...]]:
        """The problem of the new runs, with the filters, delays and rest mask of the fit."""
        runs = self.project.samples(self.model.robot, "validate", progress)
        return self.project.problem(self.model, runs), runs

    def load_findings(self, runs: Sequence[Samples]) -> tuple[Finding, ...]:
        """Runs that carried another load in the fit than is stated now."""
        loads = [(run, one.load) for run in runs for one in self.result.runs if same_log(run, one)]
        return tuple(
            Finding(
                "load-differs",
                "warning",
                f'it carried "{load}" in the fit and is scored with "{run.load}" now',
                run.name,
                f"add --load {load}" if load != UNLOADED else "leave out --load",
            )
            for run, load in loads
            if load != run.load
        )


def reopen(
    place: Path,
    logs: Sequence[Path],
    *,
    rows: tuple[int, int] | None = None,
    seconds: tuple[float, float] | None = None,
    episode: int | None = None,
    load: str = UNLOADED,
) -> Reopened:
    """A run folder or its result.json with other logs of the same robot and columns; `rows`, `seconds` or `episode` of
    each.

    `load` is what they all carry, one of the project's payloads.
    """
    file = result_file(place)
    data = read_document(file)
    result = identification(data, f"'{file}'")
    check_contents(data.get("project"), f"The project in '{file}'")
    try:
        origin = restored(data, Origin)
    except msgspec.ValidationError as error:
        raise SteelyardError(f"The project in '{file}' cannot be read: {error}. Run identify again.") from None
    if origin.project is None:
        raise SteelyardError(
            f"'{file}' was written without a project, so its channel map is not known. "
            "Use the function of the same name from Python, or identify again from a project file."
        )
    spec = _with_runs(origin.project, logs, RunSpec("", "validate", load, rows=rows, seconds=seconds, episode=episode))
    project = _placed(spec, file, origin).with_prepare(rest=_rest_speeds(origin, spec))
    model = project.model()
    if origin.robot_sha256 not in (None, model.robot.sha256):
        raise SteelyardError(
            f"The robot file '{project.spec.robot}' has changed since the fit; its parameters belong to the old one. "
            "Identify again, or put the old file back."
        )
    _check_columns(project, model.robot)
    return Reopened(
        file, result, project, model, tuple(origin.project.run), origin.date, origin.lamps, origin.project,
        origin.delays, origin.estimators,
    )  # fmt: skip


def _with_runs(spec: ProjectSpec, logs: Sequence[Path], run: RunSpec) -> ProjectSpec:
    """The project with the logs as its runs, each like `run`."""
    load = run.load
    if load not in (known := [UNLOADED, *(payload.name for payload in spec.payload)]):
        raise ProjectError(
            f"{choices('load', load, known)} A load is a [[payload]] of the project the result came from: declare it "
            "there and identify again, or weigh it on this result with `steelyard payload`."
        )
    twice = len({log.name for log in logs}) < len(logs)
    runs = [
        msgspec.structs.replace(
            run, log=str(log.resolve()), name=str(log) if twice else log.name, delimiter=spec.delimiter
        )
        for log in logs
    ]
    return msgspec.structs.replace(spec, run=runs)


def _rest_speeds(origin: Origin, spec: ProjectSpec) -> Numbers:
    """Speeds of the fit's rest mask: a fraction in the project file was one of the fitted runs' top speeds."""
    if spec.prepare.rest is not None and not isinstance(spec.prepare.rest, int | float):
        return spec.prepare.rest
    if origin.rest_speeds is None:
        raise SteelyardError("The result does not say at which speeds rows were masked. Run identify again.")
    return list(origin.rest_speeds)


def _placed(spec: ProjectSpec, file: Path, origin: Origin) -> Project:
    """The project in the folder that its paths start from: as the result says, else next to the run folder, else the
    current folder."""
    run_folder = file.resolve().parent
    stated = origin.project_folder
    places = [*([run_folder / stated] if stated else []), run_folder.parent, Path.cwd()]
    candidates = [Project(spec, place / origin.project_file) for place in places]
    for project in candidates:
        if project.robot_file is None or os.path.isfile(project.robot_file):
            return project
    looked = "', '".join(str(project.robot_file) for project in candidates)
    raise ProjectError(
        f"The robot file '{spec.robot}' of this result was not found: looked for '{looked}'. "
        "Run the command in the folder of its project file."
    )


def _check_columns(project: Project, robot: Robot) -> None:
    """Every log has every column of the channel map, else an error names all that are missing."""
    needed = resolve(project.spec.channels.channel_map(), robot).columns
    for run in project.spec.run:
        recording = project.recording(run)
        missing = [name for name in needed if name not in recording.columns]
        if missing:
            shown = ", ".join(recording.columns[:20]) + (", …" if len(recording.columns) > 20 else "")
            raise DataError(
                f"'{run.name}' lacks the columns {', '.join(missing)}, which the result's project maps to robot "
                f"'{robot.name}'. It has: {shown}. Is it a log of another robot or logger?"
            )
