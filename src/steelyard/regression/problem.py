"""Problem: a model, the runs that it is to explain, and the settings for their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._notebook import Displayed
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Compensator, Springs
from steelyard.regression.decimation import Decimator
from steelyard.signals.channels import Drives
from steelyard.signals.samples import Samples, same_log
from steelyard.simulation.experiment import Experiment

# Speed [rad/s | m/s] below which a geared joint sticks and slips; for slow motions, fraction of the top speed instead.
REST_SPEED, REST_FRACTION = 0.02, 0.05
REST_SHARE = 0.1
# A joint that travelled less than this [rad | m] did not move: the rest is noise and elasticity.
STILL = 2e-3


@dataclass(frozen=True)
class Problem(Displayed):
    """An identification problem: a model, runs, and how their rows are made.

    lowpass_hz   cut-off of the parallel filter of effort and columns [Hz]; None filters nothing
    decimate     samples per row; None keeps 2.5 rows per period of lowpass_hz
    rest         rows of a joint slower than this are left out, since stiction is not a function of velocity: a fraction
                 of its top speed, or speeds [rad/s | m/s] for every joint; None is 0.02 rad/s or m/s, or a twentieth of
                 the top speed where that is less
    rest_share   a row is used when the joint rests in at most this fraction of its filter's support; 1 uses only the
                 row's own speed
    delay        lag of the effort behind the position, per joint [s]: y_j(t + delay_j) goes with W_j(t)
    motor_rows   where motors are coupled, rows are those of the motors, τ_m = C⁻ᵀ τ, each with its own effort
    factor       factor from the stated effort of every motor to its torque (identified drive gains); NaN where a gain
                 is not known, whose rows are left out
    experiment   how the runs were driven, for estimators that simulate them
    """

    model: Model
    runs: Sequence[Samples]
    lowpass_hz: float | None = None
    decimate: int | None = None
    rest: float | Sequence[float] | None = None
    rest_share: float = REST_SHARE
    delay: Sequence[float] = ()
    motor_rows: bool = False
    factor: Sequence[float] = ()
    experiment: Experiment | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(self.runs))
        robot = self.model.robot
        if not self.runs:
            raise DataError("A problem needs at least one run of samples.")
        names = [run.name for run in self.runs]
        if len(set(names)) != len(names):
            raise DataError(f"Two runs have the same name: {', '.join(names)}. Give each run its own name.")
        for run in self.runs:
            if run.joints != robot.axis_names:
                raise DataError(
                    f"Run '{run.name}' has joints {', '.join(run.joints)}; robot '{robot.name}' has "
                    f"{', '.join(robot.axis_names)}."
                )
            if robot.floats and not run.floats:
                raise DataError(
                    f"The base of '{robot.name}' floats and run '{run.name}' has no motion of it: name its "
                    "columns in [channels.base], or give `base` (9, N) to Samples.from_arrays."
                )
        for k, run in enumerate(self.runs):
            for other in self.runs[:k]:
                if overlap(run, other):
                    raise DataError(
                        f"Runs '{other.name}' and '{run.name}' are the same data, which would count twice and make the "
                        "result look more certain than it is. Remove one, or use windows that do not overlap."
                    )
        if np.any(self.rest_speeds < 0) or not np.all(np.isfinite(self.rest_speeds)):
            raise DataError(f"`rest` in [prepare] must be zero or positive, not {self.rest!r}.")

        if not 0.0 < self.rest_share <= 1.0:
            raise DataError(f"`rest_share` in [prepare] must be above 0 and at most 1, not {self.rest_share!r}.")
        if self.delay and (len(self.delay) != robot.dof or not np.all(np.isfinite(self.delay))):
            raise DataError(f"delay lists {list(self.delay)} for {robot.dof} joints; give one number [s] per joint.")
        if any(run.drives != self.drives for run in self.runs):
            raise DataError(
                "All runs of one problem must have the same effort units, gains, ratios and sides; these differ "
                "between " + ", ".join(names) + "."
            )
        if self.factor and (len(self.factor) != robot.dof or np.any(np.isinf(self.factor))):
            raise DataError(f"factor lists {list(self.factor)} for {robot.dof} motors; give one number per motor.")

    def decimator(self, run: Samples, furthest: float = 0.0) -> Decimator:
        """The filter of a run's rows; `furthest` [s] is the longest shift requested in addition to `delay`."""
        most = max(map(abs, self.delay), default=0.0) + abs(furthest)
        return Decimator.design(run.rate, self.lowpass_hz, self.decimate, most)

    @cached_property
    def rest_speeds(self) -> Array:
        """Speed below which a joint's rows are left out, (n,) [rad/s | m/s]."""
        n = self.model.robot.dof
        top = np.max([run.top_speed for run in self.runs], axis=0)
        if self.rest is None:
            return np.minimum(REST_SPEED, REST_FRACTION * top)
        if isinstance(self.rest, int | float):
            return float(self.rest) * top
        if len(self.rest) != n:
            raise DataError(f"rest lists {len(self.rest)} speeds for {n} joints; give one per joint.")
        return np.array(self.rest, float)

    @property
    def drives(self) -> Drives | None:
        """The stated conversion from logged efforts to the joints; None without a channel map."""
        return self.runs[0].drives

    @cached_property
    def without_rows(self) -> tuple[int, ...]:
        """Joints without rows: those that never move, and those whose torque includes a motor without a known gain."""
        unknown = np.isnan(self.factor) if self.factor else np.zeros(self.model.robot.dof, bool)
        mixed = [j for j, motors in enumerate(self.model.robot.motor_map.T) if np.any(unknown[motors != 0.0])]
        return tuple(sorted({*self.still, *mixed}))

    @cached_property
    def still(self) -> tuple[int, ...]:
        """Joints that do not move in any run; their rows carry no information and are left out."""
        travel = np.max([run.travel for run in self.runs], axis=0)
        return tuple(int(j) for j in np.flatnonzero(travel < STILL))

    def moving(self, v: Array, still: Array) -> NDArray[np.bool_]:
        """Which joints (n, m) move at the low-passed speeds v and rest in at most `rest_share` of the row's support."""
        awake = np.abs(v) >= self.rest_speeds[:, None]
        return awake if self.rest_share >= 1.0 else awake & (np.abs(still) <= self.rest_share)

    @cached_property
    def row_shares(self) -> Array:
        """(n, n): which joints' equations are combined in each row of the estimation; the identity except for motor
        rows."""
        shares = np.linalg.inv(self.model.robot.motor_map).T if self.motor_rows else np.eye(self.model.robot.dof)
        return np.where(np.abs(shares) > 1e-12, shares, 0.0)

    def torque(self, effort: Array) -> Array:
        """Joint torques (n, B) from stated efforts: τ = Cᵀ diag(factor) C⁻ᵀ y."""
        if not self.factor:
            return effort
        factor = np.nan_to_num(self.factor, nan=1.0)[:, None]
        if self.model.robot.coupling is None:
            return factor * effort
        c = self.model.robot.motor_map
        return c.T @ (factor * np.linalg.solve(c.T, effort))

    def with_runs(self, runs: Sequence[Samples]) -> Problem:
        """The same model, filters and mask with other runs; the mask keeps the speeds of this problem's runs [rad/s |
        m/s]."""
        return replace(self, runs=tuple(runs), rest=self.rest_speeds.tolist())

    @property
    def mask(self) -> str:
        """The row mask, as text."""
        if not self.rest_speeds.any():
            return "every row"
        speeds = ", ".join(f"{x:.4g}" for x in self.rest_speeds)
        rule = "stated speeds"
        if self.rest is None:
            rule = f"the smaller of {REST_SPEED:g} and {REST_FRACTION:.0%} of the top speed"
        elif isinstance(self.rest, int | float):
            rule = f"{self.rest:.4g} of the top speed"
        kinds = {joint.is_prismatic for joint in self.model.robot.axes}
        unit = "rad/s or m/s" if len(kinds) > 1 else "m/s" if kinds == {True} else "rad/s"
        said = f"rows of joint j where low-passed |v_j| >= [{speeds}] {unit} ({rule})"
        return (
            said
            if self.rest_share >= 1.0
            else f"{said}, and moving during at least {1 - self.rest_share:.0%} of the filter window"
        )

    def row_rule(self, run: Samples) -> str:
        """How the rows of a run are made from its samples, as text."""
        decimator = self.decimator(run)
        rate = run.rate / decimator.factor
        late = ", ".join(f"{1e3 * d:.4g}" for d in self.delay)
        moved = f"; effort read [{late}] ms later than positions" if any(self.delay) else ""
        if self.lowpass_hz is None:
            return f"rows: unfiltered, 1 of {decimator.factor} samples kept ({rate:.4g} Hz){moved}"
        return (
            f"rows: effort and columns low-passed at {self.lowpass_hz:g} Hz by one linear-phase filter of "
            f"{len(decimator.taps) - 2 * decimator.reach} taps, 1 of {decimator.factor} samples kept ({rate:.4g} "
            f"Hz){moved}"
        )

    def _limit_findings(self) -> Iterator[Finding]:
        """Findings on joints outside the limits of the robot file: wrong units, ratios, offsets or columns."""
        for run in self.runs:
            for j, joint in enumerate(self.model.robot.axes):
                limits = joint.limits
                slack = 0.02 * (limits.upper - limits.lower) if np.isfinite(limits.upper - limits.lower) else 0.0
                beyond = []
                if run.lowest[j] < limits.lower - slack or run.highest[j] > limits.upper + slack:
                    where = f"{run.lowest[j]:.4g} to {run.highest[j]:.4g}"
                    beyond.append(f"positions {where} (limits {limits.lower:.4g} to {limits.upper:.4g})")
                if run.top_speed[j] > 1.2 * limits.velocity:
                    beyond.append(f"speed {run.top_speed[j]:.4g} (limit {limits.velocity:.4g})")
                if beyond:
                    yield Finding(
                        "beyond-limits",
                        "warning",
                        f"{joint.name} of '{run.name}' exceeds the limits of the robot file: " + ", ".join(beyond),
                        joint.name,
                        "check unit, sign, ratio, offset and column of its position, or correct the limits",
                    )

    def constant_effort_findings(self) -> Iterator[Finding]:
        """The joints whose effort never changes in a run."""
        for run in self.runs:
            for j in np.flatnonzero(run.constant_effort):
                name = self.model.robot.axis_names[j]
                yield Finding(
                    "constant-effort",
                    "error",
                    f"the effort of {name} never changes in '{run.name}': its rows there are left out",
                    name,
                    "check its column in the channel map, and that the drive reports an effort",
                )

    def _load_findings(self) -> Iterator[Finding]:
        named = {UNLOADED, *(payload.name for payload in self.model.payloads)}
        for load in dict.fromkeys(run.load for run in self.runs if run.load not in named):
            runs = ", ".join(f"'{run.name}'" for run in self.runs if run.load == load)
            yield Finding(
                "undeclared-load",
                "info",
                f'the load "{load}" of {runs} is not the name of a payload: its mass is attributed to the last link',
                load,
                "declare a [[payload]] of this name to separate it from the robot",
            )

    def _contact_findings(self) -> Iterator[Finding]:
        robot = self.model.robot
        if robot.floats and len(robot.axis_names) < len(robot.joints):
            yield Finding(
                "contacts-unknown",
                "info",
                f"the base of '{robot.name}' floats and no contact force is known: its limbs are taken as touching "
                f"nothing in all rows, and neither the parameters of '{robot.links[5].name}' nor the total mass can be "
                "determined",
                robot.links[5].name,
                "use parts of the logs (seconds) in which the limbs hang free",
            )

    def _spring_findings(self) -> Iterator[Finding]:
        robot = self.model.robot
        left_out = robot.springs and not any(term.name == Springs.name for term in self.model.terms)
        if left_out or (
            robot.compensator is not None and not any(t.name == Compensator.name for t in self.model.terms)
        ):
            what = "springs" if left_out else "compensator"
            yield Finding(
                "spring-not-modelled",
                "info",
                f"'{robot.name}' has a {what.removesuffix('s')} that the terms do not include: other parameters absorb "
                "its torque",
                what,
                f'add "{what}" to the terms',
            )

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        names = self.model.robot.axis_names
        travel = np.max([run.travel for run in self.runs], axis=0)
        told = self.model.robot.findings + tuple(finding for run in self.runs for finding in run.findings)
        told += tuple(self._limit_findings())
        told += tuple(self._contact_findings())
        told += tuple(self.constant_effort_findings()) + tuple(self._load_findings()) + tuple(self._spring_findings())
        return told + tuple(
            Finding(
                "joint-not-moving",
                "error",
                f"{names[j]} does not move (travel {travel[j]:.2g} rad or m): its rows are left out, and its friction, "
                "rotor inertia and offset cannot be identified",
                names[j],
                f"record a motion of this joint, hold it (hold = ['{names[j]}']), or check its column in the map",
            )
            for j in self.still
        )


def overlap(one: Samples, other: Samples) -> bool:
    """True when two runs use the same rows of the same file."""
    if not same_log(one, other):
        return False
    (a, b), (c, d) = one.used, other.used
    return min(b, d) > max(a, c)
