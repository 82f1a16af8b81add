"""Figures that README and docs quote: measured once, kept in docs/figures.json, filled into marked places.

    python evidence/quoted.py                            measure (about four minutes), keep, fill   (make figures)
    python evidence/quoted.py --fill                     fill the pages from docs/figures.json alone
    python evidence/quoted.py --accuracy A --evidence E  keep the outputs of accuracy.py --json, run.py --quick --json

A place is text between `<!-- figures: NAME -->` and `<!-- end figures -->`, in a line or over several. What it holds is
rendered from the data: edit the data or the renderer here, never the place. `tests/test_docs.py` compares them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "figures.json"
SCHEMA = "steelyard.figures/1"
PLACE = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->)(?P<held>.*?)(<!-- end figures -->)", re.DOTALL)


class Quoted(NamedTuple):
    """A figure of a claim of `evidence/run.py`: part, how the claim begins, which of its figures, how it is shown."""

    part: str
    claim: str
    figure: int
    shown: str


# Only claims that `--quick` measures in full: real recordings, not counts of simulated experiments.
CLAIMS = {
    "tx40-fitted": Quoted("real", "tx40, real log, wls", 0, "{:.2f} %"),
    "tx40-nominal": Quoted("real", "tx40, real log, wls", 1, "{:.1f} %"),
    "ur10e-fitted": Quoted("real", "ur10e, real log, wls", 0, "{:.2f} %"),
    "ur10e-nominal": Quoted("real", "ur10e, real log, wls", 1, "{:.1f} %"),
    "panda-fitted": Quoted("real", "panda, real log, wls", 0, "{:.2f} %"),
    "panda-nominal": Quoted("real", "panda, real log, wls", 1, "{:.1f} %"),
    "cobot6-fitted": Quoted("real", "cobot6, real log, wls", 0, "{:.2f} %"),
    "kr300-unseen-wls": Quoted("transfer", "kr300 fitted on A, scored on B, wls", 0, "{:.1f} %"),
    "kr300-unseen-map": Quoted("transfer", "kr300 fitted on A, scored on B, map", 0, "{:.1f} %"),
    "ur10e-left-out": Quoted("transfer", "ur10e, leave one of 11 runs out, wls", 0, "{:.2f} %"),
}
# Rows of the table of real robots: the case of `evidence/accuracy.py`, its label, and what is left out.
ROBOTS = {
    "ur10e": ("UR10e, currents, 11 runs of seven days", "a run"),
    "tx40": ("Stäubli TX-40, coupled wrist, 6 s", "a twelfth"),
    "kr300": ("KUKA KR300, runs A and B, `map`", "a twelfth"),
    "kr300 forward": ("KUKA KR300, fitted on A, `map`", "run B"),
    "cobot6": ("a six-axis cobot, two runs", "a twelfth"),
    "panda": ("Franka Panda, joint torque sensors, 14 s", "a twelfth"),
}


def real_robots(data: Mapping[str, Any]) -> str:
    """Table: relative error on rows left out, with plain terms, the default set and selected terms; raw in brackets."""
    rows = [
        "| robot | rows | left out | plain | default | selected |",
        "|---|---|---|---|---|---|",
    ]
    cases = {case["robot"]: case for case in data["accuracy"]}
    for key, (label, left_out) in ROBOTS.items():
        case = cases[key.removesuffix(" forward")]
        forward = key.endswith(" forward")
        plain, default = case["forward"] if forward else (case["base"], case["default"])
        motions = f"refused: {case['motions']} motion{'' if case['motions'] == 1 else 's'}"
        selected = "" if forward else _error(case["selected"]) if case["selected"] else motions
        cells = (label, str(default[2]), left_out, _error(plain), _error(default), selected)
        rows.append("| " + " | ".join(cells).rstrip() + " |")
    return "\n" + "\n".join(rows) + "\n"


def _error(triple: list[float]) -> str:
    """Filtered and raw relative error."""
    return f"{100.0 * triple[0]:.2f} % ({100.0 * triple[1]:.2f} %)"


def claim(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda data: CLAIMS[name].shown.format(100.0 * data["claims"][name])


RENDERERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "real-robots": real_robots,
    **{name: claim(name) for name in CLAIMS},
}


def kept(accuracy: list[dict[str, Any]], evidence: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of the two measurements."""
    claims: dict[str, float] = {}
    for name, quoted in CLAIMS.items():
        found = [
            one["figures"][quoted.figure]
            for one in evidence["claims"]
            if one["part"] == quoted.part and one["claim"].startswith(quoted.claim)
        ]
        if len(found) != 1:
            sys.exit(f"{name}: {len(found)} claims of '{quoted.part}' begin with '{quoted.claim}'; correct CLAIMS.")
        claims[name] = found[0]
    cases = [{key: value for key, value in case.items() if key != "rules"} for case in accuracy]
    return {"schema": SCHEMA, "accuracy": cases, "claims": claims}


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield ROOT / "examples" / "real" / "README.md"
    yield from sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)


def filled(text: str, data: Mapping[str, Any]) -> str:
    """A page with what its places are to hold."""

    def fill(match: re.Match[str]) -> str:
        if match["name"] not in RENDERERS:
            sys.exit(f"No figures are called '{match['name']}'. There are: {', '.join(RENDERERS)}.")
        return f"{match[1]}{RENDERERS[match['name']](data)}{match[4]}"

    return PLACE.sub(fill, text)


def _measured(*command: str) -> Any:
    print("$", *command, file=sys.stderr)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if not done.stdout:
        sys.exit(f"{command[0]} gave no figures (exit code {done.returncode}).")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", action="store_true", help="measure nothing")
    parser.add_argument("--accuracy", type=Path, help="output of `evidence/accuracy.py --json`")
    parser.add_argument("--evidence", type=Path, help="output of `evidence/run.py --quick --json`")
    options = parser.parse_args()
    if not options.fill:
        accuracy, evidence = (
            json.loads(given.read_text("utf-8")) if given else _measured(*command)
            for given, command in (
                (options.accuracy, ("evidence/accuracy.py", "--json")),
                (options.evidence, ("evidence/run.py", "--quick", "--json")),
            )
        )
        DATA.write_text(json.dumps(kept(accuracy, evidence), indent=1, ensure_ascii=False) + "\n", "utf-8")
    data = json.loads(DATA.read_text("utf-8"))
    for page in pages():
        text = page.read_text("utf-8")
        new = filled(text, data)
        if new != text:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)} has other figures now", file=sys.stderr)


if __name__ == "__main__":
    main()
