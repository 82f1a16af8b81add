"""Export target `casadi`: one module with symbolic functions for programs that optimise."""

from __future__ import annotations

from steelyard.export.code.casadi import ENDING, casadi_file
from steelyard.export.export import Export
from steelyard.export.targets.target import ExportRequest, ExportTarget


def _make(request: ExportRequest) -> Export:
    return casadi_file(request.identified, request.name)


CASADI = ExportTarget("casadi", _make, ENDING, frozenset({"load", "name", "allow_infeasible"}))
