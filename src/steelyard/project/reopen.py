"""Reopen: the project behind a result with other logs as its runs, so that their rows are made as the fit's were."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import DataError, ProjectError, SteelyardError, choices
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.project.project import Numbers, Project, ProjectSpec, RunSpec
from steelyard.project.result_file import read_document, result_file, result_of
from steelyard.regression.problem import Problem
from steelyard.signals.channels import resolve
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Samples


@dataclass(frozen=True)
class Reopened:
    """A result with its project on other logs, and the model of both.

    `document` is what was read from the result.json `file`, once for all.
    """

    file: Path
    document: Mapping[str, Any]
    result: Identification
    project: Project
    model: Model

    @property
    def as_fitted(self) -> Project:
        """The project on the logs of the fit itself."""
        return self.project.with_spec(run=msgspec.convert(self.document["project"]["run"], list[RunSpec]))

    def problem(self, progress: Progress | None = None) -> tuple[Problem, tuple[Samples, ...]]:
        """The problem of the new runs, with the filters, delays and rest mask of the fit."""
        runs = self.project.samples(self.model.robot, "validate", progress)
        return self.project.problem(self.model, runs), runs

    def load_findings(self, runs: Sequence[Samples]) -> tuple[Finding, ...]:
        """Runs that went into the fit with another load than they are said to carry now."""
        fitted = {record.sha256: record.load for record in self.result.runs if record.sha256}
        return tuple(
            Finding(
                "load-differs",
                "warning",
                f'it carried "{fitted[run.sha256]}" in the fit and is scored with "{run.load}" now',
                run.name,
                f"add --load {fitted[run.sha256]}" if fitted[run.sha256] != UNLOADED else "leave out --load",
            )
            for run in runs
            if fitted.get(run.sha256, run.load) != run.load
        )


def reopen(
    place: Path,
    logs: Sequence[Path],
    *,
    rows: tuple[int, int] | None = None,
    seconds: tuple[float, float] | None = None,
    load: str = UNLOADED,
) -> Reopened:
    """A run folder or its result.json with other logs of the same robot and columns; `rows` or `seconds` of each.

    `load` is what they all carry, one of the project's payloads.
    """
    file = result_file(place)
    data = read_document(file)
    result = result_of(data, file)
    project = _project(data, file, result, logs, rows, seconds, load)
    model = project.model()
    if data.get("robot_sha256") not in (None, model.robot.sha256):
        raise SteelyardError(
            f"The robot file '{project.spec.robot}' has changed since the fit; its parameters belong to the old one. "
            "Identify again, or put the old file back."
        )
    _check_columns(project, model.robot)
    return Reopened(file, data, result, project, model)


def _project(
    data: Mapping[str, Any],
    file: Path,
    found: Identification,
    logs: Sequence[Path],
    rows: tuple[int, int] | None,
    seconds: tuple[float, float] | None,
    load: str,
) -> Project:
    """The project a result came from, with the logs as its runs and the mask of the fit in rad/s or m/s."""
    if data.get("project") is None:
        raise SteelyardError(
            f"'{file}' was written without a project, so its channel map is not known. "
            "Use the function of the same name from Python, or identify again from a project file."
        )
    try:
        spec = msgspec.convert(data["project"], ProjectSpec)
    except msgspec.ValidationError as error:
        raise SteelyardError(f"The project in '{file}' cannot be read: {error}. Run identify again.") from None
    if load not in (known := [UNLOADED, *(payload.name for payload in spec.payload)]):
        raise ProjectError(
            f"{choices('load', load, known)} A load is a [[payload]] of the project the result came from: declare it "
            "there and identify again, or weigh it on this result with `steelyard payload`."
        )
    twice = len({log.name for log in logs}) < len(logs)
    runs = [
        RunSpec(
            str(log.resolve()), "validate", load,
            name=str(log) if twice else log.name, rows=rows, seconds=seconds, delimiter=spec.delimiter,
        )
        for log in logs
    ]  # fmt: skip
    project = _placed(spec, file, data.get("project_folder"))
    return project.with_spec(run=runs).with_prepare(rest=_rest_speeds(data, spec, found))


def _rest_speeds(data: Mapping[str, Any], spec: ProjectSpec, found: Identification) -> Numbers:
    """Speeds of the fit's mask; a fraction was one of the *fitted* runs' top speeds, which the result has written down.

    Until results hold them as numbers (`rest_speeds`) they are read from the mask in words, to four digits.
    """
    if spec.prepare.rest is not None and not isinstance(spec.prepare.rest, int | float):
        return spec.prepare.rest
    if data.get("rest_speeds") is not None:
        return [float(x) for x in data["rest_speeds"]]
    listed = re.search(r"\[([^\]]*)\]", found.relative_error.mask)
    if listed is None:
        raise SteelyardError("The result does not say at which speeds rows were masked. Run identify again.")
    return [float(x) for x in listed.group(1).split(",")]


def _placed(spec: ProjectSpec, file: Path, stated: str | None) -> Project:
    """The project in the folder its paths start from: as the result says, else beside the run folder, else the current
    folder."""
    beside = file.resolve().parent
    places = [*([beside / stated] if stated else []), beside.parent, Path.cwd()]
    candidates = [Project(spec, place / "project.toml") for place in places]
    for project in candidates:
        if project.robot_file is None or project.robot_file.is_file():
            return project
    looked = "', '".join(str(project.robot_file) for project in candidates)
    raise ProjectError(
        f"The robot file '{spec.robot}' of this result was not found: looked for '{looked}'. "
        "Run the command in the folder of its project file."
    )


def _check_columns(project: Project, robot: Robot) -> None:
    """Every column the channel map needs is in every log, or an error names all that are missing."""
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
