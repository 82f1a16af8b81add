"""P4: least squares, instrumental variables and DIDIM on a TX-40 whose closed loop is simulated, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import DIDIM, IV, Essential, Estimator
from steelyard.identification.prediction import predict_rows
from steelyard.identification.result import Identification
from steelyard.project.papers.misprints import misprint_part
from steelyard.project.papers.p4_motions import (
    NAMES,
    TOLERANCE,
    Begun,
    OverMotions,
    few,
    filters,
    motion_pieces,
    over_motions,
    start_pieces,
    starts,
)
from steelyard.project.papers.p4_recorded import on_recordings
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.comparison import FAR, PRINTED, Compared, comparison, far_sentences, percent_of
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest, part
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.setups.closed_loop import (
    COULOMB,
    ENCODER_AT_90,
    ENCODER_OFF,
    LOOP,
    TABLE_1,
    TORQUE_AT_90,
    UNSEEN,
    VISCOUS,
    Arm,
    identified,
    iterations,
    simulated_error,
)
from steelyard.report.figures.effort import run_figures
from steelyard.report.section import FigureChoice
from steelyard.report.table import Emphasis, Table, TableColumn, table
from steelyard.validation.forward import forward_validation

RATIO = 100.0
THREE: tuple[Estimator, ...] = (
    Essential(ratio=RATIO),
    IV(TOLERANCE, start="nominal", ratio=RATIO),
    DIDIM(TOLERANCE, start="nominal", ratio=RATIO),
)
LOOPS = {"right": LOOP, "encoder × 0.9": ENCODER_AT_90, "torque × 0.9": TORQUE_AT_90, "encoder + 0.1 rad": ENCODER_OFF}


@dataclass(frozen=True)
class Nominal:
    """One log, and the three estimates with a right simulator and with one whose encoders read 90 %."""

    arm: Arm
    right: tuple[Identification, ...]
    biased: tuple[Identification, ...]
    # ‖y − Wθ‖/‖y‖ of LS and IV, ‖y − Zθ‖/‖y‖ of DIDIM, right and biased
    residuals: tuple[Array, Array]

    @staticmethod
    def of(seed: int) -> Nominal:
        arm = Arm()
        run = arm.logged(1 + seed)
        right = tuple(identified(arm.problem(run), one) for one in THREE)
        biased = (right[0], *(identified(arm.problem(run, ENCODER_AT_90), one) for one in THREE[1:]))
        residuals = []
        for found, loop in ((right, LOOP), (biased, ENCODER_AT_90)):
            last = simulated_error(arm.problem(run, loop), found[2])
            residuals.append(np.array([found[0].relative_error.total, found[1].relative_error.total, last]))
        return Nominal(arm, right, biased, (residuals[0], residuals[1]))

    def to_ls(self, result: Identification, *short: str) -> Array:
        at = self.arm.places(*(short or TABLE_1))
        return result.value[at] / self.right[0].value[at]


def page(request: PaperRequest) -> PaperPage:
    """The paper with `experiments` motions, noise draws and starts."""
    nominal = Nominal.of(request.seed)
    over = over_motions(request)
    begun = starts(nominal.arm, nominal.right[1:], THREE[1:], request)
    parts = [
        part("counts", "Counts", counts(nominal)),
        part("table-1", "Table I: right simulator", estimate_table("table_1", nominal, nominal.right)),
        part("table-2", "Table II: errors", residual_table(nominal)),
        part("table-3", "Table III: biased simulator", estimate_table("table_3", nominal, nominal.biased)),
        part("torques", "Torques", *torques(nominal, request.seed)),
        part("simulators", "Wrong simulators", simulators(request)),
        part("motions", "DIDIM's bias over motions", *motion_pieces(over)),
        part("starts", "Convergence from wrong starts", *start_pieces(begun)),
        part("filters", "Badly filtered positions", filters(request)),
        misprint_part("p4"),
    ]  # fmt: skip
    if request.data is not None:
        parts.append(part("recorded", "Recorded robots", *on_recordings(request)))
    return PaperPage("p4", request, tuple(parts), tuple(claims(nominal, over, begun)))


# --- Tables I to III --------------------------------------------------------------------------------------------------


def counts(nominal: Nominal) -> Table:
    facts, ls = printed("p4")["counts"], nominal.right[0]
    made = [
        Compared("base parameters", facts["base"], len(ls.base), 0.0),
        Compared("essential parameters", facts["essential"], len(ls.base) - len(ls.cancelled), 0.0),
        Compared("condition", facts["condition"], ls.condition, 0.0),
        Compared("condition, columns scaled", np.nan, ls.condition_scaled, 0.0),
        Compared("iterations of IV", facts["iterations_iv"], iterations(nominal.right[1]), 0.0),
        Compared("iterations of DIDIM", facts["iterations_didim"], iterations(nominal.right[2]), 0.0),
    ]
    note = "The paper does not define its condition number; iterations depend on the start, which it does not give."
    return comparison("counts", "Printed and computed", made, notes=(note,))


def estimate_table(name: str, nominal: Nominal, found: Sequence[Identification]) -> Table:
    """The 28 parameters by three estimators: printed with σ, truth, ours ± σ, difference in σ of each."""
    arm, layout = nominal.arm, nominal.right[0].base.layout
    columns = [TableColumn("name", "", "code"), TableColumn("unit", "Unit", "unit")]
    columns.append(TableColumn("truth", "Truth", "given"))
    for short in NAMES:
        key = short.lower()
        columns += [
            TableColumn(f"{PRINTED}_{key}", "printed", "given", group=short),
            TableColumn(f"{PRINTED}_{key}_std", "σ, printed", "number", digits=2, group=short),
            TableColumn(key, "ours ± σ", "estimate", of=(f"{key}_std",), group=short),
            TableColumn(f"{key}_std", "σ", "number", shown=False, group=short),
            TableColumn(f"{key}_difference", "difference [σ]", "number", digits=2, group=short),
        ]
    cells, weights, every = [], list[Emphasis](), dict[str, list[Compared]]()
    for short, stated in lines_of(printed("p4")[name]["rows"]).items():
        (k,) = arm.places(short)
        row: list[object] = [short, layout.units[found[0].base.kept[k]], TABLE_1[short]]
        far = False
        for place, (estimator, result) in enumerate(zip(NAMES, found, strict=True)):
            value, deviation = stated[2 * place], percent_of(*stated[2 * place : 2 * place + 2])
            one = Compared(short, value, float(result.value[k]), float(result.std[k]), deviation, TABLE_1[short])
            every.setdefault(estimator, []).append(one)
            row += [value, deviation, one.value, one.std, one.difference]
            far = far or abs(one.difference) > FAR
        cells.append(row)
        weights.append("warning" if far else "")
    notes = ["The truth is the paper's column IDIM-LS of Table I; 32 more base parameters are zero and cancelled."]
    for estimator, result in zip(NAMES, found, strict=True):
        wrong = name == "table_3" and estimator == "DIDIM"
        reason = "the encoders of the simulator read 90 %, and DIDIM takes its motion from there."
        why = dict.fromkeys(TABLE_1, reason) if wrong else {}
        sentences = far_sentences(every[estimator], result.clusters, why)
        if wrong and sentences:
            beyond = [one.name for one in every[estimator] if abs(one.difference) > FAR]
            sentences = [f"more than {FAR:g} σ from the truth: {', '.join(beyond)}: {reason}"]
        notes += [f"{estimator}: {sentence}" for sentence in sentences]
    titles = {"table_1": "Right simulator", "table_3": "Biased simulator"}
    return table(name, titles[name], columns, cells, weights, notes)


def residual_table(nominal: Nominal) -> Table:
    facts = printed("p4")["table_2"]
    cells = []
    for case, ours in zip(("nominal", "biased"), nominal.residuals, strict=True):
        cells.append((case, *(x for pair in zip(facts[case], 100.0 * ours, strict=True) for x in pair)))
    first, second = (np.array(facts[case]) for case in ("nominal", "biased"))
    grown = [f"{100.0 * x:+.1f}" for x in second / first - 1.0]
    growth = 100.0 * (nominal.residuals[1] / nominal.residuals[0] - 1.0)
    cells.append(("growth", *(x for own in growth for x in (None, own))))
    columns = [TableColumn("case", "Case")]
    for k, short in enumerate(NAMES):
        columns.append(TableColumn(f"{PRINTED}_{k}", "printed", "number", unit="%", digits=3, group=short))
        columns.append(TableColumn(f"own_{k}", "ours", "number", unit="%", digits=3, group=short))
    note = (
        "‖y − Wθ‖/‖y‖ of LS and IV, on measured columns; ‖y − Zθ‖/‖y‖ of DIDIM, on simulated ones. The level is "
        "that of the noise, 3 % before the filter here; the growth of DIDIM's error depends on it. Growth of the "
        f"printed errors: {', '.join(grown)} %."
    )
    return table("table_2", "Relative errors", columns, cells, notes=(note,))


# --- Torques ----------------------------------------------------------------------------------------------------------


def torques(nominal: Nominal, seed: int) -> tuple[Table, FigureChoice]:
    """Measured and predicted torques on the fitted motion and an unseen one, and the arm simulated on the latter."""
    arm, other = nominal.arm, Arm(points=UNSEEN)
    unseen = other.problem(other.logged(seed=2 + seed))
    cells = []
    for name, result in zip(NAMES, nominal.right, strict=True):
        found = forward_validation(result, unseen)
        for joint, score in found.joints.items():
            cells.append((name, joint, 1e6 * score.position_rms, score.torque_relative))
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("joint", "Joint"),
        TableColumn("position", "Position, rms", "number", unit="µrad", digits=2),
        TableColumn("torque", "Torque, relative", "share"),
    )
    own = table("forward", "The identified arm simulated on an unseen reference", columns, cells)
    fitted = arm.problem(arm.logged(1 + seed))
    made = []
    didim = nominal.right[2]
    for name, problem in (("fitted motion", fitted), ("unseen motion", unseen)):
        (run,) = problem.runs
        made.append(run_figures(replace(predict_rows(problem, run, didim.theta), run=name), didim.base.layout))
    return own, FigureChoice(tuple(made))


# --- Wrong simulators -------------------------------------------------------------------------------------------------


def simulators(request: PaperRequest) -> Table:
    """IV and DIDIM with four simulators, over a few draws of noise on the motion of Table I."""
    arm, cells = Arm(), []
    for seed in range(request.seed + 1, request.seed + 1 + few(request)):
        run = arm.logged(seed)
        ls = identified(arm.problem(run), THREE[0]).value
        first: tuple[float, float] | None = None
        for name, loop in LOOPS.items():
            problem = arm.problem(run, loop)
            iv, didim = (identified(problem, one) for one in THREE[1:])
            errors = iv.relative_error.total, simulated_error(problem, didim)
            first = first or errors
            at = arm.places(*TABLE_1)
            apart = [float(np.abs(one.value[at] / ls[at] - 1.0).max()) for one in (iv, didim)]
            groups = [arm.places(*own) for own in (("ZZ1", "ZZ2"), VISCOUS, COULOMB)]
            spans = [f"{x.min():.2f}–{x.max():.2f}" for x in (didim.value[at] / ls[at] for at in groups)]
            cells.append((seed, name, *apart, *spans, errors[0] / first[0] - 1.0, errors[1] / first[1] - 1.0))
    columns = (
        TableColumn("seed", "Draw", "count"),
        TableColumn("simulator", "Simulator"),
        TableColumn("iv", "IV / LS − 1, worst", "share"),
        TableColumn("didim", "DIDIM / LS − 1, worst", "share"),
        TableColumn("zz", "ZZ1, ZZ2", group="DIDIM / LS"),
        TableColumn("viscous", "Fv", group="DIDIM / LS"),
        TableColumn("coulomb", "Fc", group="DIDIM / LS"),
        TableColumn("growth_iv", "IV", "share", group="Growth of the error"),
        TableColumn("growth_didim", "DIDIM", "share", group="Growth of the error"),
    )
    note = (
        "The bias of Table III needs the ratio in the encoders; in the torque path it biases nothing but the lightest "
        "motor. An offset of the encoders has a mean that is not zero, and IV is right all the same."
    )
    return table("simulators", "Errors of the simulator", columns, cells, notes=(note,))


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(nominal: Nominal, over: OverMotions, begun: Begun) -> Iterator[Claim]:
    arm = nominal.arm
    wanted = {arm.base.names[k] for k in arm.places(*TABLE_1)}
    kept = set(nominal.right[0].base.names) - set(nominal.right[0].cancelled)
    same = len(kept & wanted)
    yield Claim.of("P4: the paper's 28 parameters are the essential ones", "28 of 28", kept == wanted, "{}", same)
    for name, found in (("right", nominal.right), ("biased", nominal.biased)):
        worst = float(np.abs(nominal.to_ls(found[1]) - 1.0).max())
        yield Claim.of(f"P4, {name} simulator: IV / LS − 1, worst of 28", "< 3 %", worst < 0.03, "{:.2%}", worst)
    ratios = nominal.to_ls(nominal.biased[2], "ZZ1", "ZZ2")
    inside = bool(np.all((ratios > 0.75) & (ratios < 0.92)))
    what = "P4, biased simulator: DIDIM / LS of ZZ1, ZZ2, the motion of Table III"
    yield Claim.of(what, "0.75-0.92", inside, "{:.3f}", ratios)
    viscous, coulomb = (nominal.to_ls(nominal.biased[2], *x) for x in (VISCOUS, COULOMB))
    inside = bool(np.all(np.abs(viscous - 0.90) < 0.05))
    yield Claim.of("P4, biased simulator: DIDIM / LS of Fv", "0.85-0.95", inside, "{:.3f}", viscous)
    inside = bool(np.all(np.abs(coulomb - 0.99) < 0.06))
    yield Claim.of("P4, biased simulator: DIDIM / LS of Fc", "0.93-1.05", inside, "{:.3f}", coulomb)
    growth = nominal.residuals[1] / nominal.residuals[0] - 1.0
    yield Claim.of("P4, biased simulator: growth of IV's error", "< 1 %", growth[1] < 0.01, "{:.2%}", growth[1])
    yield Claim.of("P4, biased simulator: growth of DIDIM's error", "> 15 %", growth[2] > 0.15, "{:.0%}", growth[2])
    friction = over.didim["Fv, mean"]
    inside = bool(np.all(np.abs(friction - 0.90) < 0.05))
    yield Claim.of(f"P4, {len(over.seeds)} motions: DIDIM / LS of Fv, mean of 7", "0.85-0.95", inside, "{:.3f}-{:.3f}",
                   friction.min(), friction.max())  # fmt: skip
    for name, took in begun.iterations.items():
        lost = int(np.sum(took == 0))
        yield Claim.of(f"P4, {len(took)} starts ± 30 % off: {name} does not converge", "never", lost == 0, "{}", lost)
