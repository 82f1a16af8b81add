"""Figures of docs/online.md from the real UR10e: convergence of the parameters, and the mass after a pick-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from online import DATA, ROOT, follow, one_after_another, recorded
from steelyard._arrays import Array

IMAGES = ROOT / "docs" / "images"


class Band(NamedTuple):
    """A curve y (k,) over x (k,) with a band of ± half (k,)."""

    label: str
    x: Array
    y: Array
    half: Array


COLOURS = ("#1f6feb", "#d1495b", "#2a9d5c", "#8a5cc2")


def drawn(path: Path, title: str, axes: tuple[str, str], bands: Sequence[Band], span: tuple[float, float]) -> None:
    """One picture as SVG; `span` bounds y."""
    width, height, left, low, right, high = 760, 340, 70, 290, 590, 40
    first, last = min(float(b.x[0]) for b in bands), max(float(b.x[-1]) for b in bands)

    def at(x: Array, y: Array) -> str:
        across = left + (right - left) * (x - first) / (last - first)
        up = low + (high - low) * (np.clip(y, *span) - span[0]) / (span[1] - span[0])
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="24" font-size="14">{title}</text>',
    ]
    for share in np.linspace(0.0, 1.0, 5):
        y, x, tick = low + (high - low) * share, left + (right - left) * share, span[0] + (span[1] - span[0]) * share
        out += [
            f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.3g}</text>',
            f'<text x="{x:.1f}" y="{low + 18}" text-anchor="middle">{first + (last - first) * share:.3g}</text>',
        ]
    out += [
        f'<text x="{0.5 * (left + right)}" y="{low + 38}" text-anchor="middle">{axes[0]}</text>',
        f'<text transform="translate(18,{0.5 * (low + high)}) rotate(-90)" text-anchor="middle">{axes[1]}</text>',
    ]
    for k, (band, colour) in enumerate(zip(bands, COLOURS, strict=False)):
        around = f"{at(band.x, band.y + band.half)} {at(band.x[::-1], (band.y - band.half)[::-1])}"
        out += [
            f'<polygon points="{around}" fill="{colour}" opacity="0.15"/>',
            f'<polyline points="{at(band.x, band.y)}" fill="none" stroke="{colour}" stroke-width="1.6"/>',
            f'<text x="{right + 10}" y="{high + 12 + 18 * k}" fill="{colour}">{band.label}</text>',
        ]
    path.write_text("\n".join([*out, "</svg>", ""]), "utf-8")


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"the recordings are not here: {DATA}")
    free, loaded = recorded("ident_free_50s_14harm", (195, 4966)), recorded("ident_load_50s_14harm", (308, 5071))
    parts, starts = one_after_another([free, loaded])
    _, told, course = follow(parts)
    masses = [(t - starts[1], c.pickup.mass, 2.0 * c.pickup.mass_std) for t, c in told if c.pickup is not None]
    x, mass, half = np.array(masses[1:]).T
    truth = Band("2.805 kg, weighed", x, np.full(len(x), 2.805), np.zeros(len(x)))
    title = "UR10e: a body weighed while the robot moves (mass ± 2σ)"
    found = Band("found online", x, mass, half)
    drawn(IMAGES / "online-mass.svg", title, ("s of the loaded log", "kg"), (found, truth), (1.8, 3.8))
    t = np.array([when for when, _ in course])
    bands = []
    for name in ("shoulder_pan_joint.Fv", "shoulder_lift_joint.Fc", "elbow_joint.Fv", "wrist_1_joint.Fc"):
        k = course[-1][1].base.names.index(name)
        value, std = (np.array([getattr(r, what)[k] for _, r in course]) for what in ("value", "std"))
        bands.append(Band(name, t, value / value[-1], 2.0 * np.nan_to_num(std) / abs(value[-1])))
    title = "UR10e: parameters while they are learnt, over their last value (± 2σ)"
    drawn(IMAGES / "online-parameters.svg", title, ("s of the unloaded log", "value / last value"), bands, (0.0, 2.0))
    print(f"wrote docs/images/online-mass.svg ({len(x)} masses) and online-parameters.svg ({len(t)} identifications)")


if __name__ == "__main__":
    main()
