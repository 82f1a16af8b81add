"""Figures of effort over time, as plain Plotly dictionaries; the page draws only the selected one.

The page sets colours and fonts: a trace has its role in `meta`, and the page colours it for its light or dark scheme. A
figure contains no text of the user, because Plotly interprets markup in texts.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.identification.prediction import Prediction
from steelyard.model.parameters import Layout
from steelyard.report import numerals
from steelyard.report.tables.errors import effort_unit

MOST_POINTS = 1500
# A time step longer than this multiple of the usual one is a gap between stretches.
GAP = 1.5

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
    return {"name": prediction.run, "joints": joints}


def joint_figure(prediction: Prediction, j: int, unit: str) -> Json:
    """Top: measured, predicted and nominal effort of joint j; below: residuals with their 95 % band; rows
    that were not scored shaded."""
    measured, predicted = prediction.measured[j], prediction.predicted[j]
    residual = measured - predicted
    rows = drawn_rows(np.stack([measured, residual]))
    stretch = stretches(prediction.t)[rows]
    t, scored = prediction.t[rows], prediction.scored[j][rows]
    data = [_trace("measured", t, measured[rows], stretch)]
    if prediction.nominal is not None:
        nominal = prediction.nominal[j]
        data.append(_trace("nominal", t, nominal[rows], stretch))
        data.append(_residual("nominal", t, (measured - nominal)[rows], stretch))
    data.append(_trace("predicted", t, predicted[rows], stretch))
    if prediction.half is not None:
        half = prediction.half[j][rows]
        data += [_residual("band", t, end * half, stretch) for end in (-1.0, 1.0)]
    data.append(_residual("unscored", t, np.where(_widened(~scored), residual[rows], np.nan), stretch))
    data.append(_residual("residual", t, np.where(scored, residual[rows], np.nan), stretch))
    return {"data": data, "layout": _layout(unit, rest_path(prediction.t, prediction.scored[j]))}


def caption(prediction: Prediction, j: int) -> str:
    """The caption: what is drawn, what is left out, and the relative error on these rows."""
    count, scored = len(prediction.t), prediction.scored[j]
    error = _relative_error(prediction.measured[j], prediction.predicted[j], scored)
    parts = [f"Relative error on the scored rows of this run: {numerals.share(error)}"]
    if prediction.nominal is not None:
        nominal = _relative_error(prediction.measured[j], prediction.nominal[j], scored)
        parts[0] += f" (nominal model {numerals.share(nominal)})"
    parts.append(f"{int(scored.sum())} of {count} rows are scored; the others, at rest, are shaded")
    if prediction.half is not None and scored.any():
        inside = float(np.mean(prediction.inside[j][scored]))
        parts.append(f"{numerals.share(inside)} of these lie in the 95 % band of the prediction (thin lines)")
    if not prediction.complete:
        parts.append(f"only the first {count} rows of the run are shown")
    if count > MOST_POINTS:
        parts.append(
            f"at most {MOST_POINTS} of {count} rows are drawn: the extremes of effort and residual in "
            f"{MOST_POINTS // 4} slices of time"
        )
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


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


def rest_path(t: Array, scored: NDArray[np.bool_]) -> str:
    """Rectangles over the rows that were not scored, each half a step wider on either side, as one SVG path."""
    if not len(t) or scored.all():
        return ""
    half = 0.5 * float(np.median(np.diff(t))) if len(t) > 1 else 0.5
    change = np.diff(np.concatenate([[0], ~scored, [0]]).astype(int))
    cut = np.flatnonzero(np.diff(stretches(t))) + 1
    starts = sorted({*np.flatnonzero(change == 1).tolist(), *(c for c in cut.tolist() if not scored[c])})
    stops = sorted({*np.flatnonzero(change == -1).tolist(), *(c for c in cut.tolist() if not scored[c - 1])})
    pairs = zip(starts, stops, strict=True)
    return "".join(f"M{t[a] - half:.5f},0V1H{t[b - 1] + half:.5f}V0Z" for a, b in pairs)


def _relative_error(measured: Array, model: Array, scored: NDArray[np.bool_]) -> float:
    size = float(np.linalg.norm(measured[scored]))
    return float(np.linalg.norm((measured - model)[scored])) / size if size > 0.0 else math.nan


def _widened(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and its neighbours, so that the line of unscored rows joins the line of scored ones."""
    out = mask.copy()
    out[1:] |= mask[:-1]
    out[:-1] |= mask[1:]
    return out


def _trace(role: str, t: Array, y: Array, stretch: Rows) -> Json:
    """A line that breaks between stretches."""
    breaks = np.flatnonzero(np.diff(stretch)) + 1
    return {
        "type": "scatter",
        "mode": "lines",
        "name": role,
        "meta": role,
        "legendgroup": role,
        "x": _plain(np.insert(t, breaks, np.nan), "{:.5f}"),
        "y": _plain(np.insert(y, breaks, np.nan), "{:.5g}"),
        "connectgaps": False,
    }


def _residual(role: str, t: Array, y: Array, stretch: Rows) -> Json:
    """A line in the lower panel, without a legend: that of the upper panel applies."""
    lower = {"yaxis": "y2", "showlegend": False}
    silent = {"hoverinfo": "skip"} if role in ("unscored", "band") else {}
    names = {"nominal": "residual of nominal", "unscored": "residual, not scored", "band": "95 % band"}
    return _trace(role, t, y, stretch) | lower | silent | {"name": names.get(role, role)}


def _plain(x: Array, form: str) -> list[float | None]:
    """Rounded values; None for values that JSON cannot hold."""
    return [float(form.format(v)) if math.isfinite(v) else None for v in x.tolist()]


def _layout(unit: str, rest: str) -> Json:
    shape = {
        "type": "path",
        "path": rest,
        "xref": "x",
        "yref": "paper",
        "layer": "below",
        "line": {"width": 0},
        "name": "not scored (at rest)",
        "showlegend": True,
    }
    return {
        "xaxis": {"title": {"text": "time [s]"}, "anchor": "y2", "zeroline": False},
        "yaxis": {"title": {"text": f"effort [{unit}]"}, "domain": [0.37, 1.0], "zeroline": False},
        "yaxis2": {"title": {"text": f"residual [{unit}]"}, "domain": [0.0, 0.3], "zeroline": True},
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "legend": {"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "margin": {"l": 64, "r": 16, "t": 36, "b": 44},
        "shapes": [shape] if rest else [],
    }
