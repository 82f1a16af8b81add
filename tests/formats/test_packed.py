"""Packed logs: the same numbers as unpacked, a bound on what is unpacked, and nothing left behind."""

from __future__ import annotations

import gc
import gzip
import importlib
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.logs import read_recording
from steelyard.formats.packed import PackedLog, unpack
from steelyard.formats.reader_process.limits import UNPACKED_GB

ROWS = 2000
TEXT = b"t,q1\n" + b"".join(b"%d,%d\n" % (k, k * k) for k in range(ROWS))


def zstd(data: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return importlib.import_module(name).compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstd}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, *fragments: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_recording(path, **options)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert not list(Path(tempfile.gettempdir()).iterdir())
    return str(caught.value)


@pytest.mark.parametrize("ending", ["gz", "zst", "zip"])
def test_a_packed_text_log_is_read_and_nothing_is_left(ending: str, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "a.csv").write_bytes(TEXT)
    file = tmp_path / f"a.csv.{ending}"
    if ending == "zip":
        zipped(file, **{"a.csv": TEXT})
    else:
        file.write_bytes(PACKERS[ending](TEXT))
    recording = read_recording(file)
    chunk = next(recording.chunks(["t", "q1"]))
    np.testing.assert_array_equal(chunk["q1"], np.arange(ROWS) ** 2.0)
    # packing does not make it another log
    assert recording.sha256 == read_recording(tmp_path / "a.csv").sha256
    assert recording.source.startswith(str(file))
    assert list(temporary.iterdir())
    del recording
    gc.collect()
    assert not list(temporary.iterdir())


def test_a_member_is_named_by_a_path_and_stays_inside(tmp_path: Path, temporary: Path) -> None:
    members = {"x/a.csv": TEXT, "../../evil.csv": TEXT, "README.txt": b"words", "__MACOSX/x/._a.csv": b"\0"}
    file = zipped(tmp_path / "logs.zip", **members)
    told = refused(file, "contains 2 logs: x/a.csv, ../../evil.csv.")
    assert told.endswith(f"Give one or several of them, each by its path: '{file}/x/a.csv' '{file}/../../evil.csv'.")
    refused(file / "b.csv", "has no member 'b.csv'. It contains: x/a.csv")
    assert read_recording(file / "x" / "a.csv").name == "logs.zip/x/a.csv"
    held = read_recording(Path(f"{file}/../../evil.csv"))
    assert [path.parent.parent for path in tmp_path.parent.rglob("*evil*")] == [temporary]
    assert held.columns == ("t", "q1")


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = b"t,q1\n" + bytes(3_000_000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(bomb))
    (tmp_path / "a.csv.zst").write_bytes(zstd(bomb))
    zipped(tmp_path / "a.zip", **{"a.csv": bomb})
    monkeypatch.setenv(UNPACKED_GB[0], "0.001")
    for name in ("a.csv.gz", "a.csv.zst", "a.zip"):
        refused(tmp_path / name, "unpacks to more than 0.001 GB", UNPACKED_GB[0])
    # a zip whose index understates the size: never more than the limit and one block are unpacked
    lying = bytearray((tmp_path / "a.zip").read_bytes())
    at = lying.index(b"PK\x01\x02") + 24
    lying[at : at + 4] = (5).to_bytes(4, "little")
    (tmp_path / "lying.zip").write_bytes(lying)
    refused(tmp_path / "lying.zip", "'lying.zip' is damaged", "ends early")
    monkeypatch.setenv(UNPACKED_GB[0], "0.01")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(TEXT))
    assert read_recording(tmp_path / "b.csv.gz").columns == ("t", "q1")
    monkeypatch.setenv(UNPACKED_GB[0], "much")
    refused(tmp_path / "b.csv.gz", f"{UNPACKED_GB[0]} must be a positive number of gigabytes, not 'much'")


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_packed_log_that_ends_early_is_salvaged(ending: str, tmp_path: Path) -> None:
    # compressed in blocks that can be unpacked on their own
    rows = b"".join(b"%d,%.17g\n" % (k, np.sin(k) * 1e-3) for k in range(20_000))
    data = PACKERS[ending](b"t,q1\n" + rows)
    file = tmp_path / f"a.csv.{ending}"
    file.write_bytes(data[: 2 * len(data) // 3])
    refused(file, "is damaged: the compressed file ends early", "salvage = true")
    recording = read_recording(file, salvage=True)
    assert recording.rows is not None
    assert 100 < recording.rows < 20_000
    assert "ends early" in recording.notes[0]


def test_contents_that_are_no_log_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(TEXT)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.csv", "a.csv")
    refused(tmp_path / "logs.tar.gz", "contains a tar archive. Unpack it")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(gzip.compress(TEXT)))
    refused(tmp_path / "a.csv.gz", "contains a packed file")
    np.savez(tmp_path / "arrays.npz", q=np.ones(3))
    refused(tmp_path / "arrays.npz", "a zip archive without a log. It contains: q.npy")
    (tmp_path / "cut.zip").write_bytes(zipped(tmp_path / "b.zip", **{"a.csv": TEXT}).read_bytes()[:100])
    refused(tmp_path / "cut.zip", "is not a complete zip archive")
    (tmp_path / "plain.csv.gz").write_bytes(TEXT)
    refused(tmp_path / "plain.csv.gz", "is not a .gz file, in spite of its name. Copy it again")
    (tmp_path / "empty.csv.gz").write_bytes(gzip.compress(b""))
    refused(tmp_path / "empty.csv.gz", f"'{tmp_path / 'empty.csv.gz'}' is empty")
    (tmp_path / "a.xyz.gz").write_bytes(gzip.compress(b"1"))
    refused(tmp_path / "a.xyz.gz", "unknown extension '.xyz'", ".gz .zst .zip")
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1 nothing else"))
    refused(tmp_path / "a.parquet.gz", f"'{tmp_path / 'a.parquet.gz'}' is not a readable Parquet file")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(TEXT))
    refused(tmp_path / "b.csv.gz", "'topic' is for ROS bags", topic="/joint_states")
    (tmp_path / "a.csv.zst").write_bytes(zstd(TEXT))
    monkeypatch.setitem(sys.modules, "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd", None)
    monkeypatch.delattr("backports.zstd", raising=False)
    with pytest.raises(MissingExtraError, match=r"steelyard\[zstd\]"):
        unpack(PackedLog(tmp_path / "a.csv.zst", ".zst"), tmp_path / "plain")


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "a.zip", **{"a.csv": TEXT}).read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + flags] |= 1
    (tmp_path / "secret.zip").write_bytes(data)
    refused(tmp_path / "secret.zip", "cannot be unpacked", "encrypted")


def test_a_packed_log_that_changes_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT))
    recording = read_recording(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT + b"3,4\n"))
    with pytest.raises(DataError, match="changed while it was in use"):
        next(recording.chunks(["t"]))


def test_a_member_that_is_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"t": [0.0, 1.0], "q1": [3.0, 4.0]}).write_parquet(tmp_path / "a.parquet")
    file = zipped(tmp_path / "a.zip", **{"deep/a.parquet": (tmp_path / "a.parquet").read_bytes()})
    assert next(read_recording(file).chunks(["q1"]))["q1"].tolist() == [3.0, 4.0]
