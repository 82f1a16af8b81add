"""The files of a bag: one .bag, .mcap or .db3 file, or a ROS 2 folder of them, compressed or not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.bags import mcap as mcap_records
from steelyard.formats.bags import ros1 as rosbag_records
from steelyard.formats.bags import ros2_sqlite as sqlite_records
from steelyard.formats.bags.records import Portion
from steelyard.formats.packed import ZSTD_MAGIC, copy_unpacked, open_zstd
from steelyard.signals.recording import LogFile

METADATA = "metadata.yaml"
_STORAGE = re.compile(r".+\.(db3|mcap)(\.zstd)?", re.IGNORECASE)


@dataclass(frozen=True)
class BagFiles:
    """The files of a bag in the order they were recorded; `missing` are those in its metadata that do not exist."""

    path: Path
    files: tuple[LogFile, ...]
    companions: tuple[LogFile, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def check_unchanged(self) -> None:
        for file in (*self.files, *self.companions):
            file.check_unchanged()

    def digest(self) -> str:
        """SHA-256 of the file, or of the names and hashes of the files."""
        files = (*self.files, *self.companions)
        if len(files) == 1:
            return files[0].digest()
        lines = (f"{file.path.name}\0{file.digest()}\n" for file in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def portions(
        self, skip: Collection[tuple[int, int]] = (), only: Collection[tuple[int, int]] | None = None
    ) -> Iterator[tuple[int, Portion]]:
        """Pairs of file number and portion of that file.

        To save time, portions at a (file, start) in `skip`, and channels whose (file, key) is not in `only`, may be
        left out.
        """
        for number, file in enumerate(self.files):
            keys = None if only is None else [key for place, key in only if place == number]
            try:
                for portion in _portions(file.path, {start for place, start in skip if place == number}, keys):
                    yield number, portion
            except OSError as error:
                raise DataError(f"'{file.path}' can no longer be read ({error}). Restore it and retry.") from None


def bag_files(path: Path) -> BagFiles:
    """The files of the bag at `path`, which is a file or a ROS 2 folder."""
    try:
        if not path.is_dir():
            return _checked(path, [path])
        stored = [file for file in path.iterdir() if _STORAGE.fullmatch(file.name)]
        stored.sort(key=lambda file: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.name)])
        metadata = path / METADATA
        if not metadata.is_file():
            note = f"the folder has no {METADATA}, so its recording did not end; its files were read in order of name"
            return _checked(path, stored, notes=(note,))
        named = _named_in(metadata)
        present = [path / name for name in named if (path / name).is_file()]
        missing = tuple(name for name in named if not (path / name).is_file())
        return _checked(path, present or stored, missing=missing)
    except OSError as error:
        raise DataError(f"'{path}' cannot be opened ({error}). Check the path and its permissions.") from None


def _checked(path: Path, files: Sequence[Path], missing: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> BagFiles:
    if not files:
        raise DataError(
            f"The folder '{path}' contains no .db3 or .mcap file. Give the folder of a ROS 2 bag, or one file."
        )
    companions = [LogFile.at(left) for file in files for left in sqlite_records.unfinished(file)]
    return BagFiles(path, tuple(LogFile.at(file) for file in files), tuple(companions), missing, notes)


def _named_in(metadata: Path) -> list[str]:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise MissingExtraError("ruamel.yaml", "bags", "Reading the folder of a ROS 2 bag") from None
    try:
        content: Any = YAML(typ="safe").load(metadata.read_text())
        return [PurePosixPath(name).name for name in content["rosbag2_bagfile_information"]["relative_file_paths"]]
    except (YAMLError, KeyError, TypeError, ValueError):
        raise DataError(
            f"'{metadata}' does not list the files of the bag: it is incomplete, or not the metadata of a ROS 2 bag. "
            "Remove it to read the files in the order of their names, or give one of them."
        ) from None


def _portions(path: Path, skip: Container[int], only: Sequence[int] | None) -> Iterator[Portion]:
    """Portions of one file, by its contents; a compressed file is unpacked temporarily."""
    with ExitStack() as stack:
        stream = stack.enter_context(path.open("rb"))
        damage = None
        if stream.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC:
            plain = Path(stack.enter_context(TemporaryDirectory()), path.stem)
            with open_zstd(path, "Reading a bag compressed with zstd", "bags") as source, plain.open("wb") as target:
                damage = copy_unpacked(source, target, str(path))
            path, stream = plain, stack.enter_context(plain.open("rb"))
        stream.seek(0)
        magic, size = stream.read(len(sqlite_records.MAGIC)), path.stat().st_size
        stream.seek(0)
        if magic == sqlite_records.MAGIC:
            yield from sqlite_records.sqlite_portions(path, size, only)
        elif magic.startswith(mcap_records.MAGIC):
            yield from mcap_records.mcap_portions(stream, size, skip)
        elif magic.startswith(rosbag_records.MAGIC):
            yield from rosbag_records.rosbag_portions(stream, size, skip)
        else:
            yield Portion(0, size, damage="byte 0: this is neither a ROS 1 bag of version 2.0 nor a .db3 or MCAP file")
        if damage:
            yield Portion(size, size, damage=damage)
