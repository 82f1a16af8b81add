"""Controllers of closed-loop simulation, gains as data: PD, PID, a P–PI cascade and computed torque.

All of them use one law per joint or motor, a function of the position error e = q_r − q and of the measured speed q̇,

    w = γ q̈_r + Kp e + Kd (β q̇_r − q̇) + x,      ẋ = Ki e + Kiv (β q̇_r − q̇)

where w is the command, or for computed torque the acceleration whose torque is commanded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from steelyard._arrays import Array
from steelyard.errors import ModelError, ProjectError, choices
from steelyard.simulation.plant import Plant, Side

_TURN = 2.0 * np.pi


class LoopGains(NamedTuple):
    """The general law's gains, (n,) each: Kp, Kd, Ki, Kiv, β and γ."""

    proportional: Array
    derivative: Array
    integral: Array
    rate_integral: Array
    speed_share: Array
    acceleration_share: Array


@runtime_checkable
class Controller(Protocol):
    """Interface of a controller. Gains are fields of a frozen dataclass, (n,) each or one for all."""

    name: ClassVar[str]

    @property
    def inverts(self) -> Plant | None:
        """The plant whose inverse dynamics turn w into a torque; None where w is the command itself."""
        ...

    def gains(self, dof: int) -> LoopGains: ...

    def rescaled(self, old: Plant, new: Plant, q: Array | None = None, side: Side = "joint") -> Self:
        """This controller with the same bandwidth on another plant, its inertia averaged over q (n, N) or the
        limits."""
        ...


@final
@dataclass(frozen=True, eq=False)
class PD:
    """u = kp e + kd (β q̇_r − q̇), β = `velocity_feedforward`;  kp [N·m/rad], kd [N·m·s/rad].

    Without an integral, gravity causes a position error, also at the start.
    """

    kp: ArrayLike
    kd: ArrayLike
    velocity_feedforward: float = 1.0
    name: ClassVar[str] = "pd"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def inverts(self) -> None:
        return None

    @staticmethod
    def tuned(
        plant: Plant,
        bandwidth_hz: ArrayLike = 5.0,
        damping: float = 1.0,
        q: Array | None = None,
        side: Side = "joint",
        velocity_feedforward: float = 1.0,
    ) -> PD:
        """A double pole at ω = 2π bandwidth: kp = J ω², kd = 2 ζ J ω, with the plant's mean inertia J over q."""
        inertia, omega = plant.inertia(q, side), _TURN * _hertz("bandwidth_hz", bandwidth_hz)
        return PD(inertia * omega**2, 2.0 * damping * inertia * omega, velocity_feedforward)

    def gains(self, dof: int) -> LoopGains:
        none = np.zeros(dof)
        return _gains(dof, self, self.kp, self.kd, none, none, self.velocity_feedforward, 0.0)

    def rescaled(self, old: Plant, new: Plant, q: Array | None = None, side: Side = "joint") -> PD:
        return _scaled(self, ("kp", "kd"), old, new, q, side)


@final
@dataclass(frozen=True, eq=False)
class PID:
    """u = kp e + ki ∫e + kd (β q̇_r − q̇): the derivative acts on the measurement only, unless `velocity_feedforward`
    is given;  kp [N·m/rad], ki [N·m/(rad·s)], kd [N·m·s/rad]."""

    kp: ArrayLike
    ki: ArrayLike
    kd: ArrayLike
    velocity_feedforward: float = 0.0
    name: ClassVar[str] = "pid"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def inverts(self) -> None:
        return None

    @staticmethod
    def tuned(
        plant: Plant,
        bandwidth_hz: ArrayLike = 5.0,
        q: Array | None = None,
        side: Side = "joint",
        velocity_feedforward: float = 0.0,
    ) -> PID:
        """A triple pole at ω = 2π bandwidth: kp = 3 J ω², ki = J ω³, kd = 3 J ω."""
        inertia, omega = plant.inertia(q, side), _TURN * _hertz("bandwidth_hz", bandwidth_hz)
        return PID(3.0 * inertia * omega**2, inertia * omega**3, 3.0 * inertia * omega, velocity_feedforward)

    def gains(self, dof: int) -> LoopGains:
        return _gains(dof, self, self.kp, self.kd, self.ki, np.zeros(dof), self.velocity_feedforward, 0.0)

    def rescaled(self, old: Plant, new: Plant, q: Array | None = None, side: Side = "joint") -> PID:
        return _scaled(self, ("kp", "ki", "kd"), old, new, q, side)


