"""docs/findings.md, made from the table of codes: `python -m steelyard.findings > docs/findings.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from steelyard.findings.finding_code import FindingCode, Stage

_HEADINGS: dict[Stage, str] = {
    "robot": "Robot",
    "log": "Log",
    "check": "Check",
    "settings": "Automatic settings",
    "fit": "Fit",
    "payload": "Payload",
    "physical": "Physical consistency",
    "validation": "Validation",
    "design": "Designed motion",
    "online": "Running robot",
    "export": "Export",
}
_TOP = """\
<!-- Made from src/steelyard/findings by `python -m steelyard.findings > docs/findings.md`. Do not edit. -->

# Findings

A finding has a stable code, a severity, the place it refers to, a message with the numbers, and a fix. The commands
print it, the report lists it, and `--json` and `result.json` contain it. Where a message has no fix of its own, the
remedy of this page is shown.

- **error**: the data or the result is not usable as it is. The command still writes its files, and its exit
  code is not 0.
- **warning**: the result is usable with care.
- **info**: a decision or a property of the result, for information.

An estimator or a program of your own registers its codes before it uses them:

```python
from steelyard.findings import Finding, register

register("low-battery", "warning", stage="log", meaning="the supply voltage is low", remedy="charge the battery")
print(Finding("low-battery", "warning", "the voltage falls to 21.3 V", "monday.csv"))
```

```text
warning: low-battery [monday.csv]: the voltage falls to 21.3 V → charge the battery
```

`stage` is one of STAGES. It is the step of the work where the finding appears.

A finding reaches the result in one of these ways:

- an estimator returns it in its `Estimate`, e.g. `return solve(…).with_findings([finding])`;
- a program adds it to a result: `result.with_findings([finding])`.

Codes that were renamed are on the page [Migration](migration.md).
"""


def page(codes: Iterable[FindingCode]) -> str:
    """The page in Markdown: one table per stage, in the order of the work."""
    stages = ", ".join(f"`{stage}`" for stage in get_args(Stage))
    return _TOP.replace("STAGES", stages) + "".join(_tables(tuple(codes)))


def _tables(codes: tuple[FindingCode, ...]) -> Iterator[str]:
    for stage in get_args(Stage):
        rows = [_row(entry) for entry in codes if entry.stage == stage]
        if rows:
            yield f"\n({stage}-findings)=\n## {_HEADINGS[stage]}\n\n"
            yield "| code | severity | meaning | remedy | raised by |\n|---|---|---|---|---|\n"
            yield from rows


def _row(entry: FindingCode) -> str:
    more = f" ([more]({entry.page}))" if entry.page else ""
    rooms = ", ".join(f"`{room}`" for room in entry.rooms)
    meaning, remedy = _sentence(entry.meaning), _sentence(entry.remedy) if entry.remedy else "No action needed."
    return f"| `{entry.code}` | {', '.join(entry.severities)} | {meaning}{more} | {remedy} | {rooms} |\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
