"""P1: recursive estimation of a planar arm while it moves, its updates, stopping rules and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import WLS, Recursive
from steelyard.estimators.gradient.adaptive_control import Adaptation
from steelyard.estimators.gradient.stopping import PublishedStop, StoppingRule, printed_proximity, sample_proximity
from steelyard.estimators.gradient.update_rules import Normalised, Published, UpdateRule, closed_form, follow
from steelyard.identification.identify import identify
from steelyard.motion.trajectory import Trajectory, dwell
from steelyard.project.papers.misprints import misprint_part
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.comparison import Compared, comparison
from steelyard.project.papers.page.curves import choice, figure
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest, part
from steelyard.project.papers.printed_tables import printed
from steelyard.project.papers.recorded import recorded
from steelyard.project.papers.setups.planar import (
    AMPLITUDE,
    DURATION,
    P_OF_FIVE,
    START_OF_FIVE,
    P,
    arm_g,
    driven,
    one_motion,
    rows_of_five,
    varied_motions,
)
from steelyard.regression.observe import observe
from steelyard.report.section import FigureChoice, Piece
from steelyard.report.table import Table, TableColumn, table

RULES: dict[str, UpdateRule] = {
    "(24), σ_D estimated": Published(),
    "(24), σ_D true": Published(inertia="truth"),
    "normalised": Normalised(),
}
# From this many programs on, medians over them are compared sharply.
MANY = 10
INDEFINITE = np.array([2.0, 0.5, 3.0, 0.1])
ENTRIES = ("p1", "p2", "p3", "p5")
# ‖P̂ − P‖/‖P‖ after 100 and 400 iterations that an independent implementation has for (24), one and varied motions.
PROTOTYPE = {"one": (0.28, 0.070), "varied": (0.055, 0.0009)}


class Updates:
    """Every update on one repeated motion, and on varied motions, one program per experiment."""

    def __init__(self, request: PaperRequest) -> None:
        self.one = {name: driven(one_motion(16), rule) for name, rule in RULES.items()}
        self.varied: dict[str, list[Adaptation]] = {name: [] for name in RULES}
        self.five: list[Array] = []
        for k in range(request.experiments):
            motions = varied_motions(16, request.seed + k)
            for name, rule in RULES.items():
                self.varied[name].append(driven(motions, rule))
            self.five.append(np.array(list(islice(follow(Normalised(), START_OF_FIVE, rows_of_five(motions)), 400))))
            request.tell(k + 1, request.experiments)

    def errors(self, name: str) -> Array:
        """‖P̂ − P‖/‖P‖ of the experiments on varied motions, (experiments, 401)."""
        return np.array([one.error(P) for one in self.varied[name]])

    def five_errors(self) -> Array:
        """The same for the five entries, (experiments, 400)."""
        return np.linalg.norm(np.array(self.five) - P_OF_FIVE, axis=2) / np.linalg.norm(P_OF_FIVE)


def page(request: PaperRequest) -> PaperPage:
    """The paper with `experiments` programs of varied motions."""
    updates = Updates(request)
    parts = [
        part("entries", "The five entries", entries(updates), arm_entries(updates)),
        part("figures", "Figs. 3 to 5", *figures(updates)),
        part("updates", "The updates", update_table(updates), _excitation(updates)),
        part("stopping", "When to stop", stopping(request.seed), proximity(request.seed)),
        part("failures", "Failures", indefinite(request), noisy(request)),
        misprint_part("p1"),
    ]
    if request.data is not None:
        parts.append(part("recorded", "`recursive` and `wls` on a recorded robot", *on_recording(request)))
    return PaperPage("p1", request, tuple(parts), tuple(claims(updates)))


# --- What it reaches --------------------------------------------------------------------------------------------------


def entries(updates: Updates) -> Table:
    """The paper's P, five numbers that no arm has, as the target of a regression."""
    count = printed("p1")["estimate"]["iterations"]
    found = np.array([path[count - 1] for path in updates.five])
    made = [
        Compared(f"p{k + 1}", stated, found[:, k].mean(), _spread(found[:, k]), truth=stated, unit="kg.m2")
        for k, stated in enumerate(P_OF_FIVE)
    ]
    note = (
        f"Normalised update, {count} iterations from {START_OF_FIVE.tolist()}, varied motions; ± the spread over "
        f"{len(found)} programs. The paper says that {count} iterations lead to these values."
    )
    return comparison("entries", "P as printed, and as found", made, notes=(note,))


