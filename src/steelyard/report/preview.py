"""render_preview: a designed motion before it is run, as one HTML page that needs no other file: the σ to expect, the
robot on its way, and small pictures of every joint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from steelyard._arrays import Array
from steelyard.design.constraints import MotionRules
from steelyard.design.design import Design
from steelyard.design.forecast import Forecast
from steelyard.motion.bounds import LimitUse
from steelyard.motion.trajectory import Chain, Trajectory
from steelyard.report.figures.skeleton import STEPS, ellipsoid, in_picture, robot_figure
from steelyard.report.page import embedded_script, piece_html
from steelyard.report.section import FigureChoice
from steelyard.report.tables.design import forecast_table, limit_table
from steelyard.report.templates import file_text, rendered

# Size of a small picture, and the box of its curves.
WIDTH, HEIGHT = 320, 150
LEFT, RIGHT, TOP, BOTTOM = 62, 312, 8, 126
# Points per line; a limit is drawn up to this multiple of the largest value.
_POINTS, _FAR = 360, 4.0


class Drawn(NamedTuple):
    """One picture: points of its lines (the last is the main one), heights of the limits, ticks, and both end times."""

    title: str
    unit: str
    reached: str
    lines: tuple[str, ...]
    limits: tuple[float, ...]
    marks: tuple[float, ...]
    ticks: tuple[tuple[float, str], ...]
    ends: tuple[str, str]


def render_preview(
    title: str,
    verdict: str,
    design: Design,
    motions: Sequence[Trajectory],
    rules: Sequence[MotionRules],
    limits: Sequence[Sequence[LimitUse]],
    values: Array,
    relative: Array,
    before: Forecast | None = None,
    *,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    taken: Sequence[str] = (),
) -> str:
    """The page; `limits` are the limits of each motion with the values it reaches, `values` (b,) the values that σ is
    compared with.

    `relative` (b,) are σ as ratios to them, NaN for values of zero. `warnings` are printed below the verdict, then
    `notes`; `taken` are assumptions about the limits. For several motions the table of limits lists, for each limit,
    the motion nearest to it. The same arguments give the same bytes.
    """
    every = [
        {"load": load, "duration": f"{motion.duration:.2f}", "joints": joint_pictures(motion, own)}
        for load, motion, own in zip(design.loads, motions, rules, strict=True)
    ]
    return rendered(
        "preview.html",
        title,
        robot=_robot(design, motions, rules),
        script=Markup(file_text("page.js")),
        plotly=embedded_script(get_plotlyjs()),
        verdict=verdict,
        warnings=warnings,
        notes=notes,
        taken=taken,
        motions=every,
        trace=trace_picture(design.trace),
        searches=len(design.trace),
        parameters=piece_html(forecast_table(design.forecast, values, relative, before)),
        unseen=design.forecast.unseen,
        never=design.forecast.never,
        limits=piece_html(limit_table([max(rows, key=lambda row: row.share) for rows in zip(*limits, strict=True)])),
        history=design.history,
        size=(WIDTH, HEIGHT),
        box=(LEFT, RIGHT, TOP, BOTTOM),
    )


def _robot(design: Design, motions: Sequence[Trajectory], rules: Sequence[MotionRules]) -> Markup:
    """The skeleton, with the bodies of the file if it gives them, moved through the motions."""
    groups = []
    for load, motion, own in zip(design.loads, motions, rules, strict=True):
        model, t = own.model, np.linspace(0.0, motion.duration, STEPS)
        nominal = model.layout.nominal
        bodies = {} if nominal is None else {"file": [ellipsoid(one) for one in model.link_inertias(nominal)]}
        drawn = {role: [one if in_picture(model, one) else None for one in every] for role, every in bodies.items()}
        figure = robot_figure(model, motion.at(t)[0], t, drawn)
        groups.append({"name": f"load {load}", "joints": [{"name": "", "figure": figure, "caption": ""}]})
    return piece_html(FigureChoice(tuple(groups), label="Motion"))


def joint_pictures(motion: Trajectory, rules: MotionRules) -> list[tuple[str, list[Drawn]]]:
    """Position, velocity, acceleration and torque of every joint, with limits and marks at the ends of ramps."""
    t = np.linspace(0.0, motion.duration, _POINTS)
    q, v, a = motion.at(t)
    tau, limits = rules.torque(q, v, a), rules.limits
    marks = np.cumsum([part.duration for part in motion.parts])[:-1] if isinstance(motion, Chain) else np.empty(0)
    out = []
    for i, joint in enumerate(rules.model.robot.axes):
        unit, effort = ("m", "N") if joint.is_prismatic else ("rad", "N·m")
        wanted = [
            ("position", unit, q[i], (limits.lower[i], limits.upper[i])),
            ("velocity", f"{unit}/s", v[i], (-limits.velocity[i], limits.velocity[i])),
            ("acceleration", f"{unit}/s²", a[i], (-limits.acceleration[i], limits.acceleration[i])),
        ]
        if tau is not None:
            wanted.append(("torque", effort, tau[i], (-limits.torque[i], limits.torque[i])))
        pictures = [picture(what, unit, t, [y], bounds, marks, "s") for what, unit, y, bounds in wanted]
        out.append((joint.name, pictures))
    return out


def trace_picture(traces: Sequence[Sequence[float]]) -> Drawn:
    """The objective of every search, step by step; the best one last."""
    steps = max((len(trace) for trace in traces), default=0)
    padded = [np.pad(np.array(trace, float), (0, steps - len(trace)), mode="edge") for trace in traces if trace]
    if not padded:
        padded = [np.zeros(2)]
    t = np.arange(len(padded[0]), dtype=float)
    # the first steps are far above: the scale is set by the later ones
    late = [y[len(y) // 10 :].max() for y in padded]
    return picture(
        "objective", "", t, [np.minimum(y, max(late)) for y in padded[::-1]], (-np.inf, np.inf), np.empty(0), "steps"
    )


def picture(
    title: str, unit: str, t: Array, lines: Sequence[Array], bounds: tuple[float, float], marks: Array, across: str
) -> Drawn:
    """Lines over t (N,) in their box; a limit far above the values reached is left out."""
    low, high = min(float(y.min()) for y in lines), max(float(y.max()) for y in lines)
    reach = max(abs(low), abs(high), 1e-12)
    seen = [float(b) for b in bounds if np.isfinite(b) and abs(b) <= _FAR * reach]
    bottom, top = min(low, *seen, high), max(high, *seen, low)
    margin = 0.06 * (top - bottom) or 0.5
    bottom, top = bottom - margin, top + margin
    last = float(t[-1]) or 1.0

    def up(y: Array) -> Array:
        return BOTTOM + (TOP - BOTTOM) * (y - bottom) / (top - bottom)

    def x_of(values: Array) -> Array:
        return LEFT + (RIGHT - LEFT) * values / last

    drawn = tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in zip(x_of(t), up(line), strict=True)) for line in lines)
    levels = np.array([bottom, 0.5 * (bottom + top), top])
    return Drawn(
        title,
        unit,
        f"{low:.3g} … {high:.3g}",
        drawn,
        tuple(round(float(up(np.array(b))), 1) for b in seen),
        tuple(np.round(x_of(marks), 1).tolist()),
        tuple((round(float(y), 1), f"{x:.3g}") for y, x in zip(up(levels), levels.tolist(), strict=True)),
        ("0", f"{last:.4g} {across}"),
    )
