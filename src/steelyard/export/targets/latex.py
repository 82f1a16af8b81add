"""Export target `latex`: a table of base parameters with error bars."""

from __future__ import annotations

from steelyard.export.export import Export
from steelyard.export.latex import latex_table
from steelyard.export.targets.target import ExportRequest, ExportTarget


def _make(request: ExportRequest) -> Export:
    return latex_table(request.result, request.model.robot, request.regroupings, request.name)


LATEX = ExportTarget("latex", _make, ".tex", frozenset({"name", "regroupings"}), standard=False)
