"""project.toml: the typed spec of a project, and the model, samples and problem it describes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec

from steelyard.channels import ChannelMap, Signal
from steelyard.errors import ProjectError, choices
from steelyard.estimators import ESTIMATORS, Estimator, named_estimator
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.model import Model
from steelyard.prepare import Preparation, prepare
from steelyard.problem import REST_SHARE, Problem
from steelyard.recording import Progress
from steelyard.robot import Robot
from steelyard.samples import Samples
from steelyard.smoother import DERIVATIVES, Derivatives
from steelyard.spectrum import Cutoffs, propose_cutoffs
from steelyard.terms import named_term, plain_terms, rich_terms

ROLES = ("identify", "validate")
AUTO, NONE = "auto", "none"
TERM_SETS = {"default": rich_terms, "plain": plain_terms}

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
    """[prepare]: clock, filters, derivatives, delays, decimation and the rest mask.

    "auto" is settled before the fit and written as a number into the result; "none" leaves the step out.
    """

    cutoff_hz: float | str = AUTO
    rate_hz: float | None = None
    gap_s: float | None = None
    missing: str = "error"
    derivatives: str = AUTO
    lowpass_hz: float | str = AUTO
    decimate: int | None = None
    delay: Numbers | str = AUTO
    rest: Numbers | None = None
    rest_share: float = REST_SHARE


class RunSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[[run]]: one log, its role and load case, and the part of it to use."""

    log: str
    role: str = "identify"
    load: str = "none"
    name: str | None = None
    rows: tuple[int, int] | None = None
    seconds: tuple[float, float] | None = None
    delimiter: str | None = None
    topic: str | None = None
    episode: int | None = None
    salvage: bool = False


class TermSpec(msgspec.Struct, forbid_unknown_fields=True):
    """A term with options, or on some joints only: { name = "dahl", options = { length = 0.005 }, joints = ["a1"] }."""

    name: str
    options: dict[str, Any] = {}
    joints: list[str] | None = None


class EstimatorSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[estimator]: its name and its options by name; `estimator = "wls"` is the short form."""

    name: str
    options: dict[str, Any] = {}


class ProjectSpec(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    robot: str
    channels: ChannelsSpec
    run: list[RunSpec]
    terms: str | list[str | TermSpec] = "default"
    select: bool = False
    ripple_cycles: Numbers | None = None
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
        """The robot with the terms the file names: "default", "plain", or a list."""
        robot, asked = self.robot(), self.spec.terms
        if isinstance(asked, str):
            if asked not in TERM_SETS:
                raise ProjectError(f"'{self.path}': " + choices("set of terms", asked, TERM_SETS))
            asked = list(TERM_SETS[asked](robot))
        listed = [TermSpec(term) if isinstance(term, str) else term for term in asked]
        return Model(robot, [named_term(t.name, t.options, t.joints, self.spec.sign_width) for t in listed])

    def propose_cutoffs(self, progress: Progress | None = None) -> Cutoffs:
        """What the papers' rule proposes for the runs to identify (P4 §III.A)."""
        spec = self.spec.prepare
        raw = Preparation(None, spec.rate_hz, spec.gap_s, spec.missing)
        return propose_cutoffs(self._prepared(self.robot(), "identify", raw, progress), progress)

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
                recording = read_recording(
                    self.path.parent / run.log, run.delimiter,
                    topic=run.topic, episode=run.episode, salvage=run.salvage, progress=progress,
                )  # fmt: skip
                samples = prepare(
                    recording, robot, channels, settings,
                    rows=run.rows, seconds=run.seconds, load=run.load, role=role, progress=progress,
                )  # fmt: skip
                part = run.topic or ("" if run.episode is None else f"episode {run.episode}")
                out.append(replace(samples, name=run.name or samples.name, part=part))
        return tuple(out)

    def problem(self, model: Model, runs: Sequence[Samples]) -> Problem:
        """The problem of these runs; a delay that is still to be settled is not corrected."""
        spec = self.spec.prepare
        delay: Sequence[float] = ()
        if not isinstance(spec.delay, str):
            delay = _per_joint("delay", spec.delay, model.robot)
        elif spec.delay not in (AUTO, NONE):
            raise ProjectError(f'prepare.delay must be "{AUTO}", "{NONE}" or seconds, not \'{spec.delay}\'.')
        rest = spec.rest
        if isinstance(rest, dict):
            rest = _per_joint("rest", rest, model.robot)
        return Problem(model, runs, self.lowpass_hz(), spec.decimate, rest, spec.rest_share, delay)


def _frequency(name: str, asked: float | str) -> float | None:
    if isinstance(asked, str):
        if asked != NONE:
            raise ProjectError(f'prepare.{name} must be "{AUTO}", "{NONE}" or a frequency in Hz, not \'{asked}\'.')
        return None
    if not 0.0 < asked < float("inf"):
        raise ProjectError(f"prepare.{name} must be a positive frequency in Hz, not {asked}.")
    return float(asked)


def _per_joint(name: str, value: Numbers, robot: Robot) -> list[float]:
    """One number a joint from a scalar, a list in joint order or a table by joint name."""
    if isinstance(value, dict):
        for joint in value:
            robot.joint_index(joint)
        missing = [joint for joint in robot.joint_names if joint not in value]
        if missing:
            raise ProjectError(f"prepare.{name} gives no value for {', '.join(missing)}.")
        return [value[joint] for joint in robot.joint_names]
    if isinstance(value, list):
        return list(value)
    return [float(value)] * robot.dof


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
    cycles = spec.ripple_cycles
    listed = cycles.values() if isinstance(cycles, dict) else cycles if isinstance(cycles, list) else [cycles]
    if cycles is not None and not all(x is not None and 0.0 < x < float("inf") for x in listed):
        raise ProjectError(f"'{file}': ripple_cycles must be positive [per joint turn], not {cycles}.")
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
    "terms": TermSpec,
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