def arm_entries(updates: Updates) -> Table:
    """The four numbers of an arm (p4 = p3), by the published and by the normalised update."""
    columns = (
        TableColumn("name", "", "code"),
        TableColumn("truth", "Truth", "given", unit="kg.m2"),
        *(
            column
            for key, name in (("published", "(24), σ_D estimated"), ("normalised", "normalised"))
            for column in (
                TableColumn(key, f"{name} ± spread", "estimate", of=(f"{key}_std",)),
                TableColumn(f"{key}_std", "spread", "number", shown=False),
            )
        ),
    )
    cells = []
    for k, name in enumerate(ENTRIES):
        row: list[float] = []
        for rule in ("(24), σ_D estimated", "normalised"):
            values = np.array([one.theta[100, k] for one in updates.varied[rule]])
            row += [values.mean(), _spread(values)]
        cells.append((name, P[k], *row))
    return table("arm_entries", "The arm after 100 iterations on varied motions, from 0.5 P", columns, cells)


def update_table(updates: Updates) -> Table:
    columns = (
        TableColumn("rule", "Update"),
        TableColumn("one_100", "100", "number", group="One motion", digits=3),
        TableColumn("one_400", "400", "number", group="One motion", digits=3),
        TableColumn("varied_100", "100, median", "number", group="Varied motions", digits=3),
        TableColumn("varied_100_worst", "worst", "number", group="Varied motions", digits=3),
        TableColumn("varied_400", "400, median", "number", group="Varied motions", digits=3),
        TableColumn("varied_400_worst", "worst", "number", group="Varied motions", digits=3),
        TableColumn("monotone", "Never grows", "flag"),
    )
    cells: list[tuple[object, ...]] = []
    for name in RULES:
        one, many = updates.one[name].error(P), updates.errors(name)
        monotone = bool(np.all(np.diff(one) <= 1e-12) and np.all(np.diff(many) <= 1e-12))
        varied = [x for k in (100, 400) for x in (np.median(many[:, k]), many[:, k].max())]
        cells.append((name, one[100], one[400], *varied, monotone))
    five = updates.five_errors()
    varied = [x for k in (99, 399) for x in (np.median(five[:, k]), five[:, k].max())]
    cells.append(("normalised, five entries", None, None, *varied, None))
    exact = []
    for made in (updates.one["normalised"], updates.varied["normalised"][0]):
        exact.append(float(np.linalg.norm(closed_form(made.rows[:100]) - P) / np.linalg.norm(P)))
    cells.append(("least squares (17)–(19)", exact[0], None, exact[1], None, None, None, None))
    notes = (
        "(24) shrinks the distance if 0 < λσ_D < 2 λ_min(D(q, P)), a bound on the true inertia. The normalised update "
        "needs only 0 < λ < 2. An independent implementation has 0.28 and 0.070 for (24) on one motion.",
    )
    title = f"‖P̂ − P‖/‖P‖ from 0.5 P, {len(updates.five)} programs of varied motions"
    return table("updates", title, columns, cells, notes=notes)


# --- Figures ----------------------------------------------------------------------------------------------------------


