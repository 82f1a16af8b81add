"""Figures of effort over time: measured, predicted and nominal effort, the residual with its band, and where rows were
fitted, unseen or at rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.identification.prediction import Prediction
from steelyard.identification.verdict import effort_unit
from steelyard.model.parameters import Layout
from steelyard.report import numerals

MOST_POINTS = 1200
# A time step longer than this multiple of the usual one is a gap between stretches.
GAP = 1.5
# The ribbon below the curves: its height on the scale of the figure.
_RIBBON = (0.315, 0.335)
# Slices of time in which the ribbon is drawn.
SLICES = 300

Json = dict[str, Any]
Rows = NDArray[np.intp]


def run_figures(prediction: Prediction, layout: Layout) -> Json:
    """One run: its name and, joint by joint, a figure with its caption."""
    joints = [
        {
            "name": name,
            "figure": joint_figure(prediction, j, numerals.unit(effort_unit(layout, name))),
            "caption": caption(prediction, j),
        }
        for j, name in enumerate(prediction.joints)
    ]
    unseen = " (unseen)" if prediction.role == "validate" else ""
    return {"name": f"{prediction.run}{unseen}", "joints": joints, "note": run_note(prediction)}


def unseen_first(predictions: Sequence[Prediction]) -> list[Prediction]:
    """The runs that were only scored, then those of the fit."""
    return sorted(predictions, key=lambda one: one.role != "validate")


def joint_figure(prediction: Prediction, j: int, unit: str) -> Json:
    """Top: measured, predicted and nominal effort of joint j; a ribbon with what each row was used for; below: the
    residual and the 95 % band of a prediction."""
    measured, predicted = prediction.measured[j], prediction.predicted[j]
    residual = measured - predicted
    rows = drawn_rows(np.stack([measured, residual]))
    breaks = np.flatnonzero(np.diff(stretches(prediction.t)[rows])) + 1
    scored = prediction.scored[j]
    t = np.insert(prediction.t[rows], breaks, np.nan)

    def line(role: str, y: Array, axis: str = "y", **more: Any) -> Json:
        return _trace(role, t, np.insert(y[rows], breaks, np.nan)) | {"yaxis": axis} | more

    data = [line("measured", measured)]
    if prediction.nominal is not None:
        data.append(line("nominal", prediction.nominal[j]))
    data.append(line("predicted", predicted))
    lower = {"axis": "y2", "showlegend": False}
    if prediction.half is not None:
        half = prediction.half[j]
        # the lower edge is the same array with the other sign: the page negates it
        data.append(line("band", half, hoverinfo="skip", **lower))
        data.append(line("band", -half, fill="tonexty", hoverinfo="skip", **lower))
    data.append(line("residual", residual, **lower))
    seen = "unseen" if prediction.role == "validate" else "fitted"
    ribbon = [
        _shape(role, ribbon_path(prediction.t, mask))
        for role, mask in ((seen, scored), ("rest", ~scored))
        if mask.any()
    ]
    return {"data": data, "layout": _layout(unit, ribbon)}


def caption(prediction: Prediction, j: int) -> str:
    """The relative error of a joint on the rows of this run, and how many were scored."""
    count, scored = len(prediction.t), prediction.scored[j]
    error = _relative_error(prediction.measured[j], prediction.predicted[j], scored)
    said = f"Relative error {numerals.share(error)}"
    if prediction.nominal is not None:
        nominal = _relative_error(prediction.measured[j], prediction.nominal[j], scored)
        said += f" (nominal model {numerals.share(nominal)})"
    return f"{said}; {int(scored.sum())} of {count} rows are scored."


def run_note(prediction: Prediction) -> str:
    """What all figures of a run show, and what they leave out."""
    count = len(prediction.t)
    parts = ["The ribbon marks rows that were scored and rows at rest or left out, which were not."]
    if prediction.half is not None:
        parts.append("The band is where 95 % of the residuals should lie.")
    if not prediction.complete:
        parts.append(f"Only the first {count} rows of the run are shown.")
    if count > MOST_POINTS:
        parts.append(
            f"At most {MOST_POINTS} of {count} rows are drawn: the extremes of effort and residual in "
            f"{MOST_POINTS // 4} slices of time."
        )
    return " ".join(parts)


def drawn_rows(signals: Array) -> Rows:
    """At most MOST_POINTS rows of signals (k, m): the lowest and highest of each in each of MOST_POINTS / 2k slices."""
    k, m = signals.shape
    if m <= MOST_POINTS:
        return np.arange(m)
    finite = np.nan_to_num(signals)
    edges = np.linspace(0, m, MOST_POINTS // (2 * k) + 1).astype(int)
    kept: set[int] = set()
    for first, stop in pairwise(edges.tolist()):
        piece = finite[:, first:stop]
        kept.update((first + piece.argmin(axis=1)).tolist(), (first + piece.argmax(axis=1)).tolist())
    return np.array(sorted(kept), dtype=np.intp)


def stretches(t: Array) -> Rows:
    """Number of the gap-free stretch each row belongs to, (m,)."""
    steps = np.diff(t)
    usual = np.median(steps) if len(steps) else 0.0
    return np.concatenate([[0], np.cumsum(steps > GAP * usual)])[: len(t)].astype(np.intp)


def ribbon_path(t: Array, mask: NDArray[np.bool_]) -> str:
    """Rectangles over the rows of a mask, each half a step wider on either side, as one SVG path.

    Of more than SLICES rows, a slice of time is drawn if at least half of its rows are marked.
    """
    if not len(t) or not mask.any():
        return ""
    half = 0.5 * float(np.median(np.diff(t))) if len(t) > 1 else 0.5
    number = stretches(t)
    edges = np.unique(np.linspace(0, len(t), min(len(t), SLICES) + 1).astype(int))
    # a slice ends where a stretch ends
    edges = np.unique([*edges, *(np.flatnonzero(np.diff(number)) + 1)])
    spans: list[list[int]] = []
    for first, stop in pairwise(edges.tolist()):
        if 2 * np.count_nonzero(mask[first:stop]) >= stop - first:
            if spans and spans[-1][1] == first and number[first - 1] == number[first]:
                spans[-1][1] = stop
            else:
                spans.append([first, stop])
    low, high = _RIBBON
    return "".join(f"M{t[a] - half:.5g},{low}V{high}H{t[b - 1] + half:.5g}V{low}Z" for a, b in spans)


def _relative_error(measured: Array, model: Array, scored: NDArray[np.bool_]) -> float:
    size = float(np.linalg.norm(measured[scored]))
    return float(np.linalg.norm((measured - model)[scored])) / size if size > 0.0 else math.nan


def _trace(role: str, t: Array, y: Array) -> Json:
    """A line of a role, broken where y is not a number."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": role,
        "meta": role,
        "legendgroup": role,
        "x": t,
        "y": y,
        "connectgaps": False,
    }


def _shape(role: str, path: str) -> Json:
    names = {"rest": "at rest or left out", "unseen": "unseen rows", "fitted": "fitted rows"}
    return {
        "type": "path",
        "path": path,
        "xref": "x",
        "yref": "paper",
        "layer": "below",
        "line": {"width": 0},
        "name": names[role],
        "showlegend": True,
    }


def _layout(unit: str, ribbon: list[Json]) -> Json:
    return {
        "xaxis": {"title": {"text": "time [s]"}, "anchor": "y2", "zeroline": False},
        "yaxis": {"title": {"text": f"effort [{unit}]"}, "domain": [0.36, 1.0], "zeroline": False},
        "yaxis2": {"title": {"text": f"residual [{unit}]"}, "domain": [0.0, 0.29], "zeroline": True},
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "margin": {"l": 58, "r": 12, "t": 8, "b": 40},
        "height": 310,
        "shapes": [shape for shape in ribbon if shape["path"]],
    }
