"""FindingCode: the entry of one code in the table of findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]
# Where in the work a finding appears: the sections of docs/findings.md.
Stage = Literal[
    "robot", "log", "check", "settings", "fit", "payload", "physical", "validation", "design", "online", "export"
]


@dataclass(frozen=True)
class FindingCode:
    """What a code means and what to do about it, each in one sentence: lower case, no full stop, names in backticks.

    `severities` are those its findings may have, `rooms` the packages that raise them, `page` the page of the
    documentation with more. An empty remedy means that no action is needed.
    """

    code: str
    stage: Stage
    severities: tuple[Severity, ...]
    rooms: tuple[str, ...]
    meaning: str
    remedy: str
    page: str = ""
