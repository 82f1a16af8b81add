"""Read a log larger than the memory limit in bounded memory: seconds, peak memory and rows of one whole pass.

    python evidence/big_files.py [--megabytes 1000] [--only csv] [--only parquet]

Every log holds random numbers with the columns of a 6-axis arm (time, position, velocity, effort). It is written to a
temporary folder, read once through `Recording.chunks` in a separate process, and deleted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import psutil
from rich.console import Console
from rich.progress import Progress

from steelyard import read_recording

RATE_HZ, JOINTS = 1000.0, 6
_BATCH_ROWS = 100_000


class Pass(NamedTuple):
    """One pass over a log: time [s], highest resident memory of the process [MB], rows."""

    seconds: float
    peak_mb: float
    rows: int


def big_csv(size_bytes: int) -> Pass:
    """A text log of at least this size, every number with all its digits."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            for batch in _batches():
                batch.write_csv(stream, include_header=stream.tell() == 0)
                if stream.tell() >= size_bytes:
                    return

    return _measured("big.csv", write)


def big_parquet(size_bytes: int) -> Pass:
    """A Parquet log of about this size, in row groups of 100 000 rows."""

    def write(path: Path) -> None:
        bytes_a_row = 8 * (1 + 3 * JOINTS)
        batches = [batch.lazy() for batch in _batches(-(-size_bytes // (bytes_a_row * _BATCH_ROWS)))]
        pl.concat(batches).sink_parquet(path, compression="uncompressed", row_group_size=_BATCH_ROWS)

    return _measured("big.parquet", write)


KINDS: dict[str, Callable[[int], Pass]] = {"csv": big_csv, "parquet": big_parquet}


def _batches(count: int | None = None) -> Iterator[pl.DataFrame]:
    rng = np.random.default_rng(0)
    names = [f"{signal}{joint}" for signal in ("q", "v", "tau") for joint in range(1, JOINTS + 1)]
    done = 0
    while count is None or done < count:
        t = np.arange(done * _BATCH_ROWS, (done + 1) * _BATCH_ROWS) / RATE_HZ
        yield pl.DataFrame({"t": t} | {name: rng.standard_normal(_BATCH_ROWS) for name in names})
        done += 1


def _measured(name: str, write: Callable[[Path], None]) -> Pass:
    folder = Path(tempfile.mkdtemp())
    try:
        write(folder / name)
        # in a separate process: the peak is that of reading alone
        command = [sys.executable, __file__, "--read", str(folder / name)]
        peak = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            watched = psutil.Process(reader.pid)
            while reader.poll() is None:
                with contextlib.suppress(psutil.Error):
                    peak = max(peak, watched.memory_info().rss)
                time.sleep(0.01)
            told = reader.communicate()[0]
    finally:
        shutil.rmtree(folder)
    seconds, rows = json.loads(told)
    return Pass(seconds, peak / 1e6, rows)


def _read(path: Path) -> tuple[float, int]:
    """Seconds and rows of one pass over every row and column, with a bar that the recording's own estimate moves."""
    start, rows = time.perf_counter(), 0
    recording = read_recording(path)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(path.name, total=1.0)
        for chunk in recording.chunks(recording.columns):
            rows += chunk["t"].size
            progress.update(bar, completed=recording.fraction(rows))
    return time.perf_counter() - start, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(_read(options.read)))
        return
    for kind in options.only or KINDS:
        seconds, peak_mb, rows = KINDS[kind](options.megabytes * 1_000_000)
        print(
            f"{kind:8} {options.megabytes} MB: {rows} rows in {seconds:.1f} s ({rows / seconds:.3g} rows/s), "
            f"peak memory {peak_mb:.0f} MB"
        )


if __name__ == "__main__":
    main()
