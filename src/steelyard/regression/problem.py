"""Problem: a model, the runs it is to explain, and how their rows are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import Compensator, Springs
from steelyard.regression.decimation import Decimator
from steelyard.signals.channels import Drives
from steelyard.signals.samples import Samples
from steelyard.simulation.experiment import Experiment

# Below this speed [rad/s | m/s] a geared joint sticks and slips rather than slides; for a slow motion, below this
# fraction of its top speed.
REST_SPEED, REST_FRACTION = 0.02, 0.05
REST_SHARE = 0.1
# A joint that travelled less than this [rad | m] did not move: what is left is noise and elasticity.
STILL = 2e-3


@dataclass(frozen=True)
class Problem:
    """What is to be identified from what.

    lowpass_hz   cut-off of the parallel filter of effort and columns [Hz]; None filters nothing
    decimate     one row is kept of so many samples; None keeps 2.5 rows a period of lowpass_hz
    rest         rows of a joint slower than this are left out: a fraction of its top speed, or speeds [rad/s | m/s]
                 for every joint; None is 0.02 rad/s or m/s, or a twentieth of the top speed where that is less.
                 Stiction is no function of velocity.
    rest_share   a row counts when at most this share of its filter's support lies where the joint rests; 1 looks at the
                 row's own speed alone
    delay        how far the effort of every joint lags behind its position [s]: y_j(t + delay_j) goes with W_j(t)
    motor_rows   rows are those of the motors, τ_m = C⁻ᵀ τ, each with an effort of its own, where motors are coupled
    factor       what the stated effort of every motor is multiplied by to be its torque: identified drive gains; NaN
                 where a gain is not known, whose rows are left out
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
            raise DataError(f"Two runs share a name: {', '.join(names)}. Names key their information.")
        for run in self.runs:
            if run.joints != robot.axis_names:
                raise DataError(
                    f"Run '{run.name}' has joints {', '.join(run.joints)}; robot '{robot.name}' has "
                    f"{', '.join(robot.axis_names)}."
                )
        for k, run in enumerate(self.runs):
            for other in self.runs[:k]:
                if overlap(run, other):
                    raise DataError(
                        f"Runs '{other.name}' and '{run.name}' are the same data: counted twice, it would look more "
                        "certain than it is. Remove one, or give them windows that do not overlap."
                    )
        if np.any(self.rest_speeds < 0) or not np.all(np.isfinite(self.rest_speeds)):
            raise DataError(f"rest must be zero or positive, not {self.rest!r}.")

        if not 0.0 < self.rest_share <= 1.0:
            raise DataError(f"rest_share must lie above 0 and up to 1, not {self.rest_share!r}.")
        if self.delay and (len(self.delay) != robot.dof or not np.all(np.isfinite(self.delay))):
            raise DataError(f"delay lists {list(self.delay)} for {robot.dof} joints; give one number of seconds each.")
        if any(run.drives != self.drives for run in self.runs):
            raise DataError(
                "Runs of one problem must state their efforts alike: units, gains, ratios or sides differ between "
                + ", ".join(names)
                + "."
            )
        if self.factor and (len(self.factor) != robot.dof or np.any(np.isinf(self.factor))):
            raise DataError(f"factor lists {list(self.factor)} for {robot.dof} motors; give one number each.")
        longest = max(run.count / run.rate for run in self.runs)
        if any(abs(late) >= longest for late in self.delay):
            raise DataError(f"delay {list(self.delay)} [s] is longer than the longest run ({longest:.4g} s).")

    def decimator(self, run: Samples, furthest: float = 0.0) -> Decimator:
        """The filter of a run's rows; `furthest` [s] is the longest shift asked for beside `delay`."""
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
            raise DataError(f"rest lists {len(self.rest)} speeds for {n} joints.")
        return np.array(self.rest, float)

    @property
    def drives(self) -> Drives | None:
        """What was stated between the logged efforts and the joints; None where no channel map said."""
        return self.runs[0].drives

    @cached_property
    def silent(self) -> tuple[int, ...]:
        """Joints without rows: those that never move, and those whose torque a motor without a gain is part of."""
        unknown = np.isnan(self.factor) if self.factor else np.zeros(self.model.robot.dof, bool)
        mixed = [j for j, motors in enumerate(self.model.robot.motor_map.T) if np.any(unknown[motors != 0.0])]
        return tuple(sorted({*self.still, *mixed}))

    @cached_property
    def still(self) -> tuple[int, ...]:
        """Joints that move in none of the runs; their rows say nothing and are left out."""
        travel = np.max([run.travel for run in self.runs], axis=0)
        return tuple(int(j) for j in np.flatnonzero(travel < STILL))

    def moving(self, v: Array, still: Array) -> NDArray[np.bool_]:
        """Which joints (n, m) move at low-passed speeds v, and rest in little of the row's support."""
        awake = np.abs(v) >= self.rest_speeds[:, None]
        return awake if self.rest_share >= 1.0 else awake & (np.abs(still) <= self.rest_share)

    @cached_property
    def row_shares(self) -> Array:
        """(n, n): which joints' equations make up each row of the estimation, the identity but for motor rows."""
        shares = np.linalg.inv(self.model.robot.motor_map).T if self.motor_rows else np.eye(self.model.robot.dof)
        return np.where(np.abs(shares) > 1e-12, shares, 0.0)

    def torque(self, effort: Array) -> Array:
        """The joints' torques (n, B) behind stated efforts: τ = Cᵀ diag(factor) C⁻ᵀ y."""
        if not self.factor:
            return effort
        factor = np.nan_to_num(self.factor, nan=1.0)[:, None]
        if self.model.robot.coupling is None:
            return factor * effort
        c = self.model.robot.motor_map
        return c.T @ (factor * np.linalg.solve(c.T, effort))

    def with_runs(self, runs: Sequence[Samples]) -> Problem:
        """The same model, filters and mask on other runs; the mask stays that of this problem's runs, in rad/s."""
        return replace(self, runs=tuple(runs), rest=self.rest_speeds.tolist())

    @property
    def mask(self) -> str:
        """The row mask in words."""
        if not self.rest_speeds.any():
            return "every row"
        speeds = ", ".join(f"{x:.4g}" for x in self.rest_speeds)
        rule = "stated speeds"
        if self.rest is None:
            rule = f"{REST_SPEED:g}, or {REST_FRACTION:g} of top speed"
        elif isinstance(self.rest, int | float):
            rule = f"{self.rest:g} of top speed"
        said = f"rows of joint j where low-passed |v_j| >= [{speeds}] rad/s or m/s ({rule})"
        return (
            said if self.rest_share >= 1.0 else f"{said}, now and in {1 - self.rest_share:.0%} of the filter's support"
        )

    def row_rule(self, run: Samples) -> str:
        """How the rows of a run are made from its samples, in words."""
        decimator = self.decimator(run)
        rate = run.rate / decimator.factor
        late = ", ".join(f"{1e3 * d:.4g}" for d in self.delay)
        moved = f"; effort read [{late}] ms later than positions" if any(self.delay) else ""
        if self.lowpass_hz is None:
            return f"rows: unfiltered, one of {decimator.factor} samples kept ({rate:.4g} Hz){moved}"
        return (
            f"rows: effort and columns low-passed at {self.lowpass_hz:g} Hz by one linear-phase filter of "
            f"{len(decimator.taps) - 2 * decimator.reach} taps, one of {decimator.factor} samples kept "
            f"({rate:.4g} Hz){moved}"
        )

    def _limit_findings(self) -> Iterator[Finding]:
        """Joints that went where the robot file says they cannot: wrong units, ratios, offsets or columns."""
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
                        f"{joint.name} of '{run.name}' leaves the robot file's limits: " + ", ".join(beyond),
                        joint.name,
                        "check unit, sign, ratio, offset and column of its position, or correct the limits",
                    )

    def _dead_findings(self) -> Iterator[Finding]:
        for run in self.runs:
            for j in np.flatnonzero(run.dead):
                name = self.model.robot.axis_names[j]
                yield Finding(
                    "dead-effort",
                    "error",
                    f"the effort of {name} never changes in '{run.name}': its rows there are left out",
                    name,
                    "check its column in the channel map, or whether the drive reports an effort at all",
                )

    def _load_findings(self) -> Iterator[Finding]:
        named = {UNLOADED, *(payload.name for payload in self.model.payloads)}
        for load in dict.fromkeys(run.load for run in self.runs if run.load not in named):
            runs = ", ".join(f"'{run.name}'" for run in self.runs if run.load == load)
            yield Finding(
                "load-unnamed",
                "info",
                f'the load "{load}" of {runs} names no payload: what it weighs is put on the last link',
                load,
                "declare a [[payload]] of this name to tell it from the robot",
            )

    def _spring_findings(self) -> Iterator[Finding]:
        robot = self.model.robot
        left_out = robot.springs and not any(term.name == Springs.name for term in self.model.terms)
        if left_out or (
            robot.compensator is not None and not any(t.name == Compensator.name for t in self.model.terms)
        ):
            what = "springs" if left_out else "compensator"
            yield Finding(
                "spring-left-out",
                "info",
                f"'{robot.name}' has a {what.removesuffix('s')} that the terms leave out: others take up its torque",
                what,
                f'add "{what}" to the terms',
            )

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        names = self.model.robot.axis_names
        travel = np.max([run.travel for run in self.runs], axis=0)
        told = tuple(finding for run in self.runs for finding in run.findings) + tuple(self._limit_findings())
        told += tuple(self._dead_findings()) + tuple(self._load_findings()) + tuple(self._spring_findings())
        return told + tuple(
            Finding(
                "joint-still",
                "error",
                f"{names[j]} never moves (travel {travel[j]:.2g}): its own rows are left out and its friction, rotor "
                "inertia and offset cannot be identified",
                names[j],
                "record a motion of this joint, or check its column in the channel map",
            )
            for j in self.still
        )


def overlap(one: Samples, other: Samples) -> bool:
    """True when two runs use the same rows of the same file."""
    if not one.sha256 or (one.sha256, one.part) != (other.sha256, other.part):
        return False
    (a, b), (c, d) = one.used, other.used
    return min(b, d) > max(a, c)
