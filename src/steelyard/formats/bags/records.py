"""What every kind of bag is read into: channels, messages in the order they were recorded, and what is damaged."""

from __future__ import annotations

import bz2
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from steelyard.errors import MissingExtraError
from steelyard.formats.bags.types import Definition

# Records that stand alone are handed on in lots of about this size.
LOT_BYTES = 1 << 20
# A record that claims to be longer than this [bytes] and runs past the end of the file is not looked into.
LONGEST_TAIL = 1 << 28
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Channel:
    """One stream of messages in a file; `encoding` is how they are written: "cdr", "ros1" or something else."""

    key: int
    topic: str
    encoding: str
    definition: Definition


class Message(NamedTuple):
    """One message: the key of its channel, when it was received [ns since 1970], its bytes."""

    channel: int
    time: int
    data: bytes


@dataclass(frozen=True)
class Portion:
    """A few consecutive records of a file, up to byte `end`.

    `start` names the portion: a later pass may skip it. `damage` says what is broken here, and at which byte.
    """

    start: int
    end: int
    channels: tuple[Channel, ...] = ()
    messages: tuple[Message, ...] = ()
    damage: str | None = None


class BrokenChunkError(ValueError):
    """A compressed piece of a bag that cannot be unpacked."""


def unpacked(data: bytes, compression: str, size: int, complete: bool = True) -> bytes:
    """The `size` bytes of a chunk; as many as there are if the chunk itself is not `complete`."""
    if compression in ("", "none"):
        plain = data
    else:
        try:
            decompressor = _decompressor(compression)
            # One byte more than expected is enough to see that the size is wrong, and no more is ever unpacked.
            plain = decompressor.decompress(data, size + 1)
        except MissingExtraError:
            raise
        except Exception as error:  # every library has its own
            raise BrokenChunkError(f"its {compression} data cannot be unpacked ({error})") from None
    if complete and len(plain) != size:
        raise BrokenChunkError(f"it holds {len(plain)} bytes where {size} were announced")
    return plain


def message_bytes(data: bytes) -> bytes:
    """A message as it was sent: ROS 2 can compress each by itself, and no plain message starts like that."""
    if data[:4] != ZSTD_MAGIC:
        return data
    try:
        return _zstd().decompress(data)
    except MissingExtraError:
        raise
    except Exception:
        return b""


def open_zstd(path: Any) -> Any:
    """A stream of what a compressed file holds."""
    return _zstd().open(path, "rb")


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
    raise BrokenChunkError(f"its compression '{compression}' is unknown; known are zstd, lz4 and bz2")


def _zstd() -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise MissingExtraError("backports.zstd", "bags", "Reading a bag compressed with zstd") from None
    return zstd
