"""Sections about the origin of the result: preparation of the data, inputs and versions."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.identification.result import Identification
from steelyard.identification.verdict import effort_unit
from steelyard.report import numerals
from steelyard.report.figures.delays import delay_figure
from steelyard.report.figures.spectrum import spectrum_groups
from steelyard.report.section import Figure, FigureChoice, Piece, Repeat, ReportSubject, Section
from steelyard.report.table import TableColumn, table
from steelyard.report.tables.provenance import run_table
from steelyard.report.templates import fragment


def _data(subject: ReportSubject) -> Sequence[Piece]:
    result, repeat = subject.result, subject.repeat
    pieces: list[Piece] = [run_table(result)]
    if subject.spectra:
        layout = result.base.layout
        units = tuple(effort_unit(layout, joint) for joint in subject.spectra[0].joints)
        filters = (None, None) if repeat is None else (repeat.cutoff_hz, repeat.lowpass_hz)
        pieces.append(FigureChoice(spectrum_groups(subject.spectra, *filters, units), linked=True))
        reasons = [one.message for one in result.findings if one.code == "cutoffs"]
        pieces.append(
            "Spectra of the log before any filter, up to two minutes of it. Dotted: cutoff_hz, the low-pass of the "
            "positions, and lowpass_hz, the parallel low-pass of effort and regressor."
            + (f" Chosen automatically: {reasons[0]}." if reasons else "")
        )
    if subject.delays is not None:
        said = "Delays of the efforts, after a fit with friction. Efforts are read later by the correction."
        pieces.append(Figure(delay_figure(subject.delays), said))
    return [*pieces, fragment("sections/data.html", runs=result.runs, mask=result.relative_error.mask)]


def _repeat(subject: ReportSubject) -> Sequence[Piece]:
    repeat = subject.repeat
    if repeat is None:
        return []
    return [fragment("sections/repeat.html", repeat=repeat, listing=python_listing(subject.result, repeat))]


def python_listing(result: Identification, repeat: Repeat) -> str:
    """A Python program that makes the result again from its project file."""
    return (
        "import steelyard as sy\n\n"
        f"project = sy.read_project({repeat.file!r})\n"
        f"done = sy.run(project, estimator={result.estimator!r})\n"
        "result = done.identification\n"
        "print(result.verdict)\n"
        "for name, value, std in zip(result.base.names, result.value, result.std, strict=True):\n"
        '    print(f"{name} = {value:.6g} ± {std:.2g}")\n'
    )


def _provenance(subject: ReportSubject) -> Sequence[Piece]:
    result, base = subject.result, subject.result.base
    options = "".join(f", {key} = {value}" for key, value in result.estimator_options.items())
    kept, dropped = numerals.number(base.smallest_kept, 2), numerals.number(base.largest_dropped, 2)
    rows = [
        ("Robot", result.robot),
        ("Estimator", f"{result.estimator}{options}"),
        ("Blocks left out in turn", str(result.clusters or numerals.DASH)),
        ("Columns", f"{len(base.layout)} standard, {len(base.zero)} without effect on the effort, {len(base)} base"),
        ("Rank decision", f"smallest sine kept {kept}, largest dropped {dropped}"),
        (
            "Condition number",
            f"{numerals.number(result.condition)}, with scaled columns {numerals.number(result.condition_scaled)}",
        ),
        *((f"SHA-256 of {run.name}", run.sha256 or numerals.DASH) for run in result.runs),
        ("Versions", ", ".join(f"{package} {version}" for package, version in result.versions.items())),
    ]
    return [table("provenance", "Provenance", (TableColumn("what", "What"), TableColumn("value", "Value")), rows)]


DATA = Section("data", "Data", _data)
REPEAT = Section("repeat", "Repeat", _repeat)
PROVENANCE = Section("provenance", "Provenance", _provenance)
