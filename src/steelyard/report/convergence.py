"""render_history: parameters over the time of a followed log, as one HTML page of small pictures without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.result import Identification
from steelyard.online.change_cause import Change
from steelyard.online.history import Curve
from steelyard.report import numerals
from steelyard.report.templates import rendered

WIDTH, HEIGHT = 320, 150
LEFT, RIGHT, TOP, BOTTOM = 62, 312, 8, 126
# The first refreshes are uncertain: the scale is set by the later ones, and values beyond it are cut off.
_EARLY = 0.25


class Panel(NamedTuple):
    """One picture: points of the line and of its band, ticks with their heights, times at both ends, the change."""

    title: str
    unit: str
    last: str
    line: str
    band: str
    ticks: tuple[tuple[float, str], ...]
    ends: tuple[str, str]
    change: float | None


def render_history(result: Identification, curves: Sequence[Curve], title: str, change: Change | None = None) -> str:
    """The page; the same arguments give the same bytes."""
    ranked = sorted((curve for curve in curves if len(curve.t)), key=lambda curve: -moved(curve))
    panels = [panel(curve, None if change is None else change.t) for curve in ranked]
    return rendered(
        "convergence.html",
        title,
        result=result,
        change="" if change is None else change.verdict,
        panels=panels,
        size=(WIDTH, HEIGHT),
        box=(LEFT, RIGHT, TOP, BOTTOM),
    )


def moved(curve: Curve) -> float:
    """The range of the later refreshes over their σ: the parameters that changed most come first."""
    seen = np.isfinite(curve.y)
    y, half = curve.y[seen], np.nan_to_num(curve.half[seen])
    if not len(y):
        return 0.0
    later = slice(int(_EARLY * len(y)), None)
    return float(np.ptp(y[later]) / max(0.5 * float(half[later].mean()), 1e-12 * float(np.abs(y).max()), 1e-300))


def panel(curve: Curve, change: float | None = None) -> Panel:
    """A curve in its box; refreshes without a value are left out."""
    seen = np.isfinite(curve.y)
    t, y, half = curve.t[seen], curve.y[seen], np.nan_to_num(curve.half[seen])
    start, end = float(curve.t[0]), float(curve.t[-1])
    width = max(end - start, 1e-9)
    low, high = _span(y, half)

    def across(x: Array) -> Array:
        return LEFT + (RIGHT - LEFT) * (x - start) / width

    def up(x: Array) -> Array:
        return BOTTOM + (TOP - BOTTOM) * (np.clip(x, low, high) - low) / (high - low)

    def points(x: Array, height: Array) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across(x), up(height), strict=True))

    band = f"{points(t, y + half)} {points(t[::-1], (y - half)[::-1])}" if half.any() else ""
    levels = np.array([low, 0.5 * (low + high), high])
    ticks = tuple((round(float(at), 1), f"{x:.4g}") for at, x in zip(up(levels), levels.tolist(), strict=True))
    inside = change is not None and start <= change <= end
    last = numerals.DASH
    if len(y):
        value, deviation = float(y[-1]), float(0.5 * half[-1])
        last = numerals.estimate(value, deviation) if deviation > 0.0 else numerals.number(value)
    return Panel(
        curve.name,
        "" if curve.unit == "1" else numerals.unit(curve.unit),
        last,
        points(t, y),
        band,
        ticks,
        (f"{start:.4g}", f"{end:.4g} s"),
        round(float(across(np.array(change))), 1) if inside else None,
    )


def _span(y: Array, half: Array) -> tuple[float, float]:
    """A range that holds the later refreshes with their bands."""
    later = slice(int(_EARLY * len(y)), None)
    if not len(y):
        return 0.0, 1.0
    low, high = float((y - half)[later].min()), float((y + half)[later].max())
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin
