"""The process that decodes binary logs: the same numbers, limits of memory and time, and its death as a sentence."""

from __future__ import annotations

import gc
import gzip
import os
import signal
import subprocess
import sys
import threading
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from steelyard import errors
from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.logs import read_recording
from steelyard.formats.logs.mat import read_mat
from steelyard.formats.reader_process import client
from steelyard.formats.reader_process.limits import MEMORY_GB, PIECE_S, UNPACKED_GB

h5py = pytest.importorskip("h5py")
T = np.arange(500) / 100


@pytest.fixture
def _fresh() -> Iterator[None]:
    """No process of an earlier test, and none left behind."""
    client._end_all()
    yield
    client._end_all()


def whole(path: Path) -> None:
    recording = read_recording(path)
    for _ in recording.chunks(recording.columns):
        pass


def refused(path: Path, *fragments: str) -> None:
    with pytest.raises(DataError) as caught:
        whole(path)
    for fragment in fragments:
        assert fragment in str(caught.value)


def log(path: Path) -> Path:
    savemat(path / "a.mat", {"t": T, "q": np.c_[T, -T]}, oned_as="column")
    return path / "a.mat"


def test_the_same_numbers_as_in_this_process(tmp_path: Path) -> None:
    path = log(tmp_path)
    here, apart = read_mat(path), read_recording(path)
    assert (apart.columns, apart.rows, apart.sha256) == (here.columns, here.rows, here.sha256)
    (block,) = here.chunks(here.columns)
    (other,) = apart.chunks(here.columns)
    for name in here.columns:
        assert np.array_equal(block[name], other[name])


@pytest.mark.usefixtures("_fresh")
def test_one_process_serves_many_questions(tmp_path: Path) -> None:
    path = log(tmp_path)
    read_recording(path)
    (process,) = client._idle
    for _ in range(3):
        for _ in read_recording(path).chunks(("t",)):
            pass
    assert client._idle == [process]
    reading = read_recording(path).opener.blocks(("t",))
    next(reading)
    del reading  # left in the middle: the process has more to say, and is ended
    gc.collect()
    assert process.process.poll() is not None


def test_a_mat_file_that_unpacks_to_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_GB[0], "0.2")
    size = 400_000_000
    zeros = zlib.compressobj(9)
    tags = [(6, 8), (6, 0), (5, 8), (size // 8, 1), (1, 1), (ord("q"), 0), (9, size)]
    head = b"".join(np.array(tag, "<u4").tobytes() for tag in [(14, size + 48), *tags])
    packed = zeros.compress(head) + b"".join(zeros.compress(bytes(10_000_000)) for _ in range(40)) + zeros.flush()
    start = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    (tmp_path / "bomb.mat").write_bytes(start + np.array([15, len(packed)], "<u4").tobytes() + packed)
    assert (tmp_path / "bomb.mat").stat().st_size < 1_000_000
    refused(tmp_path / "bomb.mat", "needs more than 0.2 GB of memory to decode", MEMORY_GB[0])


def test_relative_paths_start_in_the_folder_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it changed folder: the process that answers was started in another one."""
    for k, name in enumerate(("one", "other")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        savemat("a.mat", {"t": T, "q": T + k}, oned_as="column")
        os.utime("a.mat", (0, 0))  # the same size and time, but another file
        blocks = list(read_recording(Path("a.mat")).chunks(("q",)))
        np.testing.assert_array_equal(np.concatenate([block["q"] for block in blocks]), T + k)
        with gzip.open("b.csv.gz", "wt") as file:
            file.write("t\n0\n1\n")
        whole(Path("b.csv.gz"))
    (tmp_path / "other" / "a.mat").rename(tmp_path / "a.mat")
    (tmp_path / "other" / "b.csv.gz").unlink()
    (tmp_path / "other").rmdir()
    whole(tmp_path / "a.mat")


def test_hdf5_that_declares_more_than_it_holds(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("q", shape=(10**11,), dtype="f8", chunks=(1 << 16,))
    refused(tmp_path / "bomb.h5", "declares 1e+11 numbers, more than 8 GB", UNPACKED_GB[0])


def test_a_busy_machine_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is stopped uses no processor time: the log is not blamed, and is read when it goes on in time."""
    path = log(tmp_path)
    read_recording(path)  # the process is running
    process = client._idle[-1].process
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setenv(PIECE_S[0], "0.5")
    go_on = threading.Timer(1.0, os.kill, (process.pid, signal.SIGCONT))
    go_on.start()
    whole(path)
    go_on.join()
    os.kill(client._idle[-1].process.pid, signal.SIGSTOP)
    monkeypatch.setenv(PIECE_S[0], "0.05")
    refused(path, "not decoded within 1.5 s", "the machine may be busy", PIECE_S[0])


@pytest.mark.usefixtures("_fresh")
def test_a_log_that_takes_too_much_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece of many tiny chunks: minutes of work for the library, from a file of a few bytes."""
    monkeypatch.setenv(PIECE_S[0], "1")
    monkeypatch.setattr(client, "MOST_WAITS", 1000)  # however busy this machine is
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("q", shape=(4_000_000,), dtype="f8", chunks=(1,), fillvalue=1.0)
    refused(tmp_path / "a.h5", "takes longer than 1 s of processor time", "damaged or made to", PIECE_S[0])


def test_without_a_limit_of_processor_time_the_clock_is_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path)
    read_recording(path)
    os.kill(client._idle[-1].process.pid, signal.SIGSTOP)
    monkeypatch.setenv(PIECE_S[0], "0.2")
    monkeypatch.setattr(client, "_OVERTIME", 0)
    refused(path, "takes longer than 0.2 s", PIECE_S[0])


def test_a_library_that_crashes(tmp_path: Path) -> None:
    path = log(tmp_path)
    recording = read_recording(path)
    os.kill(client._idle[-1].process.pid, signal.SIGKILL)
    client._idle[-1].process.wait()
    assert [block["t"].size for block in recording.chunks(("t",))] == [T.size]  # a new process takes its place
    process = client._free()
    os.kill(process.process.pid, signal.SIGSTOP)
    client._idle.append(process)
    os.kill(process.process.pid, signal.SIGSEGV)
    os.kill(process.process.pid, signal.SIGCONT)
    refused(path, "makes the library that decodes it crash", "export the log in another format")


@pytest.mark.parametrize("packing", ["gz", "zip"])
def test_packed_logs_are_unpacked_apart(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNPACKED_GB[0], "0.001")
    bomb = bytes(20_000_000)
    if packing == "gz":
        (tmp_path / "log.csv.gz").write_bytes(gzip.compress(bomb))
    else:
        with zipfile.ZipFile(tmp_path / "log.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("log.csv", bomb)
    refused(tmp_path / f"log.csv.{packing}", "unpacks to more than 0.001 GB", UNPACKED_GB[0])


@pytest.mark.parametrize("variable", [MEMORY_GB[0], PIECE_S[0], UNPACKED_GB[0]])
@pytest.mark.usefixtures("_fresh")
def test_limits_that_are_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "-1")
    refused(log(tmp_path), f"{variable} must be a positive number of")


def test_errors_keep_their_kind() -> None:
    head = {"error": "MissingExtraError", "message": "Reading needs 'h5py'."}
    error = client._again(head, Path("a.h5"), 4.0)
    assert type(error) is MissingExtraError
    assert str(error) == "Reading needs 'h5py'."
    assert isinstance(client._again({"error": "OSError", "message": "", "trace": "…"}, Path("a"), 4.0), RuntimeError)
    assert issubclass(MissingExtraError, errors.SteelyardError)


def test_a_process_does_not_outlive_its_caller(tmp_path: Path) -> None:
    script = (
        "import sys, os, signal\n"
        "from steelyard.formats.logs import read_recording\n"
        "from steelyard.formats.reader_process import client\n"
        f"read_recording({str(log(tmp_path))!r})\n"
        "print(client._idle[-1].process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120)
    child = int(told.stdout)
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{child}/stat") as state:
            if state.read().rpartition(")")[2].split()[0] == "Z":
                return
        signal.sigtimedwait([], 0.05)
    pytest.fail("the reader process still runs")


def test_nothing_is_imported_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log(tmp_path)
    client._end_all()
    for name in ("numpy", "scipy", "json", "steelyard"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    read_recording(path)
    assert not (tmp_path / "ran").exists()
