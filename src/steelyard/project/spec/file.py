"""project.toml as a typed spec: its keys, their types, and the checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np

from steelyard.errors import ProjectError, SimulationError, choices
from steelyard.estimators import ESTIMATORS
from steelyard.formats.robots.assembly import pose_from_rpy
from steelyard.formats.robots.bases import Base
from steelyard.formats.robots.toml_springs import SpringTable
from steelyard.model.parameters import INERTIAL, inertia_matrix, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import OnJoints, Term
from steelyard.project.spec.channels import (
    BaseSignalSpec,
    BaseSpec,
    ChannelsSpec,
    Numbers,
    SignalSpec,
    TimeSpec,
    Vector,
)
from steelyard.regression.problem import REST_SHARE
from steelyard.report.lamps import LampLimits
from steelyard.signals.base_channels import POSE, SENSOR
from steelyard.simulation.closed_loop import Loop
from steelyard.simulation.controllers import CONTROLLERS
from steelyard.simulation.experiment import SOURCES

ROLES = ("identify", "validate")
AUTO, NONE = "auto", "none"


class PrepareSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[prepare]: clock, filters, derivatives, delays, decimation and the rest mask.

    "auto" is replaced by a number before the fit, which is written into the result; "none" skips the step.
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


class ExperimentSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[experiment]: the reference of simulated runs, "commanded" or "measured" motion."""

    reference: str = "commanded"


class ControllerSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[controller]: a kind with its gains, or with the bandwidths for tuning; see `steelyard.controllers`."""

    kind: str
    kp: Numbers | None = None
    ki: Numbers | None = None
    kd: Numbers | None = None
    kv: Numbers | None = None
    bandwidth_hz: Numbers | None = None
    position_hz: Numbers | None = None
    velocity_hz: Numbers | None = None
    damping: float | None = None
    integral: bool | None = None
    velocity_feedforward: float | None = None

    def table(self) -> dict[str, Any]:
        """The stated keys, for `controller_from`."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}


class LoopSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[loop]: encoders and drives between controller and joints; see `steelyard.simulate.Loop`."""

    side: str = "joint"
    encoder_ratio: Numbers | None = None
    encoder_offset: Numbers | None = None
    encoder_step: Numbers | None = None
    torque_ratio: Numbers | None = None
    torque_limit: Numbers | None = None
    delay_s: float | None = None
    velocity: str | None = None
    velocity_filter_hz: float | None = None

    def loop(self, robot: Robot) -> Loop:
        stated = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}
        for key, value in stated.items():
            if isinstance(value, dict):
                stated[key] = per_joint(f"loop.{key}", value, robot)
        try:
            return Loop(**stated)
        except SimulationError as error:
            raise ProjectError(f"[loop]: {error}") from None


class RunSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[[run]]: one log, or several that continue each other; role and load case, and the part of it to use."""

    log: str | list[str]
    role: str = "identify"
    load: str = "none"
    name: str | None = None
    rows: tuple[int, int] | None = None
    seconds: tuple[float, float] | None = None
    delimiter: str | None = None
    topic: str | None = None
    episode: int | None = None
    salvage: bool = False

    @property
    def logs(self) -> list[str]:
        """The files, in the order in which they continue each other."""
        return [self.log] if isinstance(self.log, str) else self.log

    @property
    def label(self) -> str:
        """The files as text."""
        return " + ".join(self.logs)


class PayloadSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[[payload]]: a body on a link in the runs whose `load` is its name; see `steelyard.payload.Payload`.

    `mass`, `com` and `inertia_com` are a simpler form of `known`, about the payload's own frame.
    """

    name: str
    link: str = ""
    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    known: dict[str, float] = {}
    std: dict[str, float] = {}
    mass: float | None = None
    com: Vector | None = None
    inertia_com: tuple[float, float, float, float, float, float] | None = None

    def payload(self) -> Payload:
        if not np.all(
            np.isfinite([*self.xyz, *self.rpy, self.mass or 0.0, *(self.com or ()), *(self.inertia_com or ())])
        ):
            raise ProjectError(
                f"Payload '{self.name}': xyz [m], rpy [rad], mass [kg], com [m] and inertia_com must be finite."
            )
        return Payload(self.name, self.link, pose_from_rpy(self.xyz, self.rpy), self._known(), self.std)

    def _known(self) -> dict[str, float]:
        body = {"mass": self.mass, "com": self.com, "inertia_com": self.inertia_com}
        given = [key for key, value in body.items() if value is not None]
        if not given:
            return self.known
        if self.known:
            raise ProjectError(
                f"Payload '{self.name}' is defined twice: keep either 'known' or {', '.join(map(repr, given))}."
            )
        if given != list(body)[: len(given)]:
            raise ProjectError(
                f"Payload '{self.name}': {given[-1]} is not sufficient alone: give mass, mass and com, or mass, com "
                "and inertia_com."
            )
        inertia = inertia_matrix(np.array(self.inertia_com or (0.0,) * 6))
        vector = inertial_vector(self.mass or 0.0, np.array(self.com or (0.0,) * 3), inertia).tolist()
        return dict(list(zip(INERTIAL, vector, strict=True))[{1: 9, 2: 6, 3: 0}[len(given)] :])


class TermSpec(msgspec.Struct, forbid_unknown_fields=True):
    """A term with options, or on some joints only: { name = "dahl", options = { length = 0.005 }, joints = ["a1"] }."""

    name: str
    options: dict[str, Any] = {}
    joints: list[str] | None = None

    @staticmethod
    def of(term: Term) -> TermSpec:
        """A term as a project file states it."""
        inner, joints = (term.term, list(term.joints)) if isinstance(term, OnJoints) else (term, None)
        options = {
            option.name: getattr(inner, option.name)
            for option in fields(inner)  # type: ignore[arg-type]
            if option.name == "width" or getattr(inner, option.name) != option.default  # else sign_width would set it
        }
        return TermSpec(inner.name, options, joints)


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
    hold: list[str] = []
    base: Base | None = None
    estimator: str | EstimatorSpec | None = None
    payload: list[PayloadSpec] = []
    spring: list[SpringTable] = []
    prepare: PrepareSpec = msgspec.field(default_factory=PrepareSpec)
    experiment: ExperimentSpec | None = None
    controller: ControllerSpec | None = None
    loop: LoopSpec | None = None
    lamps: LampLimits = LampLimits()

    @property
    def delimiter(self) -> str | None:
        """The delimiter of any other log of the same logger: the one stated for all runs, else to be detected."""
        stated = {run.delimiter for run in self.run}
        return stated.pop() if len(stated) == 1 else None


def checked_spec(data: Mapping[str, Any], file: Path) -> ProjectSpec:
    """The spec from the tables of a project file; errors for unknown, missing and wrong keys name the place."""
    try:
        spec = msgspec.convert(data, ProjectSpec)
    except msgspec.ValidationError as error:
        raise ProjectError(f"'{file}': {_explained(str(error))}") from None
    _check(spec, file)
    return spec


def _check(spec: ProjectSpec, file: Path) -> None:
    for run in spec.run:
        if run.role not in ROLES:
            raise ProjectError(f"'{file}': " + choices("role", run.role, ROLES))
        if run.rows is not None and run.seconds is not None:
            raise ProjectError(f"'{file}': run '{run.label}' has both 'rows' and 'seconds'; keep one.")
        if not run.logs:
            raise ProjectError(f"'{file}': a [[run]] has an empty list of logs; name at least one file.")
        if len(run.logs) > 1 and run.episode is not None:
            raise ProjectError(
                f"'{file}': run '{run.label}' has an 'episode' and several logs; an episode lies in one log: name that."
            )
    _check_clock(spec.channels.time, file)
    if not any(run.role == "identify" for run in spec.run):
        raise ProjectError(f"'{file}': no [[run]] has role = \"identify\"; there is nothing to fit.")
    if not 0.0 <= spec.sign_width < float("inf"):
        raise ProjectError(f"'{file}': sign_width must be zero or positive [rad/s | m/s], not {spec.sign_width}.")
    cycles = spec.ripple_cycles
    listed = cycles.values() if isinstance(cycles, dict) else cycles if isinstance(cycles, list) else [cycles]
    if cycles is not None and not all(x is not None and 0.0 < x < float("inf") for x in listed):
        raise ProjectError(f"'{file}': ripple_cycles must be positive [per joint turn], not {cycles}.")
    name = spec.estimator.name if isinstance(spec.estimator, EstimatorSpec) else spec.estimator
    if name is not None and name not in ESTIMATORS:
        raise ProjectError(f"'{file}': " + choices("estimator", name, ESTIMATORS))
    _check_payloads(spec, file)
    _check_experiment(spec, file)


def _check_clock(time: TimeSpec, file: Path) -> None:
    if (time.column is None) == (time.rate_hz is None):
        raise ProjectError(
            f"'{file}': time in [channels] needs either the 'column' of the clock or, for a log without a clock, "
            "'rate_hz', the rows per second."
        )
    if time.rate_hz is not None and not 0.0 < time.rate_hz < float("inf"):
        raise ProjectError(f"'{file}': rate_hz of time in [channels] must be positive [Hz], not {time.rate_hz}.")


def _check_experiment(spec: ProjectSpec, file: Path) -> None:
    if spec.controller is None:
        for name in ("experiment", "loop"):
            if getattr(spec, name) is not None:
                raise ProjectError(f"'{file}': [{name}] needs a [controller] to simulate the runs with: add one.")
    elif spec.controller.kind not in CONTROLLERS:
        raise ProjectError(f"'{file}': " + choices("kind of [controller]", spec.controller.kind, CONTROLLERS))
    if spec.experiment is not None and spec.experiment.reference not in SOURCES:
        raise ProjectError(f"'{file}': " + choices("experiment.reference", spec.experiment.reference, SOURCES))


def per_joint(key: str, value: Numbers, robot: Robot) -> list[float]:
    """One number per joint from a scalar, a list in joint order or a table by joint name; `key` is used in messages."""
    if isinstance(value, dict):
        for joint in value:
            robot.joint_index(joint)
        missing = [joint for joint in robot.axis_names if joint not in value]
        if missing:
            raise ProjectError(f"{key} gives no value for {', '.join(missing)}.")
        return [value[joint] for joint in robot.axis_names]
    if isinstance(value, list):
        return list(value)
    return [float(value)] * robot.dof


def _check_payloads(spec: ProjectSpec, file: Path) -> None:
    names = [payload.name for payload in spec.payload]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProjectError(f"'{file}': two payloads are named {', '.join(twice)}; each payload needs its own name.")
    loads = list(dict.fromkeys(run.load for run in spec.run))
    for name in names:
        if name not in loads:
            raise ProjectError(
                f"'{file}': no run carries the payload '{name}'; set load = \"{name}\" on the runs that do. "
                f"Loads of the runs: {', '.join(loads)}."
            )


_PLACES: dict[str, type[msgspec.Struct]] = {
    "": ProjectSpec,
    "prepare": PrepareSpec,
    "channels": ChannelsSpec,
    "channels.time": TimeSpec,
    "channels.base": BaseSpec,
    **{f"channels.base.{name}": BaseSignalSpec for name in (*SENSOR, *POSE)},
    **{f"channels.{name}": SignalSpec for name in ("q", "v", "effort", "reference", "reference_v")},
    "run": RunSpec,
    "payload": PayloadSpec,
    "spring": SpringTable,
    "terms": TermSpec,
    "estimator": EstimatorSpec,
    "experiment": ExperimentSpec,
    "controller": ControllerSpec,
    "loop": LoopSpec,
    "lamps": LampLimits,
}


def _explained(message: str) -> str:
    """msgspec's message with the place as written in the project file and the valid keys."""
    text, _, path = message.partition(" - at ")
    place = re.sub(r"\[[^\]]*\]", "", path.strip("`").removeprefix("$").removeprefix("."))
    where = f"in [{place}]" if place else "at the top level"
    unknown = re.search(r"unknown field `([^`]*)`", text)
    struct = _PLACES.get(place)
    if unknown and struct is not None:
        return choices(f"key {where}", unknown.group(1), get_type_hints(struct))
    return f"{text} ({where})."
