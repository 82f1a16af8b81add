"""MCAP, record by record from the start: needs neither the index nor the footer, which are missing after a power loss.

A file is a magic, then records: opcode (1 byte), length (8 bytes), content. Chunks hold further records, compressed.
"""

from __future__ import annotations

import struct
import zlib
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

MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x02, 0x03, 0x04, 0x05, 0x06, 0x0F
_HEAD = struct.Struct("<BQ")
_MESSAGE_HEAD = struct.Struct("<BQHIQQ")
_CHUNK_HEAD = struct.Struct("<QQQI")


def mcap_portions(stream: BinaryIO, size: int, skip: Container[int]) -> Iterator[Portion]:
    """Portions of an MCAP file of `size` bytes; chunks that start at a byte in `skip` are skipped."""
    if stream.read(len(MAGIC)) != MAGIC:
        yield Portion(0, size, damage="byte 0: this is not the start of an MCAP file")
        return
    schemas: dict[int, Definition] = {}
    position = len(MAGIC)
    loose = bytearray()
    lost = ""
    while True:
        head = stream.read(_HEAD.size)
        opcode, length = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
        end = position + _HEAD.size + length
        whole = opcode != 0 and end <= size
        if loose and (len(loose) > LOT_BYTES or opcode not in (_SCHEMA, _CHANNEL, _MESSAGE) or not whole):
            yield _portion(bytes(loose), position - len(loose), position, schemas)
            loose.clear()
        if not whole:
            if opcode == _CHUNK and length < LONGEST_TAIL:
                yield _chunk(stream.read(length), position, size, schemas, complete=False)
            yield Portion(
                position, size, damage=f"byte {position}: the file ends early, or the next bytes are not a record{lost}"
            )
            return
        if opcode == _FOOTER:
            break
        if opcode == _DATA_END:  # only the index follows; it is scanned for the channels it repeats
            lost = "; no message is lost"
        if opcode in (_SCHEMA, _CHANNEL, _MESSAGE):
            loose += head + stream.read(length)
        elif opcode == _CHUNK and position not in skip:
            yield _chunk(stream.read(length), position, end, schemas, complete=True)
        else:
            stream.seek(end)
        position = end
    stream.seek(max(0, size - len(MAGIC)))
    if stream.read() != MAGIC:
        yield Portion(position, size, damage=f"byte {position}: the file ends early, after its index{lost}")


def _chunk(content: bytes, start: int, end: int, schemas: dict[int, Definition], *, complete: bool) -> Portion:
    """The records of a chunk; of an incomplete one, those before the break."""
    try:
        _, _, size, checksum = _CHUNK_HEAD.unpack_from(content)
        compression, position = _text(content, _CHUNK_HEAD.size)
        (packed,) = struct.unpack_from("<Q", content, position)
        position += 8
        if complete and position + packed > len(content):
            raise BrokenChunkError("it is shorter than stated")
        records = unpacked(content[position : position + packed], compression, size, complete)
        if complete and checksum and zlib.crc32(records) != checksum:
            raise BrokenChunkError("its checksum is wrong")
    except (struct.error, UnicodeDecodeError, BrokenChunkError) as error:
        return Portion(start, end, damage=f"chunk at byte {start}: {error}" if complete else None)
    return _portion(records, start, end, schemas, complete)


def _portion(records: bytes, start: int, end: int, schemas: dict[int, Definition], complete: bool = True) -> Portion:
    """Consecutive records as channels and messages; stops at the first invalid one."""
    channels: list[Channel] = []
    messages: list[Message] = []
    position, damage = 0, None
    try:
        while position < len(records):
            opcode, length = _HEAD.unpack_from(records, position)
            after = position + _HEAD.size + length
            if after > len(records) or opcode == 0:
                raise struct.error("a record extends past its end")
            if opcode == _MESSAGE:
                _, _, channel, _, time, _ = _MESSAGE_HEAD.unpack_from(records, position)
                messages.append(Message(channel, time, records[position + _MESSAGE_HEAD.size : after]))
            elif opcode == _SCHEMA:
                key, definition = _schema(records[position + _HEAD.size : after])
                schemas[key] = definition
            elif opcode == _CHANNEL:
                channels.append(_channel(records[position + _HEAD.size : after], schemas))
            position = after
    except (struct.error, UnicodeDecodeError) as error:
        damage = f"records at byte {start}: {error}" if complete else None
    return Portion(start, end, tuple(channels), tuple(messages), damage)


def _schema(content: bytes) -> tuple[int, Definition]:
    (key,) = struct.unpack_from("<H", content)
    name, position = _text(content, 2)
    language, position = _text(content, position)
    text, _ = _text(content, position)
    return key, Definition(normal_type(name), language, text)


def _channel(content: bytes, schemas: dict[int, Definition]) -> Channel:
    key, schema = struct.unpack_from("<HH", content)
    topic, position = _text(content, 4)
    encoding, _ = _text(content, position)
    return Channel(key, topic, encoding, schemas.get(schema, Definition("unknown", "", "")))


def _text(content: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, position)
    end = position + 4 + length
    if end > len(content):
        raise struct.error("a text extends past its end")
    return content[position + 4 : end].decode(), end
