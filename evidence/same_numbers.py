"""Compare two JSON files of results number by number, for a refactoring that must not change the results.

    python evidence/run.py --json > before.json            # likewise accuracy.py --json, or a result.json
    …                                                      # change the code
    python evidence/run.py --json > after.json
    python evidence/same_numbers.py before.json after.json

Numbers a and b are the same if |a − b| ≤ tolerance · max(|a|, |b|, floor); every other value must be equal. Missing
keys and longer lists are failures; new keys are reported. --ignore KEY skips a key at every level, in addition to those
of IGNORED. Claims are matched by name, in any order; timed claims must be present, but their values may differ. The
text of a claim may round its figures in any way. Of two folders, every *.json file is compared. Exit code 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

# Values that depend on the machine: absolute paths of logs, the path from a result to its project, package versions.
IGNORED = ("source", "project_folder", "versions")
# Maximum number of lines shown per kind; all are counted.
SHOWN = 20
INDEX = re.compile(r"\[\d+\]")
NUMBER = re.compile(r"[+-]?\b\d+(\.\d+)?(e[+-]?\d+)?|[+-]?\b(nan|inf)\b")


class Seen(NamedTuple):
    """Two numbers that were compared, other values that differ, or a path that one side lacks."""

    kind: Literal["number", "value", "missing", "added"]
    path: str
    before: Any = None
    after: Any = None
    relative: float = 0.0


class Rule(NamedTuple):
    """Relative differences are to the larger number, or to `floor` if both are smaller."""

    tolerance: float
    floor: float
    ignored: frozenset[str]

    def relative(self, a: float, b: float) -> float:
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.inf
        return abs(a - b) / max(abs(a), abs(b), self.floor)

    def broken(self, seen: Seen) -> bool:
        return seen.relative > self.tolerance if seen.kind == "number" else seen.kind != "added"


# --- Comparing --------------------------------------------------------------------------------------------------------


def compared(before: Any, after: Any, rule: Rule, path: str = "") -> Iterator[Seen]:
    if _is_number(before) and _is_number(after):
        yield Seen("number", path, before, after, rule.relative(before, after))
    elif isinstance(before, (dict, list)) and type(before) is type(after):
        yield from matched(members(before, rule), members(after, rule), rule, path)
    elif type(before) is not type(after) or before != after:
        yield Seen("value", path, before, after)


def matched(old: dict[str, Any], new: dict[str, Any], rule: Rule, path: str = "") -> Iterator[Seen]:
    for step, value in old.items():
        if step in new:
            yield from compared(value, new[step], rule, path + step)
        else:
            yield Seen("missing", path + step)
    # a key of an object or a claim may be new; a plain list that has grown holds other results
    for step in (step for step in new if step not in old):
        yield Seen("value" if INDEX.fullmatch(step) else "added", path + step, None, new[step])


def members(value: dict | list, rule: Rule) -> dict[str, Any]:
    """What an object or a list holds, by the step that leads there: claims by part and name, other items by number."""
    if isinstance(value, dict):
        return {f".{key}": x for key, x in comparable(value).items() if key not in rule.ignored}
    if not all(_is_claim(x) for x in value):
        return {f"[{k}]": x for k, x in enumerate(value)}
    out, times = {}, Counter()
    for x in value:
        name = f"[{x.get('part', '')}: {x['claim'].strip()}]"
        times[name] += 1
        out[name if times[name] == 1 else f"{name}#{times[name]}"] = x
    return out


def comparable(value: dict[str, Any]) -> dict[str, Any]:
    """A claim without values that differ from run to run, and without numbers that its figures hold exactly."""
    if not _is_claim(value):
        return value
    if value["timed"]:
        return {key: x for key, x in value.items() if key not in ("figures", "measured")}
    if value["figures"]:
        # the text around the numbers is compared too: which parameter is the worst, "not certified"
        return value | {"measured": NUMBER.sub("#", value["measured"])}
    return value


def _is_claim(value: object) -> bool:
    return isinstance(value, dict) and {"claim", "measured", "figures", "timed"} <= value.keys()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --- Files ------------------------------------------------------------------------------------------------------------


def opened(path: Path) -> dict[str, Any]:
    """Every JSON document at a path by the name it goes by in the report; a file alone needs none."""
    if path.is_file():
        return {"": json.loads(path.read_text("utf-8"))}
    files = sorted(path.rglob("*.json"))
    if not files:
        raise FileNotFoundError(f"{path}: no such file, and no folder with *.json in it")
    return {file.relative_to(path).as_posix(): json.loads(file.read_text("utf-8")) for file in files}


def compared_files(before: Path, after: Path, rule: Rule) -> Iterator[Seen]:
    if before.is_dir() != after.is_dir():
        raise FileNotFoundError(f"{before} and {after}: give two files or two folders")
    yield from matched(opened(before), opened(after), rule)


# --- Report -----------------------------------------------------------------------------------------------------------


def report(every: Sequence[Seen], rule: Rule) -> None:
    numbers = [x for x in every if x.kind == "number"]
    values = [x for x in every if x.kind == "value"]
    worst = max((x.relative for x in numbers), default=0.0)
    _listed("missing", [x.path for x in every if x.kind == "missing"])
    _listed("added", [x.path for x in every if x.kind == "added"])
    _listed("values that differ", [f"{x.path}: {x.before!r} → {x.after!r}" for x in values])
    off = sorted((x for x in numbers if rule.broken(x)), key=lambda x: -x.relative)
    _listed("numbers that differ", [f"{x.path}: {x.before!r} → {x.after!r} ({x.relative:.1e})" for x in off])
    print(f"{len(numbers)} numbers compared, largest relative difference {worst:.1e}")


def _listed(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"{title}: {len(lines)}")
        print("\n".join(f"  {line}" for line in lines[:SHOWN]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    parser.add_argument("--floor", type=float, default=1e-3)
    parser.add_argument("--ignore", metavar="KEY", nargs="+", action="extend", default=[])
    chosen = parser.parse_args()
    rule = Rule(chosen.tolerance, chosen.floor, frozenset((*IGNORED, *chosen.ignore)))
    try:
        every = list(compared_files(chosen.before, chosen.after, rule))
    except (OSError, json.JSONDecodeError) as error:
        parser.error(str(error))
    report(every, rule)
    sys.exit(1 if any(rule.broken(seen) for seen in every) else 0)


if __name__ == "__main__":
    main()
