"""project.toml: the typed spec of a project, and `run`, which takes it from files to a run folder."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from steelyard.channels import ChannelMap, Signal
from steelyard.errors import ProjectError, choices
from steelyard.estimators import ESTIMATORS, Estimator, named_estimator
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification import Identification
from steelyard.identify import identify
from steelyard.model import Model
from steelyard.observe import Progress
from steelyard.prediction import correlation_finding, predict
from steelyard.prepare import Preparation, prepare
from steelyard.problem import Problem
from steelyard.report.page import render
from steelyard.results import REPORT, RESULT, check_folder, document, text, write_folder
from steelyard.robot import Robot
from steelyard.samples import Samples
from steelyard.terms import DEFAULT_TERMS, named_terms

ROLES = ("identify", "validate")

Numbers = float | list[float] | dict[str, float]
Texts = str | list[str] | dict[str, str]


class TimeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels] time: the clock's column and unit (s, ms, us, ns)."""

    column: str
    unit: str = "s"


class SignalSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels] q, v or effort; see `steelyard.channels.Signal`."""

    columns: list[str] | dict[str, str]
    unit: Texts
    side: str = "joint"
    sign: Numbers = 1.0
    ratio: Numbers | None = None
    gain: Numbers | None = None
    offset: Numbers = 0.0

    def signal(self) -> Signal:
        return Signal(self.columns, self.unit, self.side, self.sign, self.ratio, self.gain, self.offset)


class ChannelsSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels]: what the log's columns are."""

    time: TimeSpec
    q: SignalSpec
    effort: SignalSpec
    v: SignalSpec | None = None

    def channel_map(self) -> ChannelMap:
        return ChannelMap(
            self.time.column,
            self.q.signal(),
            self.effort.signal(),
            self.time.unit,
            None if self.v is None else self.v.signal(),
        )


class PrepareSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[prepare]: clock, filters, decimation and the rest mask."""

    cutoff_hz: float | None = None
    rate_hz: float | None = None
    gap_s: float | None = None
    missing: str = "error"
    lowpass_hz: float | None = None
    decimate: int | None = None
    rest: Numbers = 0.02


class RunSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[[run]]: one log, its role and load case, and the part of it to use."""

    log: str
    role: str = "identify"
    load: str = "none"
    name: str | None = None
    rows: tuple[int, int] | None = None
    seconds: tuple[float, float] | None = None
    delimiter: str | None = None


class EstimatorSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[estimator]: its name and its options by name; `estimator = "wls"` is the short form."""

    name: str
    options: dict[str, Any] = {}


class ProjectSpec(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    robot: str
    channels: ChannelsSpec
    run: list[RunSpec]
    terms: list[str] | None = None
    sign_width: float = 0.0
    gravity: list[float] | None = None
    estimator: str | EstimatorSpec = "wls"
    prepare: PrepareSpec = msgspec.field(default_factory=PrepareSpec)


@dataclass(frozen=True)
class Project:
    """A project file with the folder its paths are relative to."""

    spec: ProjectSpec
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem if self.path.stem != "project" else self.path.resolve().parent.name

    @property
    def run_folder(self) -> Path:
        """Where results go unless another folder is named: NAME-run beside NAME.toml."""
        return self.path.with_name(f"{self.path.stem}-run")

    def estimator(self) -> Estimator:
        """The estimator the file asks for, with its options."""
        asked = self.spec.estimator
        return named_estimator(asked) if isinstance(asked, str) else named_estimator(asked.name, asked.options)

    def robot(self) -> Robot:
        """A built-in robot by its name, or one from a path relative to the project file."""
        source = self.spec.robot
        return read_robot(source if source in builtin_robots() else self.path.parent / source, self.spec.gravity)

    def model(self) -> Model:
        robot = self.robot()
        names = self.spec.terms if self.spec.terms is not None else robot.terms
        return Model(robot, named_terms(DEFAULT_TERMS if names is None else names, self.spec.sign_width))

    def samples(self, robot: Robot, role: str) -> tuple[Samples, ...]:
        """Every run of a role, prepared."""
        spec = self.spec.prepare
        settings = Preparation(spec.cutoff_hz, spec.rate_hz, spec.gap_s, spec.missing)
        channels = self.spec.channels.channel_map()
        out = []
        for run in self.spec.run:
            if run.role == role:
                recording = read_recording(self.path.parent / run.log, run.delimiter)
                samples = prepare(
                    recording, robot, channels, settings,
                    rows=run.rows, seconds=run.seconds, load=run.load, role=role,
                )  # fmt: skip
                out.append(samples if run.name is None else replace(samples, name=run.name))
        return tuple(out)

    def problem(self, model: Model, runs: Sequence[Samples]) -> Problem:
        spec = self.spec.prepare
        return Problem(model, runs, spec.lowpass_hz, spec.decimate, _rest(spec, model.robot))


@dataclass(frozen=True)
class RunResult:
    """What `run` gives back: the identification, its document, and the folder it was written to."""

    identification: Identification
    document: dict[str, Any]
    folder: Path


def read_project(path: str | Path) -> Project:
    """A project file, every key checked: unknown keys, wrong types and missing ones are errors that name the place."""
    file = Path(path)
    try:
        data = tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise ProjectError(
            f"No project file '{file}'. Write one (see the project-file reference) or name its path."
        ) from None
    except IsADirectoryError:
        raise ProjectError(f"'{file}' is a folder; name the project file in it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProjectError(f"'{file}' is not valid TOML: {error}.") from None
    except (OSError, ValueError) as error:
        raise ProjectError(f"Cannot read '{file}': {error}.") from None
    try:
        spec = msgspec.convert(data, ProjectSpec)
    except msgspec.ValidationError as error:
        raise ProjectError(f"'{file}': {_explained(str(error))}") from None
    _check(spec, file)
    return Project(spec, file)


def run(
    project: Project,
    out: Path | None = None,
    estimator: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Identify a project and write its run folder: result.json and report.html, both or neither."""
    folder = out or project.run_folder
    check_folder(folder)
    chosen = project.estimator() if estimator is None else named_estimator(estimator)
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    unseen = project.samples(model.robot, "validate")
    held_out = problem.with_runs(unseen) if unseen else None
    result = identify(problem, chosen, held_out=held_out, progress=progress)
    fitted = tuple(predict(problem, samples, result.theta) for samples in problem.runs)
    scored = tuple(predict(held_out, samples, result.theta) for samples in held_out.runs) if held_out else ()
    result = result.with_findings(correlation_finding(fitted, result.clusters))
    used = {"name": result.estimator, "options": result.estimator_options}
    data = document(result, msgspec.to_builtins(project.spec) | {"estimator": used}) | {
        # what it takes to build the same rows again, wherever the folder is moved together with the project
        "project_folder": os.path.relpath(project.path.resolve().parent, folder.resolve()),
        "rest_speeds": problem.rest_speeds.tolist(),
        "robot_sha256": model.robot.sha256,
    }
    write_folder(folder, {RESULT: text(data), REPORT: render(result, fitted + scored, project.name)})
    return RunResult(result, data, folder)


def _rest(spec: PrepareSpec, robot: Robot) -> float | list[float]:
    if isinstance(spec.rest, dict):
        for name in spec.rest:
            robot.joint_index(name)
        missing = [name for name in robot.joint_names if name not in spec.rest]
        if missing:
            raise ProjectError(f"prepare.rest gives no speed for {', '.join(missing)}.")
        return [spec.rest[name] for name in robot.joint_names]
    return spec.rest


def _check(spec: ProjectSpec, file: Path) -> None:
    for run in spec.run:
        if run.role not in ROLES:
            raise ProjectError(f"'{file}': " + choices("role", run.role, ROLES))
        if run.rows is not None and run.seconds is not None:
            raise ProjectError(f"'{file}': run '{run.log}' has both 'rows' and 'seconds'; keep one.")
    if not any(run.role == "identify" for run in spec.run):
        raise ProjectError(f"'{file}': no [[run]] has role = \"identify\"; there is nothing to fit.")
    if not 0.0 <= spec.sign_width < float("inf"):
        raise ProjectError(f"'{file}': sign_width must be zero or positive [rad/s | m/s], not {spec.sign_width}.")
    name = spec.estimator if isinstance(spec.estimator, str) else spec.estimator.name
    if name not in ESTIMATORS:
        raise ProjectError(f"'{file}': " + choices("estimator", name, ESTIMATORS))


_PLACES: dict[str, type[msgspec.Struct]] = {
    "": ProjectSpec,
    "prepare": PrepareSpec,
    "channels": ChannelsSpec,
    "channels.time": TimeSpec,
    "channels.q": SignalSpec,
    "channels.v": SignalSpec,
    "channels.effort": SignalSpec,
    "run": RunSpec,
    "estimator": EstimatorSpec,
}


def _explained(message: str) -> str:
    """msgspec's message with the place in the project file's own words and the valid keys."""
    text, _, path = message.partition(" - at ")
    place = re.sub(r"\[[^\]]*\]", "", path.strip("`").removeprefix("$").removeprefix("."))
    where = f"in [{place}]" if place else "at the top level"
    unknown = re.search(r"unknown field `([^`]*)`", text)
    struct = _PLACES.get(place)
    if unknown and struct is not None:
        return choices(f"key {where}", unknown.group(1), get_type_hints(struct))
    return f"{text} ({where})."
