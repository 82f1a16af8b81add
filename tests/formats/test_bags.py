"""Bags: every kind gives the numbers of the same CSV, joints go by name, and damage is told, never a traceback."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sqlite3
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lz4.frame import compress as lz4_compress
from rosbags.highlevel import AnyReader
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from steelyard._arrays import Array
from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.bags import mcap as mcap_records
from steelyard.formats.bags import records as bag_records
from steelyard.formats.bags.bag import read_bag
from steelyard.formats.bags.joined_topics import Joined, JoinedTopic
from steelyard.formats.bags.layout import Layouts, read_numbers
from steelyard.formats.bags.types import Definition, message_types
from steelyard.formats.logs import read_recording
from steelyard.signals.recording import Recording

JOINT_STATE = "sensor_msgs/msg/JointState"
START = 1_700_000_000_123_456_789  # ns since 1970
CONTROL_MSGS = {
    "control_msgs/msg/InterfaceValue": "string[] interface_names\nfloat64[] values\n",
    "control_msgs/msg/DynamicJointState": (
        "std_msgs/Header header\nstring[] joint_names\ncontrol_msgs/InterfaceValue[] interface_values\n"
    ),
    "control_msgs/msg/JointTrajectoryControllerState": (
        "std_msgs/Header header\nstring[] joint_names\ntrajectory_msgs/JointTrajectoryPoint reference\n"
        "trajectory_msgs/JointTrajectoryPoint feedback\n"
    ),
    # Every alignment there is: a byte before a double, texts before numbers, arrays of odd things.
    "odd/msg/Clock": "float64 stamp\nbool receive\n",
    "odd/msg/Inner": "uint8 flag\nfloat64 value\nint16[3] triple\n",
    "odd/msg/Outer": (
        "bool on\nstring label\nfloat32[] small\nint64 big\nodd/Inner[] parts\nodd/Inner[2] pair\nstring[] words\n"
        "uint16 last\n"
    ),
}


def typestore(ros1: bool = False) -> Any:
    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    for name, text in CONTROL_MSGS.items():
        store.register(get_types_from_msg(text, name))
    return store


ROS1, ROS2 = typestore(ros1=True), typestore()


@dataclass(frozen=True)
class Sent:
    """A message to be written: topic, type, when it is received [ns], and the message, made for a type store."""

    topic: str
    kind: str
    received: int
    make: Callable[[Any], Any]


def header(store: Any, stamp: int, frame: str = "base") -> Any:
    time = store.types["builtin_interfaces/msg/Time"](stamp // 10**9, stamp % 10**9)
    kind = store.types["std_msgs/msg/Header"]
    return kind(7, time, frame) if store is ROS1 else kind(time, frame)


def joint_state(
    stamp: int, names: list[str], *arrays: Any, topic: str = "/joint_states", late: int = 250_000, at: int | None = None
) -> Sent:
    full = [np.asarray(array, dtype=np.float64) for array in arrays] + [np.empty(0)] * (3 - len(arrays))
    return Sent(
        topic,
        JOINT_STATE,
        (stamp + late) if at is None else at,
        lambda store: store.types[JOINT_STATE](header(store, stamp), names, *full),
    )


def plain(kind: str, topic: str, received: int, *arguments: Any) -> Sent:
    return Sent(topic, kind, received, lambda store: store.types[kind](*arguments))


def write_ros1(path: Path, messages: list[Sent], compression: str = "", chunk: int = 3000) -> Path:
    writer = Writer1(path)
    writer.chunk_threshold = chunk
    if compression:
        writer.set_compression(Writer1.CompressionFormat[compression.upper()])
    with writer:
        known: dict[str, Any] = {}
        for m in messages:
            if m.topic not in known:
                known[m.topic] = writer.add_connection(m.topic, m.kind, typestore=ROS1)
            writer.write(known[m.topic], m.received, ROS1.serialize_ros1(m.make(ROS1), m.kind))
    return path


def write_ros2(path: Path, messages: list[Sent], storage: str, compression: str = "") -> Path:
    writer = Writer2(path, version=9, storage_plugin=StoragePlugin[storage])
    if compression:
        writer.set_compression(CompressionMode[compression], CompressionFormat.ZSTD)
    with writer:
        known: dict[str, Any] = {}
        for m in messages:
            if m.topic not in known:
                known[m.topic] = writer.add_connection(m.topic, m.kind, typestore=ROS2)
            writer.write(known[m.topic], m.received, ROS2.serialize_cdr(m.make(ROS2), m.kind))
    return path


def record(opcode: int, content: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(content)) + content


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def write_mcap(path: Path, messages: list[Sent], compression: str | None = "lz4", chunk: int = 10) -> Path:
    """An MCAP file as other recorders write it: no profile, chunks with checksums, or none at all, ROS 1 messages."""
    definitions, records = bytearray(), []
    known: dict[str, int] = {}
    for m in messages:
        if m.topic not in known:
            known[m.topic] = key = len(known) + 1
            schema, _ = ROS1.generate_msgdef(m.kind)
            name = m.kind.replace("/msg/", "/")
            definitions += record(3, struct.pack("<H", key) + text(name) + text("ros1msg") + text(schema))
            definitions += record(4, struct.pack("<HH", key, key) + text(m.topic) + text("ros1") + struct.pack("<I", 0))
        data = bytes(ROS1.serialize_ros1(m.make(ROS1), m.kind))
        records.append(record(5, struct.pack("<HIQQ", known[m.topic], 0, m.received, m.received) + data))
    body = bytes(definitions) + (b"".join(records) if compression is None else b"")
    for first in range(0, len(records) if compression is not None else 0, chunk):
        inside = b"".join(records[first : first + chunk])
        packed = lz4_compress(inside) if compression == "lz4" else inside
        head = struct.pack("<QQQI", 0, 0, len(inside), zlib.crc32(inside))
        body += record(6, head + text(compression or "") + struct.pack("<Q", len(packed)) + packed)
    ending = record(15, bytes(4)) + record(2, bytes(20)) + mcap_records.MAGIC
    path.write_bytes(mcap_records.MAGIC + record(1, text("") + text("test")) + body + ending)
    return path


KINDS: dict[str, Callable[[Path, list[Sent]], Path]] = {
    "bag": lambda folder, sent: write_ros1(folder / "run.bag", sent),
    "bag bz2": lambda folder, sent: write_ros1(folder / "run.bag", sent, "bz2"),
    "bag lz4": lambda folder, sent: write_ros1(folder / "run.bag", sent, "lz4"),
    "mcap folder": lambda folder, sent: write_ros2(folder / "run", sent, "MCAP"),
    "mcap": lambda folder, sent: write_ros2(folder / "run", sent, "MCAP") / "run.mcap",
    "mcap zstd": lambda folder, sent: write_ros2(folder / "run", sent, "MCAP", "STORAGE") / "run.mcap",
    "mcap by message": lambda folder, sent: write_ros2(folder / "run", sent, "MCAP", "MESSAGE") / "run.mcap",
    "mcap by file": lambda folder, sent: write_ros2(folder / "run", sent, "MCAP", "FILE"),
    "mcap lz4": lambda folder, sent: write_mcap(folder / "run.mcap", sent),
    "mcap plain chunks": lambda folder, sent: write_mcap(folder / "run.mcap", sent, ""),
    "mcap without chunks": lambda folder, sent: write_mcap(folder / "run.mcap", sent, None),
    "db3 folder": lambda folder, sent: write_ros2(folder / "run", sent, "SQLITE3"),
    "db3": lambda folder, sent: write_ros2(folder / "run", sent, "SQLITE3") / "run.db3",
    "db3 by message": lambda folder, sent: write_ros2(folder / "run", sent, "SQLITE3", "MESSAGE") / "run.db3",
    "db3 by file": lambda folder, sent: write_ros2(folder / "run", sent, "SQLITE3", "FILE"),
}
# One file each, in which a cut can be made.
FILES = [name for name in KINDS if "folder" not in name and "by file" not in name]


def whole(recording: Recording, columns: tuple[str, ...] = (), chunk_rows: int = 65536) -> dict[str, Array]:
    names = columns or recording.columns
    chunks = list(recording.chunks(names, chunk_rows))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in names}


def arm_run(count: int = 60) -> tuple[list[Sent], dict[str, Array]]:
    """Messages of a three-joint arm with jittered stamps, and the same numbers as columns."""
    rng = np.random.default_rng(5)
    names = ["shoulder", "elbow", "wrist_3"]
    q, v, tau = (rng.standard_normal((count, 3)) * 10.0 ** rng.integers(-9, 9, (count, 3)) for _ in range(3))
    stamps = START + 1_000_003 * np.arange(count) + rng.integers(0, 999, count)
    sent = [
        joint_state(int(t), names, *rows, topic="/joint_states") for t, *rows in zip(stamps, q, v, tau, strict=True)
    ]
    columns = {"stamp": (stamps - stamps[0]) / 1e9, "receive": (stamps + 250_000 - stamps[0]) / 1e9}
    for kind, values in (("position", q), ("velocity", v), ("effort", tau)):
        columns |= {f"{name}.{kind}": values[:, k] for k, name in enumerate(names)}
    return sent, columns


def camera(received: int) -> Sent:
    """Something big that is no log."""
    return plain("std_msgs/msg/String", "/camera", received, "x" * 20000)


def refused(path: Path, *fragments: str, topic: str | None = None, salvage: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        whole(read_bag(path, topic, salvage))
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    return message


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_bag_equals_the_csv_to_the_last_digit(tmp_path: Path, kind: str) -> None:
    sent, columns = arm_run()
    pl.DataFrame(columns).write_csv(tmp_path / "run.csv", float_scientific=True)
    expected = whole(read_recording(tmp_path / "run.csv"))
    mixed = [
        message for k, one in enumerate(sent) for message in ([camera(one.received)] if k % 7 == 0 else []) + [one]
    ]
    recording = read_bag(KINDS[kind](tmp_path, mixed))
    assert recording.columns == tuple(columns)
    assert recording.rows == len(sent)
    assert recording.notes == ()
    assert recording.others == ("topic /camera (std_msgs/msg/String, 9 messages)",)
    for chunk_rows in (1, 7, 65536):
        found = whole(recording, chunk_rows=chunk_rows)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)
            np.testing.assert_array_equal(found[name], columns[name], err_msg=name)


@pytest.mark.parametrize("kind", ["bag", "mcap", "mcap folder", "db3"])
def test_bags_are_logs_like_any_other(tmp_path: Path, kind: str) -> None:
    sent, columns = arm_run()
    path = KINDS[kind](tmp_path, sent)
    for topic in (None, "/joint_states"):
        recording = read_recording(path, topic=topic)
        assert recording.rows == 60
        np.testing.assert_array_equal(whole(recording)["elbow.effort"], columns["elbow.effort"])


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
def test_rows_are_those_that_rosbags_reads(tmp_path: Path, kind: str) -> None:
    path = KINDS[kind](tmp_path, arm_run()[0])
    with AnyReader([path]) as reader:
        expected = [reader.deserialize(data, c.msgtype).effort for c, _, data in reader.messages()]
    found = whole(read_bag(path), ("shoulder.effort", "elbow.effort", "wrist_3.effort"))
    np.testing.assert_array_equal(np.array(list(found.values())).T, np.array(expected))


def test_only_the_portions_with_the_topic_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, _ = arm_run()
    quiet = [camera(START + 10**9 + k) for k in range(50)]
    recording = read_bag(write_mcap(tmp_path / "run.mcap", [*sent, *quiet], "lz4"))
    unpacked: list[int] = []
    original = mcap_records.unpacked
    monkeypatch.setattr(mcap_records, "unpacked", lambda *a: unpacked.append(1) or original(*a))
    assert whole(recording, ("stamp",))["stamp"].size == 60
    assert len(unpacked) == 6


@pytest.mark.slow
def test_a_folder_of_several_files_is_read_in_their_order(tmp_path: Path) -> None:
    sent, columns = arm_run(120)
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(12):
        part = write_ros2(tmp_path / f"part{number}", sent[10 * number : 10 * number + 10], "SQLITE3")
        shutil.copy(part / f"part{number}.db3", folder / f"run_{number}.db3")
    recording = read_bag(folder)
    assert "no metadata.yaml" in recording.notes[0]
    np.testing.assert_array_equal(whole(recording)["stamp"], columns["stamp"])
    listed = "\n".join(f"  - run_{number}.db3" for number in (*range(12), 12))
    (folder / "metadata.yaml").write_text(f"rosbag2_bagfile_information:\n  relative_file_paths:\n{listed}\n")
    refused(folder, "run_12.db3 is missing", "120 rows")
    assert "run_12.db3 is missing" in read_bag(folder, salvage=True).notes[0]
    digest = recording.sha256
    (folder / "run_3.db3").write_bytes((folder / "run_2.db3").read_bytes())
    assert read_bag(folder, salvage=True).sha256 != digest
    (folder / "metadata.yaml").write_text("rosbag2_bagfile_information:\n  relative")
    refused(folder, "does not list the files", "Remove it")


def test_hash_and_a_bag_that_changes(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "run.bag", arm_run()[0])
    recording = read_bag(path)
    assert recording.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(DataError, match="changed while it was in use"):
        whole(recording)


# --- layouts ----------------------------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
doubles = st.floats(width=64, allow_nan=False)
inner = st.tuples(st.integers(0, 255), doubles, st.lists(st.integers(-(2**15), 2**15 - 1), min_size=3, max_size=3))


@pytest.mark.slow
@given(
    ros1=st.booleans(),
    little=st.booleans(),
    label=words,
    small=st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    big=st.integers(-(2**53), 2**53),
    parts=st.lists(inner, max_size=3),
    pair=st.lists(inner, min_size=2, max_size=2),
    labels=st.lists(words, max_size=3),
)
def test_numbers_lie_where_rosbags_puts_them(
    ros1: bool, little: bool, label: str, small: list[float], big: int, parts: Any, pair: Any, labels: list[str]
) -> None:
    store = ROS1 if ros1 else ROS2
    part = store.types["odd/msg/Inner"]

    def made(values: Any) -> Any:
        return part(values[0], values[1], np.array(values[2], np.int16))

    message = store.types["odd/msg/Outer"](
        True, label, np.array(small, np.float32), big, [made(p) for p in parts], [made(p) for p in pair], labels, 513
    )
    kind = "odd/msg/Outer"
    data = bytes(
        store.serialize_ros1(message, kind) if ros1 else store.serialize_cdr(message, kind, little_endian=little)
    )
    language = "ros1msg" if ros1 else "ros2msg"
    definition = Definition(kind, language, store.generate_msgdef(kind, ros_version=1 if ros1 else 2)[0])
    encoding = "ros1" if ros1 else "cdr"
    layouts = Layouts(message_types(definition), kind, encoding, frozenset({"words"}))
    ((layout, rows, stack),) = layouts.stacked([data, data])
    assert layout is not None
    assert rows.tolist() == [0, 1]
    assert layout.texts["words"] == tuple(labels)

    def value(path: str) -> list[float]:
        return read_numbers(stack, layout.numbers[path])[1].tolist()

    assert value("small") == [float(x) for x in np.array(small, np.float32)]
    assert value("big") == [float(big)]
    assert value("last") == [513.0]
    for name, items in (("parts", parts), ("pair", pair)):
        for k, (flag, number, triple) in enumerate(items):
            assert value(f"{name}[{k}].flag") == [flag]
            assert value(f"{name}[{k}].value") == [number]
            assert value(f"{name}[{k}].triple") == triple


@given(st.binary(max_size=80), st.sampled_from(["cdr", "ros1"]))
def test_bytes_that_are_no_message_have_no_layout(data: bytes, encoding: str) -> None:
    definition = Definition("odd/msg/Outer", "ros2msg", ROS2.generate_msgdef("odd/msg/Outer", ros_version=2)[0])
    layouts = Layouts(message_types(definition), "odd/msg/Outer", encoding, frozenset({"words"}))
    for layout, _, stack in layouts.stacked([b"\x00\x01\x00\x00" + data]):
        assert layout is None or layout.matches(stack).all()


def test_a_type_that_holds_itself_ends() -> None:
    definition = Definition("a/msg/B", "ros2msg", "a/B again\n")
    layouts = Layouts(message_types(definition), "a/msg/B", "cdr", frozenset())
    assert [layout for layout, _, _ in layouts.stacked([b"\x00\x01\x00\x00"])] == [None]


def test_definitions_in_idl_and_none_at_all() -> None:
    separator = "=" * 80 + "\n"
    idl = (
        f"{separator}IDL: a/msg/B\nmodule a {{ module msg {{ struct B {{ double x; a::msg::C c; }}; }}; }};\n"
        f"{separator}IDL: a/msg/C\nmodule a {{ module msg {{ struct C {{ sequence<float> y; }}; }}; }};\n"
    )
    types = message_types(Definition("a/msg/B", "ros2idl", idl))
    assert [field.kind for field in types["a/msg/B"]] == ["float64", "a/msg/C"]
    assert types["a/msg/C"][0] == ("y", "float32", False, -1)
    assert JOINT_STATE in message_types(Definition(JOINT_STATE, "", ""))
    with pytest.raises(DataError, match="does not define the message type 'a/msg/D'"):
        message_types(Definition("a/msg/D", "", ""))
    with pytest.raises(DataError, match="cannot be read"):
        message_types(Definition("a/msg/D", "ros2msg", "float64 [ ?? x"))


# --- joints -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orders=st.lists(st.permutations(["a", "bb", "ccc", "d"]), min_size=1, max_size=30))
def test_joints_go_by_name_in_any_order(tmp_path: Path, kind: str, orders: list[list[str]]) -> None:
    folder = tmp_path / hashlib.sha256(repr((kind, orders)).encode()).hexdigest()
    folder.mkdir(exist_ok=False)
    value = {name: 10.0 ** (3 * k) for k, name in enumerate(["a", "bb", "ccc", "d"])}
    sent = [
        joint_state(START + k * 10**6, order, [value[name] + k for name in order], [], [-value[name] for name in order])
        for k, order in enumerate(orders)
    ]
    recording = read_bag(KINDS[kind](folder, sent))
    found = whole(recording)
    assert not any(name.endswith(".velocity") for name in found)
    for name in value:
        np.testing.assert_array_equal(found[f"{name}.position"], value[name] + np.arange(len(orders)))
        np.testing.assert_array_equal(found[f"{name}.effort"], np.full(len(orders), -value[name]))


def interleaved() -> list[Sent]:
    """An arm at every millisecond with its rail at every third, and a gripper in between."""
    sent = []
    for k in range(30):
        names = ["j1", "j2", "rail"] if k % 3 == 0 else ["j1", "j2"]
        sent.append(joint_state(START + k * 10**6, names, np.full(len(names), float(k)), np.zeros(len(names))))
        if k % 2:
            sent.append(joint_state(START + k * 10**6 + 100, ["left", "right"], [100.0 + k, -1.0]))
    return sent


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
def test_a_gripper_on_the_same_topic_stays_out_of_the_arms_rows(tmp_path: Path, kind: str) -> None:
    recording = read_bag(KINDS[kind](tmp_path, interleaved()))
    assert recording.rows is None
    assert recording.rows_estimate == 45
    assert "left.velocity" not in recording.columns
    arm = whole(recording, ("stamp", "j1.position", "j2.velocity"))
    np.testing.assert_array_equal(arm["j1.position"], np.arange(30.0))
    np.testing.assert_array_equal(arm["stamp"], np.arange(30) * 10**6 / 1e9)
    gripper = whole(recording, ("left.position", "stamp"))
    np.testing.assert_array_equal(gripper["left.position"], 100.0 + np.arange(1, 30, 2))
    np.testing.assert_array_equal(gripper["stamp"], (np.arange(1, 30, 2) * 10**6 + 100) / 1e9)
    with_rail = whole(recording, ("j1.position", "rail.position"))
    assert with_rail["j1.position"].size == 30
    np.testing.assert_array_equal(np.isnan(with_rail["rail.position"]), np.arange(30) % 3 != 0)
    assert whole(recording, ("receive",))["receive"].size == 45


def test_two_publishers_of_one_topic_keep_the_order_of_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.bag"
    with Writer1(path) as writer:
        first = writer.add_connection("/joint_states", JOINT_STATE, typestore=ROS1, callerid="/arm")
        second = writer.add_connection("/joint_states", JOINT_STATE, typestore=ROS1, callerid="/rail")
        for k in range(20):
            one = joint_state(START + k * 10**6, ["j1"], [float(k)])
            writer.write(second if k % 3 else first, one.received, ROS1.serialize_ros1(one.make(ROS1), JOINT_STATE))
    np.testing.assert_array_equal(whole(read_bag(path))["j1.position"], np.arange(20.0))


def test_arrays_that_do_not_fit_the_names_are_left_out_with_a_note(tmp_path: Path) -> None:
    sent = [joint_state(START + k, ["a", "b"], [1.0, 2.0], [], [3.0]) for k in range(4)]
    sent += [joint_state(START + 9, ["c", "c"], [1.0, 2.0])]
    recording = read_bag(write_ros2(tmp_path / "run", sent, "MCAP"))
    assert recording.columns == ("stamp", "receive", "a.position", "b.position")
    assert "'effort' has 1 values for 2 joints" in recording.notes[0]
    assert "contains a joint twice" in recording.notes[1]
    assert whole(recording, ("a.position",))["a.position"].size == 4


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
def test_messages_without_a_stamp_take_the_time_of_recording(tmp_path: Path, kind: str) -> None:
    sent = [joint_state(0, ["a"], [float(k)], at=START + k * 10**6) for k in range(5)]
    recording = read_bag(KINDS[kind](tmp_path, sent))
    assert "no message has a time stamp" in recording.notes[0]
    found = whole(recording)
    np.testing.assert_array_equal(found["stamp"], np.arange(5) * 10**6 / 1e9)
    np.testing.assert_array_equal(found["stamp"], found["receive"])


def test_a_few_messages_without_a_stamp(tmp_path: Path) -> None:
    sent = [joint_state(START + k * 10**6, ["a"], [float(k)]) for k in range(5)]
    sent[3] = joint_state(0, ["a"], [3.0], at=START + 3 * 10**6 + 77)
    recording = read_bag(write_ros2(tmp_path / "run", sent, "MCAP"))
    assert "1 messages do not have a time stamp" in recording.notes[0]
    assert whole(recording)["stamp"].tolist() == [0.0, 0.001, 0.002, 0.003000077, 0.004]


def test_stamps_keep_their_nanoseconds(tmp_path: Path) -> None:
    stamps = START + np.array([0, 1, 3, 10**6 + 7])
    recording = read_bag(write_ros2(tmp_path / "r", [joint_state(int(t), ["a"], [0.0]) for t in stamps], "SQLITE3"))
    np.testing.assert_array_equal(whole(recording)["stamp"], (stamps - START) / 1e9)


# --- topics -----------------------------------------------------------------------------------------------------------


def test_topics_to_choose_from(tmp_path: Path) -> None:
    sent = [joint_state(START + k, ["a", "b"], [1.0, 2.0], topic=topic) for k in range(3) for topic in ("/l", "/r")]
    path = write_ros2(tmp_path / "run", [*sent, camera(START)], "MCAP")
    message = refused(path, "2 topics with joint states", "/l (sensor_msgs/msg/JointState, 3 messages, joints a b)")
    assert "/camera (std_msgs/msg/String, 1 messages)" in message
    assert read_bag(path, "/r").rows == 3
    refused(path, "Did you mean '/l'", topic="/ll")
    refused(path, "gives no columns", topic="/camera")
    only_camera = write_ros2(tmp_path / "camera", [camera(START)], "MCAP")
    refused(only_camera, "no topic with joint states", "/camera")


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
def test_other_types(tmp_path: Path, kind: str) -> None:
    def point(store: Any, q: list[float], tau: list[float]) -> Any:
        duration = store.types["builtin_interfaces/msg/Duration"](0, 0)
        kind = store.types["trajectory_msgs/msg/JointTrajectoryPoint"]
        return kind(np.array(q), np.empty(0), np.empty(0), np.array(tau), duration)

    def dynamic(store: Any) -> Any:
        value = store.types["control_msgs/msg/InterfaceValue"]
        inside = [value(["position", "current"], np.array([1.0, 2.0])), value(["effort"], np.array([3.0]))]
        return store.types["control_msgs/msg/DynamicJointState"](header(store, START), ["a", "b"], inside)

    def controller(store: Any) -> Any:
        kind = store.types["control_msgs/msg/JointTrajectoryControllerState"]
        return kind(
            header(store, START), ["a", "b"], point(store, [1.0, 2.0], []), point(store, [3.0, 4.0], [5.0, 6.0])
        )

    def array(store: Any) -> Any:
        layout = store.types["std_msgs/msg/MultiArrayLayout"]([], 0)
        return store.types["std_msgs/msg/Float32MultiArray"](layout, np.array([0.5, 7.0], np.float32))

    def wrench(store: Any) -> Any:
        vector = store.types["geometry_msgs/msg/Vector3"]
        both = store.types["geometry_msgs/msg/Wrench"](vector(1.0, 2.0, 3.0), vector(4.0, 5.0, 6.0))
        return store.types["geometry_msgs/msg/WrenchStamped"](header(store, START), both)

    sent = [
        Sent("/dynamic", "control_msgs/msg/DynamicJointState", START, dynamic),
        Sent("/state", "control_msgs/msg/JointTrajectoryControllerState", START, controller),
        Sent("/array", "std_msgs/msg/Float32MultiArray", START, array),
        Sent("/wrench", "geometry_msgs/msg/WrenchStamped", START, wrench),
        plain("std_msgs/msg/Float64", "/one", START, 2.5),
    ]
    path = KINDS[kind](tmp_path, sent)

    def values(topic: str) -> dict[str, float]:
        return {name: array.item() for name, array in whole(read_bag(path, topic)).items() if name != "receive"}

    assert values("/dynamic") == {"stamp": 0.0, "a.position": 1.0, "a.current": 2.0, "b.effort": 3.0}
    assert values("/state") == {
        "stamp": 0.0, "a.reference.position": 1.0, "b.reference.position": 2.0, "a.feedback.position": 3.0,
        "b.feedback.position": 4.0, "a.feedback.effort": 5.0, "b.feedback.effort": 6.0,
    }  # fmt: skip
    assert values("/array") == {"data[0]": 0.5, "data[1]": 7.0}
    assert values("/one") == {"data": 2.5}
    assert values("/wrench")["wrench.torque.z"] == 6.0
    refused(path, "no topic with joint states")


# --- several topics on one clock --------------------------------------------------------------------------------------


def two_topics(currents_stamped: bool = True) -> list[Sent]:
    """Positions every millisecond from 0 to 99 ms; currents 3 t and −t every 2 ms from 10.5 to 80.5 ms, one hole."""
    sent = [joint_state(START + k * 10**6, ["a", "b"], [float(k), 0.0], [], [9.0, 9.0], topic="/q") for k in range(100)]
    for k in range(10, 82, 2):
        t = k * 10**6 + 500_000
        if not 40 < k < 54:
            stamp = START + t if currents_stamped else 0
            values = [3.0 * (k + 0.5), -(k + 0.5)]
            sent.append(joint_state(stamp, ["b", "a"], [], [], values, topic="/i", at=START + t + 250_000))
    return sorted(sent, key=lambda one: one.received)


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
@pytest.mark.parametrize("stamped", [True, False])
def test_efforts_of_another_topic_are_laid_on_the_clock(tmp_path: Path, kind: str, stamped: bool) -> None:
    recording = read_bag(KINDS[kind](tmp_path, two_topics(stamped)), "/q, /i")
    assert recording.columns[2:] == (
        "a.position", "b.position", "a.effort", "b.effort", "/i:b.effort", "/i:a.effort",
    )  # fmt: skip
    assert f"linearly onto the clock '{'stamp' if stamped else 'receive'}' of '/q'" in recording.notes[-1]
    for chunk_rows in (3, 65536):
        found = whole(recording, ("/i:b.effort", "stamp", "/i:a.effort", "a.position"), chunk_rows)
        np.testing.assert_array_equal(found["a.position"], np.arange(11.0, 81.0))
        t = 1e3 * found["stamp"]
        in_hole = (t > 40.5) & (t < 54.5)
        np.testing.assert_allclose(found["/i:b.effort"][~in_hole], 3.0 * t[~in_hole], rtol=1e-12)
        np.testing.assert_allclose(found["/i:a.effort"][~in_hole], -t[~in_hole], rtol=1e-12)
        assert np.isnan(found["/i:b.effort"][in_hole]).all()
    assert whole(recording, ("a.position",))["a.position"].size == 100


def test_joining_needs_clocks_that_advance(tmp_path: Path) -> None:
    sent = two_topics()
    late = joint_state(START, ["b"], [], [], [1.0], topic="/i", at=START + 30 * 10**6)
    path = write_ros2(tmp_path / "run", sorted([*sent, late], key=lambda one: one.received), "MCAP")
    with pytest.raises(DataError, match=r"Topic '/i' of .* 'stamp' goes backwards"):
        whole(read_bag(path, "/q,/i"), ("stamp", "/i:b.effort"))
    refused(path, "Unknown topic", "Did you mean '/i'", topic="/q,/ii")


@settings(max_examples=60)
@given(
    times=st.lists(st.integers(0, 400), min_size=1, max_size=40, unique=True).map(sorted),
    rows=st.lists(st.integers(0, 400), min_size=1, max_size=60, unique=True).map(sorted),
    chunk=st.integers(1, 9),
)
def test_interpolation_does_not_depend_on_the_blocks(times: list[int], rows: list[int], chunk: int) -> None:
    t, x = np.array(times, float), np.sin(times)

    @dataclass(frozen=True)
    class Blocks:
        arrays: dict[str, Array]
        size: int

        def blocks(self, columns: Any) -> Iterator[dict[str, Array]]:
            for first in range(0, self.arrays["t"].size, self.size):
                yield {name: self.arrays[name][first : first + self.size] for name in columns}

        def digest(self) -> str:
            return ""

    def laid(size: int) -> list[list[float]]:
        leader = Blocks({"t": np.array(rows, float)}, size)
        joined = Joined("a", leader, "t", (JoinedTopic("b", Blocks({"t": t, "x": x}, 40), {"x": "x"}),))
        blocks = list(joined.blocks(("t", "x")))
        return [np.concatenate([block[name] for block in blocks]).tolist() for name in ("t", "x")]

    instants, values = laid(chunk)
    assert instants == [row for row in rows if times[0] <= row <= times[-1]]
    np.testing.assert_array_equal(values, laid(1000)[1])
    known = ~np.isnan(values)
    np.testing.assert_allclose(np.array(values)[known], np.interp(instants, t, x)[known], rtol=1e-12, atol=1e-15)


def test_a_type_nobody_defines_does_not_hide_the_joint_states(tmp_path: Path) -> None:
    sent = [joint_state(START, ["a"], [1.0])]
    path = write_ros2(tmp_path / "run", [*sent, plain("std_msgs/msg/Float64", "/x", START, 1.0)], "SQLITE3") / "run.db3"
    database = sqlite3.connect(path)
    database.execute("DELETE FROM message_definitions")
    database.execute("UPDATE topics SET type = 'control_msgs/msg/DynamicJointState' WHERE name = '/x'")
    database.commit()
    database.close()
    assert read_bag(path).columns == ("stamp", "receive", "a.position")
    refused(path, "does not define the message type", topic="/x")


def test_fields_named_like_the_times_and_a_topic_of_two_types(tmp_path: Path) -> None:
    sent = [plain("odd/msg/Clock", "/clock", START, 2.5, True), joint_state(START, ["a"], [1.0], topic="/a")]
    found = whole(read_bag(write_ros2(tmp_path / "run", sent, "MCAP"), "/clock"))
    assert {name: values.tolist() for name, values in found.items()} == {
        "receive": [0.0], "message.stamp": [2.5], "message.receive": [1.0],
    }  # fmt: skip
    path = tmp_path / "run.bag"
    with Writer1(path) as writer:
        first = writer.add_connection("/a", JOINT_STATE, typestore=ROS1, callerid="/one")
        second = writer.add_connection("/a", "std_msgs/msg/Float64", typestore=ROS1, callerid="/two")
        writer.write(first, START, ROS1.serialize_ros1(sent[1].make(ROS1), JOINT_STATE))
        number = ROS1.types["std_msgs/msg/Float64"](1.0)
        writer.write(second, START, ROS1.serialize_ros1(number, "std_msgs/msg/Float64"))
    recording = read_bag(path)
    assert recording.rows == 1
    assert "second type, std_msgs/msg/Float64, were left out" in recording.notes[0]


def test_pictures_and_foreign_encodings_are_refused(tmp_path: Path) -> None:
    layout = ROS2.types["std_msgs/msg/MultiArrayLayout"]([], 0)
    wide = plain("std_msgs/msg/Float64MultiArray", "/wide", START, layout, np.zeros(5000))
    refused(write_ros2(tmp_path / "wide", [wide], "MCAP"), "more than 4096 numbers")
    path = write_mcap(tmp_path / "run.mcap", [joint_state(START, ["a"], [1.0])], None)
    path.write_bytes(path.read_bytes().replace(text("ros1"), text("json")))
    refused(path, "encoded as 'json'", "cdr or ros1")


def test_what_is_no_bag_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no .db3 or .mcap file")
    refused(tmp_path / "absent.bag", "cannot be opened")
    for name, content in (("a.bag", b""), ("b.mcap", b"hello there, this is no bag"), ("c.bag", b"#ROSRECORD V1.2\n")):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "contains no topic", "neither a ROS 1 bag of version 2.0 nor a .db3 or MCAP file")
    refused(write_ros2(tmp_path / "nothing", [], "MCAP"), "contains no topic", "Check that it was recorded")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_ros1(tmp_path / "run.bag", arm_run(3)[0])
    message_types.cache_clear()
    monkeypatch.setitem(sys.modules, "rosbags", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"steelyard\[bags\]\""):
        read_bag(path)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One bag of every kind with 60 messages of the arm, in several chunks."""
    return {kind: KINDS[kind](tmp_path_factory.mktemp("bags"), arm_run()[0]) for kind in FILES}


