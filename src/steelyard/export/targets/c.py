"""Export target `c`: a folder with NAME.h, NAME.c and a self-test."""

from __future__ import annotations

from steelyard.export.code.c import c_files
from steelyard.export.export import Export
from steelyard.export.targets.target import ExportRequest, ExportTarget


def _make(request: ExportRequest) -> Export:
    return c_files(request.identified, request.name)


C = ExportTarget("c", _make, options=frozenset({"load", "name", "allow_infeasible"}))
