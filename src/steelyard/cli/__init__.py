"""The command line: thin. People's text goes to stderr, `--json` prints one object on stdout, errors exit with 2.

`steelyard --help` prints the table below; a command's module is imported when the command is called. These modules
import at their top only what help texts and tables for people need; what computes is imported in the functions.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.console import FAILED, emit_line, say
from steelyard.errors import SteelyardError

__all__ = ["COMMANDS", "app", "load_command", "main"]


class Command(NamedTuple):
    """Where a command is (a module of this room and a function in it), and its help in one sentence."""

    module: str
    function: str
    sentence: str


# In the order of `steelyard --help`. A sentence is the first line of its function's docstring.
COMMANDS = {
    "check": Command(
        "check",
        "check_project",
        "Look for wrong units, signs, columns, ratios, delays and signals before any fit (exit code 1 if there are).",
    ),
    "consistency": Command(
        "consistency",
        "consistency",
        "Can it exist? Judge a robot's links, or whether a result's base values are possible; exit code 1 if not.",
    ),
    "identify": Command(
        "identify", "identify", "Identify a robot from its project file; writes result.json and report.html."
    ),
    "demo": Command(
        "identify", "demo", "Simulate a robot with known truth, log it, identify it from the log, and compare."
    ),
    "estimators": Command("identify", "estimators", "List the estimators."),
    "warm": Command("identify", "warm", "Compile the kernels once; later runs load them from the cache."),
    "watch": Command(
        "watch",
        "watch_command",
        "Follow a growing log: parameters with error bars as they come, and what changed. Ctrl-C ends it with the "
        "last.",
    ),
    "excite": Command(
        "excite",
        "excite_command",
        "Design a motion that shows the parameters best, within limits that hold between samples too.",
    ),
    "export": Command(
        "export",
        "export_command",
        "Write an identified model as URDF, MJCF, C, Python or a LaTeX table; what does not agree is not written.",
    ),
    "init": Command("init", "init", "Guess what the columns of logs are, say why, and write a commented project file."),
    "payload": Command(
        "payload",
        "payload_command",
        "Weigh an unknown payload with a robot that is already identified: mass, centre of mass, inertia.",
    ),
    "robots": Command("robots", "robots", "List the built-in robots."),
    "params": Command("robots", "params", "Standard and base parameters of a robot, with every regrouping."),
    "twin": Command(
        "twin",
        "twin_command",
        "Identify simulated experiments like the real one, with known truth: bias, coverage, detectable change.",
    ),
    "validate": Command("validation", "validate_logs", "Score a result on other logs, beside the nominal model."),
    "crossvalidate": Command(
        "validation", "crossvalidate", "Score every row of a project by parameters fitted without it."
    ),
    "delays": Command(
        "validation", "delays", "How far each joint's effort lags behind its position, for every log, after friction."
    ),
    "compare": Command(
        "validation",
        "compare_results",
        "Put results side by side; of two, say whether the robot has changed (exit code 1 if it has).",
    ),
}


def load_command(name: str) -> TyperCommand:
    """The command with its options; imports its module."""
    place = COMMANDS[name]
    single = typer.Typer(add_completion=False)
    single.command(name)(getattr(import_module(f"{__name__}.{place.module}"), place.function))
    command = typer.main.get_command(single)
    assert isinstance(command, TyperCommand)
    return command


class _Commands(TyperGroup):
    """Lists the commands from the table and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=one.sentence) for name, one in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # which newer Typers would turn into a silent exit
            raise typer.Abort from stopped


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Steelyard weighs a robot by its own motion: base parameters with honest error bars from logs.",
)


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
