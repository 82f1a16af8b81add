"""Recordings: chunk size never matters, formats agree, every bad log gets one clear sentence."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.logs import csv as delimited
from steelyard.formats.logs import parquet, read_recording
from steelyard.signals.recording import Recording

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(content: str | bytes, name: str = "run.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def whole(recording: Recording, columns: tuple[str, ...] = (), chunk_rows: int = 65536) -> dict[str, Array]:
    chunks = list(recording.chunks(columns or recording.columns, chunk_rows))
    assert all(len({v.size for v in c.values()}) == 1 for c in chunks)
    assert all(v.dtype == np.float64 and v.ndim == 1 for c in chunks for v in c.values())
    return {name: np.concatenate([c[name] for c in chunks]) for name in chunks[0]}


def assert_same(left: dict[str, Array], right: dict[str, Array]) -> None:
    assert left.keys() == right.keys()
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])


def refused(path: Path, *fragments: str, delimiter: str | None = None, columns: tuple[str, ...] = ()) -> str:
    with pytest.raises(DataError) as caught:
        whole(read_recording(path, delimiter), columns)
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    return message


# --- chunks -----------------------------------------------------------------------------------------------------------

cells = st.one_of(st.floats(width=64), st.none())
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=40)
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables, chunk_rows=st.integers(1, 50), block=st.integers(20, 400), window=st.integers(1, 64))
def test_formats_and_chunk_sizes_agree(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[list[float | None]],
    chunk_rows: int,
    block: int,
    window: int,
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    monkeypatch.setattr(parquet, "WINDOW_CELLS", window)
    names = [f"c{k}" for k in range(len(rows[0]))]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
    frame.write_csv(tmp_path / "a.csv", null_value="NA")
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=7)
    expected = {name: frame[name].fill_null(np.nan).to_numpy() for name in names}
    logs = (tmp_path / "a.csv", tmp_path / "a.parquet")
    for recording in (Recording.from_arrays("a", expected), *map(read_recording, logs)):
        assert recording.columns == tuple(names)
        assert_same(whole(recording, chunk_rows=chunk_rows), expected)
        sizes = [c[names[0]].size for c in recording.chunks(names, chunk_rows)]
        assert all(size == chunk_rows for size in sizes[:-1])
        assert 0 < sizes[-1] <= chunk_rows


@pytest.mark.parametrize("chunk_rows", [1, 3, 5, 7, 8, 11, 16, 64, 99, 100, 101])
def test_chunks_that_span_blocks_keep_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 50)
    monkeypatch.setattr(parquet, "WINDOW_CELLS", 8)
    frame = pl.DataFrame({"t": np.arange(100.0)})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        chunks = [c["t"] for c in read_recording(tmp_path / name).chunks(["t"], chunk_rows)]
        assert [c.size for c in chunks[:-1]] == [chunk_rows] * ((100 - 1) // chunk_rows)
        assert np.concatenate(chunks).tolist() == list(range(100))


def test_only_the_asked_columns_come_back(write: Write) -> None:
    recording = read_recording(write("t,label,q\n0,start,1\n1,stop,2\n"))
    assert_same(whole(recording, ("q", "t", "q")), {"q": np.array([1.0, 2.0]), "t": np.array([0.0, 1.0])})


def test_chunks_are_read_only_and_the_recording_keeps_its_values() -> None:
    source = np.arange(3.0)
    recording = Recording.from_arrays("m", {"t": source})
    source[0] = 9.0
    chunk = next(recording.chunks(["t"]))
    assert chunk["t"][0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        chunk["t"][0] = 1.0


def test_wrong_requests_are_refused_at_once() -> None:
    recording = Recording.from_arrays("m", {"time": [0.0], "q1": [0.0]})
    with pytest.raises(DataError, match=r"Did you mean 'time'.*Valid: time, q1"):
        recording.chunks(["tme"])
    with pytest.raises(DataError, match="No column"):
        recording.chunks([])
    with pytest.raises(DataError, match="at least 1, not 0"):
        recording.chunks(["q1"], 0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "no channels"),
        ({"t": [0.0], "q": [0.0, 1.0]}, "differ in length"),
        ({"t": np.zeros((2, 2))}, "shape"),
        ({"t": ["a"]}, "not numeric"),
        ({"t": []}, "empty"),
    ],
)
def test_bad_arrays(arrays: dict[str, Array], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Recording.from_arrays("m", arrays)


def test_hash_is_that_of_the_bytes_or_of_names_and_values(write: Write) -> None:
    path = write("t,q\n0,1\n")
    assert read_recording(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    one, same, moved = (
        Recording.from_arrays("m", arrays).sha256
        for arrays in ({"a": [1.0, 2.0]}, {"a": [1, 2]}, {"a": [1.0], "b": [2.0]})
    )
    assert one == same != moved


def test_a_file_changed_in_between_is_noticed(write: Write) -> None:
    recording = read_recording(write("t,q\n0,1\n"))
    write("t,q\n0,1\n1,2\n")
    with pytest.raises(DataError, match="changed"):
        list(recording.chunks(["t"]))
    Path(recording.source).unlink()
    with pytest.raises(DataError, match="no longer"):
        _ = recording.sha256


# --- delimited text ---------------------------------------------------------------------------------------------------

EXPECTED = {"t": np.array([0.0, 0.5]), "q1": np.array([-1.5, 2e-3]), "q2": np.array([3.0, np.nan])}


@pytest.mark.parametrize(
    "text",
    [
        "t,q1,q2\n0,-1.5,3\n0.5,2e-3,nan\n",
        "t, q1 ,q2\n0, -1.5, 3\n0.5, 2e-3, NaN\n",
        "t;q1;q2\n0;-1,5;3\n0,5;2e-3;\n",
        "t\tq1\tq2\n0\t-1.5\t3\n0.5\t2e-3\tnull\n",
        "t\tq1\tq2\n0\t-1,5\t3\n0,5\t2e-3\tnull\n",
        "t|q1|q2\n0|-1.5|3\n0.5|2e-3|-nan(ind)",
        "t q1 q2\n0 -1.5 3\n0.5 2e-3 nan\n",
        "  t    q1\tq2  \n  0  -1.5   3\n0.5   2e-3  nan  \n",
        "t q1 q2\n0 -1,5 3\n0,5 2e-3 nan\n",
        "# robot: arm\n# t q1 q2\n0 -1.5 3\n0.5 2e-3 nan\n",
        "#t,q1,q2\n0,-1.5,3\n0.5,2e-3,\n",
        "# a comment\n\nt,q1,q2\n# s,rad,rad\n0,-1.5,3\n\n0.5,2e-3,\n\n",
        '"t","q1","q2"\r\n"0","-1.5","3"\r\n0.5,2e-3,N/A\r\n',
        "\ufefft,q1,q2\n0,-1.5,3\n0.5,2e-3,nan\n",
        "Robot: arm\nRecorded 2024-05-01, by hand\n\nt,q1,q2\n0,-1.5,3\n0.5,2e-3,nan\n",
        "rate,1000\nname,a,b,c\nt,q1,q2\n0,-1.5,3\n0.5,2e-3,nan\n",
        "% recorded by hand\n// t,q1,q2\n0,-1.5,3\n0.5,2e-3,nan\n",
        "t,q1,q2\n0,-1.5,3\n# a remark\n0.5,2e-3,nan\n// end of log\n",
        "t,q1,q2,\n0,-1.5,3\n0.5,2e-3,nan\n",
    ],
)
def test_dialects(write: Write, text: str) -> None:
    assert_same(whole(read_recording(write(text))), EXPECTED)


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF8, "utf-8"),
        (b"", "utf-8"),
    ],
)
@pytest.mark.parametrize("block", [7, 50, 1 << 20])
def test_encodings(write: Write, monkeypatch: pytest.MonkeyPatch, mark: bytes, encoding: str, block: int) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    recording = read_recording(write(mark + "t,θ1 [°],q2\n0,-1.5,3\n0.5,2e-3,\n".encode(encoding)))
    assert not recording.notes
    assert recording.columns == ("t", "θ1 [°]", "q2")
    assert_same(whole(recording), dict(zip(recording.columns, EXPECTED.values(), strict=True)))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("Time (ms),q1 [deg],tau_1/Nm\n0,1,2\n", ("Time (ms)", "q1 [deg]", "tau_1/Nm")),
        ("Time,q1,tau1\nms,[deg],(Nm)\n0,1,2\n", ("Time [ms]", "q1 [deg]", "tau1 [Nm]")),
        ("Time;q1;state\ns;rad/s;-\n0,5;1,5;2\n", ("Time [s]", "q1 [rad/s]", "state")),
        ("t,q,t,q,t#2\n0,1,2,3,4\n", ("t", "q", "t#3", "q#2", "t#2")),
        ("t,1,2\n0,5,6\n", ("t", "1", "2")),
        ("t q1\n0,1\n", None),
        ("t,q\n0,1,\n1,2,\n", ("t", "q", "col3")),
        ("start,0,1\nstop,2,3\n", ("col1", "col2", "col3")),
        ("name,t,q\nstart,0,1\nstop,2,3\n", ("name", "t", "q")),
    ],
)
def test_headers(write: Write, text: str, columns: tuple[str, ...] | None) -> None:
    if columns is None:
        refused(write(text), "Line 2", "2 cells")
    else:
        assert read_recording(write(text)).columns == columns


def test_repeated_names_are_numbered_and_noted(write: Write) -> None:
    recording = read_recording(write("t,q,t\n0,1,2\n"))
    assert whole(recording)["t#2"].tolist() == [2.0]
    assert "t#2" in recording.notes[0]


def test_a_bad_first_row_is_no_header(write: Write) -> None:
    refused(write("t,q\n0,oops\n1,2\n2,3\n"), "'oops'", "row 1")
    refused(write("t,q1,q2\n0,1\n1,2,3\n2,3,4\n"), "Line 2", "2 cells")
    refused(write("0,1\n1,2,3\n2,3,4\n"), "Line 1", "2 cells instead of 3")


def test_headerless_files_number_their_columns(write: Write) -> None:
    recording = read_recording(write("0 1 2\n3 4 5\n", "run.txt"))
    assert recording.columns == ("col1", "col2", "col3")
    assert whole(recording)["col3"].tolist() == [2.0, 5.0]


def test_nameless_columns_are_numbered(write: Write) -> None:
    recording = read_recording(write(",t;x,q,\n0,1,2,\n1,2,3,\n"))
    assert recording.columns == ("col1", "t;x", "q", "col4")
    assert np.isnan(whole(recording)["col4"]).all()


def test_one_column_and_its_blank_cell(write: Write) -> None:
    assert_same(whole(read_recording(write("q\n1\n\n3\n"))), {"q": np.array([1.0, np.nan, 3.0])})


def test_given_delimiter_wins(write: Write) -> None:
    path = write("a,b;c,d\n1,2;3,4\n")
    assert read_recording(path, ";").columns == ("a,b", "c,d")
    refused(path, "Unknown delimiter", "';'", delimiter="::")


def test_text_in_an_unread_column_does_no_harm(write: Write) -> None:
    path = write('t,note,q\n0,"a, b",1\n1,caf\xe9,2\n'.encode("latin-1"))
    assert whole(read_recording(path), ("t", "q"))["q"].tolist() == [1.0, 2.0]


def test_non_numeric_cell_names_column_row_and_text(write: Write) -> None:
    refused(write("t,q\n0,1\n1,2\n2,oops\n"), "'q'", "'oops'", "row 3")
    refused(write("t;q\n0,5;1.5\n"), "'0,5'", "row 1")
    refused(write("t;q\n0,5;1,5\n1,0;1.234,5\n"), "'1.234,5'", "row 2")


def test_row_numbers_hold_across_blocks(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 32)
    lines = [f"{k},{k}" for k in range(50)]
    refused(write("\n".join(["t,q", *lines, "", "50,x"])), "row 51", "'x'")
    refused(write("\n".join(["t,q", *lines, "", "50,1,2"])), "Line 53", "3 cells", "instead of 2")


@pytest.mark.parametrize("row", ["1", "1,2", "1,2,3,4", "1,2,3,"])
@pytest.mark.parametrize("columns", [(), ("t",)])
def test_ragged_rows_name_the_line(write: Write, row: str, columns: tuple[str, ...]) -> None:
    refused(write(f"t,q1,q2\n0,0,0\n0,0,0\n{row}\n0,0,0\n"), "Line 4", "instead of 3", columns=columns)


def test_long_and_short_rows_do_not_cancel(write: Write) -> None:
    refused(write("t,q1,q2\n0,0,0\n1,2\n1,2,3,4\n"), "Line 3", columns=("t",))


def test_decimal_commas_between_commas_are_explained(write: Write) -> None:
    refused(write("t,q\n0,0,1,5\n0,1,2,5\n"), "Line 2", "4 cells", "decimals")


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("", "empty"),
        ("# only\n# comments\n\n", "only comments"),
        ("t,q\n", "header but no rows"),
        ("t,q\n\n", "header but no rows"),
        ("t\0,q\n0,1\n", "not a text file"),
        (b"\x00\x01\x02\x03", "UTF-8"),
    ],
)
def test_unusable_text_files(write: Write, content: str | bytes, fragment: str) -> None:
    refused(write(content), fragment)


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_types(tmp_path: Path) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    frame = pl.DataFrame(
        {
            "time": [start, start + timedelta(milliseconds=1)],
            "since": [timedelta(0), timedelta(milliseconds=1)],
            "count": [1, None],
            "single": pl.Series([0.5, 1.5], dtype=pl.Float32),
            "flag": [True, False],
            "text": [" 1.5", ""],
            "list": [[1.0], [2.0]],
            "struct": [{"a": 1}, {"a": 2}],
        }
    )
    frame.write_parquet(tmp_path / "r.parquet")
    recording = read_recording(tmp_path / "r.parquet")
    assert recording.rows == 2
    got = whole(recording, ("time", "since", "count", "single", "flag", "text"))
    np.testing.assert_allclose(got["time"] - start.timestamp(), [0, 1e-3], atol=3e-7)
    np.testing.assert_allclose(got["since"], [0, 1e-3])
    np.testing.assert_array_equal(got["count"], [1.0, np.nan])
    np.testing.assert_array_equal(got["text"], [1.5, np.nan])
    assert got["single"].tolist() == [0.5, 1.5]
    assert got["flag"].tolist() == [1.0, 0.0]
    assert whole(recording, ("list[0]",))["list[0]"].tolist() == [1.0, 2.0]
    refused(tmp_path / "r.parquet", "'struct'", "not as channels: struct (Struct", columns=("struct",))


def test_parquet_text_names_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "WINDOW_CELLS", 2)
    pl.DataFrame({"q": ["1", "2", "3", "x"]}).write_parquet(tmp_path / "r.pq")
    refused(tmp_path / "r.pq", "'q'", "'x'", "row 4")


def test_parquet_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    pl.DataFrame({"q": [1.0]}).write_parquet(tmp_path / "r.log")
    assert read_recording(tmp_path / "r.log").rows == 1


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    values = np.random.default_rng(0).normal(size=20_000)
    pl.DataFrame({"q": values}).write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(path, "not a readable Parquet file", "copy it again")
    path.write_bytes(b"t,q\n0,1\n")
    refused(path, "not a readable Parquet file")
    middle = len(content) // 2
    path.write_bytes(content[:4] + b"\xff" * middle + content[4 + middle :])
    refused(path, "Row 1 of 20000", "No row before it is intact")


def test_parquet_without_rows(tmp_path: Path) -> None:
    pl.DataFrame({"q": []}, schema={"q": pl.Float64}).write_parquet(tmp_path / "r.parquet")
    refused(tmp_path / "r.parquet", "no rows")


# --- any file ---------------------------------------------------------------------------------------------------------


def test_files_that_are_none(write: Write, tmp_path: Path) -> None:
    write("t,q\n0,1\n", "there.csv")
    refused(tmp_path / "absent.csv", "does not exist", "there.csv")
    refused(tmp_path / "nowhere" / "absent.csv", "does not exist either")
    refused(tmp_path, "folder")
    refused(write("x", "run.xyz"), "'.xyz'", ".parquet", ".csv")
