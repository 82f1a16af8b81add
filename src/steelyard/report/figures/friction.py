"""Figures of friction: the effort that bodies do not explain, against speed, position and load, with the fitted law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.identification.prediction import Prediction
from steelyard.report import numerals

Json = dict[str, Any]
# Points and bins per joint.
MOST_POINTS, BINS = 700, 36


def friction_groups(predictions: Sequence[Prediction], units: Sequence[str]) -> tuple[Json, ...]:
    """Three groups of figures, one per joint: friction against speed, position and load (of bodies)."""
    kept = [(one, one.q, one.other) for one in predictions if one.other is not None and one.q is not None]
    if not any(len(one.t) for one, _, _ in kept):
        return ()
    runs = [one for one, _, _ in kept]
    laws = [other for _, _, other in kept]
    against = (
        ("speed", [one.v for one in runs], True),
        ("position", [q for _, q, _ in kept], False),
        ("load", [one.predicted - other for one, other in zip(runs, laws, strict=True)], True),
    )
    groups = []
    for name, values, at_zero in against:
        joints = []
        for j, joint in enumerate(runs[0].joints):
            scored = [one.scored[j] for one in runs]
            x, law, rest = (
                np.concatenate([every[j][use] for every, use in zip(arrays, scored, strict=True)])
                for arrays in (values, laws, [one.measured - one.predicted for one in runs])
            )
            effort = numerals.unit(units[j])
            angle = {"N·m": "rad", "N": "m"}.get(effort, "rad | m")
            unit = {"speed": f"{angle}/s", "position": angle, "load": effort}[name]
            joints.append(
                {
                    "name": joint,
                    "figure": friction_figure(x, law, rest, f"{name} [{unit}]", f"friction [{effort}]", at_zero),
                    "caption": "",
                }
            )
        groups.append({"name": name, "joints": joints})
    return tuple(groups)


def friction_figure(x: Array, law: Array, residual: Array, across: str, up: str, at_zero: bool) -> Json:
    """Points: friction and offset of the model plus the residual; curve: mean of the model in bins of x.

    `at_zero` breaks the curve where x changes its sign.
    """
    chosen = np.unique(np.linspace(0, len(x) - 1, min(MOST_POINTS, len(x))).astype(int)) if len(x) else []
    middle, mean = binned(x, law, at_zero)
    points = {"type": "scatter", "mode": "markers", "name": "measured without bodies", "meta": "dots"}
    curve = {"type": "scatter", "mode": "lines", "name": "identified law", "meta": "predicted", "connectgaps": False}
    layout = {
        "xaxis": {"title": {"text": across}, "zeroline": True},
        "yaxis": {"title": {"text": up}, "zeroline": True},
        "height": 280,
        "margin": {"l": 58, "r": 12, "t": 8, "b": 40},
    }
    data = [points | {"x": x[chosen], "y": (law + residual)[chosen]}, curve | {"x": middle, "y": mean}]
    return {"data": data, "layout": layout}


def binned(x: Array, y: Array, at_zero: bool) -> tuple[Array, Array]:
    """Means of x and y in bins of equal count, from low to high x; NaN between the signs of x where asked."""
    middle: list[float] = []
    mean: list[float] = []
    for part in (x < 0.0, x >= 0.0) if at_zero else (np.ones(len(x), bool),):
        order = np.flatnonzero(part)[np.argsort(x[part])]
        if middle:
            middle.append(np.nan)
            mean.append(np.nan)
        for own in np.array_split(order, min(BINS, len(order)) or 1):
            if len(own):
                middle.append(float(x[own].mean()))
                mean.append(float(y[own].mean()))
    return np.array(middle), np.array(mean)
