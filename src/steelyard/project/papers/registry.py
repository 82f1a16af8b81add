"""The papers by name, how many experiments each is given, and the folder that its command writes."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from steelyard._arrays import single_threaded
from steelyard.errors import ProjectError, choices
from steelyard.project.documents import plain
from steelyard.project.output_folder import REPORT, write_folder
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest

# Simulated experiments: in full, and with --quick.
EXPERIMENTS = {"p0": (20, 5), "p1": (20, 3), "p2": (20, 2), "p3": (30, 3), "p4": (50, 3)}
PAPERS = tuple(EXPERIMENTS)
DOCUMENT = "paper.json"


def experiments_of(paper: str, quick: bool) -> int:
    """The number of simulated experiments of a paper; an error names the papers there are."""
    if paper not in EXPERIMENTS:
        raise ProjectError(choices("paper", paper, PAPERS))
    return EXPERIMENTS[paper][quick]


@single_threaded
def reproduced(paper: str, request: PaperRequest) -> PaperPage:
    """The experiment of a paper, its tables next to ours and its figures."""
    experiments_of(paper, True)
    return import_module(f"steelyard.project.papers.{paper}").page(request)


def write_page(page: PaperPage, folder: Path) -> Path:
    """Write report.html and paper.json, both or none; returns the page."""
    document = json.dumps(plain(page.document()), indent=1, ensure_ascii=False, allow_nan=False)
    write_folder(folder, {REPORT: page.html(), DOCUMENT: document + "\n"}, (REPORT, DOCUMENT))
    return folder / REPORT
