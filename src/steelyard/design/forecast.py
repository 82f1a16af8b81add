"""Forecast: the expected σ of every parameter before a motion is run, and the parameters that it cannot determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.design.prior_knowledge import Known, known
from steelyard.errors import DataError
from steelyard.estimators.least_squares import DATA_TOLERANCE, spread
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters, independent_columns
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.motion.trajectory import Trajectory
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples


@dataclass(frozen=True, eq=False)
class Forecast:
    """Expected result of weighted least squares on planned rows.

    value       base values of the nominal model (b,), NaN where the robot file gives none
    covariance  (F + F_given)⁻¹ of the base parameters (b, b); NaN for those that the motion does not excite
    condition, condition_scaled   of W / σ, and of the same with columns of unit norm (excited ones only)
    """

    base: BaseParameters
    noise: Array
    value: Array
    covariance: Array
    condition: float
    condition_scaled: float

    @cached_property
    def std(self) -> Array:
        """σ of every base parameter (b,) in its own unit; NaN where the motion does not excite it."""
        return np.sqrt(np.diagonal(self.covariance))

    @cached_property
    def relative(self) -> Array:
        """σ relative to the nominal value (b,); infinite where that is zero."""
        with np.errstate(divide="ignore"):
            return self.std / np.abs(self.value)

    def worst(self, scale: Array, parameters: Sequence[str] = ()) -> tuple[str, float]:
        """The parameter with the largest σ / scale (b,), of those named or of all, and that ratio; inf if not excited.

        `criteria.deviation_scale` gives a scale that also works for values of zero or of little effect.
        """
        names = self.base.names
        chosen = [names.index(name) for name in parameters] or list(range(len(names)))
        ratio = np.nan_to_num(self.std[chosen] / scale[chosen], nan=np.inf)
        k = int(np.argmax(ratio))
        return names[chosen[k]], float(ratio[k])

    @property
    def geometric_mean(self) -> float:
        """exp(mean log σ) over the excited parameters: halved where every σ is halved, in any units."""
        return float(np.exp(np.nanmean(np.log(self.std))))

    @property
    def unseen(self) -> tuple[str, ...]:
        """Base parameters that this motion does not excite, though others would."""
        return tuple(name for name, s in zip(self.base.names, self.std, strict=True) if np.isnan(s))

    @property
    def never(self) -> tuple[str, ...]:
        """Standard parameters without an effect on any torque, for any motion."""
        return tuple(self.base.layout.names[k] for k in self.base.zero)

    @property
    def grouped(self) -> Mapping[str, tuple[str, ...]]:
        """Standard parameters that no motion determines separately: {name: base parameters that contain them}.

        A base parameter that contains others is among them: its σ is that of the sum.
        """
        several = np.count_nonzero(self.base.map, axis=1) > 1
        out = {}
        for c, name in enumerate(self.base.layout.names):
            rows = np.flatnonzero(self.base.map[:, c])
            if len(rows) and (len(rows) > 1 or several[rows[0]]):
                out[name] = tuple(self.base.names[k] for k in rows)
        return out


def planned(
    model: Model, trajectory: Trajectory, rate_hz: float, name: str = "planned", load: str = UNLOADED
) -> Samples:
    """The samples of a trajectory at `rate_hz`, for `forecast`. Efforts are placeholders: no σ depends on them."""
    if trajectory.dof != model.robot.dof:
        raise DataError(f"The trajectory moves {trajectory.dof} joints; '{model.robot.name}' has {model.robot.dof}.")
    t = sample_times(trajectory.duration, rate_hz)
    q, v, a = trajectory.at(t)
    # a ramp, because an effort that never changes is treated as a dead channel
    return Samples.from_arrays(name, model.robot.axis_names, rate_hz, q, v, a, np.tile(t, (len(q), 1)), load)


def sample_times(duration: float, rate_hz: float) -> Array:
    """0, 1/rate, … up to the end of a motion [s]."""
    return np.arange(int(np.floor(duration * rate_hz * (1.0 + 1e-12))) + 1) / rate_hz


def checked_noise(noise: Array | float | Sequence[float], dof: int) -> Array:
    """σ_j (n,) of the rows, from one number for all joints or one per joint."""
    given = np.asarray(noise, float)
    if given.shape not in ((), (dof,)) or not np.all(np.isfinite(given)) or np.any(given <= 0.0):
        raise DataError(f"noise must be one positive σ [N·m | N], or one for each of {dof} joints, not {noise!r}.")
    return np.array(np.broadcast_to(given, dof))


def forecast(
    problem: Problem,
    noise: Array | float | Sequence[float],
    given: Known | Information | Identification | None = None,
    base: BaseParameters | None = None,
) -> Forecast:
    """σ of every base parameter from planned runs (`planned`), with the filters and row mask of the problem.

    `noise` σ_j [N·m | N] is that of the rows: stated, or of an earlier log's rows made in the same way
    (`joint_deviations`, `Known.noise`). `given` is earlier information on the same model; observed rows are weighted
    with the same σ_j, a `Known` is used unchanged.
    """
    base = base_parameters(problem.model) if base is None else base
    sigma = checked_noise(noise, problem.model.robot.dof)
    roots = [] if given is None else [known(given, base, sigma).root]
    roots.append(stacked(observe(problem), base.kept, 1.0 / sigma)[:, :-1])
    return forecast_of(triangular(np.concatenate(roots)), base, sigma, problem.model.layout.nominal)


def so_far(given: Known, theta: Array | None = None) -> Forecast:
    """The forecast without further runs: σ of what is known already; θ (C,) are nominal values."""
    return forecast_of(given.root, given.base, given.noise, theta)


def forecast_of(r: Array, base: BaseParameters, noise: Array, theta: Array | None) -> Forecast:
    """The forecast of a square root r (rows, b) of the information, F = rᵀ r."""
    shown = np.zeros(len(base), bool)
    shown[list(independent_columns(r, DATA_TOLERANCE).kept)] = True
    w = triangular(r[:, shown])
    inverse = solve_triangular(w, np.eye(len(w)))
    value = np.full(len(base), np.nan) if theta is None else base.map @ theta
    scaled = w / np.linalg.norm(w, axis=0)
    return Forecast(
        base,
        noise,
        value,
        spread(inverse @ inverse.T, shown),
        float(np.linalg.cond(w)),
        float(np.linalg.cond(scaled)),
    )
