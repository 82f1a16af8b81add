"""Residual of the effort: its whiteness, and its dependence on speed and position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array

# Residual rows kept for their autocorrelation, the longest lag, and the number of lags used for `outside`.
WHITENESS_ROWS, LONGEST_LAG, COUNTED_LAGS = 16384, 200, 40


@dataclass(frozen=True)
class Bin:
    """Residual y − ŷ of the rows around one speed [rad/s | m/s] or position [rad | m]: mean and deviation [N·m | N]."""

    centre: float
    mean: float
    deviation: float
    rows: int


@dataclass(frozen=True)
class Whiteness:
    """Autocorrelation ρ_0 … ρ_L of one joint's residual, only over pairs of rows that were both scored.

    correlation_rows   1 + 2 Σ ρ_k over the initial positive part: number of rows per independent row
    outside            fraction of the first 40 lags with |ρ_k| > 1.96/√n_k, n_k pairs; 5 % if the residual is white
    """

    rows: int
    correlation_rows: float
    outside: float
    autocorrelation: tuple[float, ...]


def whiteness(residual: Array, scored: NDArray[np.bool_]) -> Whiteness:
    """Whiteness of a residual (m,) minus its mean on consecutive rows, of which those in `scored` (m,) are used."""
    rows = int(scored.sum())
    lags = min(LONGEST_LAG, rows // 4)
    if not lags:
        return Whiteness(rows, np.nan, np.nan, ())
    x = np.where(scored, residual - residual[scored].mean(), 0.0)
    size = 1 << (len(x) + lags).bit_length()

    def lagged(series: Array) -> Array:
        spectrum = np.fft.rfft(series, size)
        return np.fft.irfft(spectrum * spectrum.conj(), size)[: lags + 1]

    pairs = np.rint(lagged(scored.astype(float)))
    power = float(x @ x) / rows
    rho = np.zeros(lags + 1)
    if power > 0.0:
        np.divide(lagged(x), pairs * power, out=rho, where=pairs > 0)
    rho[0] = 1.0
    negative = np.flatnonzero(rho <= 0.0)
    length = 1.0 + 2.0 * rho[1 : negative[0] if len(negative) else None].sum()
    first = slice(1, COUNTED_LAGS + 1)
    outside = np.abs(rho[first]) > 1.96 / np.sqrt(np.maximum(pairs[first], 1.0))
    return Whiteness(rows, float(length), float(outside.mean()), tuple(rho.tolist()))


class Histogram:
    """Residuals by the bin of another signal, each joint with its own bin width (n,)."""

    def __init__(self, width: Array) -> None:
        self.width = np.where(width > 0.0, width, 1.0)
        self.sums: list[dict[int, Array]] = [{} for _ in width]

    def add(self, x: Array, residual: Array, scored: NDArray[np.bool_]) -> None:
        for j, sums in enumerate(self.sums):
            e = residual[j, scored[j]]
            index, place = np.unique(np.floor(x[j, scored[j]] / self.width[j]).astype(np.int64), return_inverse=True)
            parts = np.stack([np.bincount(place, weights, len(index)) for weights in (np.ones_like(e), e, e**2)], 1)
            for k, part in zip(index.tolist(), parts, strict=True):
                sums[k] = sums[k] + part if k in sums else part

    def bins(self) -> Iterator[tuple[Bin, ...]]:
        """The bins of each joint that hold rows, in order."""
        for width, sums in zip(self.width, self.sums, strict=True):
            out = []
            for k, (rows, total, square) in sorted(sums.items()):
                mean = total / rows
                deviation = np.sqrt(max(square / rows - mean**2, 0.0))
                out.append(Bin(float((k + 0.5) * width), float(mean), float(deviation), int(rows)))
            yield tuple(out)


class KeptRows:
    """The first residual rows, with gaps between stretches so that no lag spans two of them."""

    def __init__(self, joints: int) -> None:
        self.residual = [np.zeros((joints, 0))]
        self.scored = [np.zeros((joints, 0), bool)]
        self.room = WHITENESS_ROWS
        self.place: tuple[str, int] | None = None

    def add(self, place: tuple[str, int], residual: Array, scored: NDArray[np.bool_]) -> None:
        if self.room <= 0:
            return
        if place != self.place:
            self.residual.append(np.zeros((len(residual), LONGEST_LAG)))
            self.scored.append(np.zeros((len(residual), LONGEST_LAG), bool))
            self.place = place
        self.residual.append(residual[:, : self.room])
        self.scored.append(scored[:, : self.room])
        self.room -= residual.shape[1]

    def series(self, joint: int) -> tuple[Array, NDArray[np.bool_]]:
        return np.concatenate([x[joint] for x in self.residual]), np.concatenate([x[joint] for x in self.scored])
