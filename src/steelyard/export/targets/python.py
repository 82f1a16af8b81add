"""Export target `python`: one module that needs NumPy alone."""

from __future__ import annotations

from steelyard.export.code.python import python_file
from steelyard.export.export import Export
from steelyard.export.targets.target import ExportRequest, ExportTarget


def _make(request: ExportRequest) -> Export:
    return python_file(request.identified, request.name)


PYTHON = ExportTarget("python", _make, ".py", frozenset({"load", "name", "allow_infeasible"}))
