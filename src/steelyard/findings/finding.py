"""Finding: something that a user should know, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.findings.registry import Severity, known


@dataclass(frozen=True, order=True, init=False)
class Finding:
    """Something the user should know: a stable code, where it was seen, and what to do about it.

    The code and the severity must be registered (`steelyard.findings.register`), so that a misspelt code is an error
    (`ValueError`) and every code has a meaning and a remedy. Without a `fix` of its own, a finding takes the remedy of
    its code. The check is made where a finding is raised, not where one is read from a file: a result may have been
    written by another version of Steelyard, or with codes that are not registered here.
    """

    code: str
    severity: Severity
    message: str
    where: str = ""
    fix: str = ""

    def __init__(self, code: str, severity: Severity, message: str, where: str = "", fix: str = "") -> None:
        # in __init__, not in __post_init__, which msgspec would call when it reads a finding from a file
        remedy = known(code, severity).remedy.replace("`", "'")
        values = {"code": code, "severity": severity, "message": message, "where": where, "fix": fix or remedy}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        place = f" [{self.where}]" if self.where else ""
        advice = f" → {self.fix}" if self.fix else ""
        return f"{self.severity}: {self.code}{place}: {self.message}{advice}"
