"""Figures of parameters: forest plots by link, the correlation map, and singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from steelyard._arrays import Array
from steelyard.report import numerals

Json = dict[str, Any]


def forest_figure(
    symbols: Sequence[str], value: Array, low: Array, high: Array, nominal: Array, units: Sequence[str]
) -> Json:
    """One row per parameter: interval, estimate, and the value of the file, each divided by the larger of |estimate|
    and |file|."""
    size = np.fmax(np.abs(value), np.nan_to_num(np.abs(nominal)))
    size = np.where(size > 0.0, size, 1.0)
    y = np.arange(len(value), dtype=float)
    said = [
        f"{numerals.estimate(x, 0.5 * (b - a))} {numerals.unit(unit)}"
        for x, a, b, unit in zip(value, low, high, units, strict=True)
    ]
    found = {
        "type": "scatter", "mode": "markers", "name": "identified, 95 % interval", "meta": "estimate",
        "x": value / size, "y": y, "text": said, "hoverinfo": "text",
        "error_x": {"type": "data", "symmetric": False, "array": (high - value) / size,
                    "arrayminus": (value - low) / size},
    }  # fmt: skip
    data: list[Json] = [found]
    if np.isfinite(nominal).any():
        told = [f"file: {numerals.given(x)} {numerals.unit(unit)}" for x, unit in zip(nominal, units, strict=True)]
        data.insert(
            0,
            {
                "type": "scatter", "mode": "markers", "name": "robot file", "meta": "stated",
                "x": nominal / size, "y": y, "text": told, "hoverinfo": "text",
            },
        )  # fmt: skip
    layout = {
        "xaxis": {
            "title": {"text": "relative to the larger of |estimate| and |file|"},
            "zeroline": True,
            "range": [-1.65, 1.65],
        },
        "yaxis": {"tickvals": y.tolist(), "ticktext": list(symbols), "autorange": "reversed", "zeroline": False},
        "height": 76 + 24 * len(value),
        "margin": {"l": 58, "r": 12, "t": 8, "b": 40},
    }
    return {"data": data, "layout": layout}


def correlation_figure(names: Sequence[str], covariance: Array) -> Json:
    """The correlation of every two parameters, in an order that puts groups next to each other."""
    seen = _with_error(covariance)
    part = covariance[np.ix_(seen, seen)]
    std = np.sqrt(np.diagonal(part))
    rho = np.clip(part / np.outer(std, std), -1.0, 1.0)
    if len(seen) > 2:
        apart = 1.0 - np.abs(0.5 * (rho + rho.T))
        np.fill_diagonal(apart, 0.0)
        order = leaves_list(linkage(squareform(apart, checks=False), "average"))
        seen, rho = seen[order], rho[np.ix_(order, order)]
    labels = [plain_name(name) for name in np.array(names)[seen].tolist()]
    data: list[Json] = [
        {
            "type": "heatmap", "z": list(rho), "x": labels, "y": labels, "zmin": -1.0, "zmax": 1.0,
            "meta": "correlation",
            "hovertemplate": "%{x}<br>%{y}<br>%{z:.2f}<extra></extra>", "colorbar": {"thickness": 12},
        }
    ]  # fmt: skip
    ticks = {"tickfont": {"size": 8 if len(seen) > 30 else 10}, "showgrid": False, "dtick": 1 if len(seen) <= 70 else 2}
    layout = {
        "xaxis": {**ticks, "tickangle": -90}, "yaxis": {**ticks, "autorange": "reversed"},
        "height": int(min(820, 240 + 10 * len(seen))), "margin": {"l": 80, "r": 12, "t": 12, "b": 80},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def singular_values(covariance: Array) -> Array:
    """Singular values of the weighted regressor with columns of unit length, descending, from its classical covariance
    (WᵀW)⁻¹; without parameters that have none."""
    seen = _with_error(covariance)
    if not len(seen):
        return np.zeros(0)
    part = covariance[np.ix_(seen, seen)]
    std = np.sqrt(np.diagonal(part))
    values, vectors = np.linalg.eigh(part / np.outer(std, std))
    normal = (vectors / np.maximum(values, 1e-15)) @ vectors.T / np.outer(std, std)
    length = np.sqrt(np.diagonal(normal))
    found = np.linalg.eigvalsh(normal / np.outer(length, length))
    return np.sqrt(np.maximum(found[::-1], 0.0))


def singular_figure(values: Array) -> Json:
    """Singular values on a logarithmic scale."""
    data = [{"type": "scatter", "mode": "lines+markers", "name": "singular value", "meta": "predicted",
             "x": np.arange(1.0, len(values) + 1.0), "y": values}]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "number"}, "zeroline": False},
        "yaxis": {"title": {"text": "singular value [1]"}, "type": "log", "zeroline": False},
        "height": 280, "margin": {"l": 64, "r": 12, "t": 12, "b": 40}, "showlegend": False,
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _with_error(covariance: Array) -> NDArray[np.intp]:
    """Indices of the parameters that have a positive variance."""
    variance = np.diagonal(covariance)
    return np.flatnonzero(np.isfinite(variance) & (variance > 0.0))


def plain_name(name: str) -> str:
    """A name of a user's file without characters that Plotly takes for markup."""
    return name.replace("&", "\uff06").replace("<", "\u2039").replace(">", "\u203a")
