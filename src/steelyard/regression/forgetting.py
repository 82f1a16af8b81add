"""Forgetting: the weight that old rows keep when new ones are appended to a triangle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from steelyard.errors import EstimationError, choices
from steelyard.regression.information import BlockKey, Information, Triangle

Time = tuple[str, str, int]
Rule = Literal["none", "exponential", "directional"]
RULES: tuple[Rule, ...] = ("none", "exponential", "directional")
# Steps per memory length. A step must have several times as many rows as a joint has columns to excite all directions,
# so the steps of directional forgetting are long.
STEPS: dict[Rule, int] = {"exponential": 16, "directional": 4}
# Directions of the scaled columns below this fraction of the largest are treated as not excited: they are not
# forgotten, and rounding errors are not divided by them.
_LIVE = 1e-6


@dataclass(frozen=True)
class Forgetting:
    """How old rows lose weight: the `rule`, and `memory`, the number of rows of the clock after which 1/e is left.

    none          all rows have the same weight
    exponential   the rows before k new rows are weighted by λᵏ, λ = exp(−1/memory)
    directional   the same, but in no direction is more forgotten than the new rows bring: with M the information so
                  far, N that of the new rows, M = TᵀT and N = Tᵀ diag(ν) T,
                      M ← Tᵀ diag(max(λᵏ + νᵢ, 1)) T
                  Under steady motion νᵢ settles at 1 − λᵏ and the rule equals exponential forgetting. Directions that
                  the motion no longer excites are kept, so no error bar grows because excitation stops.
                  T is found from the data, so the rule does not depend on units or on the choice of columns.

    Rows of a block of time are forgotten together.
    """

    rule: Rule = "none"
    memory: float = np.inf

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise EstimationError(choices("forgetting", self.rule, RULES))
        if not self.memory > 0.0 or (self.rule != "none") != bool(np.isfinite(self.memory)):
            raise EstimationError(
                f"Forgetting '{self.rule}' is not compatible with a memory of {self.memory!r} rows: give a positive "
                "number of rows for 'exponential' and 'directional', and no memory for 'none'."
            )

    def left(self, rows: float) -> float:
        """λ^rows: the weight of squared residuals that are `rows` rows old."""
        return float(np.exp(-rows / self.memory))

    def remembered(self, information: Information) -> Information:
        """The information with forgetting applied, as at the end of the last run; runs follow one another as they are
        listed.

        Exponentially weighted blocks stay separate, so that leaving them out in turn gives error bars. Directional
        forgetting leaves one block per joint, the last.
        """
        if self.rule == "none":
            return information
        if self.rule == "exponential":
            ages = block_ages(information)
            return replace(
                information, blocks={k: faded(t, self.left(ages[k[:3]])) for k, t in information.blocks.items()}
            )
        ages, blocks = block_ages(information), {}
        for step in self._steps(information, ages):
            for j, own in enumerate(information.columns):
                new = information.gathered(j, step)
                if not new.rows:
                    continue
                age, new = min(ages[time] for time in step), Triangle.of(new.r, new.rows)
                if j in blocks:
                    before, held = blocks[j]
                    new = appended(held, new, self.left(before - age), len(own))
                blocks[j] = (age, new)
        last = min(ages, key=lambda time: ages[time])
        return replace(information, blocks={BlockKey(*last, j): held for j, (_, held) in blocks.items()})

    def _steps(self, information: Information, ages: Mapping[Time, int]) -> list[list[Time]]:
        """Time blocks from the oldest, grouped into steps; no group crosses a run."""
        out: dict[tuple[str, int], list[Time]] = {}
        for time in sorted(ages, key=lambda t: -ages[t]):
            size = information.block_rows[time[0]]
            out.setdefault((time[0], time[2] // max(1, round(self.step / size))), []).append(time)
        return list(out.values())

    @property
    def step(self) -> int:
        """Number of rows of the clock that are forgotten together, unless blocks are longer."""
        return max(1, round(self.memory / STEPS[self.rule]))


def block_ages(information: Information) -> dict[Time, int]:
    """Number of rows of the clock, masked or not, after the end of each time block."""
    runs = {run: k for k, run in enumerate(information.block_rows)}
    out: dict[Time, int] = {}
    age = 0
    for run in sorted(runs, key=lambda name: -runs[name]):
        times = sorted((t for t in information.times if t[0] == run), key=lambda t: -t[2])
        if not times:
            continue
        size, newest = information.block_rows[run], times[0][2]
        for time in times:
            out[time] = age + (newest - time[2]) * size
        age = out[times[-1]] + size
    return out


def faded(triangle: Triangle, share: float) -> Triangle:
    """The triangle with the squares of its rows weighted by `share`, and its row count reduced accordingly."""
    return Triangle(np.sqrt(share) * triangle.r, round(share * triangle.rows))


def appended(held: Triangle, new: Triangle, share: float, columns: int) -> Triangle:
    """Rows appended to the held ones, of which `share` (λᵏ) is kept in the directions that the new rows excite.

    With old rows R and new rows Φ, scaled so that [R; Φ] = [Q₁; Q₂] S, a direction is a right singular vector of Q₂;
    its old and new information are cᵢ² and sᵢ², cᵢ² + sᵢ² = 1, and νᵢ = sᵢ²/cᵢ². The fraction of the old that is kept
    is max(λᵏ, 1 − νᵢ): rows of R are scaled along the left vectors of Q₁, which does not change the estimate.
    """
    whole = np.concatenate([held.r, new.r])[:, :columns]
    scale = np.linalg.norm(whole, axis=0)
    whole = whole / np.where(scale > 0.0, scale, 1.0)
    _, sizes, right = np.linalg.svd(whole, full_matrices=False)
    live = sizes > _LIVE * max(sizes[0], np.finfo(float).tiny)
    shares = whole @ (right[live].T / sizes[live])
    left, cosines, _ = np.linalg.svd(shares[: len(held.r)], full_matrices=False)
    known = cosines > _LIVE
    left, squares = left[:, known], np.minimum(cosines[known] ** 2, 1.0)
    kept = np.maximum(share, 1.0 - (1.0 - squares) / squares)
    # the part of the effort outside all directions is the residual: it fades with the clock
    gain = (np.sqrt(kept) - np.sqrt(share))[:, None]
    old = np.sqrt(share) * held.r + left @ (gain * (left.T @ held.r))
    return Triangle.of(np.concatenate([old, new.r]), round(share * held.rows) + new.rows)
