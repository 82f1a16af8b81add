"""Common contents of all kinds of bags: channels, messages in the order they were recorded, and damage."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from typing import Any, NamedTuple

from steelyard.errors import MissingExtraError
from steelyard.formats.bags.types import Definition
from steelyard.formats.packed import ZSTD_MAGIC, zstd_library

# Records outside chunks are returned in batches of about this size.
LOT_BYTES = 1 << 20
# A record that claims to be longer than this [bytes] and extends past the end of the file is not read.
LONGEST_TAIL = 1 << 28


@dataclass(frozen=True)
class Channel:
    """One stream of messages in a file; `encoding` of the messages is "cdr", "ros1" or something else."""

    key: int
    topic: str
    encoding: str
    definition: Definition


class Message(NamedTuple):
    """One message: the key of its channel, the time it was received [ns since 1970], its bytes."""

    channel: int
    time: int
    data: bytes


@dataclass(frozen=True)
class Portion:
    """A few consecutive records of a file, up to byte `end`.

    `start` identifies the portion: a later pass may skip it. `damage` describes what is broken here, and at which byte.
    """

    start: int
    end: int
    channels: tuple[Channel, ...] = ()
    messages: tuple[Message, ...] = ()
    damage: str | None = None


class BrokenChunkError(ValueError):
    """A compressed part of a bag that cannot be unpacked."""


def unpacked(data: bytes, compression: str, size: int, complete: bool = True) -> bytes:
    """The `size` bytes of a chunk; as many as exist if the chunk itself is not `complete`."""
    if compression in ("", "none"):
        plain = data
    else:
        try:
            decompressor = _decompressor(compression)
            # One byte more than expected shows that the size is wrong; no more than that is ever unpacked.
            plain = decompressor.decompress(data, size + 1)
        except MissingExtraError:
            raise
        except Exception as error:  # each library has its own exceptions
            raise BrokenChunkError(f"its {compression} data cannot be unpacked ({error})") from None
    if complete and len(plain) != size:
        raise BrokenChunkError(f"it contains {len(plain)} bytes instead of {size}")
    return plain


def message_bytes(data: bytes) -> bytes:
    """A message as it was sent: ROS 2 can compress single messages, and no plain message has the same first bytes."""
    if data[:4] != ZSTD_MAGIC:
        return data
    try:
        return _zstd().decompress(data)
    except MissingExtraError:
        raise
    except Exception:
        return b""


def _decompressor(compression: str) -> Any:
    if compression == "bz2":
        return bz2.BZ2Decompressor()
    if compression == "zstd":
        return _zstd().ZstdDecompressor()
    if compression == "lz4":
        try:
            from lz4.frame import LZ4FrameDecompressor
        except ImportError:
            raise MissingExtraError("lz4", "bags", "Reading a bag compressed with lz4") from None
        return LZ4FrameDecompressor()
    raise BrokenChunkError(f"its compression '{compression}' is not supported. Valid: zstd, lz4, bz2")


def _zstd() -> Any:
    return zstd_library("Reading a bag compressed with zstd", "bags")
