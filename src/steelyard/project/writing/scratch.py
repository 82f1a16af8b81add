"""Scratch: the hidden sibling that a new folder or file is made in, and what the death of a program left of one.

A scratch path `.NAME-xxxxxxxx.part` is locked as long as its program lives. A path without a lock belongs to a program
that was killed: the next run removes it. Where a folder had to be replaced in two moves, `.NAME-xxxxxxxx.old` is the
earlier folder: the next run moves it back if the program died between the two.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_PART, _OLD = ".part", ".old"
# Names of files have at most 255 bytes.
_LONGEST = 60


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A new folder next to `place`, removed at the end if it is still there."""
    recover(place)
    fresh = Path(tempfile.mkdtemp(prefix=_prefix(place), suffix=_PART, dir=place.parent))
    with _held(fresh):
        try:
            fresh.chmod(0o755)
            yield fresh
        finally:
            if old_of(fresh).exists() and not place.exists():  # interrupted between two moves
                os.rename(old_of(fresh), place)
            for leftover in (fresh, old_of(fresh)):
                _remove(leftover)


@contextmanager
def scratch_file(place: Path, content: bytes) -> Iterator[Path]:
    """A new file next to `place` with this content, on the disk and not only in memory; removed at the end if it is
    still there."""
    recover(place)
    number, name = tempfile.mkstemp(prefix=_prefix(place), suffix=_PART, dir=place.parent)
    fresh = Path(name)
    try:
        with os.fdopen(number, "wb") as stream, _held(fresh):
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            fresh.chmod(0o644)
            yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def old_of(fresh: Path) -> Path:
    """Where the earlier folder stays between two moves."""
    return fresh.with_suffix(_OLD)


def recover(place: Path) -> None:
    """Undo what a program that was killed left next to `place`: an earlier folder goes back to its place if that is
    empty, and scratch paths are removed. Paths of programs that live are left alone."""
    pattern = re.compile(rf"{re.escape(_prefix(place))}[a-z0-9_]{{8}}(\.part|\.old)")
    try:
        found = sorted(one for one in place.parent.iterdir() if pattern.fullmatch(one.name))
    except OSError:
        return
    dead = [one for one in found if not _is_held(one.with_suffix(_PART))]
    for one in dead:
        with suppress(OSError):
            if one.suffix == _OLD and not os.path.lexists(place):
                os.rename(one, place)
            elif one.is_dir():
                shutil.rmtree(one)
            else:
                one.unlink()


def flush(folder: Path) -> None:
    """Have the system write a folder and its files to the disk, so that a power failure finds them complete."""
    for root, _, names in os.walk(folder):
        for path in (root, *(os.path.join(root, name) for name in names)):
            with suppress(OSError):  # some file systems flush no folders
                number = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(number)
                finally:
                    os.close(number)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:  # asked to stop in the middle
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _prefix(place: Path) -> str:
    return f".{place.name[:_LONGEST]}-"


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """The path is locked within; the system gives the lock back when the program dies."""
    number = _locked(path)
    try:
        yield
    finally:
        if number is not None:
            os.close(number)


def _is_held(path: Path) -> bool:
    """Whether a living program has the path; also True where that cannot be known."""
    if not path.exists():
        return False
    number = _locked(path)
    if number is not None:
        os.close(number)
    return number is None


def _locked(path: Path) -> int | None:
    if fcntl is None:
        return None
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number
