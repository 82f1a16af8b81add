"""Packed logs: a file in .gz or .zst, or one member of a .zip, unpacked to a temporary folder.

Unpacking copies block by block, so memory stays flat, and ends at a limit, so that a small file cannot fill the disk.
The folder is removed with the last recording that reads from it, at the latest when the program ends. Nothing is
written under a name from the archive: a member's name only gives the last part of the name of the temporary file.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.reader_process.client import unpack_apart
from steelyard.formats.reader_process.limits import UNPACKED_GB, limit
from steelyard.signals.recording import Chunk, LogFile, Opener, Recording

PACKED = (".gz", ".zst", ".zip")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MAGIC = {b"\x1f\x8b": ".gz", ZSTD_MAGIC: ".zst", b"PK\x03\x04": ".zip", b"PK\x05\x06": ".zip"}
# Extensions that are left out of the name of what is inside.
_ENDINGS = (".gz", ".gzip", ".zst", ".zstd")
_COPY_BYTES = 1 << 22
# Members of an archive that are never its log.
_NO_LOGS = ("readme", "license", "licence", "changelog")
_TAR_MAGIC, _TAR_PLACE = b"ustar", 257


@dataclass(frozen=True)
class PackedLog:
    """A packed file, how it is packed (one of `PACKED`), and the member of an archive; "" if none was named."""

    file: Path
    packing: str
    member: str = ""

    @property
    def inner_name(self) -> str:
        """Name of the contents, for the extension."""
        if self.member:
            return PurePosixPath(self.member.replace("\\", "/")).name
        return self.file.stem if self.file.suffix.lower() in _ENDINGS else self.file.name


def packed_log(path: Path) -> PackedLog | None:
    """The packed file at a path, or the archive of a path such as `logs.zip/monday.csv`; None if it is not packed."""
    for place in (path, *path.parents):
        if place.is_file():
            with place.open("rb") as stream:
                first = stream.read(4)
            packing = next((kind for magic, kind in _MAGIC.items() if first.startswith(magic)), None)
            member = "" if place == path else path.relative_to(place).as_posix()
            if packing is None or (member and packing != ".zip"):
                return None
            return PackedLog(place, packing, member)
        if place.exists():
            return None
    return None


def read_packed(
    packed: PackedLog, endings: Sequence[str], read: Callable[[Path], Recording], salvage: bool = False
) -> Recording:
    """The recording in a packed file, read from its unpacked contents by `read`; `endings` are those of log files.

    With `salvage` a damaged file is unpacked up to the damage, with a note; otherwise damage is an error.
    """
    file = LogFile.at(packed.file)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-"))
    try:
        packed = _one_member(packed, endings)
        plain = folder / _safe_name(packed.inner_name)
        notes = []
        if damage := unpack_apart(packed.file, packed.packing, packed.member, plain):
            problem = f"'{packed.file.name}' is damaged: {damage}"
            if not salvage or not plain.stat().st_size:
                raise DataError(
                    f"{problem}. Copy it again, or set salvage = true in the [[run]] to use what can be unpacked."
                )
            notes.append(f"{problem}.")
        _check_contents(packed, plain)
        shown = f"{packed.file}/{packed.member}" if packed.member else str(packed.file)
        try:
            found = read(plain)
        except DataError as error:  # in the words of the user's own files
            raise DataError(str(error).replace(str(plain), shown)) from None
        rows = _UnpackedRows(found.opener, file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    name = f"{packed.file.name}/{packed.member}" if packed.member else packed.file.name
    return replace(found, name=name, source=shown, opener=rows, notes=(*notes, *found.notes))


@dataclass(frozen=True, eq=False)
class _UnpackedRows:
    """The rows of the unpacked file. Its hash is that of the contents: packing does not make it another log."""

    contents: Opener
    packed: LogFile

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.packed.check_unchanged()
        yield from self.contents.blocks(columns)

    def digest(self) -> str:
        self.packed.check_unchanged()
        return self.contents.digest()


def copy_unpacked(
    source: Any, target: BinaryIO, shown: str, progress: Callable[[int], None] | None = None
) -> str | None:
    """Copy a stream that unpacks, up to the limit; returns what stopped it early, as part of a sentence. `progress` is
    called with the number of bytes so far."""
    most, done = limit(UNPACKED_GB), 0
    while True:
        try:
            # Not `read`: it gathers a whole block, and the data before the damage would be lost with it.
            block = source.read1(_COPY_BYTES)
        except Exception as error:  # every library has its own, and EOFError at an early end
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise
            return f"the compressed file ends early, after {done} unpacked bytes ({error})"
        if not block:
            return None
        done += len(block)
        if done > most * 1e9:
            raise _too_large(shown, most)
        target.write(block)
        if progress is not None:
            progress(done)


def open_zstd(path: Any, purpose: str = "Reading a file compressed with zstd", extra: str = "zstd") -> Any:
    """A stream of the contents of a file compressed with zstd."""
    return zstd_library(purpose, extra).open(path, "rb")


def zstd_library(purpose: str, extra: str) -> Any:
    """The library for zstd; `purpose` and `extra` are for the message where it is not installed."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise MissingExtraError("backports.zstd", extra, purpose) from None
    return zstd


