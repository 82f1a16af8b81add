"""The tables of docs/standard.md, docs/estimators/essential.md and map.md, computed.

What the norm of (30) does on P0's TX-40; stopping rules of `essential`, `map` on the KR300, and coverage of error bars.
Run it as `python evidence/standard_sets.py`; it prints Markdown. Some parts need recorded data next to the repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.estimators import MAP, WLS, Essential
from steelyard.estimators.standard_set import closest
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import Layout
from steelyard.model.terms import named_terms
from steelyard.physical.prior import Widths, column_widths
from steelyard.project.papers.setups.tx40 import distance, experiment, long_name, positive_links, table2, tx40
from steelyard.project.project import read_project
from steelyard.regression.observe import observe

DATA = ROOT.parent / "shared" / "data"
MODEL = tx40()
LAYOUT = MODEL.layout
BASE = base_parameters(MODEL)
REF, RAW_B, SET_E = table2(LAYOUT)
KINDS = {
    "mass [kg]": ("M",),
    "first moment [kg·m]": ("MX", "MY", "MZ"),
    "inertia [kg·m²]": ("XX", "XY", "XZ", "YY", "YZ", "ZZ"),
    "rotor [kg·m²]": ("Ia",),
    "friction, offset [N·m·s, N·m]": ("Fv", "Fc", "off", "Fvm", "Fcm"),
}


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


def section(title: str) -> None:
    print(f"\n## {title}\n")


def norms(values: Mapping[str, Array]) -> None:
    """What the norm does: relative change of each kind of parameter, at the same base values."""
    width = column_widths(LAYOUT, REF, Widths())
    width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    small = np.array([_millimetres(LAYOUT, k) for k in range(len(LAYOUT))])
    for name, value in values.items():
        section(f"Three norms, one set of base values ({name})")
        found = {
            "Euclidean, SI": closest(BASE, value, REF),
            "Euclidean, lengths in mm": closest(BASE, value, REF, 1.0 / small),
            "in units of the widths": closest(BASE, value, REF, width),
        }
        lines = []
        for kind, symbols in KINDS.items():
            own = [k for k, column in enumerate(LAYOUT.columns) if column.symbol in symbols]
            size = np.linalg.norm(REF[own])
            lines.append((kind, *(f"{np.linalg.norm((x - REF)[own]) / size:.4f}" for x in found.values())))
        lines.append(("all", *(f"{distance(x, REF):.4f}" for x in found.values())))
        for short in ("M3", "M4", "MZ4", "YY4", "ZZ3"):
            k = LAYOUT.index(long_name(short))
            lines.append((f"{short}: {REF[k]:.4g} becomes", *(f"{x[k]:.4g}" for x in found.values())))
        lines.append(("J ⪰ 0 of links 2 to 6", *(f"{positive_links(LAYOUT, x)} of 5" for x in found.values())))
        assert all(np.abs(BASE.map @ x - value).max() < 1e-9 for x in found.values())
        table(("norm(χ − χ_ref)/norm(χ_ref)", *found), lines)


def _millimetres(layout: Layout, column: int) -> float:
    """How many of the unit with mm for m go into one SI unit: kg·m² = 10⁶ kg·mm², kg·m = 10³ kg·mm, N·m = 10³ N·mm."""
    unit = layout.units[column]
    return {"kg": 1.0, "kg.m": 1e3, "kg.m2": 1e6, "N.m": 1e3, "N.m.s": 1e3}[unit]


def stops() -> None:
    section("Stops of `essential`: recorded TX-40, 0 to 6 s")
    if not (DATA / "staubli_tx40").is_dir():
        print("No recorded data next to the repository.")
        return
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    information = observe(problem)
    chosen = {
        "(wls)": WLS(),
        "ratio, 30": Essential(),
        "ratio, 10": Essential(ratio=10.0),
        "f-test, 5 %": Essential(stop="f-test"),
        "cross-validation": Essential(stop="cross-validation"),
    }
    lines = []
    for name, estimator in chosen.items():
        result = identify(problem, estimator, information)
        weak = int(np.sum(result.relative_std > 0.5))
        lines.append((name, len(BASE) - len(result.cancelled), f"{result.relative_error.total:.2%}", weak))
    table(("stop", "essential", "relative error", "σ above half the value"), lines)


def coverage(experiments: int = 60) -> None:
    """Share of 95 % intervals that hold the truth: kept parameters of `essential`, and `map` where it leans or not."""
    section(f"95 % intervals, {experiments} simulated experiments as above")
    width = column_widths(LAYOUT, REF, Widths())
    width = np.where(np.isfinite(width), width, 0.0)
    held: dict[str, list[float]] = {}
    for seed in range(experiments):
        for estimator in (WLS(), Essential()):
            problem = experiment(MODEL, SET_E, seed)
            result = identify(problem, estimator)
            kept = ~np.isin(BASE.names, result.cancelled)
            inside = _inside(result, BASE.map @ SET_E)
            held.setdefault(f"{estimator.name}: {'all 60' if kept.all() else 'the essential ones'}", []).append(
                inside[kept].mean()
            )
        # true values drawn with the widths of the prior
        truth = REF + width * np.random.default_rng(1000 + seed).standard_normal(len(REF))
        result = identify(experiment(MODEL, truth, seed), MAP(weight=1.0))
        told = [f.message for f in result.findings if f.code == "prior-dominates"]
        leaning = np.isin(BASE.names, told[0].split(": ")[1].split(", ") if told else [])
        inside = _inside(result, BASE.map @ truth)
        held.setdefault("map: parameters the prior decides", []).append(inside[leaning].mean())
        held.setdefault("map: the others", []).append(inside[~leaning].mean())
    table(("intervals of", "hold the truth"), [(name, f"{np.nanmean(x):.0%}") for name, x in held.items()])


def _inside(result: Identification, truth: Array) -> NDArray[np.bool_]:
    low, high = result.interval(0.95)
    return (low <= truth) & (truth <= high)


def kr300() -> None:
    section("KR300, fitted on run A, scored on run B")
    if not (DATA / "kuka_kr300").is_dir():
        print("No recorded data next to the repository.")
        return
    project = read_project(ROOT / "examples" / "real" / "kr300.toml")
    robot = project.model().robot
    runs, unseen = project.samples(robot, "identify"), project.samples(robot, "validate")
    plain = ("rotor", "viscous", "coulomb", "offset")
    models = {
        "with compensator and load": Model(robot, named_terms((*plain, "compensator"))),
        "load, no compensator": Model(robot, named_terms(plain)),
        "neither": Model(read_robot("kr300"), named_terms(plain)),
    }
    lines = []
    for name, model in models.items():
        problem = project.problem(model, runs)
        information = observe(problem)
        held_out = problem.with_runs(unseen)
        cells = []
        for estimator in (WLS(), MAP()):
            result = identify(problem, estimator, information, held_out)
            assert result.unseen is not None
            cells += [f"{result.relative_error.total:.1%}", f"{result.unseen.total:.1%}"]
        told = next(f.message for f in result.findings if f.code == "prior-dominates")
        lines.append((name, *cells, told.split(" ")[0]))
    table(("nominal model", "wls: A", "wls: B", "map: A", "map: B", "decided by the prior"), lines)


if __name__ == "__main__":
    norms({"printed χ^0b": RAW_B[list(BASE.kept)]})
    for part in (stops, kr300, coverage):
        part()
