"""ROS 1 bags, ROS 2 bags and MCAP: one topic is one recording, and others can be interpolated on its clock.

Opening a bag scans it once without unpacking numbers: it finds the topics, every joint that is ever named, and damaged
parts. Reading scans the parts that hold the topic again. Memory holds one chunk of the bag and one block of rows.

Columns: `stamp` [s], the message's own time if it has a header; `receive` [s], the time of recording; both count from
the first message. Then `<joint>.position`, `<joint>.velocity`, `<joint>.effort`, or the fields of the message type. A
row without any of the requested joints is left out, so joints that are published in turns on one topic can be read one
set at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard.errors import DataError, choices
from steelyard.formats.bags.columns import JOINT_STATE, RECEIVE, STAMP, USUAL_TYPES
from steelyard.formats.bags.files import BagFiles, bag_files
from steelyard.formats.bags.joined_topics import Joined, JoinedTopic
from steelyard.formats.bags.records import Channel, Message
from steelyard.formats.bags.rows import Readers, TopicRows, by_topic
from steelyard.formats.damage import DamagedError
from steelyard.signals.recording import Progress, Recording

_DAMAGES_TOLD = 3


def read_bag(
    path: Path, topic: str | None = None, salvage: bool = False, progress: Progress | None = None
) -> Recording:
    """The recording of one topic in a .bag, .mcap or .db3 file or a ROS 2 folder.

    The default `topic` is the only one with joint states. "/a,/b" gives the rows of /a with the columns of /b linearly
    interpolated on its clock. `salvage` reads the intact part of a damaged bag and describes the damage in the
    recording's notes.
    """
    files = bag_files(path)
    wanted = None if topic is None else list(dict.fromkeys(name.strip() for name in topic.split(",")))
    survey = _surveyed(files, wanted, progress)
    chosen = [survey.topics[name] for name in _chosen(path, survey, wanted)]
    survey.damages += [entry.damage for entry in chosen if entry.unreadable]
    extents = " and ".join(entry.extent for entry in chosen)
    if survey.damages and not (salvage and all(entry.count for entry in chosen)):
        raise DamagedError(f"'{path}' is damaged: {survey.damage}. Readable: {extents}.", chosen[0].count)
    for entry in chosen:
        if not entry.columns:
            reasons = "; ".join(entry.problems) or "its messages are empty"
            raise DataError(f"Topic '{entry.name}' of '{path}' gives no columns: {reasons}. Choose another topic.")
    notes = [*files.notes, *(f"topic '{entry.name}': {note}" for entry in chosen for note in entry.notes)]
    if survey.damages:
        notes.append(f"the bag is damaged: {survey.damage}; read: {extents}")
    others = tuple(f"topic {entry.label}" for entry in survey.topics.values() if entry not in chosen)
    recording = _joined(path, files, survey, chosen)
    return replace(recording, notes=(*notes, *recording.notes), others=others)


def _joined(path: Path, files: BagFiles, survey: _Survey, chosen: Sequence[_Topic]) -> Recording:
    """The first topic alone, or with the columns of the others on its clock."""
    first = chosen[0]
    # Time zero is that of the first topic for all of them.
    rows = [
        TopicRows(files, tuple(t.channels.items()), first.origin, frozenset(survey.places - t.places)) for t in chosen
    ]
    times = (*([STAMP] if first.has_stamp else []), RECEIVE)
    same_columns = len(first.column_sets) == 1
    if len(chosen) == 1:
        count = (first.count, None) if same_columns else (None, first.count)
        return Recording(path.name, (*times, *first.columns), str(path), count[0], rows[0], rows_estimate=count[1])
    clock = STAMP if all(entry.has_stamp and not entry.unstamped for entry in chosen) else RECEIVE
    taken = {*times, *first.columns}
    followers: list[JoinedTopic] = []
    for entry, opener in zip(chosen[1:], rows[1:], strict=True):
        names = {f"{entry.name}:{column}" if column in taken else column: column for column in entry.columns}
        taken |= names.keys()
        followers.append(JoinedTopic(f"Topic '{entry.name}' of '{path}'", opener, names))
    columns = (*times, *first.columns, *(column for follower in followers for column in follower.columns))
    listed = ", ".join(f"'{entry.name}'" for entry in chosen[1:])
    note = f"the columns of {listed} were interpolated linearly onto the clock '{clock}' of '{first.name}'"
    opener = Joined(f"Topic '{first.name}' of '{path}'", rows[0], clock, tuple(followers))
    return Recording(path.name, columns, str(path), None, opener, notes=(note,), rows_estimate=first.count)


def _chosen(path: Path, survey: _Survey, wanted: Sequence[str] | None) -> list[str]:
    """The requested topics; by default the one with joint states, or the only one of a usual type."""
    broken = f" It is damaged: {survey.damage}." if survey.damages else ""
    if not survey.topics:
        raise DataError(f"'{path}' contains no topic.{broken or ' Check that it was recorded.'}")
    listed = "; ".join(entry.label for entry in survey.topics.values())
    if wanted is not None:
        for name in wanted:
            if name not in survey.topics:
                raise DataError(
                    f"{choices(f'topic of {path.name!r}', name, survey.topics)} The bag contains: {listed}."
                )
            if not survey.topics[name].count and not survey.topics[name].unreadable:
                raise DataError(f"Topic '{name}' of '{path}' has no messages. The bag contains: {listed}.{broken}")
        return list(wanted)
    usual = {name: entry for name, entry in survey.topics.items() if entry.kind in USUAL_TYPES and entry.count}
    states = [name for name, entry in usual.items() if entry.kind == JOINT_STATE]
    if len(states) == 1 or len(usual) == 1:
        return states or list(usual)
    why = f"{len(states)} topics with joint states" if states else "no topic with joint states"
    raise DataError(f"'{path}' has {why}. Choose one with topic = \"…\". The bag contains: {listed}.{broken}")


# --- First scan -------------------------------------------------------------------------------------------------------


@dataclass
class _Topic:
    """Contents of a topic, as found by a scan."""

    name: str
    kind: str
    count: int = 0
    first: int = 0
    last: int = 0
    origin: int = 0
    unstamped: int = 0
    unreadable: int = 0
    first_unreadable: int = 0
    has_stamp: bool = False
    columns: dict[str, None] = field(default_factory=dict)
    column_sets: set[frozenset[str]] = field(default_factory=set)
    problems: dict[str, None] = field(default_factory=dict)
    channels: dict[tuple[int, int], Channel] = field(default_factory=dict)
    places: set[tuple[int, int]] = field(default_factory=set)

    @property
    def label(self) -> str:
        joints = dict.fromkeys(column.rpartition(".")[0] for column in self.columns if "." in column)
        of = f", joints {' '.join(list(joints)[:12])}" if joints else ""
        return f"{self.name} ({self.kind}, {self.count} messages{of})"

    @property
    def notes(self) -> list[str]:
        if not self.unstamped:
            return list(self.problems)
        which = "no message has" if self.unstamped == self.count else f"{self.unstamped} messages do not have"
        return [*self.problems, f"{which} a time stamp; '{STAMP}' contains the time of recording instead"]

    @property
    def damage(self) -> str:
        return f"{self.unreadable} messages of '{self.name}', from number {self.first_unreadable} on, cannot be decoded"

    @property
    def extent(self) -> str:
        seconds = (self.last - self.first) * 1e-9
        return f"topic '{self.name}' with {self.count} intact messages over {seconds:.6g} s"


@dataclass
class _Survey:
    """Contents of a bag, as found by a scan; `undefined_channels` are keys of channels that messages use without a
    definition."""

    topics: dict[str, _Topic] = field(default_factory=dict)
    damages: list[str] = field(default_factory=list)
    places: set[tuple[int, int]] = field(default_factory=set)
    channels: dict[tuple[int, int], Channel] = field(default_factory=dict)
    undefined_channels: set[tuple[int, int]] = field(default_factory=set)

    def meet(self, number: int, channel: Channel) -> None:
        found = self.topics.setdefault(channel.topic, _Topic(channel.topic, channel.definition.type))
        if channel.definition.type == found.kind:
            found.channels[number, channel.key] = self.channels[number, channel.key] = channel
        else:
            found.problems[f"its messages of a second type, {channel.definition.type}, were left out"] = None

    @property
    def damage(self) -> str:
        more = len(self.damages) - _DAMAGES_TOLD
        return "; ".join(self.damages[:_DAMAGES_TOLD]) + (f"; and {more} more places" if more > 0 else "")


def _surveyed(files: BagFiles, wanted: Sequence[str] | None, progress: Progress | None) -> _Survey:
    """Topics, joints and damage; columns are searched in the wanted topics, or else in all of the usual types."""
    channels: dict[tuple[int, int], Channel] = {}
    survey = _walked(files, wanted, channels, progress)
    if survey.undefined_channels & channels.keys():
        # The chunk that defines a channel is broken, but the index repeats the definition: assign its messages now.
        survey = _walked(files, wanted, channels, progress)
    return survey


def _walked(
    files: BagFiles,
    wanted: Sequence[str] | None,
    channels: dict[tuple[int, int], Channel],
    progress: Progress | None,
) -> _Survey:
    """One scan; `channels` are those known before, to which new ones are added."""
    before = [sum(file.size for file in files.files[:k]) for k in range(len(files.files) + 1)]
    survey = _Survey(damages=[f"the file {name} is missing" for name in files.missing])
    readers = Readers()
    for (number, _), channel in channels.items():
        survey.meet(number, channel)
    for number, portion in files.portions():
        survey.places.add((number, portion.start))
        if progress is not None:
            progress(f"opening {files.path.name}", min(before[number] + portion.end, before[number + 1]), before[-1])
        if portion.damage:
            where = f"{files.files[number].path.name}, " if len(files.files) > 1 else ""
            survey.damages.append(where + portion.damage)
        for channel in portion.channels:
            # Bags repeat their channels in the index; the definition before the messages is used.
            if (number, channel.key) not in channels:
                channels[number, channel.key] = channel
                survey.meet(number, channel)
        survey.undefined_channels |= {(number, message.channel) for message in portion.messages} - channels.keys()
        for name, (channel, messages) in by_topic(number, portion.messages, survey.channels).items():
            found = survey.topics[name]
            found.places.add((number, portion.start))
            if found.kind in USUAL_TYPES if wanted is None else name in wanted:
                _look_into(found, channel, messages, readers)
            else:
                found.count += len(messages)
    return survey


def _look_into(topic: _Topic, channel: Channel, messages: Sequence[Message], readers: Readers) -> None:
    try:
        decoded = readers.of(channel).read(messages)
    except DataError as problem:  # unknown type: reported if the topic is chosen
        topic.count += len(messages)
        topic.problems[str(problem)] = None
        return
    if decoded.unreadable.size:
        if not topic.unreadable:
            topic.first_unreadable = topic.count + int(decoded.unreadable[0]) + 1
        topic.unreadable += decoded.unreadable.size
    if not decoded.size:
        return
    if not topic.count:
        topic.origin, topic.first = int(decoded.stamp[0]), int(decoded.receive[0])
    topic.last = int(decoded.receive[-1])
    topic.count += decoded.size
    topic.unstamped += decoded.unstamped
    for part in decoded.parts:
        topic.has_stamp |= part.has_stamp
        topic.columns |= dict.fromkeys(part.columns.cells)
        topic.column_sets.add(frozenset(part.columns.cells))
        topic.problems |= dict.fromkeys(part.columns.problems)
