"""Project: the model, samples and problem that a project file describes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec

from steelyard.errors import ProjectError, choices
from steelyard.estimators import Estimator
from steelyard.estimators.estimator import GAINS, SIMULATION, needs
from steelyard.formats.contents import check_contents
from steelyard.formats.logs import KNOWN, PACKED
from steelyard.formats.robots import builtin_robots
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import named_term, plain_terms, rich_terms
from steelyard.project.documents import toml_value
from steelyard.project.opened import Opened
from steelyard.project.output_folder import RESULT
from steelyard.project.spec import (
    AUTO,
    NONE,
    ChannelsSpec,
    ControllerSpec,
    EstimatorSpec,
    ExperimentSpec,
    LoopSpec,
    Numbers,
    PayloadSpec,
    PrepareSpec,
    ProjectSpec,
    RunSpec,
    SignalSpec,
    TermSpec,
    TimeSpec,
    checked_spec,
    per_joint,
)
from steelyard.regression.problem import Problem
from steelyard.signals.channels import UNKNOWN, gains_needed
from steelyard.signals.derivatives import DERIVATIVES, Derivatives
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.recording import Progress, Recording
from steelyard.signals.samples import Samples
from steelyard.signals.spectrum import Cutoffs, propose_cutoffs
from steelyard.simulation.closed_loop import IDEAL
from steelyard.simulation.experiment import INTEGRATED, Experiment, Source, experiment_of, rehearse

__all__ = [
    "AUTO",
    "NONE",
    "ChannelsSpec",
    "ControllerSpec",
    "EstimatorSpec",
    "ExperimentSpec",
    "LoopSpec",
    "Numbers",
    "PayloadSpec",
    "PrepareSpec",
    "Project",
    "ProjectSpec",
    "RunSpec",
    "SignalSpec",
    "TermSpec",
    "TimeSpec",
    "read_project",
]

TERM_SETS = {"default": rich_terms, "plain": plain_terms}


@dataclass(frozen=True)
class Project:
    """A project file: its spec, its path, to which other paths in it are relative, and its files once they are opened.

    Files are read on first use, once: see `Opened`.
    """

    spec: ProjectSpec
    path: Path
    opened: Opened = field(default_factory=Opened, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.path.stem if self.path.stem != "project" else self.path.resolve().parent.name

    @property
    def run_folder(self) -> Path:
        """Default folder for results: NAME-run next to NAME.toml."""
        return self.path.with_name(f"{self.path.stem}-run")

    @property
    def robot_file(self) -> Path | None:
        """The file that describes the robot; None for a built-in one."""
        return None if self.spec.robot in builtin_robots() else self.path.parent / self.spec.robot

    @property
    def robot_source(self) -> str | Path:
        """Argument of `read_robot` for the robot: the file, or the name of a built-in one."""
        return self.robot_file or self.spec.robot

    def with_spec(self, **changes: Any) -> Project:
        """The project with some keys of its spec changed; open files stay open."""
        return replace(self, spec=msgspec.structs.replace(self.spec, **changes))

    def with_prepare(self, **changes: Any) -> Project:
        """The project with some keys of [prepare] changed."""
        return self.with_spec(prepare=msgspec.structs.replace(self.spec.prepare, **changes))

    def holding(self, joints: Sequence[str]) -> Project:
        """The project with more joints held, each by JOINT or JOINT=POSITION."""
        return self.with_spec(hold=[*self.spec.hold, *joints]) if joints else self

    def with_estimator(self, name: str) -> Project:
        """The project with another estimator and its default options."""
        return self.with_spec(estimator=name)

    def estimator(self) -> Estimator:
        """The estimator of the file, with its options; by default `gains` if gains are unknown, else `auto`."""
        unknown = self.spec.channels.effort.gain == UNKNOWN
        chosen = self.opened.estimator(self.spec.estimator or ("gains" if unknown else "auto"))
        if unknown and not needs(chosen, GAINS):
            raise ProjectError(f"'{self.path}': {gains_needed(chosen.name)}")
        return chosen

    @property
    def identifies_gains(self) -> bool:
        """Whether the estimator finds drive gains: its rows are those of the motors."""
        return needs(self.estimator(), GAINS)

    @property
    def simulates_runs(self) -> bool:
        """Whether the estimator simulates the runs: the project must then describe how they were driven."""
        return needs(self.estimator(), SIMULATION)

    def robot(self) -> Robot:
        """A built-in robot by its name, or one from a path relative to the project file, with the project's springs,
        and its joints that do not move held."""
        spec = self.spec
        return self.opened.robot(self.robot_source, spec.gravity, spec.spring, spec.hold, spec.base)

    def log_files(self, run: RunSpec) -> list[Path]:
        """The files of a run, in the order in which they continue each other."""
        return [self.path.parent / log for log in run.logs]

    def recording(self, run: RunSpec, progress: Progress | None = None) -> Recording:
        """The log of a run, or its logs as one; with a clock if the project states the rate of the rows."""
        count = len({log for one in self.spec.run for log in one.logs})
        return self.opened.recording(self.log_files(run), run, self.spec.channels, count, progress)

    def model(self) -> Model:
        """The robot with the terms of the file: "default", "plain", or a list."""
        robot, asked = self.robot(), self.spec.terms
        if isinstance(asked, str):
            if asked not in TERM_SETS:
                raise ProjectError(f"'{self.path}': " + choices("set of terms", asked, TERM_SETS))
            asked = list(TERM_SETS[asked](robot))
        listed = [TermSpec(term) if isinstance(term, str) else term for term in asked]
        terms = [named_term(t.name, t.options, t.joints, self.spec.sign_width) for t in listed]
        return self.opened.model(robot, terms, self.spec.payload)

    def terms_without(self, name: str) -> str:
        """The line of the file that lists its terms without this one."""
        kept = [TermSpec.of(term) for term in self.model().terms if term.name != name]
        listed: list[str | dict[str, Any]] = []
        for one in kept:
            options = {key: x for key, x in one.options.items() if (key, x) != ("width", self.spec.sign_width)}
            short = not options and one.joints is None
            listed.append(one.name if short else {"name": one.name, "options": options, "joints": one.joints})
        return f"terms = {toml_value(listed)}"

    def propose_cutoffs(self, progress: Progress | None = None) -> Cutoffs:
        """Cut-offs proposed by the papers' rule for the runs to identify (P4 §III.A)."""
        return propose_cutoffs(self.unfiltered(progress), progress)

    def unfiltered(self, progress: Progress | None = None) -> tuple[Samples, ...]:
        """Every run to identify, prepared without the filter of the positions."""
        spec = self.spec.prepare
        raw = Preparation(None, spec.rate_hz, spec.gap_s, spec.missing)
        return self._prepared(self.robot(), "identify", raw, progress)

    @cached_property
    def cutoffs(self) -> Cutoffs:
        return self.propose_cutoffs()

    def cutoff_hz(self) -> float | None:
        asked = self.spec.prepare.cutoff_hz
        return self.cutoffs.cutoff_hz if asked == AUTO else _frequency("cutoff_hz", asked)

    def lowpass_hz(self) -> float | None:
        asked = self.spec.prepare.lowpass_hz
        return self.cutoffs.lowpass_hz if asked == AUTO else _frequency("lowpass_hz", asked)

    def preparation(self) -> Preparation:
        spec, cutoff = self.spec.prepare, self.cutoff_hz()
        derivatives = "differences" if spec.derivatives == AUTO else spec.derivatives
        if derivatives not in DERIVATIVES:
            raise ProjectError(f"'{self.path}': " + choices("prepare.derivatives", derivatives, (AUTO, *DERIVATIVES)))
        return Preparation(cutoff, spec.rate_hz, spec.gap_s, spec.missing, cast(Derivatives, derivatives))

    def samples(self, robot: Robot, role: str, progress: Progress | None = None) -> tuple[Samples, ...]:
        """Every run of a role, prepared."""
        return self._prepared(robot, role, self.preparation(), progress)

    def _prepared(
        self, robot: Robot, role: str, settings: Preparation, progress: Progress | None = None
    ) -> tuple[Samples, ...]:
        channels = self.spec.channels.channel_map()
        out = []
        for run in self.spec.run:
            if run.role == role:
                samples = prepare(
                    self.recording(run, progress), robot, channels, settings,
                    rows=run.rows, seconds=run.seconds, load=run.load, role=role, progress=progress,
                )  # fmt: skip
                part = run.topic or ("" if run.episode is None else f"episode {run.episode}")
                out.append(replace(samples, name=run.name or samples.name, part=part))
        return tuple(out)

    def problem(self, model: Model, runs: Sequence[Samples]) -> Problem:
        """The problem of these runs; a delay of "auto" is not corrected.

        Gains belong to motors: an estimator that finds them gets motor rows. One that simulates gets the experiment.
        """
        spec = self.spec.prepare
        delay: Sequence[float] = ()
        if not isinstance(spec.delay, str):
            delay = per_joint("prepare.delay", spec.delay, model.robot)
        elif spec.delay not in (AUTO, NONE):
            raise ProjectError(f'prepare.delay must be "{AUTO}", "{NONE}" or seconds, not \'{spec.delay}\'.')
        rest = spec.rest
        if isinstance(rest, dict):
            rest = per_joint("prepare.rest", rest, model.robot)
        motor_rows, experiment = self.identifies_gains, self.experiment(model, runs)
        return Problem(
            model, runs, self.lowpass_hz(), spec.decimate, rest, spec.rest_share, delay, motor_rows,
            experiment=experiment,
        )  # fmt: skip

    def experiment(self, model: Model, runs: Sequence[Samples]) -> Experiment | None:
        """How the runs were driven; None without a [controller], or if a reference is missing and not needed."""
        spec, simulates = self.spec, self.simulates_runs
        if spec.controller is None:
            if simulates:
                raise ProjectError(
                    f"'{self.path}': estimator '{self.estimator().name}' simulates the runs again and needs to know "
                    "how they were controlled: add a [controller], and a reference in [channels] or reference = "
                    '"measured" in '
                    "[experiment]."
                )
            return None
        source = cast(Source, (spec.experiment or ExperimentSpec()).reference)
        if source == "commanded" and not simulates and any(run.reference is None for run in runs):
            return None
        loop = IDEAL if spec.loop is None else spec.loop.loop(model.robot)
        found = experiment_of(model, runs, spec.controller.table(), loop, source)
        if spec.channels.reference is None and source == "commanded":
            found = replace(found, approximate=INTEGRATED)
        if simulates:
            rehearse(model, runs, spec.controller.table(), loop)
        return found