@final
@dataclass(frozen=True, eq=False)
class Cascade:
    """A position loop around a velocity loop, as in industrial drives (P–PI):

    q̇_c = kp e + β q̇_r,   u = kv (q̇_c − q̇) + ki ∫(q̇_c − q̇);   kp [1/s], kv [N·m·s/rad], ki [N·m/rad].
    """

    kp: ArrayLike
    kv: ArrayLike
    ki: ArrayLike
    velocity_feedforward: float = 1.0
    name: ClassVar[str] = "cascade"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def inverts(self) -> None:
        return None

    @staticmethod
    def tuned(
        plant: Plant,
        position_hz: ArrayLike = 10.0,
        velocity_hz: ArrayLike = 30.0,
        q: Array | None = None,
        side: Side = "joint",
        velocity_feedforward: float = 1.0,
    ) -> Cascade:
        """kp = 2π position_hz, kv = J ω, ki = J ω²/4 with ω = 2π velocity_hz: the velocity loop has a double pole."""
        inertia, omega = plant.inertia(q, side), _TURN * _hertz("velocity_hz", velocity_hz)
        outer = _TURN * _hertz("position_hz", position_hz)
        return Cascade(outer, inertia * omega, 0.25 * inertia * omega**2, velocity_feedforward)

    def gains(self, dof: int) -> LoopGains:
        kp, kv, ki = (_per_joint(dof, self, name) for name in ("kp", "kv", "ki"))
        return _gains(dof, self, kv * kp, kv, ki * kp, ki, self.velocity_feedforward, 0.0)

    def rescaled(self, old: Plant, new: Plant, q: Array | None = None, side: Side = "joint") -> Cascade:
        return _scaled(self, ("kv", "ki"), old, new, q, side)


@final
@dataclass(frozen=True, eq=False)
class ComputedTorque:
    """u = τ(q, q̇, w) of the plant's model at the measured state, w = q̈_r + kp e + kv (q̇_r − q̇) + ki ∫e.

    `plant` is the model in the controller; it may differ from the simulated plant. Joint side only. kp [1/s²], kv
    [1/s], ki [1/s³].
    """

    plant: Plant
    kp: ArrayLike
    kv: ArrayLike
    ki: ArrayLike = 0.0
    name: ClassVar[str] = "computed-torque"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def inverts(self) -> Plant:
        return self.plant

    @staticmethod
    def tuned(plant: Plant, bandwidth_hz: ArrayLike = 10.0, integral: bool = False) -> ComputedTorque:
        """All poles at ω = 2π bandwidth: kp = ω², kv = 2ω; with an integral kp = 3ω², kv = 3ω, ki = ω³."""
        omega = _TURN * _hertz("bandwidth_hz", bandwidth_hz)
        if integral:
            return ComputedTorque(plant, 3.0 * omega**2, 3.0 * omega, omega**3)
        return ComputedTorque(plant, omega**2, 2.0 * omega)

    def gains(self, dof: int) -> LoopGains:
        return _gains(dof, self, self.kp, self.kv, self.ki, np.zeros(dof), 1.0, 1.0)

    def rescaled(self, old: Plant, new: Plant, q: Array | None = None, side: Side = "joint") -> ComputedTorque:
        return _scaled(self, ("kp", "kv", "ki"), old, new, q, side)


CONTROLLERS: dict[str, type[PD] | type[PID] | type[Cascade] | type[ComputedTorque]] = {
    kind.name: kind for kind in (PD, PID, Cascade, ComputedTorque)
}
_TUNINGS = {
    "pd": ("bandwidth_hz", "damping"),
    "pid": ("bandwidth_hz",),
    "cascade": ("position_hz", "velocity_hz"),
    "computed-torque": ("bandwidth_hz", "integral"),
}


