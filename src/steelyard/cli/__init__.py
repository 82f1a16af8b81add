"""The command line: thin. People's text goes to stderr, `--json` prints one object on stdout, errors exit with 2."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from steelyard.cli import consistency, identify, robots, validation
from steelyard.cli.console import FAILED, app, people
from steelyard.errors import SteelyardError
from steelyard.results import text

__all__ = ["app", "consistency", "identify", "main", "robots", "validation"]


def main() -> None:
    """Entry point: errors a user can mend become one sentence and exit code 2."""
    wants_json = "--json" in sys.argv
    try:
        # outside standalone mode an Exit raised by a command comes back as its code
        sys.exit(app(standalone_mode=False))
    except SteelyardError as error:
        _failed(str(error), wants_json)
    except typer.Abort:
        _failed("Stopped.", wants_json)
    except Exception as error:
        # click's usage errors carry a message for people; anything else is a bug and keeps its traceback
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # type: ignore[attr-defined]
        # without a command the help was shown and there is nothing to add
        _failed(f"{message} See: steelyard --help", wants_json) if message else sys.exit(FAILED)


def _failed(message: str, wants_json: bool) -> None:
    if wants_json:
        print(text({"schema": "steelyard.error/1", "error": message}))
    people.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(FAILED)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("steelyard"))
        raise typer.Exit


@app.callback()
def options(
    wants_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of the command itself."""
