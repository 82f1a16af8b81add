"""Figure of the delays of the efforts, with their error bars and what was corrected."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.identification.delays import Delays
from steelyard.report.figures.forest import plain_name

Json = dict[str, Any]


def delay_figure(delays: Delays) -> Json:
    """One row per joint and one for all joints together: delay with its 95 % interval [ms], and the correction."""
    names = [*map(plain_name, delays.joints), "all joints"]
    y = np.arange(len(names), dtype=float)
    found = 1e3 * np.array([*delays.seconds, delays.common])
    half = 1e3 * delays.sure_95 * np.array([*delays.std, delays.common_std])
    corrected = 1e3 * np.array(delays.correction)
    data = [
        {"type": "scatter", "mode": "markers", "name": "corrected by", "meta": "stated", "x": corrected, "y": y[:-1]},
        {"type": "scatter", "mode": "markers", "name": "delay, 95 % interval", "meta": "estimate", "x": found, "y": y,
         "error_x": {"type": "data", "array": half}},
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "delay of the effort behind the position [ms]"}, "zeroline": True},
        "yaxis": {"tickvals": y.tolist(), "ticktext": names, "autorange": "reversed", "zeroline": False},
        "height": 90 + 24 * len(names), "margin": {"l": 90, "r": 12, "t": 8, "b": 40},
    }  # fmt: skip
    return {"data": data, "layout": layout}