def figures(updates: Updates) -> Iterator[Piece]:
    """Fig. 3 (program), Fig. 4 (control by successive estimates), Fig. 5 (entries over the iterations)."""
    (program,) = one_motion(1)
    t = np.linspace(0.0, DURATION, 200)
    q, v, a = program.at(t)
    programs = {}
    for k, letter in enumerate("ab"):
        caption = f"Program of link {k + 1}, amplitude {AMPLITUDE[k]:g} rad."
        programs[f"Fig. 3({letter})"] = figure({"q": (t, q[k])}, "t [s]", f"q{k + 1} [rad]", caption)
    yield choice(programs)
    made = updates.one["(24), σ_D estimated"]
    yield _controls(updates, t, (q, v, a))
    five = np.vstack([START_OF_FIVE, updates.five[0]])[:101]
    fifth = "Fig. 5: the paper's P as a target of regression, varied motions."
    literal = "The update as printed on one repeated motion: not settled after 400 iterations."
    paths = {
        "five entries, normalised": _paths(five, [f"p{k}" for k in range(1, 6)], P_OF_FIVE, fifth),
        "arm, normalised": _paths(updates.varied["normalised"][0].theta[:101], ENTRIES, P, "The arm, varied motions."),
        "arm, (24), one motion": _paths(made.theta, ENTRIES, P, literal),
    }
    yield choice(paths)
    errors = {f"{name}, one motion": one.error(P) for name, one in updates.one.items()}
    errors |= {f"{name}, varied": updates.varied[name][0].error(P) for name in RULES}
    curves = {name: (np.arange(len(y)), np.maximum(y, 1e-9)) for name, y in errors.items()}
    yield figure(curves, "iteration", "‖P̂ − P‖ / ‖P‖", "Distance from the truth.", logarithmic=True)


def _controls(updates: Updates, t: Array, state: tuple[Array, Array, Array]) -> FigureChoice:
    """u = G(q_pr) P̂ of (21) on the program, for estimates after some iterations."""
    g = arm_g(*state)
    path = updates.varied["normalised"][0].theta
    steps = [k for k in (0, 5, 25, 100) if k < len(path)]
    torques = {f"iteration {k}": np.einsum("jps,p->js", g, path[k]) for k in steps}
    torques["program control"] = np.einsum("jps,p->js", g, P)
    return choice(
        {
            f"Fig. 4({letter})": figure(
                {name: (t, u[j]) for name, u in torques.items()}, "t [s]", f"u{j + 1} [N·m]", "Control on the program."
            )
            for j, letter in enumerate("ab")
        }
    )


def _paths(theta: Array, names: Sequence[str], truth: Array, caption: str):
    k = np.arange(len(theta))
    curves = {f"{name} → {truth[i]:g}": (k, theta[:, i]) for i, name in enumerate(names)}
    return figure(curves, "iteration", "entries of P̂ [kg·m²]", caption)


def _excitation(updates: Updates) -> Piece:
    shown = {"one motion": updates.one["normalised"], "varied": updates.varied["normalised"][0]}
    curves = {}
    for name, made in shown.items():
        x = made.excitation()
        # the first samples show less than four parameters: their least eigenvalue is rounding
        seen = x > 1e-2
        curves[name] = (np.arange(len(x))[seen], x[seen])
    caption = "What the motion shows: the least eigenvalue of Σ WᵀW."
    return figure(curves, "iteration", "λ_min [(N·m)² for 1 kg·m²]", caption, logarithmic=True)


# --- When it stops ----------------------------------------------------------------------------------------------------


