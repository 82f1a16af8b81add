"""Statistics used by several packages: Holm's correction, the jackknife over blocks of time, autocorrelation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array


def holm(p: Sequence[float] | Array) -> Array:
    """p-values (m,) of m tests, corrected such that each bounds the probability of any false alarm among them.

    Holm's step-down: the i-th smallest becomes p_(i) ← max_{j ≤ i} min(1, (m − j + 1) p_(j)).
    """
    values = np.asarray(p, float)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    out = np.empty_like(values)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out


def jackknife_covariance(changes: Array) -> Array:
    """Covariance (b, b) of an estimate from its changes (G, b) without each of G blocks: (G − 1)/G Σ_g d_g d_gᵀ."""
    count = len(changes)
    return (count - 1) / count * changes.T @ changes


def jackknife_deviation(changes: Array) -> Array:
    """Standard deviations (b,) of the jackknife, √((G − 1)/G Σ_g d_g²)."""
    count = len(changes)
    return np.asarray(np.sqrt((count - 1) / count * np.sum(changes**2, axis=0)), float)


def positive_autocorrelation(x: Array) -> Array:
    """ρ_1, ρ_2, … of a series (m,) minus its mean, up to the first that is not positive; empty for a constant."""
    x = x - x.mean()
    power = float(x @ x)
    if power == 0.0:
        return np.empty(0)
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    rho = np.fft.irfft(spectrum * spectrum.conj(), size)[1 : len(x)] / power
    negative = np.flatnonzero(rho <= 0.0)
    return rho[: negative[0] if len(negative) else None]
