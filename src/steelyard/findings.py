"""Finding: the one currency of checks and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, order=True)
class Finding:
    """Something the user should know: a stable code, where it was seen, and what to do about it."""

    code: str
    severity: Severity
    message: str
    where: str = ""
    fix: str = ""

    def __str__(self) -> str:
        place = f" [{self.where}]" if self.where else ""
        advice = f" → {self.fix}" if self.fix else ""
        return f"{self.severity}: {self.code}{place}: {self.message}{advice}"
