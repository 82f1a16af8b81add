"""Output folders and files: written whole or not at all, and nothing replaced that is not Steelyard's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from steelyard.errors import OutputError

# The files of a run folder.
RESULT = "result.json"
REPORT = "report.html"
RUN_FILES = (RESULT, REPORT)


def check_folder(folder: Path, own: Collection[str] = RUN_FILES) -> None:
    """Refuse to replace anything but a folder that holds only what Steelyard itself wrote there."""
    try:
        if folder.exists() and not folder.is_dir():  # a device too: /dev/null is no folder to replace
            raise OutputError(f"'{folder}' is no folder; name one with --out.")
        foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in own) if folder.is_dir() else []
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot use '{folder}' for results: {error}. Name another folder with --out.") from None
    if foreign:
        raise OutputError(
            f"'{folder}' holds other files ({', '.join(foreign[:3])}{', …' if len(foreign) > 3 else ''}), which would "
            "be lost; name another folder with --out."
        )


@contextmanager
def whole_folder(folder: Path, own: Collection[str] = RUN_FILES) -> Iterator[Path]:
    """A fresh folder to fill, moved to `folder` in one step at the end: everything appears there, or nothing does."""
    place = Path(os.path.realpath(folder))  # what a link points at is replaced, not the link
    check_folder(place, own)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # beside the place itself, so that relative paths written inside hold before and after the move
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name[:60]}-", dir=place.parent))
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write beside '{folder}': {error}. Name another place with --out.") from None
    old = fresh.with_name(f"{fresh.name}-old")
    try:
        fresh.chmod(0o755)
        yield fresh
        check_folder(place, own)
        if place.exists():
            os.rename(place, old)
        os.rename(fresh, place)
    except OSError as error:
        raise OutputError(f"Cannot write '{folder}': {error.strerror}.") from None
    finally:
        if old.exists() and not place.exists():  # stopped between the two moves: the earlier run goes back
            os.rename(old, place)
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


def write_folder(folder: Path, files: Mapping[str, str], own: Collection[str] = RUN_FILES) -> None:
    """Write all files or none."""
    with whole_folder(folder, own) as fresh:
        for name, content in files.items():
            (fresh / name).write_text(content, "utf-8")


def check_file(path: Path) -> None:
    """Refuse a place where no file can be written, before the work begins."""
    try:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise OutputError(f"'{path}' is no file; name one with a suffix.")
        if not path.parent.is_dir():
            raise OutputError(
                f"There is no folder '{path.parent}' to write '{path.name}' to: make it, or name another."
            )
        # links that lead nowhere, folders that take no files
        with tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent):
            pass
    except OSError as error:
        raise OutputError(f"Cannot write '{path}': {error.strerror}. Name another place.") from None
    except ValueError as error:
        raise OutputError(f"Cannot write '{path}': {error}. Name another place.") from None


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write every file beside its place, then move all of them there: none appears if one cannot be written.

    What was there is replaced.
    """
    fresh: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in files.items():
            check_file(path)
            place = Path(os.path.realpath(path))
            with tempfile.NamedTemporaryFile(prefix=".", dir=place.parent, delete=False) as stream:
                fresh[Path(stream.name)] = place
                stream.write(content)
        for written, place in fresh.items():
            written.chmod(0o644)
            os.replace(written, place)
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write '{path}': {error}. Name another place.") from None
    finally:
        for written in fresh:
            written.unlink(missing_ok=True)