def is_part_of(found: dict[str, Array], columns: dict[str, Array]) -> bool:
    """True if the rows are some of those that were written, in order and to the last bit."""
    written = [tuple(row) for row in np.array(list(columns.values())).T]
    remaining: Iterator[tuple[float, ...]] = iter(written)
    return all(tuple(row) in remaining for row in np.array([found[name] for name in columns]).T)


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_cut_bag_is_refused_or_salvaged(tmp_path: Path, bags: dict[str, Path], kind: str, share: float) -> None:
    original = bags[kind].read_bytes()
    cut = tmp_path / bags[kind].name
    cut.write_bytes(original[: int(share * len(original))])
    with pytest.raises(DataError, match=r"damaged|no topic|no messages|gives no columns"):
        read_bag(cut)
    try:
        recording = read_bag(cut, salvage=True)
    except DataError:
        return
    assert "damaged" in recording.notes[-1]
    found = whole(recording)
    assert 0 < found["stamp"].size <= 60
    assert found["stamp"].size == recording.rows
    columns = arm_run()[1]
    for name, values in found.items():
        np.testing.assert_array_equal(values, columns[name][: values.size], err_msg=name)


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 1.0, exclude_max=True), garbage=st.binary(min_size=1, max_size=40))
def test_garbage_in_a_bag_is_no_traceback(
    tmp_path: Path, bags: dict[str, Path], kind: str, share: float, garbage: bytes
) -> None:
    content = bytearray(bags[kind].read_bytes())
    start = int(share * len(content))
    content[start : start + len(garbage)] = garbage[: len(content) - start]
    broken = tmp_path / bags[kind].name
    broken.write_bytes(content)
    for salvage in (False, True):
        with suppress(DataError):
            whole(read_bag(broken, salvage=salvage))


