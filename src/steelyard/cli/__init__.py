"""The command line. Text for people goes to stderr; `--json` prints one object on stdout.

`door/commands.py` lists the commands; a command's module is imported when the command is called. These modules import
at their top only what help texts and tables need; what computes is imported in the functions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.console import emit_line, say
from steelyard.cli.door.commands import COMMANDS, Command, all_commands, is_plug_in, register, unregister
from steelyard.cli.door.defect import write_report
from steelyard.cli.door.exit_codes import DoneInPartError, ExitCode, PlugInError, exit_code
from steelyard.cli.door.streams import flush_stdout, safe_streams, silence
from steelyard.errors import OutputError, SteelyardError

# What Typer returns after Ctrl-C outside a command.
_INTERRUPTED = 130

__all__ = ["COMMANDS", "Command", "ExitCode", "app", "load_command", "main", "register", "unregister"]


def load_command(name: str) -> TyperCommand:
    """The command with its options; imports its module."""
    return all_commands()[name].load()


class _Commands(TyperGroup):
    """Lists the commands from their table and imports only the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: command.listed for name, command in all_commands().items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with _until_the_reader_leaves():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _until_the_reader_leaves():
                returned = super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # which newer Typers would turn into a silent exit
            raise typer.Abort from stopped
        except typer.Exit as stop:
            returned = stop.exit_code
        except SystemExit as stop:  # of a user's command
            returned = stop.code
        return exit_code(ctx.invoked_subcommand, returned)


@contextmanager
def _until_the_reader_leaves() -> Iterator[None]:
    """Ends with code 0 when the reader closed the pipe (`| head`), which Typer and Rich would turn into code 1."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        silence(sys.stdout)
        raise typer.Exit(ExitCode.DONE) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # not "rich", which takes units in brackets for markup
    rich_markup_mode="markdown",
    help="Identify the dynamics of a robot from its logs: masses, inertias and friction, with error bars.",
    epilog=f"Exit codes: {'; '.join(f'{code:d} {code.words}' for code in ExitCode)}.",
)


@safe_streams()
def main() -> None:
    """Entry point: every end has a code of `ExitCode`, and every failure prints one sentence."""
    try:
        # outside standalone mode an Exit raised by a command comes back as its code
        code = app(standalone_mode=False, prog_name="steelyard")
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        flush_stdout()
        sys.exit(code)
    except SteelyardError as error:
        _fail(str(error), ExitCode.PARTIAL if isinstance(error, DoneInPartError) else ExitCode.REFUSED)
    except (typer.Abort, KeyboardInterrupt):
        _fail("Stopped by the user; no incomplete file was left.")
    except MemoryError:
        _fail("Out of memory. Check rate_hz and the filters: they may ask for too many samples.")
    except OSError as error:
        _fail(f"The operating system reports: {error}.")
    except PlugInError as error:
        _fail_by_plug_in(error)
    except Exception as error:
        # usage errors of click carry a message for people; anything else is a defect
        if not hasattr(error, "format_message"):
            _fail_by_defect(error)
        message = error.format_message()  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        # without a command the help was shown and there is nothing to add
        if not message:
            sys.exit(ExitCode.REFUSED)
        command = context.command_path if context else "steelyard"
        # an error of the parser carries the context of `steelyard`, not that of the command
        if command == "steelyard" and len(sys.argv) > 1 and sys.argv[1] in all_commands():
            command = f"steelyard {sys.argv[1]}"
        _fail(f"{message if message.endswith('?') else message.rstrip('.') + '.'} See: {command} --help")


def _fail_by_plug_in(error: PlugInError) -> NoReturn:
    cause = error.__cause__
    if cause is None:
        _fail(f"{error}.", ExitCode.DEFECT)
    report = write_report(cause, sys.argv[1:])
    place = f" The report '{report}' shows where." if report else ""
    _fail(f"{error}: {_spoken(cause)}.{place}", ExitCode.DEFECT)


def _spoken(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(":").removesuffix(".")


def _fail_by_defect(error: Exception) -> NoReturn:
    report = write_report(error, sys.argv[1:])
    what = _spoken(error)
    attach = f"attach '{report}'" if report else "attach the command and its output"
    # `steelyard` itself has no option that takes a value
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if is_plug_in(command):
        _fail(
            f"The command '{command}' (a plug-in) failed: {what}. Please report it to its author and {attach}.",
            ExitCode.DEFECT,
        )
    _fail(f"This is a defect of Steelyard ({what}). Please report it and {attach}.", ExitCode.DEFECT)


def _fail(message: str, code: ExitCode = ExitCode.REFUSED) -> NoReturn:
    if "--json" in sys.argv:
        try:
            emit_line({"schema": "steelyard.error/1", "error": message, "code": code})
        except (OSError, OutputError):  # the message still goes to stderr, and the code stays
            silence(sys.stdout)
    say(f"error: {message}", "red")
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("steelyard"))
        raise typer.Exit


@app.callback()
def options(
    wants_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of `steelyard` itself."""
