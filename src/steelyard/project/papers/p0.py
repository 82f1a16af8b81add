"""P0: the TX-40's standard parameters closest to CAD values, and the test whether its bodies can exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import WLS, Essential
from steelyard.estimators.standard_set import closest
from steelyard.identification.identify import identify
from steelyard.identification.prediction import predict_rows
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import Consistency, check_links
from steelyard.project.papers.misprints import misprint_part
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.comparison import PRINTED, Compared, comparison
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest, part
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.recorded import recorded
from steelyard.project.papers.setups.tx40 import (
    M2,
    Table2,
    distance,
    experiment,
    long_name,
    positive_links,
    rows,
    table2,
    tx40,
)
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.report.figures.effort import run_figures
from steelyard.report.section import FigureChoice
from steelyard.report.table import Table, TableColumn, table

TOLERANCES = (0.0, 1e-3, 0.03, 0.04, 0.1)
# A mass below this is rounding [kg].
NO_MASS = 1e-9
# P4, Table I, and Table II of P0 have these in common.
SHARED = ("ZZ1", "XX2", "XZ2", "ZZ2", "MX2", "XX3", "ZZ3", "MY3")
# A spread below this share of the value is rounding.
ROUNDING = 1e-12
LOST = "the entry takes over what cancelled parameters leave, or is cancelled itself in some of the experiments"


class SimulatedFit:
    """One simulated experiment: all base parameters, the essential ones, and the standard sets (30) and (32)."""

    def __init__(self, seed: int, base: BaseParameters, sets: Table2) -> None:
        self.problem = experiment(tx40(), sets.essential, seed)
        information = observe(self.problem)
        self.full = identify(self.problem, WLS(), information)
        self.essential = identify(self.problem, Essential(ratio=30.0), information)
        self.near = closest(base, self.full.value, sets.ref)
        standard = self.essential.standard
        assert standard is not None
        self.standard: Array = standard
        self.kept = len(base) - len(self.essential.cancelled)


def page(request: PaperRequest) -> PaperPage:
    """The paper with `experiments` simulated experiments, and the user's own recording if there is one."""
    base = base_parameters(tx40())
    sets = table2(base.layout)
    from_base = closest(base, sets.base[list(base.kept)], sets.ref)
    drawn = []
    for k in range(request.experiments):
        drawn.append(SimulatedFit(request.seed + k, base, sets))
        request.tell(k + 1, request.experiments)
    layout = base.layout
    parts = [
        part("counts", "Counts and norms", counts(base, sets, from_base, drawn)),
        part("table-2", "Table II", table_2(layout, sets, from_base, drawn), base_table(base, sets, drawn[0])),
        part("base", "Table II in base parameters", in_base(base, sets)),
        part("table-3", "Table III: bodies that can exist", consistency(layout, sets, from_base)),
        part("experiments", "The experiment, simulated", experiments(drawn, request.seed)),
        part("torques", "Fig. 2: torques", *torques(drawn[0], sets, request.seed)),
        misprint_part("p0"),
    ]
    if request.data is not None:
        parts.append(part("own", "A recorded robot by the same test", *own_set(request)))
    return PaperPage("p0", request, tuple(parts), tuple(claims(base, sets, drawn)))


# --- Tables -----------------------------------------------------------------------------------------------------------


def counts(base: BaseParameters, sets: Table2, from_base: Array, drawn: Sequence[SimulatedFit]) -> Table:
    facts, layout, exact = printed("p0")["counts"], base.layout, 0.0
    ratios = [distance(one.standard, sets.ref) for one in drawn]
    computed = {
        "standard parameters": (facts["standard"], len(layout)),
        "base parameters": (facts["base"], len(base)),
        "entries of χ^0e that differ from χ_ref": (np.nan, np.sum(sets.essential != sets.ref)),
        "‖χ^0b − χ_ref‖/‖χ_ref‖, column as printed": (facts["ratio_base"], distance(sets.base, sets.ref)),
        "the same for (30) with those base values": (np.nan, distance(from_base, sets.ref)),
        "‖χ^0e − χ_ref‖/‖χ_ref‖": (facts["ratio_essential"], distance(sets.essential, sets.ref)),
        "ε from which (30) passes": (facts["tolerance_base"], _passes_from(layout, from_base)),
        "ε from which χ^0e passes": (facts["tolerance_essential"], _passes_from(layout, sets.essential)),
    }
    made = [Compared(name, stated, float(value), exact) for name, (stated, value) in computed.items()]
    made.append(_over("n_e, simulated", facts["essential"], [one.kept for one in drawn]))
    made.append(_over("‖(32) − χ_ref‖/‖χ_ref‖, simulated", np.nan, ratios, distance(sets.essential, sets.ref)))
    note = "σ of simulated numbers is their spread over the experiments. 60 instead of 61: see below."
    return comparison("counts", "Printed and computed", made, notes=(note,))


