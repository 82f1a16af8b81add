"""read_recording: any log file to a `Recording`, by its extension and first bytes."""

from __future__ import annotations

from pathlib import Path

from steelyard.errors import DataError
from steelyard.formats.delimited import read_delimited
from steelyard.formats.parquet import read_parquet
from steelyard.recording import Recording

DELIMITED = (".csv", ".txt", ".tsv", ".dat", ".log")
PARQUET = (".parquet", ".pq")
_PARQUET_MAGIC = b"PAR1"


def read_recording(path: str | Path, delimiter: str | None = None) -> Recording:
    """The recording in a log file (.csv .txt .tsv .dat .log .parquet .pq); the rows are read by `Recording.chunks`.

    `delimiter` is one of , ; | tab and space (any run of them); found out if not given.
    """
    file = Path(path)
    magic = _first_bytes(file)
    kind = file.suffix.lower()
    if kind in PARQUET or magic == _PARQUET_MAGIC:
        return read_parquet(file)
    if kind in DELIMITED:
        return read_delimited(file, delimiter)
    known = " ".join(DELIMITED + PARQUET)
    raise DataError(f"'{file}' has the unknown extension '{kind}'. Known: {known}. Convert or rename the log.")


def _first_bytes(file: Path) -> bytes:
    try:
        if file.is_dir():
            raise DataError(f"'{file}' is a folder. Name one log file in it.")
        with file.open("rb") as stream:
            magic = stream.read(len(_PARQUET_MAGIC))
    except FileNotFoundError:
        raise DataError(f"There is no file '{file}'. Check the path.{_similar(file)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"'{file}' cannot be opened ({error}). Check the path and its permissions.") from None
    if not magic:
        raise DataError(f"'{file}' is empty. Check that the logger wrote data before it stopped.")
    return magic


def _similar(file: Path) -> str:
    """Logs that lie beside the missing one, as a hint."""
    if not file.parent.is_dir():
        return f" The folder '{file.parent}' does not exist either."
    logs = sorted(p.name for p in file.parent.iterdir() if p.suffix.lower() in DELIMITED + PARQUET)
    return f" Logs in that folder: {', '.join(logs[:10])}." if logs else ""
