"""The exit codes: one table for all commands."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import typer

from steelyard.errors import SteelyardError
from steelyard.findings import Finding


class ExitCode(IntEnum):
    """What a command reports to the shell; `meaning` is the sentence for people."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "Done."
    JUDGED = (
        1,
        "Negative verdict: done, and found a fault, a change, a robot that is not physical or a large error.",
    )
    REFUSED = 2, "Cannot be done: the message says what to do. Also after Ctrl-C. No incomplete file is left."
    DEFECT = 3, "A defect of Steelyard or of a plug-in: the message names a report to attach."
    PARTIAL = (
        4,
        "Done in part: files were written; a finding of severity *error* or a message says what is missing.",
    )

    @property
    def words(self) -> str:
        """The meaning in a few words."""
        few = self.meaning.partition(":")[0].rstrip(".")
        return few[0].lower() + few[1:]


class DoneInPartError(SteelyardError):
    """Raised by a command that completed only a part of its work and printed or wrote it; the message says what is
    missing."""


class PlugInError(Exception):
    """A fault of a user's own command or export target; its cause is what it raised."""


def exit_code(command: str | None, returned: object) -> ExitCode:
    """The exit code for what a command returned; an error for what is not one."""
    if returned is None:
        return ExitCode.DONE
    if isinstance(returned, int) and not isinstance(returned, bool) and returned in {*ExitCode}:
        return ExitCode(returned)
    valid = ", ".join(str(int(code)) for code in ExitCode)
    raise PlugInError(f"Command '{command}' returned {returned!r}, not an exit code: return None or one of {valid}")


def exit_if_errors(findings: Iterable[Finding]) -> None:
    """End the command with `PARTIAL` if a finding is of severity error."""
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(ExitCode.PARTIAL)