def stopping(seed: int) -> Table:
    rest: list[Trajectory] = [dwell(np.zeros(2), 2.0)]
    right, sample = "PRX = 0 at a sample, right sign", PublishedStop(1e-3, corrected=True)
    tried = (
        (f"{right}, 1e-3", sample, "one motion", one_motion(16)),
        (f"{right}, 1e-6", PublishedStop(1e-6, corrected=True), "a dwell first", rest + one_motion(15)),
        ("PRX = 0 at a sample, printed sign, 1e-3", PublishedStop(1e-3), "varied", varied_motions(16, seed + 1)),
        ("sound rule", StoppingRule(), "at rest", rest * 16),
        ("sound rule", StoppingRule(), "one motion, 100 times", one_motion(100)),
        ("sound rule", StoppingRule(), "varied", varied_motions(40, seed)),
    )  # fmt: skip
    cells = []
    for name, stop, motion, motions in tried:
        made = driven(motions, Normalised(), stop=stop)
        told = made.stopped.replace("stopping rule met in ", "").partition("last verdict: ")[2] or made.stopped
        if isinstance(stop, PublishedStop) and not made.enough:
            told = f"‖PRX‖ never fell to {stop.tolerance:g}"
        cells.append((name, motion, made.enough, len(made), made.error(P)[-1], told))
    columns = (
        TableColumn("rule", "Rule"),
        TableColumn("motions", "Motions"),
        TableColumn("stops", "Stops", "flag"),
        TableColumn("iterations", "Iterations", "count"),
        TableColumn("error", "Error", "share"),
        TableColumn("why", "Reason"),
    )
    note = (
        "A sample gives two equations for four unknowns, and none at rest. The sound rule asks for a whole motion that "
        "is near, settled and exciting; the paper defines ε₁ and ε₂ and uses neither."
    )
    return table("stopping", "Stopping rules, normalised update from 0.5 P", columns, cells, notes=(note,))


def proximity(seed: int) -> Piece:
    """The proximity function sample by sample, as printed and with the right sign."""
    made = driven(varied_motions(8, seed), Normalised())
    pairs = list(zip(made.theta[1:], made.rows, strict=True))
    curves = {}
    for name, function in (("(23) as printed", printed_proximity), ("right sign", sample_proximity)):
        values = np.array([np.linalg.norm(function(theta, seen)) for theta, seen in pairs])
        curves[name] = (np.arange(1, len(values) + 1), np.maximum(values, 1e-12))
    caption = "Proximity of the estimate after each iteration. With the printed sign it stays at 2 Wᵀu."
    return figure(curves, "iteration", "‖PRX‖ [(N·m)² per kg·m²]", caption, logarithmic=True)


# --- Failures ---------------------------------------------------------------------------------------------------------


def indefinite(request: PaperRequest) -> Table:
    draws = range(min(3, request.experiments))
    cells = []
    for name, rule in RULES.items():
        made = [driven(varied_motions(16, request.seed + k), rule, INDEFINITE) for k in draws]
        lost = [one for one in made if one.diverged]
        errors = [one.error(P)[100] for one in made if len(one) >= 100 and not one.diverged]
        after = max((len(one) for one in lost), default=None)
        cells.append((name, len(lost), len(made), after, max(errors, default=None)))
    columns = (
        TableColumn("rule", "Update"),
        TableColumn("lost", "Diverged", "count"),
        TableColumn("of", "of", "count"),
        TableColumn("after", "at the latest after [iterations]", "count"),
        TableColumn("error", "Error at 100, worst", "number", digits=2),
    )
    title = f"Start {INDEFINITE.tolist()}, where D(q, P̂) is indefinite"
    return table("indefinite", title, columns, cells, notes=("σ_D < 0 reverses the step of (24).",))


def noisy(request: PaperRequest) -> Table:
    floors: dict[str, UpdateRule] = {
        "(24)": Published(),
        "normalised": Normalised(),
        "normalised, ε = 1": Normalised(floor=1.0),
        "normalised, λ = 0.2, ε = 1": Normalised(0.2, 1.0),
    }
    draws = range(min(5, request.experiments))
    cells = []
    for name, rule in floors.items():
        for kind in ("one", "varied"):
            made = [
                driven(
                    one_motion(16) if kind == "one" else varied_motions(16, request.seed + k),
                    *(rule, 0.5 * P, StoppingRule(), 0.2, request.seed + k),
                )
                for k in draws
            ]
            highest = max(float(one.error(P).max()) for one in made)
            last = [float(one.error(P)[-1]) for one in made]
            lost, enough = sum(one.diverged for one in made), sum(one.enough for one in made)
            cells.append((name, kind, highest, float(np.median(last)), max(last), lost, enough))
    columns = (
        TableColumn("rule", "Update"),
        TableColumn("motions", "Motions"),
        TableColumn("highest", "Highest error", "number", digits=2),
        TableColumn("median", "Last, median", "number", digits=2),
        TableColumn("worst", "Last, worst", "number", digits=2),
        TableColumn("lost", "Diverged", "count"),
        TableColumn("enough", "Reports convergence", "count"),
    )
    title = f"0.2 rad/s² of noise on the measured accelerations, 400 iterations, {len(draws)} draws"
    note = "Where Ψ and W go to zero, at rest, noise is divided by nearly zero unless ε prevents it."
    return table("noisy", title, columns, cells, notes=(note,))


