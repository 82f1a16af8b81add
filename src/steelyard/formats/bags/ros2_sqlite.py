"""ROS 2 bags in SQLite (.db3), row by row in the order they were written.

The file is opened read-only and without locks; neither it nor its folder is changed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.formats.bags.records import LOT_BYTES, Channel, Message, Portion
from steelyard.formats.bags.types import Definition, normal_type

MAGIC = b"SQLite format 3\0"
# Files that SQLite leaves next to a database that was not closed: messages not yet moved into it, or pages to restore.
_UNFINISHED = ("-wal", "-journal")


def unfinished(path: Path) -> list[Path]:
    """Files next to the database that hold a part of it."""
    candidates = (path.with_name(path.name + ending) for ending in _UNFINISHED)
    return [file for file in candidates if file.is_file() and file.stat().st_size]


def sqlite_portions(path: Path, size: int, only: Sequence[int] | None = None) -> Iterator[Portion]:
    """Portions of a .db3 file of `size` bytes, of all channels or `only` some.

    A file that was not closed, or not fully copied, is repaired in a copy first. SQLite would fill a truncated page
    with zeros, which would be read as numbers: only whole pages are read.
    """
    leftovers, torn = unfinished(path), size % _page_size(path)
    if not leftovers and not torn:
        yield from _portions(path, size, only, immutable=True)
        return
    if leftovers:
        names = ", ".join(file.name for file in leftovers)
        yield Portion(0, 0, damage=f"the database was not closed: part of it is still in {names}")
    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        for file in (path, *leftovers):
            shutil.copyfile(file, copy.with_name(file.name))
        if not leftovers:
            os.truncate(copy, size - torn)
        yield from _portions(copy, size - torn, only, immutable=False)


def _page_size(path: Path) -> int:
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(18)[16:], "big")
    return 65536 if size == 1 else max(size, 512)


def _portions(path: Path, size: int, only: Sequence[int] | None, *, immutable: bool) -> Iterator[Portion]:
    start = done = 0
    messages: list[Message] = []
    opened = False
    address = path.resolve().as_uri() + ("?immutable=1" if immutable else "")
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            # Lets SQLite read a file that is shorter than its header says, up to the missing page.
            database.execute("PRAGMA writable_schema = ON")
            yield Portion(0, 0, tuple(_channels(database)))
            opened = True
            # SQLite does not load the data of a row that is skipped: images cost nothing.
            where = "" if only is None else f"WHERE topic_id IN ({', '.join('?' * len(only))})"
            query = f"SELECT topic_id, timestamp, data FROM messages {where} ORDER BY id"
            for channel, time, data in database.execute(query, only or ()):
                if not isinstance(data, bytes) or not isinstance(time, int) or time < 0:
                    raise sqlite3.DatabaseError("a row of 'messages' is not a message")
                messages.append(Message(channel, time, data))
                done += len(data)
                if done - start > LOT_BYTES:
                    yield Portion(start, min(done, size), (), tuple(messages))
                    messages, start = [], done
        yield Portion(start, size, (), tuple(messages), _cut(path, size))
    except sqlite3.Error as error:
        place = f"after {done} bytes of messages" if opened else "before its first message"
        yield Portion(start, size, (), tuple(messages), f"the database ends early, {place} ({error})")


def _cut(path: Path, size: int) -> str | None:
    """The damage of a database whose messages could all be read, but which is shorter than its header says."""
    with path.open("rb") as stream:
        pages = int.from_bytes(stream.read(32)[28:], "big")
    stated = pages * _page_size(path)
    return f"byte {size}: the database ends within its index ({stated} bytes expected)" if stated > size else None


def _channels(database: sqlite3.Connection) -> Iterator[Channel]:
    definitions: dict[str, tuple[str, str]] = {}
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "message_definitions" in tables:
        query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        definitions = {str(kind): (str(language), str(text)) for kind, language, text in database.execute(query)}
    for key, topic, kind, encoding in database.execute("SELECT id, name, type, serialization_format FROM topics"):
        language, text = definitions.get(str(kind), ("", ""))
        yield Channel(key, str(topic), str(encoding), Definition(normal_type(str(kind)), language, text))
