"""Messages of a topic to rows of numbers: shared by the scan of a bag and the reading of its columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.bags.columns import NAMING_FIELDS, RECEIVE, STAMP, MessageColumns, columns_of
from steelyard.formats.bags.files import BagFiles
from steelyard.formats.bags.layout import Layouts, MessageLayout, Stack, read_integers, read_numbers
from steelyard.formats.bags.records import Channel, Message, message_bytes
from steelyard.formats.bags.types import Definition, message_types
from steelyard.signals.recording import Chunk

BLOCK_ROWS = 8192
ENCODINGS = ("cdr", "ros1")

Times = NDArray[np.int64]


def by_topic(
    file: int, messages: Sequence[Message], channels: dict[tuple[int, int], Channel]
) -> dict[str, tuple[Channel, list[Message]]]:
    """Messages of the known channels in order, by topic; all publishers of a topic share its type."""
    found: dict[str, tuple[Channel, list[Message]]] = {}
    for message in messages:
        channel = channels.get((file, message.channel))
        if channel is not None:
            found.setdefault(channel.topic, (channel, []))[1].append(message)
    return found


class Part(NamedTuple):
    """Messages of one layout: their columns, their indices among the messages that were read, their bytes."""

    columns: MessageColumns
    rows: NDArray[np.intp]
    stack: Stack
    has_stamp: bool


class Decoded(NamedTuple):
    """Messages that could be read: when they were sent and received [ns], their numbers; and those that could not."""

    size: int
    stamp: Times
    receive: Times
    unstamped: int
    parts: list[Part]
    unreadable: NDArray[np.intp]


class Reader:
    """Reader of messages of one type and encoding."""

    def __init__(self, channel: Channel) -> None:
        if channel.encoding not in ENCODINGS:
            raise DataError(f"its messages are encoded as '{channel.encoding}', not as {' or '.join(ENCODINGS)}")
        definition = channel.definition
        self._kind = definition.type
        named = NAMING_FIELDS.get(self._kind, frozenset())
        self._layouts = Layouts(message_types(definition), self._kind, channel.encoding, named)
        self._columns: dict[MessageLayout, MessageColumns] = {}

    def read(self, messages: Sequence[Message]) -> Decoded:
        receive = np.array([message.time for message in messages], dtype=np.uint64).astype(np.int64)
        stamp = receive.copy()
        readable = np.zeros(len(messages), dtype=bool)
        unstamped = 0
        parts: list[Part] = []
        for layout, rows, stack in self._layouts.stacked([message_bytes(message.data) for message in messages]):
            if layout is None:
                continue
            if layout not in self._columns:
                self._columns[layout] = columns_of(self._kind, layout)
            readable[rows] = True
            sent = _sent(layout, stack)
            if sent is not None:
                unstamped += int((sent == 0).sum())
                stamp[rows] = np.where(sent == 0, receive[rows], sent)
            parts.append(Part(self._columns[layout], rows, stack, sent is not None))
        if not readable.all():
            place = np.cumsum(readable) - 1
            parts = [part._replace(rows=place[part.rows]) for part in parts]
            stamp, receive = stamp[readable], receive[readable]
        return Decoded(stamp.size, stamp, receive, unstamped, parts, np.flatnonzero(~readable))


def _sent(layout: MessageLayout, stack: Stack) -> Times | None:
    """The stamps in the headers [ns], if the type has a header."""
    seconds, nanoseconds = (layout.numbers.get(f"header.stamp.{name}") for name in ("sec", "nanosec"))
    if seconds is None or nanoseconds is None:
        return None
    return read_integers(stack, seconds) * 10**9 + read_integers(stack, nanoseconds)


class Readers:
    """Readers by type and encoding, so that the layouts of a type are shared by all files and publishers."""

    def __init__(self) -> None:
        self._known: dict[tuple[Definition, str], Reader] = {}

    def of(self, channel: Channel) -> Reader:
        key = (channel.definition, channel.encoding)
        if key not in self._known:
            self._known[key] = Reader(channel)
        return self._known[key]


@dataclass(frozen=True)
class TopicRows:
    """Rows of one topic, whose `channels` are known by file and key.

    `origin` [ns] is time zero; `elsewhere` are the portions without a message of the topic.
    """

    files: BagFiles
    channels: tuple[tuple[tuple[int, int], Channel], ...]
    origin: int
    elsewhere: frozenset[tuple[int, int]]

    def digest(self) -> str:
        return self.files.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.files.check_unchanged()
        waiting: list[Array] = []
        rows = 0
        for decoded in self._decoded():
            waiting.append(self._table(decoded, columns))
            rows += waiting[-1].shape[1]
            if rows >= BLOCK_ROWS:
                yield _block(waiting, columns)
                waiting, rows = [], 0
        if rows:
            yield _block(waiting, columns)

    def _decoded(self) -> Iterator[Decoded]:
        readers, channels = Readers(), dict(self.channels)
        for number, portion in self.files.portions(self.elsewhere, channels):
            for channel, messages in by_topic(number, portion.messages, channels).values():
                yield readers.of(channel).read(messages)

    def _table(self, decoded: Decoded, columns: Sequence[str]) -> Array:
        """(columns, rows) of the messages that hold any of the requested columns."""
        table = np.full((len(columns), decoded.size), np.nan)
        kept = np.zeros(decoded.size, dtype=bool)
        times = {STAMP: decoded.stamp, RECEIVE: decoded.receive}
        asked = [column for column in columns if column not in times]
        for part in decoded.parts:
            present = [column for column in asked if column in part.columns.cells]
            if asked and not present:
                continue
            kept[part.rows] = True
            arrays = defaultdict(list)
            for column in present:
                arrays[part.columns.cells[column].numbers].append(column)
            for numbers, names in arrays.items():
                values = read_numbers(part.stack, numbers)
                for column in names:
                    table[columns.index(column), part.rows] = values[:, part.columns.cells[column].place]
        for place, column in enumerate(columns):
            if column in times:
                table[place] = (times[column] - self.origin) / 1e9
        return table[:, kept]


def _block(tables: Sequence[Array], columns: Sequence[str]) -> Chunk:
    whole = np.concatenate(tables, axis=1)
    return {column: whole[place] for place, column in enumerate(columns)}
