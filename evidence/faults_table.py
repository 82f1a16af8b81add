"""The table of docs/check.md from the results of faults_wide.py: `python evidence/faults_table.py FILE …`.

The files are those of `faults_wide.py --json`, of one robot or several, with or without `identify`; of two results of
the same fault and robot the later file counts. A cell is what `check` says, then what `identify` says.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "evidence" / "faults.toml", ROOT / "docs" / "check.md"
START, END = "<!-- Made by evidence/faults_table.py. Do not edit. -->", "<!-- End of the table of faults. -->"
# A silent fault that raises the error on clean logs by less does not matter.
HARMLESS = 1.1
ASKED = ("named", "warned", "silent", "refused")


def results(files: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """(fault, robot) → line."""
    lines = [json.loads(line) for file in files for line in Path(file).read_text("utf-8").splitlines()]
    out = {(line["fault"], line["robot"]): line for line in lines}
    for line in out.values():
        if line["verdict"] == "refused: not asked for":
            line["identify"] = "not asked"
    return out


def is_silent(line: dict[str, Any], clean: dict[str, Any]) -> bool:
    """Whether neither command says anything of a fault that changes the result."""
    if line["check"] != "silent" or line["identify"] not in ("silent", "not asked"):
        return False
    # without a fit the harm is not known
    return not line["harm"] <= HARMLESS * clean["harm"]


def page(found: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    table = tomllib.loads(TABLE.read_text("utf-8"))
    robots = [name for name in table["six"] if ("clean", name) in found]
    hidden = {(f["name"], r): why for f in table["wide"] for r, why in f.get("hidden", {}).items()}
    tried = [line for key, line in found.items() if key[0] != "clean" and key not in hidden]
    silent = [line for line in tried if is_silent(line, found["clean", line["robot"]])]
    yield f"| fault | {' | '.join(robots)} |"
    yield "|---|" + "---|" * len(robots)
    for fault in table["wide"]:
        if fault["name"] != "clean":
            cells = (_cell(found.get((fault["name"], robot)), (fault["name"], robot) in hidden) for robot in robots)
            yield f"| {fault['what']} | {' | '.join(cells)} |"
    yield ""
    for command in ("check", "identify"):
        counts = Counter(line[command] for line in tried if line[command] in ASKED)
        whole = sum(counts.values())
        if whole:
            told = ", ".join(f"{kind} {counts[kind]}" for kind in ASKED if counts[kind])
            yield f"- `{command}`, {whole} faults that a log can show: {told}."
    share = len(silent) / max(len(tried), 1)
    yield f"- Silent, with another result than that of the clean logs: {len(silent)} of {len(tried)} ({share:.1%})" + (
        ": " + ", ".join(f"{line['fault']} ({line['robot']})" for line in silent) + "." if silent else "."
    )
    other = [
        f"{line['fault']} ({line['robot']}): {', '.join(line['said'])}" for line in tried if line["check"] == "warned"
    ]
    if other:
        yield f"- Only warned, or another cause named, by `check`: {'; '.join(other)}."
    compared = [line for line in tried if "lacking" in line and line["identify"] in ASKED]
    lacking = sorted({code for line in compared for code in line["lacking"]})
    if compared:
        told = ", ".join(lacking) or "none"
        yield f"- Errors of `check` that `identify` did not raise, in {len(compared)} comparisons: {told}."
    told = (f"{robot}: {', '.join(found['clean', robot]['said'])}" for robot in robots if found["clean", robot]["said"])
    yield f"- Errors and warnings on the clean logs: {'; '.join(told) or 'none'}."
    for (fault, robot), why in hidden.items():
        if (fault, robot) in found:
            yield f"- Cannot be shown: {fault} on {robot}: {why}."


def _cell(line: dict[str, Any] | None, hidden: bool) -> str:
    if line is None:
        return "—"
    said = line["check"] if line["identify"] == "not asked" else f"{line['check']} / {line['identify']}"
    return f"({said})" if hidden else said


def main() -> None:
    found = results(sys.argv[1:])
    text = PAGE.read_text("utf-8")
    before, after = text[: text.index(START)], text[text.index(END) :]
    PAGE.write_text(before + "\n".join([START, "", *page(found), ""]) + "\n" + after, "utf-8")


if __name__ == "__main__":
    main()