def unpack(packed: PackedLog, plain: Path, progress: Callable[[int], None] | None = None) -> str | None:
    """Unpack into a file; returns what stopped it early, as part of a sentence. For the reader process."""
    try:
        with _opened(packed) as source, plain.open("wb") as target:
            return copy_unpacked(source, target, str(packed.file), progress)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataError(f"'{packed.file}' cannot be unpacked ({error}). Unpack it with another program.") from None
    except OSError as error:
        raise DataError(
            f"'{packed.file}' cannot be unpacked into '{plain.parent}' ({error.strerror or error}). Free space there, "
            "or name another temporary folder in the environment variable TMPDIR."
        ) from None


@contextmanager
def _opened(packed: PackedLog) -> Iterator[Any]:
    """A stream of the contents."""
    if packed.packing == ".gz":
        with gzip.open(packed.file, "rb") as stream:
            yield stream
    elif packed.packing == ".zst":
        with open_zstd(packed.file) as stream:
            yield stream
    else:
        with zipfile.ZipFile(packed.file) as archive:
            # refuse a large member before it is unpacked; a false size is found while copying
            if archive.getinfo(packed.member).file_size > limit(UNPACKED_GB) * 1e9:
                raise _too_large(f"{packed.file}/{packed.member}", limit(UNPACKED_GB))
            with archive.open(packed.member) as stream:
                yield stream


def _one_member(packed: PackedLog, endings: Sequence[str]) -> PackedLog:
    """The archive with the member to read: the one that was named, or the only log in it."""
    if packed.packing != ".zip":
        return packed
    try:
        with zipfile.ZipFile(packed.file) as archive:
            files = [info.filename for info in archive.infolist() if not info.is_dir()]
    except zipfile.BadZipFile as error:
        raise DataError(f"'{packed.file}' is not a complete zip archive ({error}). Copy it again.") from None
    logs = [name for name in files if _is_log(name, endings)]
    shown = ", ".join(logs[:10] or files[:10]) + (", …" if len(logs or files) > 10 else "") or "nothing"
    if packed.member:
        if packed.member not in files:
            raise DataError(f"'{packed.file}' has no member '{packed.member}'. It contains: {shown}.")
        return packed
    if not logs and "xl/workbook.xml" in files:
        raise DataError(
            f"'{packed.file}' is a workbook of a spreadsheet program. Save the sheet of the log as CSV there."
        )
    if not logs:
        raise DataError(f"'{packed.file}' is a zip archive without a log. It contains: {shown}.")
    if len(logs) > 1:
        raise DataError(
            f"'{packed.file}' contains {len(logs)} logs: {shown}. Give one or several of them, each by its path: "
            f"'{packed.file}/{logs[0]}' '{packed.file}/{logs[1]}'."
        )
    return replace(packed, member=logs[0])


def _is_log(member: str, endings: Sequence[str]) -> bool:
    place = PurePosixPath(member)
    hidden = place.name.startswith(".") or place.parts[0] == "__MACOSX"
    return not hidden and place.suffix.lower() in endings and not place.stem.lower().startswith(_NO_LOGS)


def _safe_name(name: str) -> str:
    """A file name of harmless characters with the same extension."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")[-100:] or "log"


def _check_contents(packed: PackedLog, plain: Path) -> None:
    with plain.open("rb") as stream:
        first = stream.read(_TAR_PLACE + len(_TAR_MAGIC))
    if first[_TAR_PLACE:] == _TAR_MAGIC:
        raise DataError(f"'{packed.file}' contains a tar archive. Unpack it, and give a log in it.")
    if any(first.startswith(magic) for magic in _MAGIC):
        raise DataError(f"'{packed.file}' contains a packed file. Unpack it once, and give the file in it.")


def _too_large(shown: str, most: float) -> DataError:
    return DataError(
        f"'{shown}' unpacks to more than {most:g} GB, the limit for packed logs. Unpack it yourself, or set the "
        f"environment variable {UNPACKED_GB[0]} to a larger number."
    )
