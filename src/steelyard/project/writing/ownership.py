"""Ownership: whether a file was written by Steelyard, by its first bytes and not by its name."""

from __future__ import annotations

import re
from pathlib import Path

# The mark of a file is near its start; pages of former versions carry it after their style sheet.
_START_BYTES = 1 << 16
_TEXT_MARK = re.compile(rb"Written by (?:Steelyard|`steelyard )")
_MARKS = {
    ".json": re.compile(rb'\A\s*\{\s*"schema":\s*"steelyard\.'),
    ".html": re.compile(rb'<meta name="generator" content="Steelyard|class="kicker">Steelyard '),
}


def is_marked(file: Path) -> bool:
    """Whether the file says that Steelyard wrote it: the schema of a document, the generator of a page, or the words
    "Written by Steelyard" of a text. Raises an OSError if it cannot be read."""
    if not file.is_file():  # also a named pipe, which must not be opened
        return False
    with file.open("rb") as stream:
        start = stream.read(_START_BYTES)
    return bool(_MARKS.get(file.suffix, _TEXT_MARK).search(start))


def foreign(folder: Path, own: tuple[str, ...], inner: tuple[str, ...]) -> list[str]:
    """Names in a folder of what a new run must not replace: what is not named in `own`, documents and pages that are
    not marked, everything if nothing is marked. A folder in it may hold `inner` by the same rule."""
    names, marked, unknown = [], False, []
    for entry in sorted(folder.iterdir()):
        if entry.name not in own or (entry.is_dir() and (entry.is_symlink() or foreign(entry, inner, ()))):
            names.append(entry.name)
        elif entry.is_dir() or is_marked(entry):
            marked = True
        elif entry.suffix in _MARKS:
            names.append(entry.name)
        else:
            unknown.append(entry.name)
    return names if marked else sorted(names + unknown)
