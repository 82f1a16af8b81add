"""What every command shares: the console for people, `--json`, progress, and how numbers are shown."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from steelyard.findings import Finding

# A pipe or a file has no width of its own: wide enough for a table of parameters.
# No markup: brackets in the names of joints, files and folders are brackets.
people = Console(stderr=True, width=None if sys.stderr.isatty() else 160, markup=False, highlight=False, emoji=False)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
FAILED = 2


def emit(document: Mapping[str, Any]) -> None:
    """One JSON object on stdout, whatever the terminal's encoding can hold."""
    from steelyard.project.documents import text

    written = text(document)
    try:
        written.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        written = json.dumps(json.loads(written), indent=1)
    print(written)


def emit_line(document: Mapping[str, Any]) -> None:
    """One JSON object on a line of stdout, at once, for documents that come one after another."""
    print(json.dumps(document, allow_nan=False), flush=True)


def say(message: str, style: str = "") -> None:
    """A line for people, unbroken, so that paths can be copied."""
    people.print(message, style=style, soft_wrap=True)


def say_findings(findings: Iterable[Finding]) -> None:
    """Findings in the colours of their severity."""
    colours = {"info": "cyan", "warning": "yellow", "error": "bold red"}
    for finding in findings:
        say(str(finding), colours[finding.severity])


def number(x: float) -> str:
    return f"{x:.4g}" if math.isfinite(x) else "—"


def percent(x: float) -> str:
    if not math.isfinite(x):
        return "—"
    return f"{x:.2%}" if abs(x) < 10.0 else "> 999 %"


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar per task on stderr, shown once the work has taken two seconds."""
    started = time.perf_counter()
    tasks: dict[str, Any] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=people, transient=True)

    def advance(task: str, done: int, total: int) -> None:
        if not tasks and time.perf_counter() - started < 2.0:
            return
        if not tasks:
            bar.start()
        if task not in tasks:
            tasks[task] = bar.add_task(escape(task), total=total)
        bar.update(tasks[task], completed=done)

    try:
        yield advance
    finally:
        if tasks:  # stopping a bar that never started would print an empty line
            bar.stop()