@pytest.mark.parametrize("kind", ["mcap lz4", "mcap plain chunks", "bag bz2", "bag lz4"])
def test_a_broken_chunk_costs_only_itself(tmp_path: Path, bags: dict[str, Path], kind: str) -> None:
    content = bytearray(bags[kind].read_bytes())
    middle = len(content) // 2 if "mcap" in kind else content.index(b"compression=", len(content) // 3) + 300
    content[middle : middle + 8] = b"\xff" * 8
    broken = tmp_path / bags[kind].name
    broken.write_bytes(content)
    refused(broken, "chunk at byte", "salvage = true")
    found = whole(read_bag(broken, salvage=True))
    assert 30 <= found["stamp"].size < 60
    assert is_part_of(found, arm_run()[1])
    assert found["stamp"][-1] == arm_run()[1]["stamp"][-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bag", "mcap zstd"])
def test_a_broken_first_chunk_does_not_take_the_names_with_it(tmp_path: Path, kind: str) -> None:
    sent, columns = arm_run(12000)
    path = KINDS[kind](tmp_path, sent)
    content = bytearray(path.read_bytes())
    first = content.index(b"op=\x05") + 60 if kind == "bag" else 200
    content[first : first + 8] = b"\xff" * 8
    path.write_bytes(content)
    refused(path, "records at byte")
    recording = read_bag(path, salvage=True)
    found = whole(recording)
    assert 5000 < found["stamp"].size < 12000
    assert found["stamp"].size == recording.rows
    missing = 12000 - found["stamp"].size
    np.testing.assert_array_equal(found["elbow.effort"], columns["elbow.effort"][missing:])


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
def test_garbled_messages_are_told_by_number_where_they_matter(tmp_path: Path, storage: str) -> None:
    sent, columns = arm_run()
    with Writer2(tmp_path / "run", version=9, storage_plugin=StoragePlugin[storage]) as writer:
        joints = writer.add_connection("/joint_states", JOINT_STATE, typestore=ROS2)
        other = writer.add_connection("/x", "std_msgs/msg/Float64", typestore=ROS2)
        for k, one in enumerate(sent):
            data = bytes(ROS2.serialize_cdr(one.make(ROS2), JOINT_STATE))
            writer.write(joints, one.received, data[:-9] if k in (20, 33) else data)
            writer.write(other, one.received, b"\0\1\0\0" if k == 5 else b"\0\1\0\0" + bytes(8))
    path = tmp_path / "run"
    message = refused(path, "2 messages of '/joint_states', from number 21 on, cannot be decoded", "58 intact messages")
    assert "/x" not in message
    refused(path, "1 messages of '/x', from number 6 on, cannot be decoded", topic="/x")
    found = whole(read_bag(path, salvage=True))
    assert found["stamp"].size == 58
    assert is_part_of(found, columns)


@pytest.mark.parametrize("ending", [b"", b"\0" * 5000])
def test_an_mcap_of_a_robot_that_lost_power(tmp_path: Path, bags: dict[str, Path], ending: bytes) -> None:
    """No summary, no footer, and sometimes a tail of zeros that the file system left."""
    content = bags["mcap lz4"].read_bytes()
    path = tmp_path / "run.mcap"
    path.write_bytes(content[: content.index(record(15, bytes(4)))] + ending)
    message = refused(path, "byte", "60 intact messages over 0.0590", "The 60 rows before it are intact")
    assert str(path) in message
    recording = read_bag(path, salvage=True)
    assert recording.rows == 60
    assert "60 intact messages" in recording.notes[0]


@pytest.mark.parametrize("kind", ["mcap", "mcap zstd", "bag", "bag lz4"])
def test_a_chunk_that_was_being_written_is_read_up_to_the_break(tmp_path: Path, kind: str) -> None:
    sent, columns = arm_run(4000)
    path = KINDS[kind](tmp_path, sent)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    found = whole(read_bag(path, salvage=True))
    assert 1000 < found["stamp"].size < 3000
    np.testing.assert_array_equal(found["wrist_3.effort"], columns["wrist_3.effort"][: found["stamp"].size])


def test_zeros_in_a_torn_page_never_pass_for_numbers(tmp_path: Path, bags: dict[str, Path]) -> None:
    content = bags["db3"].read_bytes()
    path = tmp_path / "run.db3"
    columns = arm_run()[1]
    for lost in range(1, 400, 7):
        path.write_bytes(content[:-lost])
        found = whole(read_bag(path, salvage=True))
        for name, values in found.items():
            np.testing.assert_array_equal(values, columns[name][: values.size])


def test_a_bag_that_was_never_closed(tmp_path: Path, bags: dict[str, Path]) -> None:
    content = bytearray(bags["bag"].read_bytes())
    place = content.index(b"index_pos=") + len(b"index_pos=")
    index = int.from_bytes(content[place : place + 8], "little")
    content[place : place + 8] = bytes(8)
    path = tmp_path / "run.bag.active"
    path.write_bytes(content[:index])
    refused(path, "not closed", "The 60 rows before it are intact")
    assert read_bag(path, salvage=True).rows == 60


def test_a_bag_that_is_cut_between_records(tmp_path: Path, bags: dict[str, Path]) -> None:
    content = bags["bag"].read_bytes()
    place = content.index(b"index_pos=") + len(b"index_pos=")
    index = int.from_bytes(content[place : place + 8], "little")
    path = tmp_path / "run.bag"
    path.write_bytes(content[:index])
    refused(path, "ends within its index; no message is lost", "The 60 rows before it are intact")
    second = content.index(b"op=\x05", content.index(b"op=\x05") + 1) - 8
    path.write_bytes(content[:second])
    refused(path, f"ends {index - second} bytes before its index")
    assert 5 < whole(read_bag(path, salvage=True))["stamp"].size < 60


def test_a_garbled_index_does_not_redefine_what_was_read(tmp_path: Path, bags: dict[str, Path]) -> None:
    content = bytearray(bags["bag lz4"].read_bytes())
    place = content.rindex(b"string[] name")
    content[place : place + 6] = b"uint8 "
    path = tmp_path / "run.bag"
    path.write_bytes(content)
    found = whole(read_bag(path))
    np.testing.assert_array_equal(found["elbow.effort"], arm_run()[1]["elbow.effort"])


def test_a_database_that_was_never_closed(tmp_path: Path, bags: dict[str, Path]) -> None:
    path = tmp_path / "run.db3"
    shutil.copy(bags["db3"], path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("DELETE FROM messages WHERE id > 50")
    database.commit()
    away = tmp_path / "away"
    away.mkdir()
    for name in ("run.db3", "run.db3-wal"):
        shutil.copy(tmp_path / name, away / name)
    database.close()
    refused(away / "run.db3", "was not closed", "run.db3-wal")
    recording = read_bag(away / "run.db3", salvage=True)
    assert recording.rows == whole(recording)["stamp"].size == 50
    assert sorted(file.name for file in away.iterdir()) == ["run.db3", "run.db3-wal"]


@pytest.mark.parametrize("kind", ["bag", "mcap", "db3"])
def test_a_bag_may_be_packed(tmp_path: Path, kind: str) -> None:
    file = KINDS[kind](tmp_path, arm_run()[0])
    packed = tmp_path / f"{file.name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    expected = whole(read_recording(file))
    for name, values in whole(read_recording(packed)).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_compressed_bag_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = KINDS["mcap by file"](tmp_path, arm_run()[0])
    monkeypatch.setenv("STEELYARD_UNPACKED_GB", "0.000001")
    refused(folder, "unpacks to more than 1e-06 GB")


@pytest.mark.slow
def test_a_compressed_file_that_was_cut(tmp_path: Path) -> None:
    folder = write_ros2(tmp_path / "run", arm_run(20000)[0], "MCAP", "FILE")
    (file,) = folder.glob("*.zstd")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(folder, "compressed file ends early")
    assert read_bag(folder, salvage=True).rows


def test_a_chunk_unpacks_to_what_it_says_and_no_more() -> None:
    bomb = lz4_compress(bytes(10**7))
    with pytest.raises(bag_records.BrokenChunkError, match="1001 bytes instead of 1000"):
        bag_records.unpacked(bomb, "lz4", 1000)
    with pytest.raises(bag_records.BrokenChunkError, match="compression 'xz' is not supported"):
        bag_records.unpacked(bomb, "xz", 1000)
