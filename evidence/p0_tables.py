"""The tables of docs/gallery/p0.md, docs/standard.md, docs/estimators/essential.md and map.md, computed.

P0 (TX-40) as printed and as computed; stopping rules of `essential`, `map` on the KR300, and coverage of error bars.
Run it as `python evidence/p0_tables.py`; it prints Markdown. Some parts need recorded data next to the repository.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the printed table and the simulated experiment are the tests' own

import numpy as np
from numpy.typing import NDArray
from testbed.tx40_table2 import (
    M2,
    PRINTED_RATIO_B,
    PRINTED_RATIO_E,
    beside_p4,
    distance,
    experiment,
    long_name,
    positive_links,
    print_beside_p4,
    rows,
    table2,
    tx40,
)

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
from steelyard.physical.consistency import check_links
from steelyard.physical.prior import Widths, column_widths
from steelyard.project.project import read_project
from steelyard.regression.observe import observe

DATA = ROOT.parent / "shared" / "data"
MODEL = tx40()
LAYOUT = MODEL.layout
BASE = base_parameters(MODEL)
REF, RAW_B, SET_E = table2(LAYOUT)
# (30) with the printed base values
SET_B = closest(BASE, RAW_B[list(BASE.kept)], REF)
P4 = {"ZZ1": 1.25, "XX2": -0.48, "XZ2": -0.15, "ZZ2": 1.09, "MX2": 2.18, "XX3": 0.14, "ZZ3": 0.12, "MY3": -0.59}
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


def with_m2(theta: Array) -> Array:
    out = theta.copy()
    out[LAYOUT.index("link2.M")] = M2
    return out


def counts_and_norms() -> None:
    section("Counts and norms")
    table(
        ("", "printed", "computed"),
        [
            ("standard parameters", 86, len(LAYOUT)),
            ("base parameters", 61, len(BASE)),
            ("entries of χ^0e that differ from χ_ref (n_e)", 31, int(np.count_nonzero(SET_E != REF))),
            ("norm(χ_ref)", "", f"{np.linalg.norm(REF):.4f}"),
            ("norm(χ^0b − χ_ref)/norm(χ_ref), column as printed", PRINTED_RATIO_B, f"{distance(RAW_B, REF):.4f}"),
            ("the same for (30) with those base values", "", f"{distance(SET_B, REF):.4f}"),
            ("norm(χ^0e − χ_ref)/norm(χ_ref)", PRINTED_RATIO_E, f"{distance(SET_E, REF):.4f}"),
        ],
    )


def in_base_parameters() -> None:
    section("Table II in base parameters")
    doubled, genuine = BASE.map @ RAW_B, BASE.map @ SET_E
    lines = []
    for short, other in P4.items():
        k = BASE.names.index(long_name(short))
        lines.append(
            (f"{short}R", f"{RAW_B[BASE.kept[k]]:.3f}", f"{doubled[k]:.3f}", f"{genuine[k]:.3f}", f"{other:g}")
        )
    table(("", "χ^0b as printed", "B χ^0b", "B χ^0e", "P4 (IDIM-LS)"), lines)


def printed_beside_computed() -> None:
    section("Table II, where eq. (30) differs from the printed χ^0b by more than 0.02")
    lines = []
    for short, (ref, raw, essential) in rows().items():
        found = SET_B[LAYOUT.index(long_name(short))]
        if abs(found - raw) > 0.02:
            lines.append((short, f"{ref:.4g}", f"{raw:.4g}", f"**{found:.4g}**", f"{essential:.4g}"))
    table(("", "χ_ref", "χ^0b printed", "(30) computed", "χ^0e printed"), lines)


def consistency() -> None:
    section(f"Consistency: links 2 to 6, M2 = {M2:g} kg")
    sets = {"χ_ref": REF, "χ^0b as printed": RAW_B, "(30) with those base values": SET_B, "χ^0e": SET_E}
    tolerances = (0.0, 1e-3, 0.03, 0.04, 0.1)
    lines = []
    for name, theta in sets.items():
        verdicts = check_links(LAYOUT, with_m2(theta))
        worst = max(verdicts[f"link{j}"].needed.pivots for j in range(2, 7))
        pseudo = sum(verdicts[f"link{j}"].needed.pseudo_inertia == 0.0 for j in range(2, 7))
        third = min(verdicts["link3"].eigenvalues)
        passing = [f"{positive_links(LAYOUT, theta, t)} of 5" for t in tolerances]
        lines.append((name, *passing, f"{worst:.2g}", f"{third:.4f}", f"{pseudo} of 5"))
    head = ("", *(f"ε = {t:g}" for t in tolerances), "all pass from ε", "link 3: smallest eigenvalue", "realisable")
    table(head, lines)


def simulated() -> None:
    section("The experiment simulated: truth χ^0e, prior χ_ref, 11 points, 5 % noise, 250 Hz")
    lines = []
    for seed in range(5):
        problem = experiment(MODEL, SET_E, seed)
        information = observe(problem)
        full = identify(problem, WLS(), information)
        essential = identify(problem, Essential(ratio=30.0), information)
        strict = identify(problem, Essential(ratio=10.0), information)
        assert essential.standard is not None
        near = closest(BASE, full.value, REF)
        lines.append(
            (
                seed,
                f"{full.relative_error.total:.4f}",
                f"{essential.relative_error.total:.4f}",
                len(BASE) - len(essential.cancelled),
                len(BASE) - len(strict.cancelled),
                f"{distance(near, REF):.4f}",
                f"{distance(essential.standard, REF):.4f}",
                f"{positive_links(LAYOUT, near)}, {positive_links(LAYOUT, near, 0.04)}",
                positive_links(LAYOUT, essential.standard),
            )
        )
    table(
        ("seed", "error, all 60", "error, essential", "n_e (r_σ = 30)", "n_e (r_σ = 10)", "ratio (30)", "ratio (32)",
         "J ⪰ 0 after (30): ε = 0, 0.04", "J ⪰ 0 after (32)"),
        lines,
    )  # fmt: skip


def recorded() -> None:
    section("The same robot, recorded: 0 to 6 s of a point-to-point motion")
    if not (DATA / "staubli_tx40").is_dir():
        print("No recorded data next to the repository.")
        return
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    information = observe(problem)
    full = identify(problem, WLS(), information)
    lines = []
    for ratio in (30.0, 20.0, 10.0):
        result = identify(problem, Essential(ratio=ratio), information)
        assert result.standard is not None
        lines.append(
            (
                f"essential, r_σ = {ratio:g}",
                len(BASE) - len(result.cancelled),
                f"{result.relative_error.total:.2%}",
                f"(32): {distance(result.standard, REF):.4f}",
                f"{positive_links(LAYOUT, result.standard)}, {positive_links(LAYOUT, result.standard, 0.04)}",
            )
        )
    near = closest(BASE, full.value, REF)
    counts = f"{positive_links(LAYOUT, near)}, {positive_links(LAYOUT, near, 0.04)}"
    first = ("wls", len(BASE), f"{full.relative_error.total:.2%}", f"(30): {distance(near, REF):.4f}", counts)
    table(("", "parameters", "relative error", "distance from χ_ref", "J ⪰ 0: ε = 0, 0.04"), [first, *lines])
    print()
    reference = json.loads((DATA / "staubli_tx40" / "reference_results.json").read_text("utf-8"))
    print_beside_p4(
        beside_p4(identify(problem, Essential(), information), reference["paper_AIM2017_table_I"]["parameters"])
    )
    norms({"recorded": full.value})


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
    for part in (counts_and_norms, in_base_parameters, printed_beside_computed, consistency, simulated):
        part()
    norms({"printed χ^0b": RAW_B[list(BASE.kept)]})
    for part in (recorded, stops, kr300, coverage):
        part()
