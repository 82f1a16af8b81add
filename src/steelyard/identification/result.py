"""Identification: the parameters found, their uncertainty, the rows and the files they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard._notebook import Displayed
from steelyard.estimators.estimator import Certificate, GainDependence
from steelyard.findings import Finding
from steelyard.identification.legs import LegComparison
from steelyard.identification.verdict import FitVerdict, judged
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.scores import Score
from steelyard.signals.channels import Drives


@dataclass(frozen=True)
class RunRecord:
    """A run that was used: its name, role, load case, source, hash, processing, and part of the source (a topic or an
    episode)."""

    name: str
    role: str
    load: str
    source: str
    sha256: str
    rate_hz: float
    history: tuple[str, ...]
    part: str = ""


@dataclass(frozen=True)
class DriveGains:
    """Drive gains, one per motor in joint order: the torque of a motor is `factor` (n,) times its stated effort.

    `drives` are the stated conversions; None if there was no channel map. Covariances (n + b, n + b) are those of
    (factor, base parameters) together; `bootstrap` (n + b,) are standard deviations over resampled blocks of time.
    """

    joints: tuple[str, ...]
    factor: Array
    drives: Drives | None
    covariance: Array
    covariance_classical: Array
    bootstrap: Array
    dependences: tuple[GainDependence, ...] = ()

    @property
    def stated(self) -> Array:
        """The stated gains (n,), e.g. the maker's; NaN where they were stated as unknown."""
        known = self.drives is not None and self.drives.gain is not None
        return np.array(self.drives.gain) if known and self.drives else np.full(len(self.joints), np.nan)

    @property
    def value(self) -> Array:
        """Identified gains in the form of a channel map, (n,) [`units`]."""
        return self.factor * self._scale

    @property
    def units(self) -> tuple[str, ...]:
        return ("1",) * len(self.joints) if self.drives is None else self.drives.gain_unit

    @property
    def joint_side(self) -> Array:
        """g = N·Gi·Kt (n,): seen from the joint, gear ratio included (P2 eq. 6)."""
        return self.value if self.drives is None else self.value * np.array(self.drives.ratio)

    @property
    def std(self) -> Array:
        """Standard deviation by leave-one-block-out (CR3), (n,)."""
        return np.abs(self._scale) * np.sqrt(np.diagonal(self.covariance)[: len(self.joints)])

    @property
    def std_classical(self) -> Array:
        return np.abs(self._scale) * np.sqrt(np.diagonal(self.covariance_classical)[: len(self.joints)])

    @property
    def std_bootstrap(self) -> Array:
        return np.abs(self._scale) * self.bootstrap[: len(self.joints)]

    @property
    def error(self) -> Array:
        """|e|, the relative difference of the identified from the stated gains (P2 Table III), (n,)."""
        return np.abs(self.value / self.stated - 1.0)

    @property
    def _scale(self) -> Array:
        return np.where(np.isfinite(self.stated), self.stated, 1.0)


@dataclass(frozen=True)
class Identification(Displayed):
    """Base parameters with error bars, the score with that of the nominal model, and the origin of the data.

    `expected` is the error on other motion by guarded folds of the fitted rows, None where these are too few.
    `cancelled` base parameters were found not essential and are zero. `standard` (C,) is a full set of standard
    parameters with these base values, chosen by `standard_rule`; None where a base parameter has no value. If the
    estimator guarantees a physical set, `certificate` proves it. `carried` (n, 10) are the inertias for load friction
    where a first fit found them (`Model.carried`). `gains` are the drive gains if they were identified too; `legs`
    compares legs of a parallel robot that are declared equal. `residual_std` (n,) [N·m | N] is the deviation of a row
    of each joint from the true parameters, NaN for joints without rows: the width of the band of a prediction.
    """

    robot: str
    estimator: str
    base: BaseParameters
    value: Array
    covariance: Array
    covariance_classical: Array
    clusters: int
    condition: float
    condition_scaled: float
    relative_error: Score
    nominal: Score | None
    unseen: Score | None
    unseen_nominal: Score | None
    runs: tuple[RunRecord, ...]
    expected: Score | None = None
    estimator_options: dict[str, Any] = field(default_factory=dict)
    cancelled: tuple[str, ...] = ()
    standard: Array | None = None
    standard_rule: str = ""
    certificate: Certificate | None = None
    carried: Array | None = None
    gains: DriveGains | None = None
    legs: tuple[LegComparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    residual_std: Array | None = None

    @property
    def std(self) -> Array:
        """Standard deviation by leave-one-block-out (CR3), (b,)."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def estimator_chosen(self) -> str:
        """The estimator as text, with what `auto` chose."""
        if self.estimator != "auto":
            return self.estimator
        return f"{'wls' if self.certificate is None else 'consistent'} (chosen by auto)"

    @property
    def drive_std(self) -> dict[str, float]:
        """σ of the base parameters by name: those of a drive are standard parameters too."""
        return dict(zip(self.base.names, np.nan_to_num(self.std).tolist(), strict=True))

    @property
    def std_classical(self) -> Array:
        """Standard deviation by the classical formula (P0 eq. 11), which assumes white residuals."""
        return np.sqrt(np.diagonal(self.covariance_classical))

    @property
    def relative_std(self) -> Array:
        """std / |value|."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.std / np.abs(self.value)

    @property
    def excited(self) -> NDArray[np.bool_]:
        """Which base parameters the data excite (b,): the others have no value, or one from elsewhere."""
        return np.isfinite(self.std_classical) | np.isin(self.base.names, self.cancelled)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Confidence interval of every base parameter with Student's t on `clusters` − 1 degrees of freedom."""
        freedom = self.clusters - 1 if self.clusters else np.inf
        half = student.ppf(0.5 + 0.5 * level, freedom) * self.std
        return self.value - half, self.value + half

    @property
    def theta(self) -> Array:
        """A standard vector (C,) with these base parameters, see `BaseParameters.theta`."""
        return self.base.theta(self.value)

    def strong_correlations(self, above: float = 0.95) -> tuple[tuple[str, str, float], ...]:
        """Pairs of parameters that the data can hardly separate, by the classical covariance, strongest first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rho = self.covariance_classical / np.outer(self.std_classical, self.std_classical)
        pairs = sorted(map(tuple, np.argwhere(np.triu(np.abs(rho) > above, 1))), key=lambda pair: -abs(rho[pair]))
        return tuple((self.base.names[i], self.base.names[j], float(rho[i, j])) for i, j in pairs)

    def with_findings(self, more: Sequence[Finding]) -> Identification:
        """The identification with findings added."""
        return replace(self, findings=self.findings + tuple(more))

    @property
    def judged(self) -> FitVerdict:
        """The verdict as data: errors in total and per joint, what is not explained, and whether rows are few."""
        unseen = {run.name for run in self.runs if run.role != "identify"}
        scores = {"unseen": self.unseen, "expected": self.expected, "fitted": self.relative_error}
        return judged(
            self.base.layout,
            {kind: score for kind, score in scores.items() if score is not None},  # type: ignore[misc]
            self.nominal if self.unseen is None else self.unseen_nominal,
            (int(np.sum(self.relative_std < 0.5)), len(self.base) - len(self.cancelled)),
            bool(self.cancelled),
            {finding.where for finding in self.findings if finding.code == "constant-effort"},
            bool(unseen) and unseen <= {finding.where for finding in self.findings if finding.code == "same-motion"},
        )

    @property
    def verdict(self) -> str:
        """The result in one or two sentences; "explains" is 1 − ‖y − Wθ‖/‖y‖ on the rows named."""
        return self.judged.text
