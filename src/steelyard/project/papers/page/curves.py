"""Figures of curves as plain Plotly data: x and y by name, few points, one axis pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.report.figures.palette import PALETTE
from steelyard.report.section import Figure, FigureChoice

MOST_POINTS = 600

Curves = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]


def figure(
    curves: Curves, x: str, y: str, caption: str = "", *, logarithmic: bool = False, markers: bool = False
) -> Figure:
    """Lines (or points) y over x by name; logarithmic or linear in y."""
    data: list[dict[str, Any]] = []
    for k, (name, (across, up)) in enumerate(curves.items()):
        keep = _drawn(np.asarray(up, float))
        colour = PALETTE[k % len(PALETTE)]
        data.append(
            {
                "type": "scatter",
                "mode": "markers" if markers else "lines",
                "name": name,
                "x": _plain(np.asarray(across, float)[keep]),
                "y": _plain(np.asarray(up, float)[keep]),
                "line": {"color": colour, "width": 1.6, "dash": "solid" if k < len(PALETTE) else "dot"},
                "marker": {"color": colour, "size": 7},
            }
        )
    layout = {
        "xaxis": {"title": {"text": x}, "zeroline": False},
        "yaxis": {"title": {"text": y}, "type": "log" if logarithmic else "linear", "exponentformat": "power"},
        "legend": {"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 64, "r": 16, "t": 36, "b": 44},
        "showlegend": len(data) > 1,
    }
    return Figure({"data": data, "layout": layout}, caption)


def choice(figures: Mapping[str, Figure], group: str = "") -> FigureChoice:
    """Figures of which a reader picks one by name."""
    return groups({group: figures})


def groups(figures: Mapping[str, Mapping[str, Figure]]) -> FigureChoice:
    """Groups of figures: a reader picks a group, then a figure in it."""
    made = []
    for group, own in figures.items():
        parts = [{"name": name, "figure": dict(one.figure), "caption": one.caption} for name, one in own.items()]
        made.append({"name": group, "joints": parts})
    return FigureChoice(tuple(made))


def per_axis(
    names: Sequence[str], curves: Curves, x: str, y: str, caption: str = "", *, logarithmic: bool = False
) -> FigureChoice:
    """A figure per axis of curves (t (N,), y (n, N)) by name."""
    return choice(
        {
            axis: figure(
                {name: (t, values[k]) for name, (t, values) in curves.items()}, x, y, caption, logarithmic=logarithmic
            )
            for k, axis in enumerate(names)
        }
    )


def _drawn(y: Array) -> NDArray[np.intp]:
    """Rows to draw: all of a short curve; of a long one the lowest and highest in each of MOST_POINTS / 2 slices."""
    if len(y) <= MOST_POINTS:
        return np.arange(len(y))
    edges = np.linspace(0, len(y), MOST_POINTS // 2 + 1).astype(int)
    kept = set[int]()
    for first, stop in pairwise(edges.tolist()):
        piece = np.nan_to_num(y[first:stop])
        kept.update((int(first + piece.argmin()), int(first + piece.argmax())))
    return np.array(sorted(kept))


def _plain(x: Array) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in x.tolist()]
