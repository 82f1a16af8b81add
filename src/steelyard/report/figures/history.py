"""Figure of a curve over the time of a followed log."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.online.history import Curve
from steelyard.report import numerals

Json = dict[str, Any]
# The first refreshes are uncertain: the scale is set by those after this share of the log.
EARLY = 0.25


def moved(curve: Curve) -> float:
    """The range of the later refreshes over their σ, by which curves are ranked."""
    seen = np.isfinite(curve.y)
    y, half = curve.y[seen], np.nan_to_num(curve.half[seen])
    if not len(y):
        return 0.0
    later = slice(int(EARLY * len(y)), None)
    return float(np.ptp(y[later]) / max(0.5 * float(half[later].mean()), 1e-12 * float(np.abs(y).max()), 1e-300))


def history_figure(curve: Curve, change: float | None = None) -> Json:
    """The curve with its band; a dotted line at the time of a change [s]."""
    unit = "" if curve.unit == "1" else f"[{numerals.unit(curve.unit)}]"
    base: Json = {"type": "scatter", "mode": "lines", "x": curve.t}
    half = np.nan_to_num(curve.half)
    data: list[Json] = []
    if half.any():
        data.append({**base, "meta": "band", "y": curve.y + half, "hoverinfo": "skip", "showlegend": False})
        data.append({**base, "meta": "band", "name": "± 2 σ", "y": curve.y - half, "fill": "tonexty",
                     "hoverinfo": "skip"})  # fmt: skip
    data.append({**base, "meta": "predicted", "name": "estimate", "y": curve.y})
    inside = change is not None and curve.t[0] <= change <= curve.t[-1]
    mark = {"type": "line", "x0": change, "x1": change, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
    layout = {
        "xaxis": {"title": {"text": "time of the log [s]"}, "zeroline": False},
        "yaxis": {"title": {"text": unit}, "zeroline": False, "range": list(scale(curve.y, half))},
        "height": 230, "margin": {"l": 64, "r": 12, "t": 8, "b": 40},
        "shapes": [mark] if inside else [],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def scale(y: Array, half: Array) -> tuple[float, float]:
    """A range that holds the later refreshes with their bands."""
    seen = np.isfinite(y)
    later = slice(int(EARLY * seen.sum()), None)
    low, high = (y - half)[seen][later], (y + half)[seen][later]
    if not len(low):
        return 0.0, 1.0
    bottom, top = float(low.min()), float(high.max())
    margin = 0.05 * (top - bottom) or 0.5 * abs(top) or 1.0
    return bottom - margin, top + margin
