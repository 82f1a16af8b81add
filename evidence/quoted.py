"""Figures that README and docs quote: measured once, kept in docs/figures.json, filled into marked places.

    python evidence/quoted.py                            measure (about ten minutes), keep, fill    (make figures)
    python evidence/quoted.py --fill                     fill the pages from docs/figures.json alone
    python evidence/quoted.py --accuracy A --evidence E  keep the outputs of accuracy.py --json, run.py --quick --json
    python evidence/quoted.py --generalise G H …         keep the outputs of generalise.py --json, and nothing else
    python evidence/quoted.py --defaults A B …           keep those of accuracy.py --part defaults --json, a robot each

`make generalise` takes half an hour, so its figures are kept until others are given.

A place is text between `<!-- figures: NAME -->` and `<!-- end figures -->`, in a line or over several. What it holds is
rendered from the data: edit the data or the renderer here, never the place. `tests/test_docs.py` compares them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "figures.json"
SCHEMA = "steelyard.figures/2"
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


def defaults_compared(data: Mapping[str, Any]) -> str:
    """Table: present and former defaults, RMSE and relative error in one band and on the raw effort."""
    rows = ["| robot | effort | defaults | fitted | guarded | unseen |", "|---|---|---|---|---|---|"]
    for line in data["defaults"]:
        for scale in ("band", "raw"):
            effort = f"below {line['band_hz']:g} Hz" if scale == "band" else "raw"
            for rule in ("former", "present"):
                cells = [_both(line[rule][kind][scale]) for kind in ("fitted", "guarded", "unseen")]
                rows.append("| " + " | ".join((line["robot"], effort, rule, *cells)) + " |")
    return "\n" + "\n".join(rows) + "\n"


def worse_than_before(data: Mapping[str, Any]) -> str:
    """List: where the present defaults are worse than the former ones by more than they may be."""
    lines = [f"- {line['robot']}, {text}" for line in data["defaults"] for text in line["worse"]]
    return "\n" + "\n".join(lines or ["- nowhere"]) + "\n"


def by_hand(data: Mapping[str, Any]) -> str:
    """Table: a transfer with nothing set, and with an estimator stated."""
    names = list(data["by_hand"][0]["errors"])
    rows = ["| transfer | effort | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 2)]
    for line in data["by_hand"]:
        for scale in ("band", "raw"):
            effort = f"below {line['band_hz']:g} Hz" if scale == "band" else "raw"
            cells = [_both(line["errors"][name][scale]) for name in names]
            rows.append("| " + " | ".join((line["label"], effort, *cells)) + " |")
    return "\n" + "\n".join(rows) + "\n"


def promises(data: Mapping[str, Any]) -> str:
    """Sentence: actual over promised error of left-out runs."""
    kept = [line["actual"] / line["promised"] for line in data["promises"]]
    within = sum(0.6 <= x <= 1.4 for x in kept)
    return f"{min(kept):.2f} to {max(kept):.2f}, {within} of {len(kept)} between 0.6 and 1.4"


def settling(data: Mapping[str, Any]) -> str:
    taken = data["settling"]
    return f"{taken['present'] / taken['fit']:.1f} times (former rules: {taken['former'] / taken['fit']:.1f} times)"


NAMES = {
    "default_wls": "defaults with wls",
    "default ": "defaults ",
    "known_delay": "defaults with the true delay",
    "other_measure": "filters that are best by the other measure",
}


def generalise(data: Mapping[str, Any]) -> str:
    """Table: ratios to the oracles."""
    rows = ["| cases | measure | ratio | within 1.1 | median | largest |", "|---|---|---|---|---|---|"]
    for seed in data["generalise"]:
        for name, figures in seed["summary"].items():
            kind, measure = name.split()
            cases = f"{seed['real']} transfers, real" if kind == "real" else f"{seed['simulated']}, seed {seed['seed']}"
            for which, one in figures.items():
                ratio = which
                for name_of, told in NAMES.items():
                    ratio = ratio.replace(name_of, told)
                numbers = f"{100.0 * one['near']:.0f} %", f"{one['median']:.2f}", f"{one['largest']:.2f}"
                rows.append("| " + " | ".join((cases, measure, ratio, *numbers)) + " |")
    return "\n" + "\n".join(rows) + "\n"


def generalise_promises(data: Mapping[str, Any]) -> str:
    """Sentence: shares of cases in which the promised error was kept."""
    shares = [f"{100.0 * seed['promise']['share']:.0f} % (seed {seed['seed']})" for seed in data["generalise"]]
    return " and ".join(shares)


def constants(data: Mapping[str, Any]) -> str:
    """Table: constants of the rules, with a robot left out."""
    lines = next((seed["constants"] for seed in data["generalise"] if seed["constants"]), [])
    rows = ["| " + " | ".join(lines[0]) + " |", "|" + "---|" * len(lines[0])] if lines else []
    rows += ["| " + " | ".join(line.values()) + " |" for line in lines]
    return "\n" + "\n".join(rows) + "\n"


def zoo(data: Mapping[str, Any]) -> str:
    """Table of `zoo.py`: the robot files of two collections, how many are read, and why others are not."""
    rows = [
        "| format | files | count | read | largest torque difference | largest robot | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, own in data["zoo"].items():
        refused = ", ".join(f"{count} {label}" for label, count in own["refused"].items()) or "none"
        rows.append(
            f"| {kind} | {own['files']} | {own['count']} | {own['read']} | {own['torque']:.0e} of the largest | "
            f"{own['joints']} axes | {refused} |"
        )
    return "\n" + "\n".join(rows) + "\n"


def _both(error: Mapping[str, Any]) -> str:
    """RMSE and relative error."""
    return f"{error['rmse']:.3g} N·m ({100.0 * error['relative']:.2f} %)"


def claim(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda data: CLAIMS[name].shown.format(100.0 * data["claims"][name])


RENDERERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "real-robots": real_robots,
    "defaults-compared": defaults_compared,
    "worse-than-before": worse_than_before,
    "by-hand": by_hand,
    "promises": promises,
    "settling": settling,
    "generalise": generalise,
    "generalise-promises": generalise_promises,
    "constants": constants,
    "zoo": zoo,
    **{name: claim(name) for name in CLAIMS},
}


def kept(accuracy: Mapping[str, Any], evidence: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of accuracy.py and run.py."""
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
    cases = [{key: value for key, value in case.items() if key != "rules"} for case in accuracy["terms"]]
    others = {key: _totals(accuracy[key]) for key in ("defaults", "by_hand", "promises", "settling")}
    return {"schema": SCHEMA, "accuracy": cases, "claims": claims} | others


