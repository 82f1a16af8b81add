"""The command line: thin. People's text goes to stderr, `--json` prints one object on stdout, errors exit with 2."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from steelyard.cli import check, consistency, excite, export, identify, init, payload, robots, twin, validation, watch
from steelyard.cli.console import FAILED, app, emit_line, say
from steelyard.errors import SteelyardError

__all__ = [
    "app",
    "check",
    "consistency",
    "excite",
    "export",
    "identify",
    "init",
    "main",
    "payload",
    "robots",
    "twin",
    "validation",
    "watch",
]


def main() -> None:
    """Entry point: errors a user can mend become one sentence and exit code 2."""
    wants_json = "--json" in sys.argv
    try:
        # outside standalone mode an Exit raised by a command comes back as its code
        sys.exit(app(standalone_mode=False))
    except SteelyardError as error:
        _failed(str(error), wants_json)
    except (typer.Abort, KeyboardInterrupt):
        _failed("Stopped; nothing was written.", wants_json)
    except MemoryError:
        _failed("Out of memory. Check rate_hz and the filters: they may ask for absurdly many samples.", wants_json)
    except Exception as error:
        # click's usage errors carry a message for people; anything else is a bug and keeps its traceback
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # type: ignore[attr-defined]
        # without a command the help was shown and there is nothing to add
        _failed(f"{message} See: steelyard --help", wants_json) if message else sys.exit(FAILED)


def _failed(message: str, wants_json: bool) -> None:
    if wants_json:
        emit_line({"schema": "steelyard.error/1", "error": message})
    say(f"error: {message}", "red")
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