# --- A recorded robot -------------------------------------------------------------------------------------------------


def on_recording(request: PaperRequest) -> Iterator[str | Table]:
    """The estimator `recursive` on a log: the same rows, one at a time."""
    project, problem = recorded(request, "tx40.toml")
    information = observe(problem)
    wls = identify(problem, WLS(), information)
    tried = {
        "defaults": Recursive(),
        'start = "nominal"': Recursive(start="nominal"),
        "passes = 1": Recursive(passes=1),
    }
    cells = []
    for name, one in tried.items():
        found = identify(problem, one, information)
        apart = float(np.abs((found.value - wls.value) / wls.std).max())
        cells.append((name, apart, found.relative_error.total))
    columns = (
        TableColumn("options", "Options"),
        TableColumn("apart", "Distance from wls, worst parameter", "number", unit="σ", digits=2),
        TableColumn("error", "Relative error", "share"),
    )
    yield f"Recording of {project.path.name}: robot {problem.model.robot.name}; wls has {wls.relative_error.total:.2%}."
    yield table("recorded", "The estimator `recursive` on these rows", columns, cells)


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(updates: Updates) -> Iterator[Claim]:
    """Errors are ‖P̂ − P‖/‖P‖ from 0.5 P."""
    of = f"P1, varied motions, {len(updates.five)} draws"
    # programs differ by a factor of three in what they show: few of them have no sharp median
    few = len(updates.five) < MANY
    at_100, at_400, factor = (0.05, 1e-3, 5.0) if few else (0.02, 1e-4, 2.0)
    ours = updates.errors("normalised")
    middle, worst = float(np.median(ours[:, 100])), float(ours[:, 400].max())
    yield Claim.of(f"{of}: normalised update, median at 100", f"< {at_100:.0%}", middle < at_100, "{:.2%}", middle)
    yield Claim.of(f"{of}: normalised update, worst at 400", f"< {at_400:.0e}", worst < at_400, "{:.1e}", worst)
    literal, repeated = updates.errors("(24), σ_D estimated"), updates.one["(24), σ_D estimated"].error(P)
    for place, k in enumerate((100, 400)):
        for kind, got in (("one", float(repeated[k])), ("varied", float(np.median(literal[:, k])))):
            wanted = PROTOTYPE[kind][place]
            what = f"P1, (24) as published, {'one motion' if kind == 'one' else 'varied motions, median'}, at {k}"
            allowed = 2.0 if kind == "one" else factor
            holds = 1.0 / allowed < got / wanted < allowed
            yield Claim.of(what, f"{wanted:g} within a factor of {allowed:g}", holds, "{:.2g}", got)
    middle = float(np.median(updates.five_errors()[:, 99]))
    yield Claim.of(
        f"{of}: five entries, normalised, median at 100", f"< {at_100:.0%}", middle < at_100, "{:.2%}", middle
    )
    exact = float(np.linalg.norm(closed_form(updates.varied["normalised"][0].rows[:100]) - P) / np.linalg.norm(P))
    yield Claim.of("P1, least squares at 100", "< 1e-04", exact < 1e-4, "{:.1e}", exact)


def _spread(values: Array) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
