"""Standard parameters from base parameters: minimum norm, closest to a prior, or on essential columns (P0 §IV).

A base estimate fixes b combinations of the C standard parameters and leaves C − b free. These functions choose the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked


def minimum_norm(base: BaseParameters, value: Array) -> Array:
    """χ = B⁺ χ_b, the smallest standard set with these base values (P0 eq. 26), (C,); zero for parameters without
    effect.

    Parameters known beforehand keep their value.
    """
    return closest(base, value, base.layout.known)


def closest(base: BaseParameters, value: Array, reference: Array, width: Array | None = None) -> Array:
    """The standard set nearest to a reference that has these base values (P0 eq. 30).

    χ = χ_ref + D (B D)⁺ (χ_b − B χ_ref) minimises ‖D⁻¹(χ − χ_ref)‖; independent of the trajectory. D = diag(width)
    makes kg, kg·m² and N·m·s comparable; without it (D = 1) the answer depends on the units.
    """
    value = _known(base, value)
    d = np.ones(len(base.layout)) if width is None else np.asarray(width, float)
    if d.shape != (len(base.layout),) or not np.all(np.isfinite(d) & (d > 0)):
        raise EstimationError(f"widths must be {len(base.layout)} positive numbers, one per standard parameter.")
    return reference + d * (np.linalg.pinv(base.map * d) @ (value - base.map @ reference))


def closest_on_essential(
    information: Information, base: BaseParameters, essential: Sequence[str], reference: Array, weights: Array
) -> Array:
    """The reference corrected on the essential columns alone (P0 eqs 31–32).

    W diag(χ_e) has exactly n_e independent columns, so (32) is the least squares of Y − W χ_ref on those columns: the
    weights χ_e cancel, and χ_ref stays as it is elsewhere.
    """
    unknown = [name for name in essential if name not in base.names]
    if unknown or not essential:
        raise EstimationError(f"Essential parameters must be base parameters; {', '.join(unknown) or 'none'} given.")
    columns = [base.kept[base.names.index(name)] for name in essential]
    everything = [*columns, *(c for c in range(len(base.layout)) if c not in columns)]
    r = stacked(information, everything, np.where(np.isfinite(weights), weights, 0.0))
    rest = r[:, -1] - r[:, :-1] @ reference[everything]
    out = reference.copy()
    out[columns] += np.linalg.lstsq(r[:, : len(columns)], rest, rcond=None)[0]
    return out


def _known(base: BaseParameters, value: Array) -> Array:
    missing = [name for name, x in zip(base.names, value, strict=True) if not np.isfinite(x)]
    if missing:
        raise EstimationError(
            f"Base parameters without a value cannot be converted to standard ones: {', '.join(missing)}. Use a motion "
            "that excites them, or the estimator map."
        )
    return np.asarray(value, float)
