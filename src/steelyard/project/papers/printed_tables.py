"""What the papers print, as data: one TOML file per paper in `printed/`, tables as lines of a name and numbers."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def printed(paper: str) -> dict[str, Any]:
    """The file of a paper: title, authors, subject, and its tables."""
    source = resources.files("steelyard.project.papers").joinpath("printed", f"{paper}.toml")
    return tomllib.loads(source.read_text("utf-8"))


def lines_of(text: str) -> dict[str, tuple[float, ...]]:
    """{name: numbers} of a table, line by line."""
    out: dict[str, tuple[float, ...]] = {}
    for line in text.strip().splitlines():
        name, *numbers = line.split()
        out[name] = tuple(map(float, numbers))
    return out
