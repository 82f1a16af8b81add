"""The sections of the report by name, in the order of the page: the built-in ones and those that a user registers."""

from __future__ import annotations

import re
from typing import Any

from steelyard.errors import OutputError, choices
from steelyard.report.section import Section
from steelyard.report.sections.bodies import BODIES, PAYLOADS
from steelyard.report.sections.data import DATA, PROVENANCE, REPEAT
from steelyard.report.sections.estimators import ESTIMATORS
from steelyard.report.sections.files import FILES
from steelyard.report.sections.findings import FINDINGS
from steelyard.report.sections.fit import EFFORT, ERRORS
from steelyard.report.sections.parameters import GAINS, LEGS, PARAMETERS, SEPARATION, STANDARD
from steelyard.report.sections.robot import FRICTION, ROBOT

SECTIONS: dict[str, Section] = {
    section.name: section
    for section in (
        FINDINGS, EFFORT, ERRORS, ROBOT, FRICTION, GAINS, PAYLOADS, PARAMETERS, SEPARATION, STANDARD, BODIES, LEGS,
        FILES, DATA, ESTIMATORS, REPEAT, PROVENANCE,
    )
}  # fmt: skip
BUILT_IN = frozenset(SECTIONS)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


def register(section: Section, before: str | None = None) -> Section:
    """Add a section to every report that is written from now on, `before` another one or at the end.

    A name may be registered again, which replaces the section, but not that of a built-in section. Returns the section.
    """
    _check_contract(section)
    if section.name in BUILT_IN:
        raise OutputError(f"Report section '{section.name}' is built in: give yours another name.")
    if before is not None and before not in SECTIONS:
        raise OutputError(choices("report section", before, SECTIONS))
    others = [own for name, own in SECTIONS.items() if name != section.name]
    place = next((k for k, own in enumerate(others) if own.name == before), len(others))
    SECTIONS.clear()
    SECTIONS.update({own.name: own for own in (*others[:place], section, *others[place:])})
    return section


def unregister(name: str) -> None:
    """Remove a section that was registered."""
    if name in BUILT_IN:
        raise OutputError(f"Report section '{name}' is built in and cannot be removed.")
    if name not in SECTIONS:
        raise OutputError(choices("report section", name, SECTIONS))
    del SECTIONS[name]


def _check_contract(section: Any) -> None:
    """Refuse an object that is not a valid section, and say what is wrong."""
    if not isinstance(section, Section):
        raise OutputError(f"{section!r} is not a report section: register a `steelyard.report.Section`.")
    if not (isinstance(section.name, str) and _NAME.fullmatch(section.name)):
        raise OutputError(
            f"A report section cannot be called {section.name!r}: use lower-case letters, digits and hyphens."
        )
    if not section.title or not callable(section.pieces):
        raise OutputError(f"Report section '{section.name}' needs a title and a function `pieces(subject)`.")
