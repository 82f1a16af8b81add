"""Output folders and files: written completely or not at all; only files of Steelyard are replaced."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from steelyard.errors import OutputError
from steelyard.project.writing.exchange import exchange
from steelyard.project.writing.ownership import foreign
from steelyard.project.writing.scratch import flush, old_of, recover, scratch_file, scratch_folder

# The files of a run folder.
RESULT = "result.json"
REPORT = "report.html"
RUN_FILES = (RESULT, REPORT)
# The permission to write a file, of its owner or anyone.
ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
# What is written on trial: a full disk accepts an empty file [bytes].
_TRIAL = bytes(1 << 16)
# Other programs may take the place, or leave it, between two moves.
_MOST_MOVES = 10


def check_folder(folder: Path, own: Collection[str] = RUN_FILES) -> None:
    """Raises an error unless the folder can be written and is missing or holds only files that Steelyard wrote: called
    before the work begins."""
    place = Path(os.path.realpath(folder))
    try:
        recover(place)
        _check_contents(place, folder, own)
        if os.path.ismount(place):
            raise OutputError(f"'{folder}' is a mounted disk and cannot be replaced; name a folder in it with --out.")
        parent = next(one for one in place.parents if one.exists())
        if not parent.is_dir():
            raise _in_a_file(parent)
        _try(parent)
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write '{folder}': {_reason(error)}. Choose another folder with --out.") from None


@contextmanager
def whole_folder(folder: Path, own: Collection[str] = RUN_FILES) -> Iterator[Path]:
    """A new folder to fill, moved to `folder` in one step at the end: all files appear there, or none."""
    place = Path(os.path.realpath(folder))  # the target of a link is replaced, not the link
    check_folder(folder, own)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # next to the destination, so that relative paths written inside are valid before and after the move
        with scratch_folder(place) as fresh:
            yield fresh
            _check_contents(place, folder, own)
            flush(fresh)
            _put(fresh, place)
    except OSError as error:
        raise OutputError(f"Cannot write '{folder}': {_reason(error)}. Choose another folder with --out.") from None


def write_folder(folder: Path, files: Mapping[str, str | bytes], own: Collection[str] = RUN_FILES) -> None:
    """Write all files or none."""
    with whole_folder(folder, own) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def check_file(path: Path) -> None:
    """Raises an error if no file can be written there, before the work begins."""
    try:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise OutputError(f"'{path}' is not a file name; give one with a suffix.")
        if path.exists() and not path.stat().st_mode & ANY_WRITE:  # a move would replace it, and root may anyway
            raise OutputError(
                f"'{path}' is write-protected and is not replaced. Allow writing, or choose another path."
            )
        if not path.parent.is_dir():
            raise OutputError(
                f"The folder '{path.parent}' for '{path.name}' does not exist: create it, or choose another."
            )
        # broken links, folders that do not accept files
        _try(Path(os.path.realpath(path)).parent)
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write '{path}': {_reason(error)}. Choose another path.") from None


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write every file next to its destination, then move all of them there: if one cannot be written, none appears and
    the earlier ones stay. Existing files are replaced.

    A program that is killed between two moves leaves new and earlier files, each of them complete.
    """
    path = Path()
    try:
        with ExitStack() as stack:
            ready: list[tuple[Path, Path]] = []
            for path, content in files.items():
                check_file(path)
                place = Path(os.path.realpath(path))
                ready.append((stack.enter_context(scratch_file(place, content)), place))
            _put_files(ready)
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write '{path}': {_reason(error)}. Choose another path.") from None


def _put(fresh: Path, place: Path) -> None:
    """Move a complete folder to its place; what was there has the name `fresh` afterwards, or is gone."""
    for move in range(1, _MOST_MOVES + 1):
        try:
            if not place.exists():
                os.rename(fresh, place)
            elif not exchange(fresh, place):
                shutil.rmtree(old_of(fresh), ignore_errors=True)  # of an earlier try
                os.rename(place, old_of(fresh))
                os.rename(fresh, place)
        except OSError as error:
            taken = error.errno in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)  # by another run, in this moment
            if not taken or move == _MOST_MOVES:
                raise
        else:
            return


def _put_files(ready: Sequence[tuple[Path, Path]]) -> None:
    """Move complete files to their places; if one cannot be moved, those before it go back."""
    earlier = {place: place.exists() for _, place in ready}
    numbers = {place: fresh.stat().st_ino for fresh, place in ready}
    try:
        for fresh, place in ready:
            if fresh == ready[-1][0] or not earlier[place] or not exchange(fresh, place):
                os.replace(fresh, place)
    except BaseException:
        for fresh, place in ready[:-1]:
            if place.exists() and place.stat().st_ino == numbers[place]:
                if fresh.exists():
                    exchange(fresh, place)
                elif not earlier[place]:
                    place.unlink()
        raise


def _check_contents(place: Path, folder: Path, own: Collection[str]) -> None:
    if place.exists() and not place.is_dir():  # also a device: /dev/null must not be replaced
        raise OutputError(f"'{folder}' is not a folder; choose one with --out.")
    others = foreign(place, tuple(own), RUN_FILES) if place.is_dir() else []
    if others:
        shown = f"{', '.join(others[:3])}{', …' if len(others) > 3 else ''}"
        named = all(name in own for name in others)
        what = f"holds files that Steelyard did not write ({shown})" if named else f"holds other files ({shown})"
        raise OutputError(f"'{folder}' {what}, which would be lost; choose another folder with --out.")


def _in_a_file(file: Path) -> OutputError:
    return OutputError(f"'{file}' is a file, so no folder can be made in it. Choose another folder with --out.")


def _try(folder: Path) -> None:
    """Raises an OSError unless a file can be written in the folder; it has no name, so that nothing can stay."""
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(_TRIAL)
        stream.flush()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
