"""The codes of findings: the built-in ones and those that a user registers, each with its meaning and its remedy."""

from __future__ import annotations

from typing import get_args

from steelyard.errors import SteelyardError, choices
from steelyard.findings.codes_data import DATA_CODES
from steelyard.findings.codes_faults import FAULT_CODES
from steelyard.findings.codes_fit import FIT_CODES
from steelyard.findings.codes_result import RESULT_CODES
from steelyard.findings.codes_robot import ROBOT_CODES
from steelyard.findings.codes_statements import STATEMENT_CODES
from steelyard.findings.finding_code import FindingCode, Severity, Stage

__all__ = ["CODES", "FindingCode", "Severity", "Stage", "known", "register", "unregister"]

CODES: dict[str, FindingCode] = {
    entry.code: entry
    for entry in (*ROBOT_CODES, *DATA_CODES, *FAULT_CODES, *FIT_CODES, *STATEMENT_CODES, *RESULT_CODES)
}
_BUILT_IN = frozenset(CODES)


def known(code: str, severity: Severity) -> FindingCode:
    """The entry of a code that may have this severity; anything else is an error of the program that raises it."""
    if code not in CODES:
        raise ValueError(
            choices("finding code", code, CODES) + " Register a code of your own with steelyard.findings.register()."
        )
    entry = CODES[code]
    if severity not in entry.severities:
        raise ValueError(f"Finding '{code}' has the severity {' or '.join(entry.severities)}, not '{severity}'.")
    return entry


def register(
    code: str, *severities: Severity, meaning: str, remedy: str = "", stage: Stage = "fit", room: str = "user"
) -> FindingCode:
    """Make a code known, so that a term, an estimator or a check of your own can raise a `Finding` with it.

    `meaning` and `remedy` are one sentence each; the remedy is shown with each finding that has no fix of its own. A
    code may be registered again, which replaces its entry, but not a built-in one.
    """
    who = f"Finding code '{code}' cannot be registered"
    if not (isinstance(code, str) and code and not any(map(str.isspace, code))):
        raise SteelyardError(f"Finding code {code!r} cannot be registered: it must be one word, as 'low-battery'.")
    if code in _BUILT_IN:
        raise SteelyardError(f"{who}: it is built in. Choose another name.")
    if not severities:
        raise SteelyardError(f"{who}: give at least one severity: {', '.join(get_args(Severity))}.")
    for severity in severities:
        if severity not in get_args(Severity):
            raise SteelyardError(f"{who}: {choices('severity', severity, get_args(Severity))}")
    if stage not in get_args(Stage):
        raise SteelyardError(f"{who}: {choices('stage', stage, get_args(Stage))}")
    if not (isinstance(meaning, str) and meaning.strip()):
        raise SteelyardError(f"{who}: give its meaning in one sentence (meaning=…).")
    if not isinstance(remedy, str):
        raise SteelyardError(f"{who}: `remedy` must be a text; leave it out if no action is needed.")
    entry = FindingCode(code, stage, severities, (room,), meaning, remedy)
    CODES[code] = entry
    return entry


def unregister(code: str) -> None:
    """Remove a code that was registered."""
    if code in _BUILT_IN:
        raise SteelyardError(f"Finding code '{code}' is built in and cannot be removed.")
    if code not in CODES:
        raise SteelyardError(choices("finding code", code, CODES))
    del CODES[code]