def _frequency(name: str, asked: float | str) -> float | None:
    if isinstance(asked, str):
        if asked != NONE:
            raise ProjectError(f'prepare.{name} must be "{AUTO}", "{NONE}" or a frequency in Hz, not \'{asked}\'.')
        return None
    if not 0.0 < asked < float("inf"):
        raise ProjectError(f"prepare.{name} must be a positive frequency in Hz, not {asked}.")
    return float(asked)


def read_project(path: str | Path) -> Project:
    """Read a project file and check every key: errors for unknown keys, wrong types and missing ones name the place."""
    file = Path(path)
    try:
        data = tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        if str(file) in builtin_robots():
            raise ProjectError(f"'{file}' is {_A_ROBOT.format(file)}") from None
        raise ProjectError(f"No project file '{file}'. Write one with `steelyard init`, or correct the path.") from None
    except IsADirectoryError:
        kind = _A_RESULT if (file / RESULT).is_file() else "a folder; give the project file in it."
        raise ProjectError(f"'{file}' is {kind}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProjectError(f"'{file}' is {_another_kind(file) or f'not valid TOML: {error}.'}") from None
    except (OSError, ValueError) as error:
        raise ProjectError(f"Cannot read '{file}': {error}.") from None
    if "convention" in data and "run" not in data:
        raise ProjectError(f"'{file}' is {_A_ROBOT.format(file)}")
    check_contents(data, f"'{file}'", ProjectError)
    return Project(checked_spec(data, file), file)


_A_ROBOT = "a robot, not a project file. Write a project file for it and its logs first: `steelyard init {} LOG …`."
_A_RESULT = "a result, not a project file. To write its page again: `steelyard report`."


def _another_kind(file: Path) -> str:
    """What a file is that is not a project file, by its name, and what to do with it; "" if that is not known."""
    suffix = file.suffix.lower()
    if suffix in (".urdf", ".xml", ".mjcf", ".xacro", ".sdf"):
        return _A_ROBOT.format(file)
    if suffix in (*KNOWN, *PACKED):
        return f"a log, not a project file. Write a project file first: `steelyard init ROBOT {file}`."
    return _A_RESULT if file.name == RESULT else ""
