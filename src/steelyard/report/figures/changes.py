"""Figures of changes: a forest in units of σ, trends over results, and bars per joint or fold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.report.figures.forest import plain_name
from steelyard.report.figures.palette import PALETTE

Json = dict[str, Any]
MOST_ROWS = 60


def change_figure(
    names: Sequence[str], t: Array, significant: Collection[str], across: str = "change / σ", mark: float = 2.0
) -> Json:
    """One row per parameter, at most MOST_ROWS: changes (m,) in units of σ; dotted lines at ± `mark`."""
    names, t = list(names)[:MOST_ROWS], np.asarray(t, float)[:MOST_ROWS]
    y = np.arange(len(names), dtype=float)
    chosen = np.array([name in significant for name in names], bool)
    data = [
        {"type": "scatter", "mode": "markers", "name": said, "meta": role, "x": t[own], "y": y[own],
         "error_x": {"type": "constant", "value": 1.0}}
        for said, role, own in (("not significant", "quiet", ~chosen), ("significant", "change", chosen))
        if own.any()
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": across}, "zeroline": True},
        "yaxis": {"tickvals": y.tolist(), "ticktext": [plain_name(name) for name in names], "autorange": "reversed",
                  "zeroline": False},
        "height": 90 + 19 * len(names), "margin": {"l": 100, "r": 12, "t": 12, "b": 40},
        "shapes": [
            {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1.2}}
            for x in (-mark, mark)
        ],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def trend_figure(value: Array, std: Array, unit: str) -> Json:
    """A parameter over numbered results, with 95 % intervals."""
    x = np.arange(1.0, len(value) + 1.0)
    data = [
        {"type": "scatter", "mode": "lines+markers", "name": "identified, 95 % interval", "meta": "estimate", "x": x,
         "y": value, "error_y": {"type": "data", "array": 1.96 * np.nan_to_num(std)}}
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "result"}, "dtick": 1, "zeroline": False},
        "yaxis": {"title": {"text": f"[{unit}]"}, "zeroline": False},
        "height": 240, "margin": {"l": 64, "r": 12, "t": 8, "b": 40},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def bars_figure(
    groups: Sequence[str], lines: Mapping[str, Sequence[float]], up: str, total: Sequence[float] | None = None
) -> Json:
    """Ratios by group, one set of bars per line, in percent; `total` as a line over them."""
    labels = [plain_name(name) for name in groups]
    data: list[Json] = [
        {"type": "bar", "name": plain_name(name), "x": labels, "y": 100.0 * np.asarray(values, float)}
        for name, values in lines.items()
    ]
    if total is not None:
        data.append(
            {"type": "scatter", "mode": "lines+markers", "name": "all joints", "meta": "predicted", "x": labels,
             "y": 100.0 * np.asarray(total, float)}
        )  # fmt: skip
    layout = {
        "xaxis": {"zeroline": False, "type": "category"},
        "yaxis": {"title": {"text": f"{up} [%]"}, "zeroline": True},
        "height": 340, "margin": {"l": 64, "r": 12, "t": 12, "b": 70}, "barmode": "group",
        "colorway": list(PALETTE),
        "legend": {"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"}, "meta": "own legend",
    }  # fmt: skip
    return {"data": data, "layout": layout}
