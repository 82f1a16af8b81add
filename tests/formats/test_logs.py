"""Log readers: what the ecosystem's own writers wrote comes back to the last bit, and damage never goes unsaid."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from steelyard._arrays import Array
from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.logs import array_columns as arrays
from steelyard.formats.logs import csv as delimited
from steelyard.formats.logs import parquet, read_recording
from steelyard.formats.logs.hdf5 import read_hdf5
from steelyard.signals.recording import Recording

h5py: Any = importlib.import_module("h5py") if importlib.util.find_spec("h5py") else None
needs_h5py = pytest.mark.skipif(h5py is None, reason='h5py is not installed: pip install "steelyard[hdf5]"')
Signals = dict[str, Array]


def whole(recording: Recording, columns: tuple[str, ...] = ()) -> Signals:
    asked = columns or recording.columns
    chunks = list(recording.chunks(asked))
    return {name: np.concatenate([c[name] for c in chunks]) if chunks else np.empty(0) for name in asked}


def assert_same_bits(left: Signals, right: Signals) -> None:
    """Equal to the last bit, the sign of zero included; one NaN is as good as another."""
    assert left.keys() == right.keys()
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])
        np.testing.assert_array_equal(np.signbit(values[~np.isnan(values)]), np.signbit(right[name][~np.isnan(values)]))


def refused(path: Path, *fragments: str, columns: tuple[str, ...] = (), **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        whole(read_recording(path, **options), columns)
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    return message


# --- every writer, to the last bit ------------------------------------------------------------------------------------


def as_csv(path: Path, t: Array, q: Array) -> Path:
    columns = {"t": t} | {f"q[{k}]": q[:, k] for k in range(q.shape[1])}
    pl.DataFrame(columns).write_csv(path / "a.csv")
    return path / "a.csv"


def as_parquet(path: Path, t: Array, q: Array) -> Path:
    frame = pl.DataFrame({"t": t, "q": q}, schema={"t": pl.Float64, "q": pl.Array(pl.Float64, q.shape[1])})
    frame.write_parquet(path / "a.parquet", row_group_size=7)
    return path / "a.parquet"


def as_lists(path: Path, t: Array, q: Array) -> Path:
    frame = pl.DataFrame({"t": t, "q": q.tolist()}, schema={"t": pl.Float64, "q": pl.List(pl.Float64)})
    frame.write_parquet(path / "l.parquet", row_group_size=5)
    return path / "l.parquet"


def as_mat(path: Path, t: Array, q: Array) -> Path:
    savemat(path / "a.mat", {"t": t, "q": q}, oned_as="column")
    return path / "a.mat"


def as_compressed_mat(path: Path, t: Array, q: Array) -> Path:
    savemat(path / "c.mat", {"t": t, "q": q.T}, do_compression=True, oned_as="row")
    return path / "c.mat"


def as_old_mat(path: Path, t: Array, q: Array) -> Path:
    savemat(path / "v4.mat", {"t": t, "q": q}, format="4", oned_as="row")
    return path / "v4.mat"


def as_hdf5(path: Path, t: Array, q: Array) -> Path:
    with h5py.File(path / "a.h5", "w") as file:
        file["t"] = t
        file.create_dataset("q", data=q, chunks=(1, q.shape[1]), compression="gzip", fletcher32=True)
    return path / "a.h5"


def matlab_73(path: Path, fill: Callable[[Any], None]) -> Path:
    """An HDF5 file as MATLAB 7.3 lays it out: a text header in front, arrays transposed and marked by class."""
    with h5py.File(path, "w", userblock_size=512) as file:
        fill(file)
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return path


def put(group: Any, name: str, values: Any, kind: str = "double") -> Any:
    dataset = group.create_dataset(name, data=np.atleast_2d(np.asarray(values)).T)
    dataset.attrs["MATLAB_class"] = np.bytes_(kind)
    return dataset


def as_mat73(path: Path, t: Array, q: Array) -> Path:
    def fill(file: Any) -> None:
        put(file, "t", t[:, None])
        put(file, "q", q)

    return matlab_73(path / "v73.mat", fill)


WRITERS = [as_parquet, as_lists, as_mat, as_compressed_mat, as_old_mat]
WRITERS += [pytest.param(write, marks=needs_h5py) for write in (as_hdf5, as_mat73)]
extremes = st.sampled_from([0.0, -0.0, 5e-324, -2.2250738585072009e-308, 1.7976931348623157e308, -np.inf, np.nan, 0.1])
logs = st.integers(2, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.floats(width=64) | extremes, min_size=width, max_size=width), min_size=width + 1, max_size=30
    )
)


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=logs, window=st.integers(1, 64))
def test_round_trip(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, Array, Array], Path],
    rows: list[list[float]],
    window: int,
) -> None:
    monkeypatch.setattr(parquet, "WINDOW_CELLS", window)
    monkeypatch.setattr(arrays, "WINDOW_CELLS", window)
    table = np.array(rows)
    t, q = table[:, 0], table[:, 1:] if table.shape[1] > 2 else np.column_stack([table[:, 1], table[:, 1]])
    plain = read_recording(as_csv(tmp_path, t, q))
    recording = read_recording(write(tmp_path, t, q))
    assert recording.rows == len(t)
    assert set(recording.columns) == set(plain.columns)
    assert_same_bits(whole(recording, plain.columns), whole(plain))
    assert_same_bits(whole(plain), {"t": t} | {f"q[{k}]": q[:, k] for k in range(q.shape[1])})
    assert_same_bits(
        whole(read_recording(tmp_path / recording.name, salvage=True), plain.columns), whole(recording, plain.columns)
    )


# --- MATLAB and HDF5 --------------------------------------------------------------------------------------------------

N = 30
T = np.arange(N) / 100
Q = np.random.default_rng(0).normal(size=(N, 6))


def test_arrays_are_named_by_one_rule(tmp_path: Path) -> None:
    pose = np.random.default_rng(1).normal(size=(2, 2, N))
    content = {
        "t": T,
        "data": {"q": Q, "deep": {"tau": Q.T * 2}},
        "ts": {"Time": T[:, None], "Data": Q[:, :2].T[:, None, :]},
        "runs": np.array([{"q": Q[:, :1]}, {"q": Q[:, 1:2]}], dtype=object),
        "pose": pose,
        "count": np.arange(N, dtype=np.int32),
        "flag": T > 0.1,
        "limits": np.ones((6, 2)),
        "rate": 100.0,
        "label": "free",
        "spectrum": np.ones(N) * 1j,
        "nothing": np.empty((0, 3)),
    }
    savemat(tmp_path / "a.mat", content)
    recording = read_recording(tmp_path / "a.mat")
    got = whole(recording)
    expected = {"t": T, "ts.Time": T, "count": np.arange(N), "flag": (T > 0.1).astype(float)}
    expected |= {f"data.q[{k}]": Q[:, k] for k in range(6)} | {f"data.deep.tau[{k}]": 2 * Q[:, k] for k in range(6)}
    expected |= {f"ts[{k}]": Q[:, k] for k in range(2)} | {f"runs[{k}].q": Q[:, k] for k in range(2)}
    expected |= {f"pose[{i},{j}]": pose[i, j] for i in range(2) for j in range(2)}
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values)
    message = refused(tmp_path / "a.mat", "Unknown column", "'limits'", "not as channels", columns=("limits",))
    for other in ("limits (6×2)", "rate (1×1)", "label (text)", "spectrum (complex numbers)", "nothing (0×3)"):
        assert other in message


def test_many_small_arrays_do_not_outvote_the_log(tmp_path: Path) -> None:
    limits = {f"limit{k}": np.arange(6.0) for k in range(4)}
    savemat(tmp_path / "a.mat", {"t": T, "q": Q} | limits)
    recording = read_recording(tmp_path / "a.mat")
    assert recording.rows == N
    assert set(recording.others) == {f"limit{k} (1×6)" for k in range(4)}


@needs_h5py
def test_a_73_file_reads_as_an_older_one(tmp_path: Path) -> None:
    square = np.random.default_rng(2).normal(size=(N, N))
    runs = [{"q": Q[:, :1], "tau": Q}, {"q": Q[:, 1:2], "tau": -Q}]
    old = {"t": T, "data": {"q": Q}, "ts": {"Time": T, "Data": Q}, "square": square, "c": np.empty(2, object)}
    old["c"][:] = [Q, T]
    old["runs"] = np.array(runs, dtype=object)
    savemat(tmp_path / "old.mat", old | {"label": "free", "gain": 2.0}, oned_as="column")

    def fill(file: Any) -> None:
        put(file, "t", T[:, None])
        put(file.create_group("data"), "q", Q)
        series = file.create_group("ts")
        put(series, "Time", T[:, None])
        put(series, "Data", Q)
        put(file, "square", square)
        put(file, "label", np.frombuffer("free".encode("utf-16-le"), np.uint16), "char")
        put(file, "gain", 2.0)
        hidden = file.create_group("#refs#")

        def references(values: list[Array], stem: str) -> Array:
            kept = [put(hidden, f"{stem}{k}", value).ref for k, value in enumerate(values)]
            return np.array(kept, dtype=h5py.ref_dtype)[:, None]

        file.create_dataset("c", data=references([Q, T[:, None]], "c"), dtype=h5py.ref_dtype)
        file["c"].attrs["MATLAB_class"] = np.bytes_("cell")
        structures = file.create_group("runs")
        for field in ("q", "tau"):
            data = references([run[field] for run in runs], field)
            structures.create_dataset(field, data=data, dtype=h5py.ref_dtype)

    matlab_73(tmp_path / "new.mat", fill)
    new, plain = read_recording(tmp_path / "new.mat"), read_recording(tmp_path / "old.mat")
    assert set(new.columns) == set(plain.columns)
    assert_same_bits(whole(new, plain.columns), whole(plain))
    assert set(new.others) == set(plain.others) == {"label (text)", "gain (1×1)"}


@needs_h5py
def test_hdf5_groups_and_kinds(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["arm/q"] = Q.astype(np.float32)
        file["t"] = T
        file["one"] = 1.0
        file["label"] = "free"
        file["arm/on"] = T > 0.1
    recording = read_recording(tmp_path / "a.hdf5")
    assert set(recording.columns) == {"t", "arm.on"} | {f"arm.q[{k}]" for k in range(6)}
    assert whole(recording)["arm.q[5]"].tolist() == Q[:, 5].astype(np.float32).astype(float).tolist()
    refused(tmp_path / "a.hdf5", "one (one number)", "label (object)", columns=("one",))


MATLAB_FILES = sorted(Path(scipy.io.matlab.__file__).parent.glob("tests/data/*.mat"))


@pytest.mark.skipif(not MATLAB_FILES, reason="this SciPy came without its test data, which MATLAB wrote")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whatever_matlab_wrote_is_sound() -> None:
    """A file SciPy can read is never called damaged; the ones it refuses are refused in one sentence."""
    for path in MATLAB_FILES:
        try:
            scipy.io.loadmat(path)
            readable = True
        except NotImplementedError:
            continue  # version 7.3
        except Exception:
            readable = False
        try:
            read_recording(path)
        except DataError as error:
            assert ("is damaged" in str(error)) != readable, error  # noqa: PT017


@needs_h5py
@pytest.mark.skipif(not MATLAB_FILES, reason="this SciPy came without its test data, which MATLAB wrote")
def test_every_version_of_matlab_gives_the_same_numbers() -> None:
    same = [path for path in MATLAB_FILES if path.name.startswith(("testdouble", "testhdf5"))]
    assert len(same) > 4
    for path in same:
        np.testing.assert_array_equal(whole(read_recording(path))["testdouble"], np.linspace(0, 2 * np.pi, 9))


def test_files_without_arrays(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"label": "free"})
    refused(tmp_path / "a.mat", "no arrays of numbers", "label (text)")


# --- LeRobot ----------------------------------------------------------------------------------------------------------

MOTORS = ["shoulder_pan", "shoulder_lift", "gripper"]


def lerobot(folder: Path, names: object, lengths: tuple[int, ...] = (5,), kind: type[pl.DataType] = pl.List) -> Path:
    """A dataset file of episodes 3, 4, … as LeRobot lays it out, with 32-bit states."""
    rng = np.random.default_rng(0)
    frame = np.concatenate([np.arange(n) for n in lengths])
    state = rng.normal(size=(len(frame), 3)).astype(np.float32)
    of = pl.List(pl.Float32) if kind is pl.List else pl.Array(pl.Float32, 3)
    table = pl.DataFrame(
        {
            "observation.state": pl.Series(state.tolist(), dtype=of),
            "action": pl.Series((state + 1).tolist(), dtype=of),
            "timestamp": pl.Series(frame / 30, dtype=pl.Float32),
            "frame_index": frame,
            "episode_index": np.repeat(np.arange(len(lengths)) + 3, lengths),
            "task_index": np.zeros(len(frame), int),
        }
    )
    data = folder / "data" / "chunk-000"
    data.mkdir(parents=True)
    table.write_parquet(data / "file-000.parquet", row_group_size=4)
    (folder / "meta").mkdir()
    features = {"observation.state": {"dtype": "float32", "shape": [3], "names": names}, "timestamp": {"names": None}}
    info = {"codebase_version": "v3.0", "fps": 30, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return data / "file-000.parquet"


@pytest.mark.parametrize("kind", [pl.List, pl.Array])
@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (MOTORS, [f".{name}" for name in MOTORS]),
        ({"motors": MOTORS}, [f".{name}" for name in MOTORS]),
        (None, ["[0]", "[1]", "[2]"]),
        (["dim"], ["[0]", "[1]", "[2]"]),
        (["x", "gripper", "gripper"], ["[0]", "[1]", "[2]"]),
        ({"x": 0, "y": 1, "z": 2}, ["[0]", "[1]", "[2]"]),
    ],
)
def test_lists_are_named_after_the_motors(
    tmp_path: Path, names: object, shown: list[str], kind: type[pl.DataType]
) -> None:
    path = lerobot(tmp_path, names, kind=kind)
    recording = read_recording(path)
    assert recording.columns[:6] == (
        *(f"observation.state{name}" for name in shown),
        *(f"action[{k}]" for k in range(3)),
    )
    state = np.array(pl.read_parquet(path)["observation.state"].to_list())
    got = whole(recording)
    for k, name in enumerate(shown):
        assert_same_bits({"x": got[f"observation.state{name}"]}, {"x": state[:, k]})
    assert recording.rows == 5
    assert not recording.notes


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_32_bit_values_are_exact(tmp_path: Path, values: list[float]) -> None:
    single = np.array(values, dtype=np.float32)
    frame = pl.DataFrame({"q": pl.Series([[v] for v in single], dtype=pl.List(pl.Float32)), "v": pl.Series(single)})
    frame.write_parquet(tmp_path / "a.parquet")
    expected = single.astype(np.float64)
    assert_same_bits(whole(read_recording(tmp_path / "a.parquet")), {"q[0]": expected, "v": expected})


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 3, 8, 1 << 22])
def test_episodes_are_read_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    path = lerobot(tmp_path, MOTORS, (5, 1, 7))
    monkeypatch.setattr(parquet, "WINDOW_CELLS", window)
    refused(path, "3 episodes", "3, 4, 5", "episode = 3")
    refused(path, "no episode 9", "3, 4, 5", episode=9)
    frame = pl.read_parquet(path)
    for episode, rows in ((3, 5), (4, 1), (5, 7)):
        recording = read_recording(path, episode=episode)
        assert recording.rows == rows
        got = whole(recording)
        chosen = frame.filter(pl.col("episode_index") == episode)
        assert got["timestamp"].tolist() == chosen["timestamp"].to_list()
        assert got["timestamp"][0] == 0.0
        assert got["action[2]"].tolist() == [row[2] for row in chosen["action"]]
        assert set(got["episode_index"]) == {episode}


@pytest.mark.slow
def test_episodes_longer_than_a_chunk(tmp_path: Path) -> None:
    path = lerobot(tmp_path, MOTORS, (40_000, 40_000, 3))
    for episode, rows in ((3, 40_000), (4, 40_000), (5, 3)):
        got = whole(read_recording(path, episode=episode), ("episode_index", "frame_index"))
        assert set(got["episode_index"]) == {episode}
        assert got["frame_index"].tolist() == list(range(rows))


def test_datasets_with_something_wrong(tmp_path: Path) -> None:
    path = lerobot(tmp_path, MOTORS)
    (tmp_path / "meta" / "info.json").write_text("{")
    recording = read_recording(path)
    assert recording.columns[0] == "observation.state[0]"
    assert "info.json" in recording.notes[0]
    frame = pl.read_parquet(path)
    frame.with_columns(episode_index=pl.Series([1, 1, 2, 1, 1])).write_parquet(path)
    refused(path, "2 separate places", "Sort", episode=1)
    frame.with_columns(episode_index=pl.Series([1, 1, None, 1, 1])).write_parquet(path)
    refused(path, "without an episode_index")
    frame = frame.with_columns(action=pl.Series([[1.0], [2.0], [3.0, 4.0], [5.0], [6.0]]))
    frame.write_parquet(path)
    refused(path, "2 values in data row 3 instead of 1", "2 rows before it are intact")
    salvaged = read_recording(path, salvage=True)
    assert salvaged.rows == 2
    assert whole(salvaged)["action[0]"].tolist() == [1.0, 2.0]


# --- which reader -----------------------------------------------------------------------------------------------------


def test_the_first_bytes_decide(tmp_path: Path) -> None:
    as_mat(tmp_path, T, Q).rename(tmp_path / "mat.dat")
    as_parquet(tmp_path, T, Q).rename(tmp_path / "parquet.mat")
    assert read_recording(tmp_path / "mat.dat").rows == read_recording(tmp_path / "parquet.mat").rows == N


@pytest.mark.parametrize("write", [as_csv, *WRITERS])
def test_every_format_may_be_packed(tmp_path: Path, write: Callable[[Path, Array, Array], Path]) -> None:
    file = write(tmp_path, T, Q)
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    recording = read_recording(packed)
    assert recording.name == packed.name
    assert_same_bits(whole(recording), whole(read_recording(file)))


def test_unknown_extension_lists_all(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("1")
    message = refused(tmp_path / "a.xyz", "'.xyz'")
    for extension in (".csv", ".txt", ".parquet", ".mat", ".h5", ".hdf5", ".bag", ".db3", ".mcap"):
        assert extension in message


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    log, table = as_csv(tmp_path, T, Q), as_parquet(tmp_path, T, Q)
    refused(log, "'topic' is for ROS bags", topic="/joint_states")
    refused(log, "'episode' is for LeRobot", episode=1)
    refused(table, "'delimiter' is for text", delimiter=",")
    refused(as_mat(tmp_path, T, Q), "'episode' is for LeRobot", episode=1)


def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[hdf5\]"):
        read_hdf5(tmp_path / "a.h5")


def test_folders_are_bags_or_refused(tmp_path: Path) -> None:
    refused(tmp_path, "folder", "metadata.yaml")
    (tmp_path / "metadata.yaml").touch()
    with pytest.raises(DataError, match="does not list the files of the bag"):
        read_recording(tmp_path)


# --- loggers of robot makers ------------------------------------------------------------------------------------------


def test_rtde_log(tmp_path: Path) -> None:
    names = ["timestamp", *(f"actual_q_{k}" for k in range(6)), *(f"actual_current_{k}" for k in range(6))]
    np.savetxt(tmp_path / "r.csv", np.column_stack([T, Q, -Q]), header=" ".join(names), comments="")
    recording = read_recording(tmp_path / "r.csv")
    assert recording.columns == tuple(names)
    np.testing.assert_array_equal(whole(recording)["actual_current_5"], -Q[:, 5])


@pytest.mark.parametrize("version", ["early", "late"])
def test_libfranka_log(tmp_path: Path, version: str) -> None:
    def seven(name: str, between: str) -> str:
        return between.join(f"{name}[{k}]" for k in range(7))

    if version == "early":
        parts = [seven(name, ", ") for name in ("q", "q_d", "dq")]
        header = "duration, success rate, " + ",".join(parts) + ",sent commands," + seven("q_d", ", ")
        rows = [f"{k},0.5,{','.join(['0.25'] * 21)},,{','.join(['1e-05'] * 7)}" for k in range(N)]
    else:
        header = "time,success_rate," + ",".join(seven(name, ",") for name in ("state.q", "state.q_d", "cmd.q_d"))
        rows = [f"{k},0.5,{','.join(['0.25'] * 14 + ['1e-05'] * 7)}" for k in range(N)]
    (tmp_path / "f.csv").write_text("\n".join([header, *rows, ""]))
    got = whole(read_recording(tmp_path / "f.csv"))
    time, command = ("duration", "q_d[6]#2") if version == "early" else ("time", "cmd.q_d[6]")
    assert got[time].tolist() == list(range(N))
    assert set(got[command]) == {1e-05}


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_text_log_cut_in_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,q1,q2\n0,1,2\n1,2,3\n2,3")
    refused(path, "Line 4", "2 cells instead of 3", "incomplete", "The 2 rows before it are intact", "salvage = true")
    recording = read_recording(path, salvage=True)
    assert recording.rows == 2
    assert "Line 4" in recording.notes[0]
    assert "after 2 rows" in recording.notes[0]
    assert whole(recording)["q2"].tolist() == [2.0, 3.0]


def test_a_text_log_cut_in_its_last_number(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,q\n0,1.25\n1,1.25\n2,1.")
    recording = read_recording(path)
    assert whole(recording)["q"].tolist() == [1.25, 1.25, 1.0]
    assert "does not end in a newline" in recording.notes[0]
    recording = read_recording(path, salvage=True)
    assert whole(recording)["q"].tolist() == [1.25, 1.25]
    assert "Line 4" in recording.notes[0]


@pytest.mark.parametrize("block", [16, 1 << 24])
@pytest.mark.parametrize("garbage", [b"\0" * 100, b"\xff\xfe\x93\n\x01\x02,", b"3,x", b'3,"4\n', b"3\n", b"3,4,5\n"])
def test_garbage_in_a_text_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, garbage: bytes, block: int) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,q\n0,1\n1,2\n2,3\n" + garbage + b"\n4,5\n5,6\n")
    refused(path, "The 3 rows before it are intact", "salvage = true")
    recording = read_recording(path, salvage=True)
    assert recording.rows == 3
    assert len(recording.notes) == 1
    # the cut is the same whichever columns are asked for
    assert whole(recording, ("t",))["t"].tolist() == [0.0, 1.0, 2.0]
    assert whole(recording, ("q",))["q"].tolist() == [1.0, 2.0, 3.0]


def test_zeros_at_the_end_are_not_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "LONGEST_LINE", 100)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 50)
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,q\n0,1\n1,2\n" + b"\0" * 5000)
    refused(path, "Line 4", "does not end", "The 2 rows before it are intact")
    assert whole(read_recording(path, salvage=True))["q"].tolist() == [1.0, 2.0]
    with path.open("rb") as stream:
        assert max(map(len, delimited._whole_lines(stream))) <= 200


@pytest.mark.parametrize("first", ["start", ""])
def test_text_columns_are_no_damage(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,label,q\n0,{first},1\n1,,2\n" + "2,,3\n" * 300 + "3,stop,3\n")
    recording = read_recording(path, salvage=True)
    assert recording.rows == 303
    assert not recording.notes
    assert whole(recording, ("q",))["q"].size == 303


def test_a_log_damaged_from_the_first_row_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,q\n0,oops\n1,2\n2,3\n")
    message = refused(path, "row 1", "No row before it is intact", salvage=True)
    assert "salvage" not in message


@pytest.mark.parametrize("window", [1 << 12, 1 << 22])
def test_a_corrupt_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(parquet, "WINDOW_CELLS", window)
    rows, group = 40_000, 5_000
    values = np.random.default_rng(0).normal(size=rows)
    path = tmp_path / "a.parquet"
    pl.DataFrame({"t": np.arange(rows) * 1e-3, "q": values}).write_parquet(path, row_group_size=group)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 500] = b"\x55" * 500
    path.write_bytes(content)
    message = refused(path, "rows before it are intact", "of 40000", "salvage = true")
    recording = read_recording(path, salvage=True)
    assert recording.rows is not None
    assert f"The {recording.rows} rows" in message
    assert recording.rows % group == 0
    assert 0 < recording.rows < rows
    assert str(recording.rows) in recording.notes[0]
    got = whole(recording)
    np.testing.assert_array_equal(got["q"], values[: recording.rows])
    assert whole(recording, ("t",))["t"].size == recording.rows


def test_a_parquet_file_without_its_end(tmp_path: Path) -> None:
    path = as_parquet(tmp_path, T, Q)
    path.write_bytes(path.read_bytes()[:-20])
    for salvage in (False, True):
        refused(path, "nothing of it can be read", "salvage does not help", salvage=salvage)


def test_a_mat_file_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"t": T, "q": Q, "tau": 2 * Q}, do_compression=True, oned_as="column")
    path.write_bytes(path.read_bytes()[:-50])
    size = path.stat().st_size
    refused(
        path, f"ends early at byte {size}", "after 2 complete variables", "Intact: t, q (30 rows)", "salvage = true"
    )
    recording = read_recording(path, salvage=True)
    assert "ends early" in recording.notes[0]
    assert recording.columns == ("t", *(f"q[{k}]" for k in range(6)))
    np.testing.assert_array_equal(whole(recording)["q[5]"], Q[:, 5])


def test_a_corrupt_variable_does_not_reach_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"t": T, "q": Q, "tau": 2 * Q}, do_compression=True, oned_as="column")
    content = bytearray(path.read_bytes())
    content[len(content) // 2 - 50 : len(content) // 2] = b"\xaa" * 50
    path.write_bytes(content)
    refused(path, "the variable at byte", "cannot be decoded", "Intact: t, tau")
    np.testing.assert_array_equal(whole(read_recording(path, salvage=True))["tau[0]"], 2 * Q[:, 0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((9, 200), ("crash (code -11): it is damaged",)),
        ((9, 7), ("the variable at byte 128", "Intact: q (30 rows)")),
        ((8 * N, 2**31), ("the variable at byte 128", "Intact: q (30 rows)")),
    ],
)
def test_garbage_tags_crash_nothing(tmp_path: Path, change: tuple[int, int], reason: tuple[str, ...]) -> None:
    """SciPy follows the tags of an uncompressed variable blindly; some crash the process that reads."""
    path = tmp_path / "a.mat"
    savemat(path, {"t": T, "q": Q})
    content = path.read_bytes()
    tag = np.array([9, 8 * N], "<u4")
    assert content.count(tag.tobytes()) == 1
    path.write_bytes(content.replace(tag.tobytes(), np.where(tag == change[0], change[1], tag).astype("<u4").tobytes()))
    refused(path, *reason)


@needs_h5py
@pytest.mark.parametrize("window", [7, 1 << 22])
def test_a_corrupt_hdf5_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(arrays, "WINDOW_CELLS", window)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["t"] = T
        data = file.create_dataset("q", data=Q, chunks=(5, 6), fletcher32=True)
        place = data.id.get_chunk_info(3).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 8 : place + 16] = b"\xaa" * 8
    path.write_bytes(content)
    refused(path, "Row 16 of 'q'", "The 15 rows before it are intact")
    recording = read_recording(path, salvage=True)
    assert recording.rows == 15
    assert "Row 16" in recording.notes[0]
    np.testing.assert_array_equal(whole(recording)["q[3]"], Q[:15, 3])
    # without the damaged array all rows are there, and not salvaging reads them
    assert whole(read_recording(path), ("t",))["t"].size == N


@pytest.mark.parametrize("write", [as_csv, *WRITERS])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), salvage=st.booleans())
def test_cut_anywhere(tmp_path: Path, write: Callable[[Path, Array, Array], Path], share: float, salvage: bool) -> None:
    path = write(tmp_path, T, Q)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    expected = {"t": T} | {f"q[{k}]": Q[:, k] for k in range(6)}
    try:
        recording = read_recording(path, salvage=salvage)
        got = whole(recording)
    except DataError:
        return
    rows = next(iter(got.values())).size
    if path.suffix == ".csv":
        # Only a cut behind a newline looks like a shorter log. An unfinished last number may differ.
        assert recording.notes or path.read_bytes().endswith(b"\n")
        sure = rows if path.read_bytes().endswith(b"\n") or salvage else rows - 1
    else:
        # A MATLAB file has no index: a cut between two variables looks like a file with fewer of them.
        assert recording.notes or rows == N
        sure = rows
    for name, values in got.items():
        np.testing.assert_array_equal(values[:sure], expected[name][:sure])


# Not HDF5: garbage in its index can crash the library itself, and with it the tests.
@pytest.mark.slow
@pytest.mark.parametrize("write", [as_csv, as_parquet, as_lists, as_mat, as_compressed_mat, as_old_mat])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), salvage=st.booleans())
def test_garbage_anywhere(
    tmp_path: Path, write: Callable[[Path, Array, Array], Path], data: st.DataObject, salvage: bool
) -> None:
    path = write(tmp_path, T, Q)
    content = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=64))
    content[start : start + len(garbage)] = garbage
    path.write_bytes(content)
    try:
        recording = read_recording(path, salvage=salvage)
        rows = {name: whole(recording, (name,))[name].size for name in recording.columns}
    except DataError:
        return
    assert len(set(rows.values())) == 1 or not salvage


# --- progress ---------------------------------------------------------------------------------------------------------


def test_the_fraction_read_is_known_or_estimated(tmp_path: Path) -> None:
    rows = 50_000
    frame = pl.DataFrame({"t": np.arange(rows) / 1e3, "q": np.random.default_rng(0).normal(size=rows)})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    assert read_recording(tmp_path / "a.parquet").fraction(rows // 2) == 0.5
    estimate = read_recording(tmp_path / "a.csv").fraction(rows // 2)
    assert estimate == pytest.approx(0.5, rel=0.05)
    assert read_recording(tmp_path / "a.csv").fraction(2 * rows) == 1.0
    assert Recording("a", ("t",), "memory", None, read_recording(tmp_path / "a.csv").opener).fraction(1) is None