def _over(name: str, stated: float, values: Sequence[float], truth: float = np.nan) -> Compared:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
    return Compared(name, stated, float(np.mean(values)), spread, truth=truth)


def table_2(layout: Layout, sets: Table2, from_base: Array, drawn: Sequence[SimulatedFit]) -> Table:
    """All 76 rows: printed and computed columns, and the printed differences computed again."""
    found = np.array([one.standard for one in drawn])
    mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1) if len(drawn) > 1 else np.full(len(layout), np.nan)
    # an entry that is cancelled in every experiment keeps its value of χ_ref: its spread is rounding
    spread = np.where(spread <= ROUNDING * np.abs(mean), 0.0, spread)
    columns = (
        TableColumn("name", "", "code"),
        TableColumn("unit", "Unit", "unit"),
        TableColumn(f"{PRINTED}_ref", "χ_ref, printed", "given"),
        TableColumn(f"{PRINTED}_base", "χ^0b, printed", "given"),
        TableColumn("base", "(30), computed", "number"),
        TableColumn(f"{PRINTED}_essential", "χ^0e, printed: the truth", "given"),
        TableColumn("value", "(32), simulated ± spread", "estimate", of=("std",)),
        TableColumn("std", "spread", "number", shown=False),
        TableColumn("difference", "Difference", "number", unit="σ", digits=2),
        TableColumn(f"{PRINTED}_base_apart", "e_b, printed", "given"),
        TableColumn("base_apart", "e_b", "number", digits=3),
        TableColumn(f"{PRINTED}_essential_apart", "e_e, printed", "given"),
        TableColumn("essential_apart", "e_e", "number", digits=3),
    )
    cells, far, kept = [], [], []
    for name, one in rows().items():
        k = layout.index(long_name(name))
        if spread[k] == 0.0 and abs(mean[k] - one.essential) > ROUNDING * abs(one.essential):
            kept.append(name)
        apart = (mean[k] - one.essential) / spread[k] if spread[k] > 0.0 else None
        if apart is not None and abs(apart) > 3.0:
            far.append(f"{name} {apart:+.1f} σ")
        difference = (abs(one.base - one.ref), abs(one.essential - one.ref))
        cells.append(
            (
                *(name, layout.units[k], one.ref, one.base, from_base[k], one.essential, mean[k], spread[k], apart),
                *(one.base_apart, difference[0], one.essential_apart, difference[1]),
            )
        )
    notes = ["χ^0b has the base estimates in the places of standard parameters: see below."]
    if kept:
        notes.append(f"Cancelled in every experiment, so that the value of χ_ref stays, without σ: {', '.join(kept)}.")
    if far:
        notes.append(f"More than 3 σ from the truth: {', '.join(far)}; {LOST}.")
    return table("table_2", "Standard parameters", columns, cells, notes=notes)


def base_table(base: BaseParameters, sets: Table2, one: SimulatedFit) -> Table:
    """Every base parameter of one experiment, its σ by blocks left out, and the truth B χ^0e."""
    true, result, nan = base.map @ sets.essential, one.full, np.nan
    made = [
        Compared(name, nan, result.value[k], result.std[k], truth=true[k], unit=base.layout.units[base.kept[k]])
        for k, name in enumerate(base.names)
    ]
    return comparison("base_parameters", "Base parameters of the first experiment", made, result.clusters)


def in_base(base: BaseParameters, sets: Table2) -> Table:
    p4 = lines_of(printed("p4")["table_1"]["rows"])
    doubled, genuine = base.map @ sets.base, base.map @ sets.essential
    columns = (
        TableColumn("name", "", "code"),
        TableColumn("raw", "χ^0b as printed", "given"),
        TableColumn("doubled", "B χ^0b", "number"),
        TableColumn("genuine", "B χ^0e", "number"),
        TableColumn("p4", "P4 Table I (IDIM-LS)", "given"),
    )
    cells = []
    for short in SHARED:
        k = base.names.index(long_name(short))
        cells.append((f"{short}R", sets.base[base.kept[k]], doubled[k], genuine[k], p4[short][0]))
    note = "χ^0b holds base values; B counts what was regrouped into them a second time. χ^0e is a standard set."
    return table("in_base", "Two columns of Table II in base parameters", columns, cells, notes=(note,))


