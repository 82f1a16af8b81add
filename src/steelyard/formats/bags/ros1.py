"""ROS 1 bags (version 2.0), record by record from the start: works for unindexed and truncated bags too.

A record is a header of name=value fields and data, each preceded by its length (4 bytes). Chunks hold further records.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from typing import BinaryIO

from steelyard.formats.bags.records import (
    LONGEST_TAIL,
    LOT_BYTES,
    BrokenChunkError,
    Channel,
    Message,
    Portion,
    unpacked,
)
from steelyard.formats.bags.types import Definition, normal_type

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG, _CHUNK, _CHUNK_INFO, _CONNECTION = b"\x02", b"\x03", b"\x05", b"\x06", b"\x07"
_LONGEST_HEADER = 1 << 20
_LENGTH = struct.Struct("<I")

Fields = dict[bytes, bytes]


def rosbag_portions(stream: BinaryIO, size: int, skip: Container[int]) -> Iterator[Portion]:
    """Portions of a ROS 1 bag of `size` bytes; chunks that start at a byte in `skip` are skipped."""
    if stream.read(len(MAGIC)) != MAGIC:
        yield Portion(0, size, damage="byte 0: this is not the start of a ROS 1 bag of version 2.0")
        return
    position = len(MAGIC)
    loose = bytearray()
    index = announced = infos = 0
    while position < size:
        fields, header, length = _record_head(stream)
        opcode = fields.get(b"op", b"")
        end = position + len(header) + length
        whole = opcode != b"" and end <= size
        if loose and (len(loose) > LOT_BYTES or opcode not in (_CONNECTION, _MESSAGE) or not whole):
            yield _portion(bytes(loose), position - len(loose), position)
            loose.clear()
        if not whole:
            if opcode == _CHUNK and length < LONGEST_TAIL:
                yield _chunk(fields, stream.read(length), position, size, complete=False)
            yield Portion(
                position, size, damage=f"byte {position}: the file ends early, or the next bytes are not a record"
            )
            return
        if opcode in (_CONNECTION, _MESSAGE):
            loose += header + stream.read(length)
        elif opcode == _CHUNK and position not in skip:
            yield _chunk(fields, stream.read(length), position, end, complete=True)
        else:
            if opcode == _BAG:
                index = int.from_bytes(fields.get(b"index_pos", b""), "little")
                announced = int.from_bytes(fields.get(b"chunk_count", b""), "little")
            infos += opcode == _CHUNK_INFO
            stream.seek(end)
        position = end
    if loose:
        yield _portion(bytes(loose), position - len(loose), position)
    if not index:
        damage = "the bag was not closed and has no index; all records are intact"
    elif index > size:
        damage = f"the bag ends {index - size} bytes before its index"
    elif infos < announced:
        damage = "the bag ends within its index; no message is lost"
    else:
        return
    yield Portion(size, size, damage=f"byte {size}: {damage}")


def _record_head(stream: BinaryIO) -> tuple[Fields, bytes, int]:
    """Fields of the next record, its bytes up to the data, the length of the data; no fields if it is invalid."""
    first = stream.read(4)
    if len(first) < 4 or _LENGTH.unpack(first)[0] > _LONGEST_HEADER:
        return {}, first, 0
    header = stream.read(_LENGTH.unpack(first)[0])
    last = stream.read(4)
    try:
        return _fields(header), first + header + last, _LENGTH.unpack(last)[0]
    except struct.error:
        return {}, first, 0


def _chunk(fields: Fields, content: bytes, start: int, end: int, *, complete: bool) -> Portion:
    """The records of a chunk; of an incomplete one, those before the break."""
    try:
        compression = fields.get(b"compression", b"none").decode("latin-1")
        records = unpacked(content, compression, _number(fields, b"size"), complete)
    except (struct.error, BrokenChunkError) as error:
        return Portion(start, end, damage=f"chunk at byte {start}: {error}" if complete else None)
    return _portion(records, start, end, complete)


def _portion(records: bytes, start: int, end: int, complete: bool = True) -> Portion:
    """Consecutive records as channels and messages; stops at the first invalid one."""
    channels: list[Channel] = []
    messages: list[Message] = []
    position, damage = 0, None
    try:
        while position < len(records):
            data = position + 8 + _LENGTH.unpack_from(records, position)[0]
            after = data + _LENGTH.unpack_from(records, data - 4)[0]
            if after > len(records):
                raise struct.error("a record extends past its end")
            fields = _fields(records[position + 4 : data - 4])
            opcode = fields.get(b"op", b"")
            if opcode == _MESSAGE:
                seconds, nanoseconds = struct.unpack("<II", fields.get(b"time", b""))
                messages.append(Message(_number(fields, b"conn"), seconds * 10**9 + nanoseconds, records[data:after]))
            elif opcode == _CONNECTION:
                channels.append(_connection(fields, _fields(records[data:after])))
            elif opcode == b"":
                raise struct.error("a record has no opcode")
            position = after
    except (struct.error, UnicodeDecodeError) as error:
        damage = f"records at byte {start}: {error}" if complete else None
    return Portion(start, end, tuple(channels), tuple(messages), damage)


def _connection(fields: Fields, details: Fields) -> Channel:
    kind = normal_type(details.get(b"type", b"").decode())
    text = details.get(b"message_definition", b"").decode()
    topic = fields.get(b"topic", b"").decode()
    return Channel(_number(fields, b"conn"), topic, "ros1", Definition(kind, "ros1msg", text))


def _fields(header: bytes) -> Fields:
    """name=value pairs, each preceded by its length."""
    found: Fields = {}
    position = 0
    while position < len(header):
        (length,) = _LENGTH.unpack_from(header, position)
        end = position + 4 + length
        name, mark, value = header[position + 4 : end].partition(b"=")
        if not mark or end > len(header):
            raise struct.error("a header field extends past its end")
        found[name] = value
        position = end
    return found


def _number(fields: Fields, name: bytes) -> int:
    return _LENGTH.unpack(fields.get(name, b""))[0]
