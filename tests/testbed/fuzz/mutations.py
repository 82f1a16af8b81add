"""Mutations of bytes: those that a disk, a network and an ill-meaning person make."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Sequence

import numpy as np

# What numbers and words of a text are replaced by.
ABSURD = [
    b"1e400", b"-1e400", b"1e300", b"-1e300", b"5e-324", b"1e-310", b"nan", b"inf", b"-inf", b"0", b"-0.0", b"-1", b"1",
    b"9" * 400, b"1" * 5000, b"4294967296", b"9223372036854775808", b"0x10", b"1_000", b"1,5", b"true", b"null", b"",
    b"\xff\xfe", b"\x00", b"\x1b[31m", b"\x9b31m", b"\xe2\x80\xae", b"'", b'"', b"<", b"&lt;", b"]]>", b"{}", b"[]",
    b"[" * 300, b"{'a':" * 300, b"(" * 300, b"../../../etc/passwd", b"a" * 5000, b"\r", b"\n\n", b"\t", b";", b"%s%n",
    b"0 0 0", b"0 0 0 0", b"1 2", b"nan nan nan", b"1e200 1e200 1e200", b"revolute", b"fixed", b"prismatic", b"base",
]  # fmt: skip
_INTERESTING = [0, 1, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]
_NUMBER = re.compile(rb"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9.]*")
_LARGEST = 1 << 16

Mutate = Callable[[np.random.Generator, bytes, Sequence[bytes]], bytes]


def mutated(rng: np.random.Generator, content: bytes, others: Sequence[bytes], is_text: bool) -> bytes:
    """One to six mutations of the content; `others` are spliced in."""
    steps = _TEXT + _BYTES if is_text else _BYTES
    for _ in range(1 + int(rng.integers(0, 6))):
        content = steps[int(rng.integers(len(steps)))](rng, content or b" ", others)[:_LARGEST]
    return content


def packed(name: str, content: bytes) -> bytes:
    """The content in a packing, so that mutations reach what is inside."""
    if name == "gzip":
        return gzip.compress(content, 1, mtime=0)
    if name == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("log.csv"), content)
        return out.getvalue()
    from steelyard.formats.packed import zstd_library

    return zstd_library("fuzzing", "zstd").compress(content)


def _place(rng: np.random.Generator, content: bytes) -> int:
    return int(rng.integers(0, len(content) + 1))


def _flip(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k = int(rng.integers(len(content)))
    return content[:k] + bytes([content[k] ^ (1 << int(rng.integers(8)))]) + content[k + 1 :]


def _byte(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k = int(rng.integers(len(content)))
    return content[:k] + rng.bytes(1) + content[k + 1 :]


def _integer(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    size = int(rng.choice([1, 2, 4, 8]))
    value = int(rng.choice(_INTERESTING[:-2])) if rng.random() < 0.7 else int(rng.integers(0, 2**62))
    order = "little" if rng.random() < 0.8 else "big"
    k = _place(rng, content)
    if rng.random() < 0.5:
        k -= k % size
    return content[:k] + (value % 2 ** (8 * size)).to_bytes(size, order) + content[k + size :]


def _cut(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[: _place(rng, content)]


def _remove(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k = _place(rng, content)
    return content[:k] + content[k + int(rng.integers(1, 64)) :]


def _repeat(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k, size = _place(rng, content), int(rng.integers(1, 200))
    return content[:k] + content[k : k + size] * int(rng.integers(1, 5)) + content[k:]


def _insert(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k = _place(rng, content)
    return content[:k] + rng.bytes(int(rng.integers(1, 16))) + content[k:]


def _splice(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    other = others[int(rng.integers(len(others)))]
    k, m = _place(rng, content), _place(rng, other)
    return content[:k] + other[m : m + int(rng.integers(1, 400))] + content[k:]


def _zeros(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k, size = _place(rng, content), int(rng.integers(1, 600))
    return content[:k] + bytes(min(size, len(content) - k)) + content[k + size :]


def _swapped(pattern: re.Pattern[bytes]) -> Mutate:
    def swap(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
        found = list(pattern.finditer(content))
        if not found:
            return _byte(rng, content, others)
        one = found[int(rng.integers(len(found)))]
        other = found[int(rng.integers(len(found)))].group()
        new = ABSURD[int(rng.integers(len(ABSURD)))] if rng.random() < 0.7 else other
        return content[: one.start()] + new + content[one.end() :]

    return swap


def _absurd(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    k = _place(rng, content)
    return content[:k] + ABSURD[int(rng.integers(len(ABSURD)))] + content[k:]


def _line(rng: np.random.Generator, content: bytes, others: Sequence[bytes]) -> bytes:
    lines = content.splitlines(keepends=True)
    k, m = (int(rng.integers(len(lines))) for _ in range(2))
    lines[k : k + 1] = [] if rng.random() < 0.5 else [lines[m], lines[k]]
    return b"".join(lines)


_BYTES: tuple[Mutate, ...] = (_flip, _byte, _integer, _integer, _cut, _remove, _repeat, _insert, _splice, _zeros)
_TEXT: tuple[Mutate, ...] = (*(_swapped(_NUMBER),) * 8, *(_swapped(_WORD),) * 3, _absurd, _absurd, _line, _line)