def _totals(data: Any) -> Any:
    """Nested figures without those of single joints, which no page quotes."""
    if isinstance(data, Mapping):
        return {key: _totals(value) for key, value in data.items() if key not in ("joints", "rows")}
    return [_totals(value) for value in data] if isinstance(data, list) else data


def kept_of_seed(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of generalise.py."""
    from constants import LeftOut  # only where the figures are measured

    real = sum(case["real"] for case in document["cases"])
    return {
        "seed": document["seed"],
        "real": real,
        "simulated": len(document["cases"]) - real,
        "summary": document["summary"],
        "promise": document["promise"],
        "constants": [LeftOut(**one).summary() for one in document["constants"]],
    }


def kept_constants(lines: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The figures of those constants that still exist with the same value, where no new ones were measured."""
    from constants import CONSTANTS, shown

    values = {one.label: shown(one.value) for one in CONSTANTS}
    return [line for line in lines if values.get(line["constant"]) == line["value"]]


def merged_defaults(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is kept of accuracy.py --part defaults, from one output or from one per robot."""
    order = list(ROBOTS)
    lines = sorted((line for one in documents for line in one["defaults"]), key=lambda line: order.index(line["robot"]))
    others = {name: next((one[name] for one in documents if one[name]), []) for name in ("by_hand", "promises")}
    settled = next(one["settling"] for one in documents if one["settling"])
    return {name: _totals(value) for name, value in ({"defaults": lines, "settling": settled} | others).items()}


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


def _keep(data: Mapping[str, Any]) -> None:
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")


def keep(name: str, figures: Mapping[str, Any]) -> None:
    """Replace the figures of one measurement and fill the pages."""
    _keep(json.loads(DATA.read_text("utf-8")) | {name: figures})
    fill_pages()


def fill_pages() -> None:
    data = json.loads(DATA.read_text("utf-8"))
    for page in pages():
        text = page.read_text("utf-8")
        new = filled(text, data)
        if new != text:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)} has other figures now", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", action="store_true", help="measure nothing")
    parser.add_argument("--accuracy", type=Path, help="output of `evidence/accuracy.py --json`")
    parser.add_argument("--evidence", type=Path, help="output of `evidence/run.py --quick --json`")
    parser.add_argument("--generalise", type=Path, nargs="+", help="outputs of `evidence/generalise.py --json`")
    parser.add_argument("--defaults", type=Path, nargs="+", help="outputs of `accuracy.py --part defaults --json`")
    options = parser.parse_args()
    before = json.loads(DATA.read_text("utf-8"))
    if options.generalise:
        found = [kept_of_seed(json.loads(path.read_text("utf-8"))) for path in options.generalise]
        if not any(seed["constants"] for seed in found):
            known = next((seed["constants"] for seed in before["generalise"] if seed["constants"]), [])
            found[0]["constants"] = kept_constants(known)
        _keep(before | {"generalise": found})
    elif options.defaults:
        _keep(before | merged_defaults([json.loads(path.read_text("utf-8")) for path in options.defaults]))
    elif not options.fill:
        accuracy, evidence = (
            json.loads(given.read_text("utf-8")) if given else _measured(*command)
            for given, command in (
                (options.accuracy, ("evidence/accuracy.py", "--json")),
                (options.evidence, ("evidence/run.py", "--quick", "--json")),
            )
        )
        _keep(before | kept(accuracy, evidence))
    fill_pages()


if __name__ == "__main__":
    main()
