"""read_recording: any log file to a `Recording`, by its extension and first bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.errors import DataError, printable
from steelyard.formats.bags.bag import read_bag
from steelyard.formats.logs.csv import read_delimited
from steelyard.formats.logs.csv_dialect import unique
from steelyard.formats.packed import PACKED, ZSTD_MAGIC, packed_log, read_packed
from steelyard.formats.reader_process.client import read_apart
from steelyard.signals.episodes import one_episode
from steelyard.signals.recording import Chunk, Opener, Progress, Recording

DELIMITED = (".csv", ".txt", ".tsv", ".dat", ".log")
PARQUET = (".parquet", ".pq")
MATLAB = (".mat",)
HDF5 = (".h5", ".hdf5")
BAGS = (".bag", ".db3", ".mcap")
KNOWN = DELIMITED + PARQUET + MATLAB + HDF5 + BAGS
# A ROS 2 bag is a folder that contains this file.
_BAG_INDEX = "metadata.yaml"
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# MATLAB writes its own header before HDF5.
_MATLAB_HEADER = 512
_MAGIC = {
    _HDF5_MAGIC: HDF5,
    b"PAR1": PARQUET,
    b"MATLAB 5.0": MATLAB,
    b"#ROSBAG V2.0": BAGS,
    b"SQLite format 3\0": BAGS,
    b"\x89MCAP0\r\n": BAGS,
    ZSTD_MAGIC: BAGS,
}


def read_recording(
    path: str | Path,
    delimiter: str | None = None,
    *,
    topic: str | None = None,
    episode: int | None = None,
    every_episode: bool = False,
    salvage: bool = False,
    progress: Progress | None = None,
) -> Recording:
    """The recording in a log file; the rows are read by `Recording.chunks`.

    A log in a .gz, .zst or .zip file is unpacked to a temporary folder; `logs.zip/monday.csv` is one of several.

    delimiter   of a text log: one of , ; | tab and space (any run of them); detected by default
    topic       of a ROS bag with several possible ones
    episode     of a LeRobot file with several; for the episodes of other logs see `signals.episodes`
    every_episode   all episodes of a LeRobot file in one recording; the clock restarts with each
    salvage     end a damaged log at its last intact row, with a note, instead of raising an error
    progress    called for formats that are scanned when they are opened (ROS bags)
    """
    file = Path(path)
    packed = packed_log(file) if (kind := log_kind(file)) == PACKED else None
    if packed is None:
        found = _read_plain(file, kind, delimiter, topic, salvage, progress)
    else:

        def read(plain: Path) -> Recording:
            return _read_plain(plain, log_kind(plain), delimiter, topic, salvage, progress)

        found = read_packed(packed, KNOWN, read, salvage)
    found = _printable_names(found)
    return found if every_episode else one_episode(found, episode)


def _printable_names(found: Recording) -> Recording:
    """The recording with control characters in its names written out: no name of a column can command a terminal."""
    named = dict(zip(unique([printable(name) for name in found.columns]), found.columns, strict=True))
    others, notes = (tuple(printable(text) for text in texts) for texts in (found.others, found.notes))
    if tuple(named) == found.columns:
        return replace(found, others=others, notes=notes)
    columns, opener = tuple(named), _RenamedRows(found.opener, named)
    return replace(found, columns=columns, opener=opener, others=others, notes=notes)


@dataclass(frozen=True)
class _RenamedRows:
    """The rows of another source under other names; `named` gives the source's own."""

    source: Opener
    named: Mapping[str, str]

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        for block in self.source.blocks([self.named[name] for name in columns]):
            yield {name: block[self.named[name]] for name in columns}

    def digest(self) -> str:
        return self.source.digest()


def _read_plain(
    file: Path,
    kind: tuple[str, ...],
    delimiter: str | None,
    topic: str | None,
    salvage: bool,
    progress: Progress | None,
) -> Recording:
    """The recording of all episodes in a file that is not packed."""
    for name, value, use, formats in (
        ("delimiter", delimiter, "text logs", DELIMITED), ("topic", topic, "ROS bags", BAGS),
    ):  # fmt: skip
        if value is not None and kind != formats:
            raise DataError(f"'{name}' is for {use}, and '{file}' is not one of them. Remove it.")
    if kind == BAGS:
        return read_bag(file, topic, salvage, progress)
    if kind == PARQUET:
        return read_apart("parquet", file, salvage)
    if kind == DELIMITED:
        return read_delimited(file, delimiter, salvage)
    return read_apart("hdf5" if kind == HDF5 else "mat", file, salvage)


def log_kind(file: Path) -> tuple[str, ...]:
    """The extensions of the format, found from the first bytes, or else the file's own extension."""
    try:
        packed = packed_log(file)
        # the files of a ROS 2 bag may be compressed one by one: its reader unpacks them itself
        if packed is not None and not (packed.packing == ".zst" and Path(packed.inner_name).suffix.lower() in BAGS):
            return PACKED
        if file.is_dir():
            # after a power loss the index is missing
            if (file / _BAG_INDEX).is_file() or any(file.glob("*.db3*")) or any(file.glob("*.mcap*")):
                return BAGS
            raise DataError(f"'{file}' is a folder but not a ROS 2 bag ({_BAG_INDEX}). Give one log file in it.")
        with file.open("rb") as stream:
            first = stream.read(_MATLAB_HEADER + len(_HDF5_MAGIC))
    except FileNotFoundError:
        raise DataError(f"The file '{file}' does not exist. Check the path.{_similar(file)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"'{file}' cannot be opened ({error}). Check the path and its permissions.") from None
    if not first:
        raise DataError(f"'{file}' is empty. Check that the logger wrote data before it stopped.")
    if first[_MATLAB_HEADER:] == _HDF5_MAGIC:
        return HDF5
    for magic, kind in _MAGIC.items():
        if first.startswith(magic):
            return kind
    extension = file.suffix.lower()
    for kind in (DELIMITED, PARQUET, MATLAB, HDF5, BAGS):
        if extension in kind:
            return kind
    if extension in PACKED:
        raise DataError(f"'{file}' is not a {extension} file, in spite of its name. Copy it again, or rename it.")
    raise DataError(
        f"'{file}' has the unknown extension '{extension}'. Known: {' '.join(KNOWN)}, and "
        f"these in {' '.join(PACKED)}. Convert the log."
    )


def _similar(file: Path) -> str:
    """Logs in the folder of the missing one, as a hint."""
    if not file.parent.is_dir():
        return f" The folder '{file.parent}' does not exist either."
    found = (path for path in file.parent.iterdir() if path.suffix.lower() in KNOWN + PACKED)
    logs = sorted(path.name for path in found if not path.name.startswith("steelyard-defect-"))
    return f" Logs in that folder: {', '.join(logs[:10])}." if logs else ""
