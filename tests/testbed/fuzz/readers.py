"""Every reader of a file from outside, as a function of a path. The rule: it returns, or raises a SteelyardError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.errors import DataError, SteelyardError
from steelyard.formats import logs, packed
from steelyard.formats.logs import read_recording
from steelyard.formats.logs.csv_growing import GrowingLog
from steelyard.formats.motion_limits import read_limits
from steelyard.formats.reader_process.server import decoder
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.shapes import read_capsules
from steelyard.project.project import read_project
from steelyard.project.reopen import reopen
from steelyard.signals.recording import Chunk, Opener, Recording

# Small inputs for each reader, committed; what once broke one is in `regressions`.
CORPUS = Path(__file__).resolve().parents[2] / "fuzz" / "corpus"
REGRESSIONS = CORPUS.with_name("regressions")
# Columns that are read of a log; reading all of a wide one would only take longer.
_MOST_COLUMNS = 12


@dataclass(frozen=True)
class Reader:
    """A reader by name; `file` is the name its input has, `mesh` and the like stand beside it."""

    name: str
    file: str
    read: Callable[[Path], object]


def try_to_read(reader: Reader, content: bytes, folder: Path) -> str:
    """Give the bytes to the reader: "read" or "refused"; anything else it raises is a defect and passes through."""
    place = folder / reader.file
    place.write_bytes(content)
    try:
        reader.read(place)
    except SteelyardError:
        return "refused"
    return "read"


def decode_here() -> None:
    """Decode in this process what otherwise has a process of its own, for speed: the libraries are not held off."""
    logs.read_apart = _decoded_here
    packed.unpack_apart = _unpacked_here


def _decoded_here(kind: str, path: Path, salvage: bool = False) -> Recording:
    try:
        found = decoder(kind)(path, salvage)
    except MemoryError as error:
        raise DataError(f"'{path}' needs more memory than there is.") from error
    return replace(found, opener=_RowsHere(found.opener))


@dataclass(frozen=True)
class _RowsHere:
    """Rows that end a recording where the memory does, as a reader process does."""

    source: Opener

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        try:
            yield from self.source.blocks(columns)
        except MemoryError as error:
            raise DataError("The rows need more memory than there is.") from error

    def digest(self) -> str:
        return self.source.digest()


def _unpacked_here(file: Path, packing: str, member: str, plain: Path) -> str | None:
    return packed.unpack(packed.PackedLog(file, packing, member), plain)


def _log(path: Path) -> None:
    try:
        _rows(read_recording(path))
    except SteelyardError:
        _rows(read_recording(path, salvage=True))


def _rows(recording: Recording) -> None:
    for _ in recording.chunks(recording.columns[:_MOST_COLUMNS]):
        pass


def _growing(path: Path) -> None:
    with GrowingLog(path, ("t", "q1")) as log:
        while True:
            before = log.offset
            log.read()
            if log.offset == before:
                break


def _robot(path: Path) -> None:
    robot = read_robot(path)
    if len(robot.axes) > 1 and not robot.loops:
        read_robot(path, held={robot.axes[-1].name: 0.1})


def _shapes(path: Path) -> None:
    read_capsules(path)


def _mesh(path: Path) -> None:
    robot = path.with_name("arm.urdf")
    robot.write_text(
        '<robot name="a"><link name="base"><collision><geometry><mesh filename="mesh.stl"/></geometry></collision>'
        "</link></robot>"
    )
    read_capsules(robot)


def _info(path: Path) -> None:
    """The names of the motors of a LeRobot dataset, next to a log that is sound."""
    meta, log = path.with_name("meta"), path.with_name("dataset.parquet")
    meta.mkdir(exist_ok=True)
    path.replace(meta / "info.json")
    if not log.exists():
        log.write_bytes((CORPUS / "lerobot" / "plain.parquet").read_bytes())
    read_recording(log)


def _limits(path: Path) -> None:
    read_limits(path, read_robot("planar2r"), "planar2r")


def _project(path: Path) -> None:
    project = read_project(path)
    project.model()
    project.preparation()
    project.estimator()


def _result(path: Path) -> None:
    reopen(path, [])


READERS = {
    one.name: one
    for one in (
        Reader("urdf", "arm.urdf", _robot),
        Reader("mjcf", "arm.xml", _robot),
        Reader("sdf", "arm.sdf", _robot),
        Reader("table", "arm.toml", _robot),
        Reader("shapes", "shapes.urdf", _shapes),
        Reader("mesh", "mesh.stl", _mesh),
        Reader("limits", "limits.toml", _limits),
        Reader("project", "project.toml", _project),
        Reader("result", "result.json", _result),
        Reader("csv", "log.csv", _log),
        Reader("growing", "live.csv", _growing),
        Reader("parquet", "log.parquet", _log),
        Reader("lerobot", "episodes.parquet", _log),
        Reader("info", "info.json", _info),
        Reader("mat", "log.mat", _log),
        Reader("hdf5", "log.h5", _log),
        Reader("ros1", "log.bag", _log),
        Reader("ros2", "log.db3", _log),
        Reader("mcap", "log.mcap", _log),
        Reader("gzip", "log.csv.gz", _log),
        Reader("zip", "log.zip", _log),
        Reader("zstd", "log.csv.zst", _log),
    )
}