def consistency(layout: Layout, sets: Table2, from_base: Array) -> Table:
    """Table III: how many of links 2 to 6 pass at a tolerance, for the printed sets and the correct (30)."""
    named = {
        "χ_ref": sets.ref,
        "χ^0b as printed": sets.base,
        "(30) with those base values": from_base,
        "χ^0e": sets.essential,
    }
    cells = []
    for name, theta in named.items():
        verdicts = _with_m2(layout, theta)
        passing = [positive_links(layout, theta, tolerance) for tolerance in TOLERANCES]
        realisable = sum(verdicts[f"link{j}"].needed.pseudo_inertia == 0.0 for j in range(2, 7))
        cells.append((name, *passing, _passes_from(layout, theta), min(verdicts["link3"].eigenvalues), realisable))
    note = (
        "The cells of the paper's Table III are unreadable in our copy. Its text says that the base set needs |ε| ≥ "
        "0.04 and the essential set none. M1 and M2 are not printed: link 1 is left out, and M2 is "
        f"{M2:g} kg. Realisable: the pseudo-inertia is positive semidefinite, which is stricter."
    )
    return _passing_table("table_3", "Links 2 to 6 whose inertia has pivots of at least −ε", cells, 5, (note,))


def _passing_table(name: str, title: str, cells: Sequence[Sequence[object]], of: int, notes: Sequence[str]) -> Table:
    columns = (
        TableColumn("set", "Set"),
        *(
            TableColumn(f"passing_{k}", f"ε = {x:g}", "count", group=f"Passing, of {of}")
            for k, x in enumerate(TOLERANCES)
        ),
        TableColumn("from", "All pass from ε", "number", digits=2),
        TableColumn("smallest", "Smallest eigenvalue", "number", unit="kg.m2", digits=3),
        TableColumn("realisable", "Realisable", "count"),
    )
    return table(name, title, columns, cells, notes=notes)


def _with_m2(layout: Layout, theta: Array) -> Consistency:
    completed = theta.copy()
    completed[layout.index("link2.M")] = M2
    return check_links(layout, completed)


def _passes_from(layout: Layout, theta: Array) -> float:
    """The smallest ε at which links 2 to 6 pass."""
    verdicts = _with_m2(layout, theta)
    return max(verdicts[f"link{j}"].needed.pivots for j in range(2, 7))


def experiments(drawn: Sequence[SimulatedFit], seed: int) -> Table:
    ref = table2(drawn[0].full.base.layout).ref
    layout = drawn[0].full.base.layout
    cells = []
    for k, one in enumerate(drawn):
        passing = [positive_links(layout, *x) for x in ((one.near, 0.0), (one.near, 0.04), (one.standard, 0.0))]
        errors = one.full.relative_error.total, one.essential.relative_error.total
        cells.append((seed + k, *errors, one.kept, distance(one.near, ref), distance(one.standard, ref), *passing))
    columns = (
        TableColumn("seed", "Seed", "count"),
        TableColumn("error_all", "Error, all 60", "share"),
        TableColumn("error_essential", "Error, essential", "share"),
        TableColumn("kept", "n_e", "count"),
        TableColumn("ratio_30", "(30)", "number", group="‖χ − χ_ref‖/‖χ_ref‖"),
        TableColumn("ratio_32", "(32)", "number", group="‖χ − χ_ref‖/‖χ_ref‖"),
        TableColumn("strict", "(30), ε = 0", "count", group="Links that pass, of 5"),
        TableColumn("loose", "(30), ε = 0.04", "count", group="Links that pass, of 5"),
        TableColumn("essential", "(32), ε = 0", "count", group="Links that pass, of 5"),
    )
    title = "Truth χ^0e, prior χ_ref, 11 points, 5 % noise, 250 Hz, r_σ = 30"
    note = "That (32) is consistent for all links, as the paper says, is not reproduced in every experiment."
    return table("experiments", title, columns, cells, notes=(note,))


# --- Fig. 2 -----------------------------------------------------------------------------------------------------------


def torques(one: SimulatedFit, sets: Table2, seed: int) -> tuple[Table, FigureChoice]:
    """Torques by the set (32) on the motion of the fit and on another one."""
    other = experiment(tx40(), sets.essential, seed + 1000)
    problems = {"fitted": one.problem, "cross-validation": other}
    made = {}
    for name, problem in problems.items():
        run = replace(problem.runs[0], name=name)
        made[name] = predict_rows(problem.with_runs([run]), run, one.standard)
    cells = []
    for j, joint in enumerate(made["fitted"].joints):
        errors = [_relative(x.measured[j] - x.predicted[j], x.measured[j]) for x in made.values()]
        cells.append((joint, *errors))
    columns = (TableColumn("joint", "Joint"), *(TableColumn(name.replace("-", "_"), name, "share") for name in made))
    own = table("torques", "Relative error of the torque by χ^0e as identified (32)", columns, cells)
    figures = tuple(run_figures(prediction, one.full.base.layout) for prediction in made.values())
    return own, FigureChoice(figures)


