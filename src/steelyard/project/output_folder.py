"""Output folders and files: written completely or not at all; only files of Steelyard are replaced."""

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
    """Raises an error unless the folder is missing or holds only files that Steelyard wrote."""
    try:
        if folder.exists() and not folder.is_dir():  # also a device: /dev/null must not be replaced
            raise OutputError(f"'{folder}' is not a folder; choose one with --out.")
        foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in own) if folder.is_dir() else []
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot use '{folder}' for results: {error}. Choose another folder with --out.") from None
    if foreign:
        raise OutputError(
            f"'{folder}' holds other files ({', '.join(foreign[:3])}{', …' if len(foreign) > 3 else ''}), which would "
            "be lost; choose another folder with --out."
        )


@contextmanager
def whole_folder(folder: Path, own: Collection[str] = RUN_FILES) -> Iterator[Path]:
    """A new folder to fill, moved to `folder` in one step at the end: all files appear there, or none."""
    place = Path(os.path.realpath(folder))  # the target of a link is replaced, not the link
    check_folder(place, own)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # next to the destination, so that relative paths written inside are valid before and after the move
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name[:60]}-", dir=place.parent))
    except (FileExistsError, NotADirectoryError):
        file = next((one for one in place.parents if one.exists() and not one.is_dir()), place.parent)
        raise OutputError(
            f"'{file}' is a file, so no folder can be made in it. Choose another folder with --out."
        ) from None
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot make the folder '{folder}': {error}. Choose another path with --out.") from None
    old = fresh.with_name(f"{fresh.name}-old")
    try:
        fresh.chmod(0o755)
        yield fresh
        check_folder(place, own)
        if place.exists():
            os.rename(place, old)
        os.rename(fresh, place)
    except OSError as error:
        raise OutputError(f"Cannot write '{folder}': {error.strerror}. Choose another folder with --out.") from None
    finally:
        if old.exists() and not place.exists():  # interrupted between the two moves: restore the earlier run
            os.rename(old, place)
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


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
        if not path.parent.is_dir():
            raise OutputError(
                f"The folder '{path.parent}' for '{path.name}' does not exist: create it, or choose another."
            )
        # broken links, folders that do not accept files
        with tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent):
            pass
    except OSError as error:
        raise OutputError(f"Cannot write '{path}': {error.strerror}. Choose another path.") from None
    except ValueError as error:
        raise OutputError(f"Cannot write '{path}': {error}. Choose another path.") from None


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write every file next to its destination, then move all of them there: none appears if one cannot be written.

    Existing files are replaced.
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
        raise OutputError(f"Cannot write '{path}': {error}. Choose another path.") from None
    finally:
        for written in fresh:
            written.unlink(missing_ok=True)
