"""Writing: interrupted at every file operation, a place holds the earlier whole or the new whole; and whose it is."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.cli.door.commands import COMMANDS
from steelyard.errors import OutputError
from steelyard.project import output_folder
from steelyard.project.output_folder import check_folder, whole_folder, write_files, write_folder
from steelyard.project.writing import scratch
from steelyard.project.writing.exchange import exchange
from testbed.faults import ERRORS, KINDS, SIGNALS, contents, forked

ROOT = Path(__file__).resolve().parents[2]
RESULT = '{"schema": "steelyard.result/3", "number": %d}'
PAGE = '<!doctype html><meta name="generator" content="Steelyard"><p>%d'


def files(number: int) -> dict[str, str]:
    return {"result.json": RESULT % number, "report.html": PAGE % number * 5000}


def filled(place: Path, number: int) -> Path:
    write_folder(place, files(number))
    return place


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folder, "exchange", lambda one, other: False)


@pytest.mark.parametrize("swaps", [True, False], ids=["exchange", "two moves"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_interrupted_at_every_operation(
    tmp_path: Path, kind: str, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        no_exchange(monkeypatch)
    run = filled(tmp_path / "run", 1)
    old = contents(run)
    count = len(forked(lambda: write_folder(run, files(2)), tmp_path).operations)
    new = contents(run)
    assert count > 8
    assert old != new
    for at in range(1, count + 1):
        shutil.rmtree(run)
        filled(run, 1)
        ended = forked(lambda: write_folder(run, files(2)), tmp_path, kind, at)
        left = contents(tmp_path)
        if kind in ERRORS and ended.code:
            assert "OutputError" in ended.printed
            assert os.strerror(ERRORS[kind]) in ended.printed
        if kind == "SIGKILL":
            assert ended.code == -SIGNALS[kind]
        if kind in ("SIGKILL", "EIO") or not swaps:
            check_folder(run)  # the next run
            left = contents(tmp_path)
        whole = [{f"run/{name}": content for name, content in one.items()} for one in (old, new)]
        if kind == "EROFS":  # nothing can be removed from such a disk
            left = {name: content for name, content in left.items() if not name.startswith(".")}
        assert left in whole, (at, ended.operations[-1])


def test_an_earlier_folder_returns_where_folders_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_exchange(monkeypatch)
    run = filled(tmp_path / "run", 1)
    operations = forked(lambda: write_folder(run, files(2)), tmp_path).operations
    moves = [k for k, one in enumerate(operations, 1) if one.startswith("os.rename")]
    assert len(moves) == 2
    shutil.rmtree(run)
    filled(run, 1)
    forked(lambda: write_folder(run, files(2)), tmp_path, "SIGKILL", moves[1])
    assert not run.exists()
    check_folder(run)
    assert contents(run) == {name: text.encode() for name, text in files(1).items()}
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("kind", KINDS)
def test_files_interrupted_at_every_operation(tmp_path: Path, kind: str) -> None:
    places = [tmp_path / "a.csv", tmp_path / "b.html"]
    earlier, later = ({place: (word * 9000).encode() for place in places} for word in ("old ", "new "))
    write_files(earlier)
    count = len(forked(lambda: write_files(later), tmp_path).operations)
    assert count > 6
    for at in range(1, count + 1):
        write_files(earlier)
        forked(lambda: write_files(later), tmp_path, kind, at)
        held = [place.read_bytes() for place in places]
        assert held[0] in (earlier[places[0]], later[places[0]])
        assert held[1] in (earlier[places[1]], later[places[1]])
        if kind in ("ENOSPC", "EIO", "SIGTERM", "SIGINT"):
            assert held[0][:4] == held[1][:4]
        write_files(earlier)
        assert sorted(os.listdir(tmp_path)) == ["a.csv", "b.html"]


def test_a_disk_that_is_full_in_the_middle_of_a_file(tmp_path: Path) -> None:
    run = filled(tmp_path / "run", 1)
    before = contents(tmp_path)
    ended = forked(lambda: write_folder(run, files(2)), tmp_path, most_bytes=1 << 17)
    assert os.strerror(errno.EFBIG) in ended.printed
    assert contents(tmp_path) == before


def test_two_runs_at_a_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with whole_folder(run) as first:
        for name, text in files(1).items():
            (first / name).write_text(text)
        write_folder(run, files(2))  # does not take the first one's folder for the remains of a dead program
    assert contents(run) == {name: text.encode() for name, text in files(1).items()}
    assert os.listdir(tmp_path) == ["run"]


def test_a_place_taken_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_exchange(monkeypatch)
    rename, others = os.rename, [files(3), files(4)]

    def overtaken(one: Path, other: Path) -> None:
        if others and Path(other) == tmp_path / "run":
            monkeypatch.setattr(output_folder.os, "rename", rename)
            write_folder(tmp_path / "run", others.pop())
            monkeypatch.setattr(output_folder.os, "rename", overtaken)
        rename(one, other)

    monkeypatch.setattr(output_folder.os, "rename", overtaken)
    write_folder(tmp_path / "run", files(2))
    assert contents(tmp_path / "run")["result.json"] == (RESULT % 2).encode()
    assert os.listdir(tmp_path) == ["run"]


def test_exchange_swaps_names(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.write_text("text")
    if exchange(one, other):
        assert one.read_text() == "text"
        assert other.is_dir()
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "missing")


def test_the_remains_of_a_living_program_are_left_alone(tmp_path: Path) -> None:
    with scratch.scratch_folder(tmp_path / "run") as fresh:
        scratch.recover(tmp_path / "run")
        assert fresh.is_dir()
    (tmp_path / ".run-abcdefgh.part").mkdir()
    (tmp_path / ".run-mine.part").mkdir()
    scratch.recover(tmp_path / "run")
    assert os.listdir(tmp_path) == [".run-mine.part"]


# --- Whose it is ------------------------------------------------------------------------------------------------------


def refused(place: Path, *fragments: str) -> None:
    before = contents(place.parent)
    with pytest.raises(OutputError) as caught:
        check_folder(place)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert contents(place.parent) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("report.html", "<html>my thesis</html>"),
        ("result.json", '{"trial": 7}'),
        ("result.json", ""),
        ("result.json", '{"schema": "other/1"}'),
    ],
)
def test_files_of_these_names_that_others_wrote(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text(content)
    refused(tmp_path / "mine", f"holds files that Steelyard did not write ({name})", "choose another folder")


def test_a_page_of_a_former_version_is_one_of_steelyard(tmp_path: Path) -> None:
    run = filled(tmp_path / "run", 1)
    (run / "report.html").write_text('<!doctype html><p class="kicker">Steelyard · identification report</p>')
    check_folder(run)


def test_folders_named_like_results(tmp_path: Path) -> None:
    (tmp_path / "run" / "result.json" / "notes").mkdir(parents=True)
    refused(tmp_path / "run", "did not write (result.json)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir(mode=0o555)
    refused(tmp_path / "sealed" / "run", "Permission denied")


@pytest.mark.parametrize("missing", ["run", "a/b/run"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def sealed(*given: object, **options: object) -> Callable[[], None]:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(output_folder.tempfile, "TemporaryFile", sealed)
    refused(tmp_path / missing, "Read-only file system. Choose another folder")


def test_a_mounted_disk_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folder.os.path, "ismount", lambda place: True)
    refused(tmp_path / "run", "is a mounted disk")


# --- The campaign -----------------------------------------------------------------------------------------------------


def test_every_command_that_writes_files_is_interrupted() -> None:
    """`make kill` knows every option that names a file or folder to write."""
    spec = importlib.util.spec_from_file_location("kill", ROOT / "evidence" / "kill.py")
    assert spec is not None
    assert spec.loader is not None
    kill = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill)
    lines = [line.split() for line, _ in kill.COMMANDS.values()]
    written = {
        (name, option)
        for name, command in COMMANDS.items()
        for parameter in command.load().params
        for option in parameter.opts
        if option in ("--out", "--report", "--preview", "--tables")
    }
    assert len(written) > 18
    assert not {one for one in written if not any(one[0] == line[0] and one[1] in line for line in lines)}
