"""Changes: sequential tests on residuals with levels set by a false-alarm rate, which account for correlation."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import chi2

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.regression.statistics import positive_autocorrelation

# A statistic must exceed its level by 100 % for this long [s], or by less for longer: a collision is shorter.
HOLD_S = 0.1
# Time before the alarm in which the onset of a change is searched [s].
LOOK_BACK_S = 2.0
# Statistics are limited to this many times their level.
MOST = 3.0
# Time constant [s] of the mean square that detects slow changes.
SLOW_S = 10.0
# Length of blocks [s] whose mean squares show the variation of those over a longer time.
BLOCK_S = 2.5
# Confidence level of the size of calibration residuals.
CONFIDENCE = 0.95
# Quantiles of the squares at which their tail is compared with that of normal residuals.
TAILS = (0.95, 0.99)
# A joint is tested if it moved for at least this long [s] in the calibration.
LEAST_S = 8.0
TOGETHER, SLOWLY = "all joints", "all joints, slowly"


@dataclass(frozen=True)
class Baseline:
    """Reference for residuals: parameters theta (C,), σ_j (n,), and the variance due to the parameters' own error.

    Var(y_j − w θ̂) = σ_j² + inflation · ‖R⁻ᵀ w‖²: `root` R (b, b) is the triangle of the weighted rows over the base
    columns and a weak prior, so that a direction that no row has excited yet has a large expected error; `inflation` is
    the variance of the estimate between blocks of time relative to that for independent rows.
    """

    theta: Array
    sigma: Array
    root: Array
    inflation: float


class Alarm(NamedTuple):
    """An exceeded test: its name, the row from which it rose, the row of the alarm, and its statistic in units of the
    level, which unchanged motion exceeds at the requested rate."""

    test: str
    onset: int
    row: int
    excess: float


def crossings(level: float, freedom: int, frequency: float) -> float:
    """Rate [1/s] at which the sum of `freedom` squared normal processes of unit variance rises above `level`.

        ν(u) = 2 √π ν₀ (u/2)^((k−1)/2) e^(−u/2) / Γ(k/2)

    with ν₀ [Hz] the rate at which one of them rises through zero (Rice for k = 1, 2 ν₀ e^(−u/2); Lindgren for χ²
    processes).
    """
    half = 0.5 * max(level, 1e-12)
    log_rate = (
        np.log(2.0 * np.sqrt(np.pi) * frequency) + 0.5 * (freedom - 1) * np.log(half) - half - gammaln(0.5 * freedom)
    )
    return float(np.exp(max(log_rate, -700.0)))


def level_for(rate: float, freedom: int, frequency: float) -> float:
    """The level that the sum of `freedom` squares exceeds `rate` times per second."""
    # above its maximum at k − 1 the rate decreases monotonically
    crest = float(max(freedom - 1, 1e-9))
    if crossings(crest, freedom, frequency) <= rate:
        return crest
    root = brentq(lambda u: np.log(crossings(u, freedom, frequency) / rate), crest, 1e3)
    return cast(float, root)


@dataclass(frozen=True)
class Thresholds:
    """Levels of the tests, from residuals of unchanged motion.

    spread (n,)       variance of each joint's standardised residual, an upper bound; NaN for joints not tested
    levels (n + 1, n) level of the sum of k + 1 squared residuals over their spread: of one joint in row j (its first
                      entry), of the k + 1 joints that move in the last row
    slow              level of the running mean of all squares over their spread
    """

    joints: tuple[str, ...]
    spread: Array
    levels: Array
    slow: float
    seconds: float
    false_alarms_per_hour: float

    @cached_property
    def text(self) -> str:
        judged = int(np.isfinite(self.spread).sum())
        return (
            f"{judged} of {len(self.joints)} joints are monitored, with thresholds for {self.false_alarms_per_hour:g} "
            f"false alarms per hour of motion, learned from {self.seconds:.3g} s"
        )


def calibrated(
    joints: tuple[str, ...], z: Array, counted: NDArray[np.bool_], rate: float, false_alarms_per_hour: float
) -> Thresholds:
    """Levels from standardised residuals z (n, m) of unchanged motion, each by a fit without its own rows, at `rate`
    rows per second.

    Rows are correlated: further rows of a slow residual carry no new information. A test therefore uses the height of
    the squares, not their sum over rows. Its level is the one that a process with the variance and the zero crossings
    of the calibration exceeds at the requested rate (`crossings`), which is divided among all tests. The variance is an
    upper confidence bound for the number of independent residuals that the correlation leaves, and at least that of the
    tail: max(mean z², q₉₅/3.84, q₉₉/6.63).
    """
    if not false_alarms_per_hour > 0.0:
        raise EstimationError(f"false_alarms_per_hour must be positive, not {false_alarms_per_hour!r}.")
    n = len(joints)
    share = false_alarms_per_hour / 3600.0 / (n + 2)
    spread, frequency = np.full(n, np.nan), np.zeros(n)
    for j in range(n):
        own = z[j, counted[j]]
        if len(own) < LEAST_S * rate:
            continue
        squares = own**2
        size = max(float(squares.mean()), *(float(np.quantile(squares, p)) / chi2.ppf(p, 1) for p in TAILS))
        free = max(len(own) / _correlation(own), 2.0)
        spread[j] = size * free / chi2.ppf(1.0 - CONFIDENCE, free)
        frequency[j] = max(np.count_nonzero(np.diff(np.signbit(own))), 1) / (2.0 * len(own) / rate)
    judged = np.isfinite(spread)
    levels = np.full((n + 1, n), np.inf)
    for j in np.flatnonzero(judged):
        levels[j, 0] = level_for(share, 1, frequency[j])
    slow = np.inf
    if judged.any():
        usual = float(frequency[judged].mean())
        levels[n] = [level_for(share, k + 1, usual) for k in range(n)]
        free = _slow_freedom(np.where(counted & judged[:, None], z**2 / spread[:, None], np.nan), rate)
        slow = float(chi2.isf(min(0.5, share * SLOW_S), free) / free)
    return Thresholds(joints, spread, levels, slow, z.shape[1] / rate, false_alarms_per_hour)


def _slow_freedom(squares: Array, rate: float) -> float:
    """Degrees of freedom of the mean over SLOW_S of squares (n, m) of unit mean, NaN where they are not used.

    From the variance of the means of short blocks of time, var = 2/k for k degrees of freedom per block: it includes
    the correlation and that some motion is explained less well than other. The variance is an upper confidence bound.
    """
    length = max(1, round(BLOCK_S * rate))
    whole = squares[:, : squares.shape[1] // length * length].reshape(len(squares), -1, length)
    counts = np.isfinite(whole).sum(axis=(0, 2))
    means = np.nansum(whole, axis=(0, 2))[counts > 0] / counts[counts > 0]
    if len(means) < 3:
        return 1.0
    blocks = len(means) - 1
    variance = float(np.var(means, ddof=1)) * blocks / chi2.ppf(1.0 - CONFIDENCE, blocks)
    return max(SLOW_S / BLOCK_S * 2.0 / max(float(variance), 1e-12), 1.0)


def _correlation(x: Array) -> float:
    """Number of rows per independent square: 1 + 2 Σ ρ_k² over the initial positive part of the autocorrelation ρ of
    normal residuals x, whose squares have the correlation ρ²."""
    return float(1.0 + 2.0 * np.sum(positive_autocorrelation(x) ** 2))


class Detector:
    """The running tests: each joint, all joints together, and all joints slowly.

    u is a test's statistic over its level; S ← max(0, S + min(u, MOST) − 1) raises an alarm when it reaches HOLD_S in
    rows. The slow test uses the mean square with a time constant of SLOW_S.
    """

    def __init__(self, thresholds: Thresholds, rate: float) -> None:
        self.thresholds, self.rate = thresholds, rate
        self.tests = (*thresholds.joints, TOGETHER, SLOWLY)
        self.hold = HOLD_S * rate
        n = len(thresholds.joints)
        self.level = np.zeros(n + 1)
        self.onset = np.full(n + 1, -1, np.int64)
        self.mean, self.rising = 1.0, -1
        self.recent: deque[tuple[int, float, int]] = deque(maxlen=max(1, round(LOOK_BACK_S * rate)))

    @property
    def strain(self) -> float:
        """The largest S of all tests relative to the alarm level: 1 is an alarm."""
        return float(max(np.max(self.level) / self.hold, self.mean / self.thresholds.slow))

    def push(self, number: NDArray[np.int64], z: Array, counted: NDArray[np.bool_]) -> Alarm | None:
        """The first alarm among rows (m,) with standardised residuals (n, m); later rows are not tested."""
        limits = self.thresholds
        n = len(limits.joints)
        counted = counted & np.isfinite(limits.spread)[:, None]
        x = np.where(counted, z**2 / np.where(np.isfinite(limits.spread), limits.spread, 1.0)[:, None], 0.0)
        moving = counted.sum(axis=0)
        over = np.zeros((n + 1, len(number)))
        over[:n] = x / limits.levels[:n, :1]
        over[n] = x.sum(axis=0) / limits.levels[n, np.maximum(moving - 1, 0)]
        fade, quiet = 1.0 / (SLOW_S * self.rate), np.logical_not((over > 1.0).any(axis=0)).tolist()
        means = (x.sum(axis=0) / np.maximum(moving, 1)).tolist()
        numbers, counts = number.tolist(), moving.tolist()
        resting = not self.level.any()
        for k in np.flatnonzero(moving).tolist():
            if not (resting and quiet[k]):
                fresh = self.level <= 0.0
                self.level = np.maximum(self.level + np.minimum(over[:, k], MOST) - 1.0, 0.0)
                self.onset = np.where(fresh, numbers[k], self.onset)
                resting = not self.level.any()
            self.recent.append((numbers[k], means[k], counts[k]))
            # limited, so that a single extreme square cannot outweigh ten seconds of others
            self.mean += fade * (min(means[k], MOST * limits.slow) - self.mean)
            if self.mean < 0.5 * (1.0 + limits.slow):
                self.rising = numbers[k]
            worst = 0 if resting else int(np.argmax(self.level))
            if self.level[worst] >= self.hold:
                return Alarm(self.tests[worst], self._onset(worst), numbers[k], float(over[worst, k]))
            if self.mean >= limits.slow:
                return Alarm(SLOWLY, self.rising, numbers[k], self.mean / limits.slow)
        return None

    def interrupted(self) -> None:
        """Called when the clock jumps: rows before the jump are no longer used."""
        self.recent.clear()
        self.level[:] = 0.0

    def _onset(self, test: int) -> int:
        """The most likely row of the onset, at which the squares of all joints grew from 1 to their mean between the
        test's rise and now.

        Log-likelihood ratio of a row of k squares with mean x: k/2 (x (1 − 1/m) − ln m), m the mean after the change.
        """
        number, x, count = (np.array(values, float) for values in zip(*self.recent, strict=True))
        after = x[number >= self.onset[test]]
        grown = float(after.mean()) if len(after) else 1.0
        if grown <= 1.0:
            return int(self.onset[test])
        ratio = 0.5 * count * (x * (1.0 - 1.0 / grown) - np.log(grown))
        return int(number[np.argmax(np.cumsum(ratio[::-1])[::-1])])
