"""A bag of any size, read whole in bounded memory: seconds, messages per second and peak memory of the process.

    python evidence/big_bag.py --gigabytes 1 --kind mcap

--kind is mcap, db3 or bag. The bag is written to a temporary folder and deleted.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

from steelyard.formats.bags.bag import read_bag

JOINT_STATE = "sensor_msgs/msg/JointState"
NAMES = [f"joint_{k}" for k in range(1, 8)]
KINDS = ("mcap", "db3", "bag")
START, STEP = 1_700_000_000_000_000_000, 1_000_000  # ns: a robot at 1 kHz
STAMP_AT = 4  # bytes: behind the encapsulation (CDR), behind the sequence number (ROS 1)
PROGRESS_EVERY = 20_000


class Measured(NamedTuple):
    """What one reading took."""

    bytes: int
    messages: int
    open_seconds: float
    read_seconds: float
    cpu_seconds: float
    idle_mb: float
    peak_mb: float


def big_bag(size_bytes: int, kind: str = "mcap") -> Measured:
    """Write a bag of about `size_bytes`, read all its columns in a separate process, and report time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.bag" if kind == "bag" else "run")
        _write(path, size_bytes, kind)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        child = subprocess.Popen([sys.executable, __file__, "--read", str(path)], stdout=subprocess.PIPE, text=True)
        process, peak = psutil.Process(child.pid), 0
        while child.poll() is None:
            try:
                peak = max(peak, process.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)
        told = json.loads(child.communicate()[0])
    return Measured(size, told["messages"], told["open"], told["read"], told["cpu"], told["idle"] / 1e6, peak / 1e6)


def _write(path: Path, size_bytes: int, kind: str) -> None:
    ros1 = kind == "bag"
    store: Any = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    time_zero = store.types["builtin_interfaces/msg/Time"](0, 0)
    header = store.types["std_msgs/msg/Header"](*([0] if ros1 else []), time_zero, "base_link")
    numbers = np.linspace(-1.0, 1.0, len(NAMES))
    message = store.types[JOINT_STATE](header, NAMES, numbers, 2.0 * numbers, 3.0 * numbers)
    serialize: Callable[..., memoryview] = store.serialize_ros1 if ros1 else store.serialize_cdr
    data = bytearray(serialize(message, JOINT_STATE))
    with ExitStack() as stack:
        writer: Any
        if ros1:
            writer = stack.enter_context(Writer1(path))
        else:
            plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
            writer = stack.enter_context(Writer2(path, version=9, storage_plugin=plugin))
        progress = stack.enter_context(Progress(console=Console(stderr=True)))
        task = progress.add_task(f"writing {kind}", total=size_bytes)
        connection = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        for k in range(size_bytes // (len(data) + 31)):  # an MCAP record adds 31 bytes to a message, others about that
            stamp = START + k * STEP
            struct.pack_into("<II", data, STAMP_AT, stamp // 10**9, stamp % 10**9)
            writer.write(connection, stamp, bytes(data))
            if k % PROGRESS_EVERY == 0:
                progress.update(task, completed=k * (len(data) + 31))
        progress.update(task, completed=size_bytes)


def _read(path: Path) -> None:
    """In the child: every column of every row, and the answer as JSON."""
    idle = psutil.Process().memory_info().rss
    began, cpu = time.perf_counter(), time.process_time()
    recording = read_bag(path)
    opened = time.perf_counter()
    rows = 0
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("reading", total=1.0)
        for chunk in recording.chunks(recording.columns):
            stamps = chunk["stamp"]
            assert np.array_equal(stamps, np.arange(rows, rows + stamps.size) * STEP / 1e9)
            rows += stamps.size
            progress.update(task, completed=recording.fraction(rows))
    took = {"open": opened - began, "read": time.perf_counter() - opened, "cpu": time.process_time() - cpu}
    print(json.dumps(took | {"messages": rows, "idle": idle}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--kind", choices=KINDS, default="mcap")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        _read(arguments.read)
        return
    found = big_bag(int(arguments.gigabytes * 1e9), arguments.kind)
    table = Table("bag", "MB", "messages", "open s", "read s", "CPU s", "msg/s", "peak MB", "idle MB")
    rate = found.messages / found.read_seconds
    table.add_row(
        arguments.kind,
        f"{found.bytes / 1e6:.0f}",
        str(found.messages),
        f"{found.open_seconds:.1f}",
        f"{found.read_seconds:.1f}",
        f"{found.cpu_seconds:.1f}",
        f"{rate:.0f}",
        f"{found.peak_mb:.0f}",
        f"{found.idle_mb:.0f}",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
