"""P4 on recorded robots: a TX-40 next to the paper's Table I, and a KR300 fitted on one run and scored on another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.errors import SteelyardError
from steelyard.estimators import DIDIM, IV, Essential, Estimator
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.project.papers.page.comparison import Compared, comparison, percent_of
from steelyard.project.papers.page.paper_page import PaperRequest
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.recorded import recorded
from steelyard.project.papers.setups.closed_loop import iterations, simulated_error
from steelyard.project.papers.setups.tx40 import long_name
from steelyard.regression.problem import Problem
from steelyard.report.table import Table, TableColumn, table

FRICTION = (
    "the log is another one, and tanh(v / 0.2 rad/s) saturates later than sign(v): Coulomb friction grows, viscous "
    "friction falls."
)


def on_recordings(request: PaperRequest) -> Iterator[str | Table]:
    """Every table of the recordings in the request's folder."""
    project, problem = recorded(request, "tx40-iv.toml")
    yield f"Recording of {project.path.name}: robot {problem.model.robot.name}; its controller is a guess."
    found = [identify(problem, one) for one in (Essential(ratio=100.0), IV(ratio=100.0), DIDIM(ratio=100.0))]
    if problem.model.robot.name == "tx40":
        for place, (name, result) in enumerate(zip(("LS", "IV", "DIDIM"), found, strict=True)):
            rows = next_to_table_1(result, place)
            why = {row.name: FRICTION for row in rows if row.name.startswith("F")}
            yield comparison(
                f"recorded_{name.lower()}", f"{name}, recorded, and P4 Table I", rows, result.clusters, why
            )
    yield _errors(problem, found)
    if request.data is not None and (request.data / "kr300-iv.toml").is_file():
        project, problem = recorded(request, "kr300-iv.toml")
        three = Essential(ratio=30.0), IV(start="nominal", ratio=30.0), DIDIM(start="nominal", ratio=30.0)
        yield _two_runs(problem, three)


def next_to_table_1(result: Identification, estimator: int = 0) -> list[Compared]:
    """A result of a TX-40 and the 28 printed parameters of IDIM-LS, IDIM-IV or DIDIM (0, 1, 2)."""
    rows = []
    for short, stated in lines_of(printed("p4")["table_1"]["rows"]).items():
        value, percent = stated[2 * estimator : 2 * estimator + 2]
        k = result.base.names.index(long_name(short))
        unit = result.base.layout.units[result.base.kept[k]]
        rows.append(
            Compared(short, value, float(result.value[k]), float(result.std[k]), percent_of(value, percent), unit=unit)
        )
    return rows


def _errors(problem: Problem, found: Sequence[Identification]) -> Table:
    facts = printed("p4")["table_2"]["nominal"]
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("iterations", "Iterations", "count"),
        TableColumn("measured", "‖y − Wθ‖/‖y‖", "share"),
        TableColumn("simulated", "‖y − Zθ‖/‖y‖", "share"),
        TableColumn("of_print", "Error in the paper", "number", unit="%", digits=3),
        TableColumn("parameters", "Parameters", "count"),
    )
    cells = [
        (
            *(one.estimator, iterations(one), one.relative_error.total, simulated_error(problem, one), stated),
            len(one.base) - len(one.cancelled),
        )
        for one, stated in zip(found, facts, strict=True)
    ]
    return table("recorded_errors", "Errors", columns, cells)


def _two_runs(problem: Problem, estimators: Sequence[Estimator]) -> Table:
    """Both runs fitted together, and each fitted alone and scored on the other."""
    cells = []
    for one in estimators:
        result = identify(problem, one)
        unseen: list[float | None] = []
        for kept, left in ((0, 1), (1, 0)):
            part, other = (replace(problem, runs=(problem.runs[k],)) for k in (kept, left))
            try:
                score = identify(part, one, held_out=other).unseen
                unseen.append(None if score is None else score.total)
            except SteelyardError:
                unseen.append(None)
        errors = result.relative_error.total, simulated_error(problem, result)
        cells.append((one.name, iterations(result), *errors, *unseen))
    columns = (
        TableColumn("estimator", "Estimator"),
        TableColumn("iterations", "Iterations", "count"),
        TableColumn("measured", "‖y − Wθ‖/‖y‖", "share"),
        TableColumn("simulated", "‖y − Zθ‖/‖y‖", "share"),
        TableColumn("forward", "fitted on A, scored on B", "share"),
        TableColumn("back", "fitted on B, scored on A", "share"),
    )
    note = "An empty cell: the fit gives no positive definite mass matrix, so its loop cannot be simulated."
    return table("recorded_kr300", "KR300, planned reference", columns, cells, notes=(note,))
