"""Forgetting: what is kept of old rows when new ones are appended to a triangle."""

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
# Steps in a memory. A step must have several times as many rows as a joint has columns to show all directions, so those
# of directional forgetting are long.
STEPS: dict[Rule, int] = {"exponential": 16, "directional": 4}
# Directions of the scaled columns below this fraction of the largest are as good as not excited: nothing of them is
# forgotten, and rounding is not divided by them.
_LIVE = 1e-6


@dataclass(frozen=True)
class Forgetting:
    """How old rows lose weight: `rule`, and after how many rows of the clock 1/e is left, `memory`.

    none          every row counts alike
    exponential   what came before k new rows counts λᵏ as much, λ = exp(−1/memory)
    directional   the same, but in no direction is more forgotten than the new rows bring: with M the information so
                  far, N that of the new rows, M = TᵀT and N = Tᵀ diag(ν) T,
                      M ← Tᵀ diag(max(λᵏ + νᵢ, 1)) T
                  Under steady motion νᵢ settles at 1 − λᵏ and it forgets as exponentially as the rule above; what the
                  motion has stopped to show is kept as it was, and no error bar ever grows for want of excitation.
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
                f"Forgetting '{self.rule}' with a memory of {self.memory!r} rows does not go together: give a positive "
                "number of rows for 'exponential' and 'directional', and none for 'none'."
            )

    def left(self, rows: float) -> float:
        """λ^rows: the weight of squares that are so many rows old."""
        return float(np.exp(-rows / self.memory))

    def remembered(self, information: Information) -> Information:
        """The information as it is remembered at the end of its last run; runs follow one another as they are listed.

        Exponentially weighted blocks stay apart, so that leaving them out in turn gives error bars; what is forgotten
        by direction is one block a joint, the last.
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
        """Time blocks from the oldest, as many together as make a step; none crosses a run."""
        out: dict[tuple[str, int], list[Time]] = {}
        for time in sorted(ages, key=lambda t: -ages[t]):
            size = information.block_rows[time[0]]
            out.setdefault((time[0], time[2] // max(1, round(self.step / size))), []).append(time)
        return list(out.values())

    @property
    def step(self) -> int:
        """Rows of the clock that are forgotten together, where blocks are not longer."""
        return max(1, round(self.memory / STEPS[self.rule]))


def block_ages(information: Information) -> dict[Time, int]:
    """How many rows of the clock, masked or not, end later than each time block."""
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
    """The triangle with the squares of its rows weighted by `share`, and so many rows fewer behind it."""
    return Triangle(np.sqrt(share) * triangle.r, round(share * triangle.rows))


def appended(held: Triangle, new: Triangle, share: float, columns: int) -> Triangle:
    """Rows appended to what is held, of which `share` (λᵏ) is kept in the directions that the new rows show.

    Of the old rows R and the new Φ, scaled to [R; Φ] = [Q₁; Q₂] S, a direction is a right singular vector of Q₂; its
    old and new information are cᵢ² and sᵢ², cᵢ² + sᵢ² = 1, and νᵢ = sᵢ²/cᵢ². The kept share of the old is
    max(λᵏ, 1 − νᵢ): rows of R are scaled along the left vectors of Q₁, which leaves the estimate where it is.
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
    # what lies in no direction is what no column explains: it fades as the clock says
    gain = (np.sqrt(kept) - np.sqrt(share))[:, None]
    old = np.sqrt(share) * held.r + left @ (gain * (left.T @ held.r))
    return Triangle.of(np.concatenate([old, new.r]), round(share * held.rows) + new.rows)
