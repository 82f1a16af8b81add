"""Shared by all commands: the console for people, `--json`, progress, and the format of numbers."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from steelyard.errors import OutputError, ProjectError, printable
from steelyard.findings import Finding
from steelyard.report import numerals


class _PlainConsole(Console):
    """Shows every text as it is: control characters in names of joints, columns and files are written out."""

    def render_str(self, text: str, **options: Any) -> Any:
        return super().render_str(printable(text, kept="\n"), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for one in super().render(renderable, options):
            yield one if one.control else one._replace(text=printable(one.text, kept="\n"))


# Width for a pipe or a file, which have none: enough for a table of parameters. No markup, because names of
# joints, files and folders may contain brackets.
_WIDTH = None if sys.stderr is not None and sys.stderr.isatty() else 160
people = _PlainConsole(stderr=True, width=_WIDTH, markup=False, highlight=False, emoji=False)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
PageOption = Annotated[
    Path | None, typer.Option("--report", help="Page to write: figures and tables as one HTML file. Default: none.")
]
# The part of a log to use, as in a [[run]].
RowsOption = Annotated[
    tuple[int, int] | None,
    typer.Option(help="First and last row of the log to use (counted from 1).", metavar="FIRST LAST"),
]
SecondsOption = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Start and end of the part of the log to use [s, clock of the log].", metavar="START END"),
]
EpisodeOption = Annotated[
    int | None, typer.Option(help="Episode to use, where the log holds several (LeRobot, or as in the project).")
]
# Numbers and ratios as text, as in pages and tables.
number, percent = numerals.given, numerals.share


def check_part(
    logs: Sequence[Path], rows: tuple[int, int] | None, seconds: tuple[float, float] | None, episode: int | None
) -> None:
    """Raises an error unless at most one of `rows` and `seconds` limits the part of one log that is used."""
    if rows is not None and seconds is not None:
        raise ProjectError("--rows and --seconds both limit the part of the log that is used: give one of them.")
    if len(logs) > 1 and not rows is seconds is episode is None:
        raise ProjectError("--rows, --seconds and --episode apply to one log: call the command once per log.")


def check_page(page: Path | None) -> None:
    """Raises an error unless `--report` was left out or names an HTML file that can be written."""
    from steelyard.project.output_folder import check_file

    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"--report {page}: the report is one HTML page; give a name that ends in .html.")
    if page is not None:
        check_file(page)


def write_page(page: Path | None, html: Callable[[], str]) -> None:
    """Write the page of `--report`, if there is one, and say where it is."""
    from steelyard.project.output_folder import write_files

    if page is not None:
        write_files({page: html().encode("utf-8")})
        say(f"Report: {page}")


def emit(document: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; escaped to ASCII if the terminal's encoding cannot hold it."""
    from steelyard.project.documents import text

    written = text(document)
    try:
        written.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        written = json.dumps(json.loads(written), indent=1)
    print(written, flush=True)


def emit_line(document: Mapping[str, Any]) -> None:
    """Print one JSON object on one line of stdout, at once, for documents that follow one another."""
    print(json.dumps(document, allow_nan=False).replace("\x7f", "\\u007f"), flush=True)


def say(message: str, style: str = "") -> None:
    """Print a line for people, without wrapping, so that paths can be copied."""
    people.print(message, style=style, soft_wrap=True)


def say_findings(findings: Iterable[Finding]) -> None:
    """Print findings in the colours of their severity; one line for an info that several joints have."""
    colours = {"info": "cyan", "warning": "yellow", "error": "bold red"}
    for first, *others in _alike(findings):
        more = f"; likewise {', '.join(one.where for one in others)}" if others else ""
        say(str(first).replace(first.message, first.message + more, 1), colours[first.severity])


def _alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings in order; infos that differ in their joint and their numbers only are together."""
    alike: dict[object, list[Finding]] = {}
    for k, one in enumerate(findings):
        named = one.severity == "info" and one.where and one.where in one.message
        text = re.sub(r"\d[\d.e+-]*", "#", one.message.replace(one.where, "*")) if named else k
        alike.setdefault((one.code, one.fix, text), []).append(one)
    return list(alike.values())


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
        if tasks:  # stopping a bar that was never shown would print an empty line
            bar.stop()
