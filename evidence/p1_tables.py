"""The tables and figures of docs/gallery/p1.md, computed: P1's recursive estimation of a planar arm with a known truth.

Run it as `python evidence/p1_tables.py [PART …]`; it prints Markdown, and `figures` writes docs/images/p1-*.svg. One
part needs recorded data next to the repository.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the experiment is the tests' own

import numpy as np
from testbed.p1 import P_OF_FIVE, START_OF_FIVE, P, driven, one_motion, rows_of_five, varied_motions

from steelyard._arrays import Array
from steelyard.estimators import WLS, Recursive
from steelyard.estimators.gradient.adaptive_control import adaptive_experiment, program_coordinates
from steelyard.estimators.gradient.stopping import PublishedStop, StoppingRule
from steelyard.estimators.gradient.update_rules import Normalised, Published, UpdateRule, closed_form, follow
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.motion.trajectory import dwell
from steelyard.project.papers.page.claims import Claim
from steelyard.project.project import read_project
from steelyard.regression.observe import observe
from steelyard.simulation.plant import Plant

RULES: dict[str, UpdateRule] = {
    "(24), σ_D estimated": Published(),
    "(24), σ_D true": Published(inertia="truth"),
    "normalised": Normalised(),
}
DRAWS = 20
IMAGES = ROOT / "docs" / "images"
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700")


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
    print(flush=True)


def section(title: str) -> None:
    print(f"\n## {title}\n")


def _size(x: float) -> str:
    return f"{x:.4f}" if x >= 1e-3 else f"{x:.1e}"


def rules() -> None:
    section(f"‖P̂ − P‖/‖P‖ from 0.5 P; varied motions: median (worst) of {DRAWS} draws")
    lines = []
    for name, rule in RULES.items():
        one = driven(one_motion(16), rule).error(P)
        many = np.array([driven(varied_motions(16, seed), rule).error(P) for seed in range(DRAWS)])
        monotone = np.all(np.diff(one) <= 1e-12) and np.all(np.diff(many) <= 1e-12)
        cells = [f"{_size(np.median(many[:, k]))} ({_size(many[:, k].max())})" for k in (100, 400)]
        under = f"{np.sum(many[:, 100] < 0.02)} of {DRAWS}"
        lines.append((name, _size(one[100]), _size(one[400]), *cells, under, "yes" if monotone else "no"))
    exact = []
    for motions in (one_motion(4), varied_motions(4, 0)):
        rows = driven(motions, Published()).rows
        exact.append(np.linalg.norm(closed_form(rows[:100]) - P) / np.linalg.norm(P))
    lines.append(("least squares (17)–(19)", _size(exact[0]), "", _size(exact[1]), "", "", ""))
    head = ("", "one motion, 100", "400", "varied, 100", "400", "under 2 % at 100", "distance never grows")
    table(head, lines)
    five = []
    for seed in range(DRAWS):
        path = np.array(list(follow(Normalised(), START_OF_FIVE, rows_of_five(varied_motions(16, seed)))))
        five.append(np.linalg.norm(path[[99, 399]] - P_OF_FIVE, axis=1) / np.linalg.norm(P_OF_FIVE))
    middle, worst = np.median(five, axis=0), np.max(five, axis=0)
    under = f"{np.sum(np.array(five)[:, 0] < 0.02)} of {DRAWS}"
    cells = [f"{_size(m)} ({_size(w)})" for m, w in zip(middle, worst, strict=True)]
    table(("five entries, from [15, 3, 1, 1, 0]", "100", "400", "under 2 % at 100"), [("normalised", *cells, under)])
    print("Condition of the rows of a program, stacked:\n")
    lines = []
    for name, motions in (("one motion", one_motion(1)), ("four varied", varied_motions(4, 0))):
        made = driven(motions, Normalised(), start=P)
        lines.append((name, f"{np.linalg.cond(np.concatenate([seen.w for seen in made.rows])):.1f}"))
    table(("", "condition"), lines)


def stops() -> None:
    section("When it stops")
    lines = []
    rest = [dwell(np.zeros(2), 2.0)]
    rows = (
        ("PRX = 0 at a sample, right sign, 1e-3", PublishedStop(1e-3, corrected=True), "one motion", one_motion(16)),
        ("the same, 1e-6", PublishedStop(1e-6, corrected=True), "a dwell first", rest + one_motion(15)),
        ("PRX = 0 at a sample, printed sign, 1e-3", PublishedStop(1e-3), "varied", varied_motions(16, 1)),
        ("sound rule", StoppingRule(), "at rest", rest * 16),
        ("sound rule", StoppingRule(), "one motion", one_motion(100)),
        *(("sound rule", StoppingRule(), f"varied, draw {k}", varied_motions(40, k)) for k in range(4)),
    )
    for name, stop, motion, motions in rows:
        made = driven(motions, Normalised(), stop=stop)
        told = made.stopped if len(made.stopped) < 150 else made.stopped[:150] + "…"
        lines.append((name, motion, "yes" if made.enough else "no", len(made), f"{made.error(P)[-1]:.2%}", told))
    table(("rule", "motions", "stops", "iterations", "error", "why"), lines)


def failures() -> None:
    section("Failures")
    lines = []
    for name, rule in RULES.items():
        for seed in range(3):
            made = driven(varied_motions(16, seed), rule, np.array([2.0, 0.5, 3.0, 0.1]))
            error = made.error(P)
            after = _size(error[100]) if len(made) >= 100 else ""
            lines.append(
                (name, seed, f"{made.rows[0].least:.2f}", len(made), after, "diverged" if made.diverged else "")
            )
    table(("start with indefinite D", "draw", "σ_D at the start", "iterations", "error at 100", ""), lines)
    lines = []
    floors: dict[str, UpdateRule] = {
        "(24)": Published(),
        "normalised": Normalised(),
        "normalised, ε = 1": Normalised(floor=1.0),
        "normalised, λ = 0.2, ε = 1": Normalised(0.2, 1.0),
    }
    for name, rule in floors.items():
        for kind in ("one", "varied"):
            made = [
                driven(
                    one_motion(16) if kind == "one" else varied_motions(16, seed),
                    rule,
                    stop=StoppingRule(),
                    noise=0.2,
                    seed=seed,
                )
                for seed in range(5)
            ]
            highest = max(float(one.error(P).max()) for one in made)
            last = [float(one.error(P)[-1]) for one in made]
            lost, claims = sum(one.diverged for one in made), sum(one.enough for one in made)
            lines.append((name, kind, f"{highest:.2f}", f"{np.median(last):.2f}", f"{max(last):.2f}", lost, claims))
    print("0.2 rad/s² of noise on the measured accelerations, 400 iterations, five draws of it:\n")
    table(("", "motions", "highest error", "last, median", "last, worst", "diverged", "reports convergence"), lines)


def robots() -> None:
    section("Another robot: the TX-40 with friction, base parameters, Fourier motions of 2.5 s, from 0.5 P")
    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or (), sign_width=0.2))
    theta = model.layout.nominal
    assert theta is not None
    plant, rng = Plant(model, theta), np.random.default_rng(0)
    motions = [random_fourier(robot, 3, 0.4, 2.5, rng) for _ in range(100)]
    turned = program_coordinates(plant, motions)
    truth = base_parameters(model).map @ theta
    lines = []
    for name, t in (("base parameters", np.eye(len(truth))), ("orthonormal", turned)):
        began = time.perf_counter()
        made = adaptive_experiment(plant, motions, 0.5 * t @ truth, stop=StoppingRule(1e-12, 1e-12), coordinates=t)
        apart = np.linalg.solve(t, (made.theta - t @ truth).T)
        error = np.linalg.norm(turned @ apart, axis=0) / np.linalg.norm(turned @ truth)
        spent = (time.perf_counter() - began) / len(made)
        cells = [_size(error[k]) if k < len(error) else "" for k in (100, 1000, len(made))]
        lines.append((name, len(made), *cells, "diverged" if made.diverged else "", f"{1e3 * spent:.2f} ms"))
    head = ("coordinates", "iterations", "100", "1000", "last", "", "an iteration, simulation included")
    table(head, lines)


def recorded() -> None:
    section("`recursive` and `wls` on the recorded TX-40")
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    if not (project.path.parent / project.spec.run[0].log).is_file():
        print("skipped: no shared data")
        return
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    information = observe(problem)
    wls = identify(problem, WLS(), information)
    lines = []
    tried = {
        "defaults": Recursive(),
        'start = "nominal"': Recursive(start="nominal"),
        'normalise = "each"': Recursive(normalise="each"),
        "passes = 1": Recursive(passes=1),
        "sigmas = 0.005, passes = 4000": Recursive(sigmas=0.005, passes=4000),
    }
    for shown, one in tried.items():
        began = time.perf_counter()
        found = identify(problem, one, information)
        spent = time.perf_counter() - began
        apart = np.abs(found.value - wls.value) / wls.std
        told = next(f.message for f in found.findings if f.code in ("iterations", "not-converged"))
        given = "yes" if np.isfinite(found.std).any() else "no"
        error = f"{found.relative_error.total:.3%}"
        lines.append(
            (shown, told.split(" passes")[0].split()[-1], f"{apart.max():.3f}", error, given, f"{spent:.2f} s")
        )
    table(
        ("options", "passes", "distance from wls, worst parameter [σ]", "relative error", "error bars", "time"), lines
    )
    print(f"wls: {wls.relative_error.total:.3%}")


# --- Figures ----------------------------------------------------------------------------------------------------------


def _drawn(path: Path, title: str, unit: str, curves: Mapping[str, Array], log: bool = False) -> None:
    """Curves over the iteration as an SVG of lines, ticks and a legend."""
    width, height, left, top, right, bottom = 720, 320, 60, 30, 190, 40
    most = max(len(y) for y in curves.values()) - 1
    finite = np.concatenate([y[y > 0] if log else y for y in curves.values()])
    low, high = (np.floor(np.log10(finite.min())), np.ceil(np.log10(finite.max()))) if log else (0.0, finite.max())
    low = low if log else min(0.0, finite.min())

    def x_of(k: Array) -> Array:
        return left + (width - left - right) * k / most

    def y_of(y: Array) -> Array:
        share = ((np.log10(np.maximum(y, 10.0**low)) if log else y) - low) / (high - low)
        return height - bottom - (height - top - bottom) * share

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>'
        f'<text x="{left}" y="18" font-weight="bold">{title}</text>'
    ]
    ticks = 10.0 ** np.arange(low, high + 1) if log else np.arange(5.0 * np.ceil(low / 5.0), high + 1e-9, 5.0)
    for tick in ticks:
        y = float(y_of(np.array(tick)))
        label = f"{tick:.0e}" if log else f"{tick + 0.0:.3g}"
        out.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for k in np.linspace(0, most, 5).astype(int):
        x = float(x_of(np.array(float(k))))
        out.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{k}</text>')
    out.append(f'<text x="{left}" y="{height - 6}">iteration; {unit}</text>')
    for index, (name, values) in enumerate(curves.items()):
        k = np.arange(float(len(values)))
        seen = values > 0 if log else np.ones(len(values), bool)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(x_of(k)[seen], y_of(values)[seen], strict=True))
        colour, dash = COLOURS[index % len(COLOURS)], "" if index < len(COLOURS) else ' stroke-dasharray="4 3"'
        y = top + 16 * (index + 1)
        out.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>'
            f'<line x1="{width - right + 10}" x2="{width - right + 30}" y1="{y - 4}" y2="{y - 4}" '
            f'stroke="{colour}"{dash}/><text x="{width - right + 35}" y="{y}">{name}</text>'
        )
    path.write_text("\n".join([*out, "</svg>", ""]), "utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


def figures() -> None:
    section("Figures")
    varied = {name: driven(varied_motions(16, 0), rule) for name, rule in RULES.items()}
    one = {name: driven(one_motion(16), rule) for name, rule in RULES.items()}
    for file, title, made, count in (
        ("p1-parameters", "Parameters: normalised update, varied motions", varied["normalised"], 100),
        ("p1-published", "Parameters: update (24), one motion", one["(24), σ_D estimated"], 400),
    ):
        entries = {f"p{k} → {P[i]:g}": made.theta[: count + 1, i] for i, k in enumerate((1, 2, 3, 5))}
        _drawn(IMAGES / f"{file}.svg", title, "entries of P̂ [kg·m²]", entries)
    curves = {f"{name}, one motion": made.error(P) for name, made in one.items()}
    curves |= {f"{name}, varied": made.error(P) for name, made in varied.items()}
    _drawn(IMAGES / "p1-error.svg", "Error norm", "‖P̂ − P‖ / ‖P‖", curves, log=True)
    shown = {"one motion": one["normalised"].excitation(), "varied": varied["normalised"].excitation()}
    # the first samples show less than four parameters, and the least eigenvalue is rounding
    told = {name: np.where(x > 1e-2, x, 0.0) for name, x in shown.items()}
    _drawn(IMAGES / "p1-excitation.svg", "Excitation", "λ_min(Σ WᵀW) [(N·m)² for a change by 1 kg·m²]", told, log=True)


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(quick: bool = False) -> Iterator[Claim]:
    """What `evidence/run.py --only p1` puts into its table; errors are ‖P̂ − P‖/‖P‖ from 0.5 P."""
    draws = 5 if quick else DRAWS
    varied = [varied_motions(16, seed) for seed in range(draws)]
    ours = np.array([driven(motions, Normalised()).error(P)[[100, 400]] for motions in varied])
    of = f"P1, varied motions, {draws} draws"
    middle = float(np.median(ours[:, 0]))
    yield Claim.of(f"{of}: normalised update, median at 100", "< 2 %", middle < 0.02, "{:.2%}", middle)
    worst = float(ours[:, 1].max())
    yield Claim.of(f"{of}: normalised update, worst at 400", "< 1e-04", worst < 1e-4, "{:.1e}", worst)
    # what an independent prototype has, by kind of motion and iteration; within a factor of two
    literal = np.array([driven(motions, Published()).error(P)[[100, 400]] for motions in varied])
    repeated = driven(one_motion(16), Published()).error(P)
    for what, got, wanted in (
        ("varied motions, median at 100", float(np.median(literal[:, 0])), 0.055),
        ("varied motions, median at 400", float(np.median(literal[:, 1])), 0.0009),
        ("one motion, at 100", float(repeated[100]), 0.28),
        ("one motion, at 400", float(repeated[400]), 0.070),
    ):
        holds = 0.5 < got / wanted < 2.0
        yield Claim.of(f"P1, (24) as published, {what}", f"{wanted:g} within a factor of 2", holds, "{:.2g}", got)
    five = []
    for motions in varied:
        *_, last = islice(follow(Normalised(), START_OF_FIVE, rows_of_five(motions)), 100)
        five.append(float(np.linalg.norm(last - P_OF_FIVE) / np.linalg.norm(P_OF_FIVE)))
    middle = float(np.median(five))
    yield Claim.of(f"{of}: five entries, normalised, median at 100", "< 2 %", middle < 0.02, "{:.2%}", middle)
    exact = float(np.linalg.norm(closed_form(driven(varied[0], Published()).rows[:100]) - P) / np.linalg.norm(P))
    yield Claim.of("P1, least squares at 100", "< 1e-04", exact < 1e-4, "{:.1e}", exact)


PARTS: dict[str, Callable[[], None]] = {
    "rules": rules,
    "stops": stops,
    "failures": failures,
    "robots": robots,
    "recorded": recorded,
    "figures": figures,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
