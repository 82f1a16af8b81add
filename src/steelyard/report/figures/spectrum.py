"""Figures of spectra: accelerations and efforts of a log, with the cut-off frequencies of the filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import welch

from steelyard._arrays import Array
from steelyard.report import numerals
from steelyard.signals.samples import Samples

Json = dict[str, Any]
# Seconds of a log whose spectrum is drawn, length of a Welch segment [s], and points per curve.
MOST_S, SEGMENT_S, MOST_POINTS = 120.0, 8.0, 240


@dataclass(frozen=True)
class RunSpectra:
    """Power spectral densities of a run: frequency (f,) [Hz], acceleration (n, f) [(rad/s²)²/Hz], effort (n, f)."""

    run: str
    joints: tuple[str, ...]
    frequency: Array
    acceleration: Array
    effort: Array


def run_spectra(run: Samples) -> RunSpectra | None:
    """Spectra of the longest stretch of samples without a filter, up to MOST_S; None for a run that is too short."""
    longest = max(range(len(run.stretches)), key=lambda k: run.stretches[k].length)
    wanted = min(run.stretches[longest].length, int(MOST_S * run.rate))
    q, effort, got = [], [], 0
    for piece in run.open():
        if piece.stretch == longest and got < wanted:
            q.append(piece.q)
            effort.append(piece.effort)
            got += piece.q.shape[1]
        elif got >= wanted:
            break
    if got < 64:
        return None
    length = min(got, round(SEGMENT_S * run.rate))
    frequency, power = welch(np.concatenate(effort, axis=1)[:, :wanted], run.rate, nperseg=length, axis=1)
    bend = np.diff(np.concatenate(q, axis=1)[:, :wanted], 2, axis=1) * run.rate**2
    _, acceleration = welch(bend, run.rate, nperseg=min(length, bend.shape[1]), nfft=length, axis=1)
    # the same mean over bands of equal ratio keeps the shape on a logarithmic scale
    edges = np.unique(np.geomspace(1, len(frequency), MOST_POINTS).astype(int))
    count = np.diff(edges)

    def banded(x: Array) -> Array:
        return np.add.reduceat(x, edges[:-1], axis=-1)[..., : len(count)] / np.diff([*edges[:-1], x.shape[-1]])

    return RunSpectra(run.name, run.joints, banded(frequency), banded(acceleration), banded(power))


def spectrum_groups(
    spectra: tuple[RunSpectra, ...], cutoff_hz: float | None, lowpass_hz: float | None, units: tuple[str, ...]
) -> tuple[Json, ...]:
    """A group per run, a figure per joint."""
    return tuple(
        {
            "name": one.run,
            "joints": [
                {"name": joint, "caption": "", "figure": spectrum_figure(one, j, cutoff_hz, lowpass_hz, units[j])}
                for j, joint in enumerate(one.joints)
            ],
        }
        for one in spectra
    )


def spectrum_figure(spectra: RunSpectra, j: int, cutoff_hz: float | None, lowpass_hz: float | None, unit: str) -> Json:
    """Acceleration and effort of a joint as amplitude densities; lines at the cut-offs."""
    effort = numerals.unit(unit)
    bend = {"N·m": "rad/s²", "N": "m/s²"}.get(effort, "rad/s² | m/s²")
    lines = [("measured", spectra.effort[j], "y", f"effort [{effort}/√Hz]")]
    lines.append(
        ("predicted", spectra.acceleration[j], "y2", f"acceleration, differences of the positions [{bend}/√Hz]")
    )
    data = [
        {"type": "scatter", "mode": "lines", "name": name.split(" [")[0], "meta": role, "x": spectra.frequency,
         "y": np.sqrt(np.maximum(power, 1e-300)), "yaxis": axis}
        for role, power, axis, name in lines
    ]  # fmt: skip
    marks = [(name, x) for name, x in (("lowpass_hz", lowpass_hz), ("cutoff_hz", cutoff_hz)) if x]
    across = {"title": {"text": "frequency [Hz]"}, "type": "log", "zeroline": False}
    layout = {
        "xaxis": across | {"anchor": "y2"},
        "yaxis": {"title": {"text": f"effort [{effort}/√Hz]"}, "type": "log", "domain": [0.55, 1.0], "zeroline": False},
        "yaxis2": {"title": {"text": f"accel. [{bend}/√Hz]"}, "type": "log", "domain": [0.0, 0.45], "zeroline": False},
        "height": 330, "margin": {"l": 64, "r": 12, "t": 30, "b": 40}, "showlegend": False,
        "shapes": [
            {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "xref": "x", "yref": "paper", "name": "cut-off",
             "line": {"dash": "dot", "width": 1.2}}
            for _, x in marks
        ],
        "annotations": [
            {"text": f"{name} {x:.3g}", "x": float(np.log10(x)), "y": 1.0, "xref": "x", "yref": "paper",
             "showarrow": False, "xanchor": ("right", "left")[k], "yanchor": "bottom", "font": {"size": 10}}
            for k, (name, x) in enumerate(marks)
        ],
    }  # fmt: skip
    return {"data": data, "layout": layout}