def controller_from(
    table: Mapping[str, Any], plant: Plant, q: Array | None = None, side: Side = "joint"
) -> PD | PID | Cascade | ComputedTorque:
    """A controller from a table, e.g. `kind = "cascade"`, with either its gains or the bandwidths for tuning.

    Gains and bandwidths are one number, a list in joint order or a table by joint name; q (n, N) are the positions of
    the motion, over which inertias are averaged.
    """
    given = dict(table)
    kind = given.pop("kind", None)
    if kind not in CONTROLLERS:
        raise ProjectError(choices("kind of controller", kind, CONTROLLERS))
    tunings = _TUNINGS[kind]
    options = [f.name for f in fields(CONTROLLERS[kind]) if f.name == "velocity_feedforward"]
    gains = _gain_names(CONTROLLERS[kind])
    for key in given:
        if key not in (*gains, *tunings, *options):
            raise ProjectError(f"Controller '{kind}': " + choices("key", key, (*gains, *tunings, *options)))
    stated = [key for key in gains if key in given]
    if stated and any(key in given for key in tunings):
        raise ProjectError(f"Controller '{kind}': give gains ({', '.join(gains)}) or bandwidths, not both.")
    missing = [key for key in gains if key not in given and not (kind == "computed-torque" and key == "ki")]
    if stated and missing:
        raise ProjectError(f"Controller '{kind}': {', '.join(missing)} is needed in addition to {', '.join(stated)}.")
    values = {key: _listed(plant, kind, key, x) for key, x in given.items()}
    own = {"plant": plant} if kind == "computed-torque" else {}
    try:
        if stated:
            return CONTROLLERS[kind](**own, **values)
        place = {} if kind == "computed-torque" else {"q": q, "side": side}
        return CONTROLLERS[kind].tuned(plant, **place, **values)
    except ModelError as error:
        raise ProjectError(str(error)) from None


# --- Gains ------------------------------------------------------------------------------------------------------------


def _listed(plant: Plant, kind: str, key: str, value: Any) -> Any:
    """A table by joint name as a list in joint order."""
    names = plant.robot.axis_names
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                raise ProjectError(f"Controller '{kind}', {key}: " + choices("joint", name, names))
        missing = [name for name in names if name not in value]
        if missing:
            raise ProjectError(f"Controller '{kind}', {key}: no value for {', '.join(missing)}.")
        value = [value[name] for name in names]
    flags = ("integral",)
    numbers = value if isinstance(value, list | tuple) else [value]
    if key in flags:
        sound = isinstance(value, bool)
    else:
        sound = all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers)
    if not sound or (len(numbers) not in (1, len(names))):
        wanted = "true or false" if key in flags else f"a number, {len(names)} numbers or a table by joint name"
        raise ProjectError(f"Controller '{kind}': {key} must be {wanted}, not {value!r}.")
    return value


def _hertz(name: str, value: ArrayLike) -> Array:
    hertz = np.asarray(value, float)
    if not np.all(np.isfinite(hertz) & (hertz > 0.0)):
        raise ModelError(f"{name} must be positive [Hz], not {value!r}.")
    return hertz


def _gain_names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a controller that are gains."""
    return tuple(f.name for f in fields(kind) if f.name not in ("plant", "velocity_feedforward"))


def _check(controller: Any) -> None:
    """Copies of the gains, read-only; raises an error unless they are finite and not negative."""
    for name in _gain_names(type(controller)):
        values = np.array(getattr(controller, name), float)
        if values.ndim > 1 or not np.all(np.isfinite(values) & (values >= 0.0)):
            raise ModelError(
                f"Controller '{controller.name}': {name} must be zero or positive, one number or one per joint, not "
                f"{getattr(controller, name)!r}."
            )
        values.flags.writeable = False
        object.__setattr__(controller, name, values)


def _per_joint(dof: int, controller: Any, name: str) -> Array:
    values = np.asarray(getattr(controller, name), float)
    if values.ndim and len(values) != dof:
        raise ModelError(f"Controller '{controller.name}': {len(values)} values of {name} for {dof} joints.")
    return np.broadcast_to(values, dof)


def _gains(dof: int, controller: Any, *values: ArrayLike) -> LoopGains:
    for name in _gain_names(type(controller)):
        _per_joint(dof, controller, name)
    return LoopGains(*(np.array(np.broadcast_to(np.asarray(x, float), dof)) for x in values))


def _scaled(controller: Any, names: tuple[str, ...], old: Plant, new: Plant, q: Array | None, side: Side) -> Any:
    """The named gains multiplied by the ratio of each joint's inertia on the new plant to that on the old."""
    ratio = new.inertia(q, side) / old.inertia(q, side)
    return replace(controller, **{name: ratio * getattr(controller, name) for name in names})