def _relative(error: Array, of: Array) -> float:
    return float(np.linalg.norm(error) / np.linalg.norm(of))


# --- The user's own robot ---------------------------------------------------------------------------------------------


def own_set(request: PaperRequest) -> Iterator[str | Table]:
    """The test of Table III on a recorded robot with a nominal model: (30) and (32) from its log."""
    project, problem = recorded(request, "tx40.toml")
    base, nominal = base_parameters(problem.model), problem.model.layout.nominal
    yield f"Recording of {project.path.name}: robot {problem.model.robot.name}, {len(problem.runs)} runs."
    if nominal is None:
        yield "The robot file has no nominal inertias, which (30) and (32) start from: add them."
        return
    information = observe(problem)
    full, essential = identify(problem, WLS(), information), identify(problem, Essential(ratio=30.0), information)
    assert essential.standard is not None
    yield _own_table(
        problem, {"nominal": nominal, "(30)": closest(base, full.value, nominal), "(32)": essential.standard}
    )
    yield _own_counts(full, essential)


def _own_counts(full: Identification, essential: Identification) -> Table:
    count, kept = len(full.base), len(full.base) - len(essential.cancelled)
    cells = [("wls", count, full.relative_error.total), ("essential, r_σ = 30", kept, essential.relative_error.total)]
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("count", "Parameters", "count"),
        TableColumn("error", "Relative error", "share"),
    )
    return table("own_errors", "Errors of its fits", columns, cells)


def _own_table(problem: Problem, sets: dict[str, Array]) -> Table:
    layout, cells = problem.model.layout, []
    of = 0
    for name, theta in sets.items():
        # the TX-40's second mass has no effect on torque and is in no file
        completed = theta.copy()
        if problem.model.robot.name == "tx40":
            completed[layout.index("link2.M")] = M2
        verdicts = check_links(layout, completed).links
        # a body without any value has nothing to test
        seen = [verdict for verdict in verdicts if abs(verdict.mass) > NO_MASS]
        of = max(of, len(seen))
        passing = [sum(x.passes_inertia(tolerance) for x in seen) for tolerance in TOLERANCES]
        realisable = sum(x.needed.pseudo_inertia == 0.0 for x in seen)
        smallest = min((min(x.eigenvalues) for x in seen), default=np.nan)
        cells.append((name, *passing, max((x.needed.pivots for x in seen), default=np.nan), smallest, realisable))
    notes = ("The nominal set is the reference χ_ref. A body without mass in the file and in the fit is left out.",)
    return _passing_table("own_set", "Bodies whose inertia has pivots of at least −ε", cells, of, notes)


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(base: BaseParameters, sets: Table2, drawn: Sequence[SimulatedFit]) -> Iterator[Claim]:
    layout, of = base.layout, f"P0, {len(drawn)} simulated experiments"
    yield Claim.of("P0: base parameters", "60", len(base) == 60, "{}", len(base))
    facts = printed("p0")["counts"]
    for name, theta, stated in (
        ("χ^0b", sets.base, facts["ratio_base"]),
        ("χ^0e", sets.essential, facts["ratio_essential"]),
    ):
        ratio = distance(theta, sets.ref)
        yield Claim.of(f"P0: ratio of the printed {name}", f"{stated}", abs(ratio - stated) < 5e-5, "{:.4f}", ratio)
    ratios = np.array([distance(one.standard, sets.ref) for one in drawn])
    inside = bool(np.all((ratios > 0.03) & (ratios < 0.05)))
    yield Claim.of(f"{of}: ratio (32)", "0.03-0.05", inside, "{:.4f}-{:.4f}", ratios.min(), ratios.max())
    kept = np.array([one.kept for one in drawn])
    inside = bool(np.all((kept >= 26) & (kept <= 34)))
    yield Claim.of(f"{of}: essential parameters", "26-34", inside, "{}-{}", int(kept.min()), int(kept.max()))
    strict, loose = (np.array([positive_links(layout, one.near, x) for one in drawn]) for x in (0.0, 0.04))
    second = np.array([positive_links(layout, one.standard) for one in drawn])
    yield Claim.of(
        f"{of}: links that pass after (30) at ε = 0.04", "all 5", bool(np.all(loose == 5)), "{}", int(loose.min())
    )
    fewer = int(np.sum(second < strict))
    yield Claim.of(f"{of}: fewer links pass after (32) than after (30)", "never", fewer == 0, "{}", fewer)
