"""Plain words: no word or phrase of a list that readers stumble over, in anything that users and developers read.

Covered are README, CONTRIBUTING and docs, and all docstrings, comments and texts of the package: errors, findings, and
the help of commands. The templates and the script of the report are covered too. Quoted code is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "steelyard"
TEMPLATES = sorted(path for path in (PACKAGE / "report").iterdir() if path.suffix in (".html", ".js"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})

# "one a joint", "0.3 µs a sample": a count or quantity, then the unit that it is per.
_COUNTED = (
    r"one|two|three|four|five|six|ten|twenty|times|rows|samples|columns|lines|files|blocks|steps|values|numbers|"
    r"parameters|bytes|seconds|minutes|points|terms|calls|motors|names|words|passes|tables|factors|entries|σ|"
    r"an? (?:row|column|line|file|value|number|name|term|pass|call|step|entry|motor|factor)|"
    r"\d[\d.,]*(?: ?(?:kg|n|n·m|µs|ms|s|hz|kb|mb|gb|%))?"
)
_PER = (
    r"joint|run|row|sample|file|link|motor|line|call|block|fold|leg|column|body|page|second|minute|hour|period|core|"
    r"log|stretch|tile|parameter|term|command|finding|module|table|batch|chunk|chain|piece|axis|robot|drive|message|"
    r"pass|step|search|level"
)
_GOES_ON = r"'|-| of| that| which| has| is| in | to | from | with| on | as | by | where| when| for "
_COMPARED = "longer|more|less|fewer|better|worse|greater|larger|smaller|higher|lower"
# What is banned, in lower case, and what to write instead.
BANNED = {
    r"\b(?:told|tell|tells|telling)\b": "report, say, show, distinguish",
    r"\b(?:mend|mends|mended|mending|mendable)\b": "fix, repair",
    r"\bdear(?:er|est)?\b": "costly",
    r"\bbeside\b": "next to, with, in addition to",
    rf"\b(?:{_COUNTED}) an? (?:{_PER})\b(?!{_GOES_ON})": "per joint, per run, …",
    r"\ba (?:line|row|column|word|sentence) each\b": "one line per …",
    r"\bhang(?:s|ing)? (?:on|by|from)\b": "depends on",
    r"\b(?:nobody|anybody|whoever)\b": "say what is unknown or missing, or who reads",
    r"\brub(?:s|bed|bing)?\b": "friction",
    r"\bso many\b": "N, this many",
    r"\b(?:turn(?:s|ed|ing)?|way|ways) round\b": "reverse, reversed",
    r"\balike\b": "the same, both",
    r"\banew\b": "again",
    r"\bonce more\b": "again",
    r"\bin words\b": "as text",
    r"\b(?:runs?|ran|running) (?:wild|away)\b": "diverges",
    r"\b(?:is|are) not to be\b": "must not be",
    rf"(?<!there )\b(?:is|are|was|were) no (?!{_COMPARED})": "is not a",
    r"\bcounts for nothing\b": "contributes nothing",
    r"\blos(?:es|e|ing|t) (?:its|the|their) way\b": "fails",
    r"\bgravest\b": "most severe",
    r"\bfeat\b": "say it plainly",
    r"\bof (?:the )?(?:c|latex|python|urdf|mjcf)\b[:,]": "option first, then the format it applies to",
    r"\bwhat an? \w+ is worth\b": "name the quantity",
    r"\bno motion at all\b|\bany \w+ at all\b": "any motion",
    r"\bwhere one would\b": "plain subject",
    r"\b(?:un)?believ(?:able|ed)\b": "plausible, accepted, assumed",
    r"\bconsistency-is-dear\b|\bhangs-on-one-block\b|\bmass-far-off\b": "the code of docs/migration.md",
    r"\bwhit\b|\bthrice\b|\btwain\b|\bhenceforth\b|\bhitherto\b": "modern words",
}
PATTERNS = {re.compile(pattern): instead for pattern, instead in BANNED.items()}


# A line of its own or after code, as the formatter sets it: also in the text of a program in a string.
_COMMENT = re.compile(r"(?:^ *|  )# ?(.*)$")


def hits(text: str) -> list[str]:
    """What is banned in a text, each with its surroundings and what to write instead."""
    flat = " ".join(text.lower().split())
    return [
        f"…{flat[max(0, found.start() - 30) : found.end() + 20]}… → {instead}"
        for pattern, instead in PATTERNS.items()
        for found in pattern.finditer(flat)
    ]


def prose(page: str) -> str:
    """A page without fenced programs and without quoted code."""
    without = re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)|\$[^$\n]+\$", " ", without)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments with their first line; those of neighbouring lines are one text."""
    lines = enumerate(source.splitlines(), start=1)
    found = [(line, comment[1]) for line, text in lines if (comment := _COMMENT.search(text))]
    starts = [k for k, (line, _) in enumerate(found) if k == 0 or line != found[k - 1][0] + 1]
    for first, end in pairwise([*starts, len(found)]):
        yield found[first][0], " ".join(text for _, text in found[first:end])


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Every string of a program, docstrings included, with its line."""
    nodes = list(ast.walk(ast.parse(source)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, re.sub(r"`[^`\n]*`", " ", node.value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_plain_words(page: Path) -> None:
    found = hits(prose(page.read_text("utf-8")))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_the_report_uses_plain_words(template: Path) -> None:
    found = hits(template.read_text("utf-8"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(PACKAGE).as_posix())
def test_the_package_uses_plain_words(folder: Path) -> None:
    sources = {path: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}
    found = [
        f"{path.name}:{line}: {hit}"
        for path, source in sources.items()
        for line, text in (*comments(source), *strings(source))
        for hit in hits(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "This is told in the table.", "Mend the file.", "It is dear.", "beside the nominal model", "one a joint",
        "200 rows a joint", "0.3 µs a sample", "two blanks and a line each", "it hangs on one block", "the way round",
        "the command is no export", "Nobody says what an ampere is worth.", "0 · log(∞) is not to be",
    ],
)  # fmt: skip
def test_the_list_sees_what_it_bans(text: str) -> None:
    assert hits(text)


@pytest.mark.parametrize(
    "text", ["There is no export.", "besides the nominal model", "one of a joint's columns", "It is no longer used."]
)
def test_the_list_lets_plain_words_pass(text: str) -> None:
    assert not hits(text)


def test_programs_are_read_whole() -> None:
    source = '"""Mend."""\n\n# hangs on\n# one block\nx = f"{1} is told"\ny = "told"  # dear\n'
    assert list(comments(source)) == [(3, "hangs on one block"), (6, "dear")]
    assert sorted(text for _, text in strings(source)) == ["Mend.", "told", "… is told"]
