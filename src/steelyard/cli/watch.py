"""Command that follows a running robot: `watch`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from steelyard.cli import option_values
from steelyard.cli.console import emit_line, number, people, percent, progress_bar, say
from steelyard.cli.door.exit_codes import DoneInPartError, exit_if_errors
from steelyard.cli.identify import show_result
from steelyard.cli.tables import rich_table
from steelyard.errors import ProjectError, SteelyardError, choices
from steelyard.report.table import TableColumn, table

if TYPE_CHECKING:
    from steelyard.online.change_cause import Change
    from steelyard.online.history import History
    from steelyard.project.watch import Follower, Refresh
    from steelyard.regression.forgetting import Rule

# Time between two looks at the size of the log [s].
POLL_S = 0.1
BLOCKS = "▁▂▃▄▅▆▇█"
SCHEMA = "steelyard.watch/2"


def watch_command(
    project: Annotated[Path, typer.Argument(help="Project file (TOML).")],
    follow: Annotated[
        Path | None, typer.Option(help="Text log to follow. Default: the log of the first run to identify.")
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="End when the log has not grown for this time [s]; 0 for a log that is complete. Default: Ctrl-C.",
        ),
    ] = None,
    forgetting: Annotated[
        str | None,
        typer.Option(
            help=f"Forgetting of old rows: {', '.join(option_values.FORGETTING)}. Default: that of the project.",
            autocompletion=option_values.completing(option_values.FORGETTING),
        ),
    ] = None,
    memory: Annotated[float | None, typer.Option(help="Forgetting time constant [s of log time].")] = None,
    learn: Annotated[
        float,
        typer.Option(min=0.0, help="Motion to learn from before change detection starts [s]; 0: no change detection."),
    ] = option_values.LEARN_S,
    false_alarms: Annotated[
        float, typer.Option(help="Accepted false alarms of the change detection [per hour of motion].")
    ] = option_values.FALSE_ALARMS_PER_HOUR,
    refresh: Annotated[float, typer.Option(help="Time between two estimates [s of log time].")] = 2.0,
    show: Annotated[str, typer.Option(help="Show only parameters whose name contains this text (live table).")] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for {', '.join(option_values.FOLLOWED_FILES)}, written at the end. Default: no files."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per estimate on stdout, one per line.")
    ] = False,
) -> None:
    """Ctrl-C ends the command after a last estimate."""
    from steelyard.online.online import ChangeDetection
    from steelyard.project.output_folder import RESULT, check_folder
    from steelyard.project.project import read_project
    from steelyard.project.watch import CONVERGENCE, FOLLOWED_FILES, Follower, Options, plan
    from steelyard.regression.forgetting import RULES

    if forgetting is not None and forgetting not in RULES:
        raise ProjectError(choices("forgetting", forgetting, RULES))
    watching = ChangeDetection(learn_s=learn, false_alarms_per_hour=false_alarms) if learn else None
    options = Options(cast("Rule | None", forgetting), memory, watching, refresh)
    if out is not None:
        check_folder(out, FOLLOWED_FILES)
    with progress_bar() as progress:
        planned = plan(read_project(project), follow, until_idle == 0.0, progress)
    with planned.open() as log, ended_by_signal() as stopped:
        follower = Follower(planned, log, options)
        broken = _followed(follower, until_idle, stopped, as_json, show)
        try:
            last = follower.end()
        except SteelyardError as error:
            raise broken or error from None
    if as_json:
        _emitted(refresh_document(follower, last, is_last=True))
    show_result(follower.result())
    if last.change is not None:
        say(last.change.verdict, "bold red")
    if log.unfinished:
        say(f"The last line of '{log.path}' does not end in a newline and was not used.", "cyan")
    if out is not None:
        follower.write(out)
        say(f"Result: {out / RESULT}\nConvergence: {out / CONVERGENCE}")
    if broken is not None:
        raise DoneInPartError(str(broken)) from None
    exit_if_errors(follower.result().findings)


def _followed(
    follower: Follower, until_idle: float | None, stopped: Callable[[], bool], as_json: bool, show: str
) -> SteelyardError | None:
    """Follow until a stop is requested, until idle, or until the log breaks; then return what is wrong with it."""
    heard = time.monotonic()
    with _screen(follower, show, as_json) as draw:
        while not stopped():
            before = follower.log.offset
            try:
                for refresh in follower.poll():
                    if as_json and not _emitted(refresh_document(follower, refresh)):
                        return None
                    draw(refresh)
            except SteelyardError as error:
                return error
            if follower.log.offset != before:
                heard = time.monotonic()
            elif until_idle is not None and time.monotonic() - heard >= until_idle:
                return None
            else:
                time.sleep(POLL_S)
            draw(None)
    return None


@contextmanager
def ended_by_signal() -> Iterator[Callable[[], bool]]:
    """Whether SIGINT (Ctrl-C) or SIGTERM was received: rows already read are finished first. A second signal ends at
    once."""
    asked = [False]

    def ask(number: int, frame: object) -> None:
        if asked[0]:
            raise KeyboardInterrupt
        asked[0] = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # only the main thread receives signals
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, ask) for one in signals]
    try:
        yield lambda: asked[0]
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


def _emitted(document: Mapping[str, Any]) -> bool:
    """False if the reader closed the pipe (`| head`)."""
    try:
        emit_line(document)
    except BrokenPipeError:
        # the rest of the buffer must not fail again when the program ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def refresh_document(follower: Follower, refresh: Refresh, is_last: bool = False) -> dict[str, Any]:
    """One line of `--json`."""
    from steelyard.project.documents import record

    result, online = refresh.result, follower.online
    assert online is not None
    columns = zip(result.base.names, result.value.tolist(), result.std.tolist(), result.base.units, strict=True)
    return record(
        SCHEMA,
        {
            "t": refresh.t,
            "samples": refresh.samples,
            "rate_hz": online.rate,
            "delay_s": online.delay_s,
            "phase": refresh.phase,
            "relative_error": result.relative_error.total,
            "condition": result.condition_scaled,
            "parameters": [{"name": n, "value": x, "std": s, "unit": u} for n, x, s, u in columns],
            "change": None if refresh.change is None else _change_document(refresh.change),
            "last": is_last,
        },
    )


def _change_document(change: Change) -> dict[str, Any]:
    """A change as JSON; `body` is the body that would explain it, valid only if the kind is "payload"."""
    body = {} if change.pickup is None else change.pickup.body
    return {
        "t": change.t,
        "sample": change.sample,
        "reported": change.reported,
        "test": change.alarm.test,
        "kind": change.kind,
        "verdict": change.verdict,
        "body": {name: {"value": x, "std": s, "unit": unit} for name, (x, s, unit) in body.items()} or None,
    }


# --- The screen -------------------------------------------------------------------------------------------------------


@contextmanager
def _screen(follower: Follower, show: str, as_json: bool) -> Iterator[Callable[[Refresh | None], None]]:
    """Shows the state: an updated table in a terminal, otherwise one line per change of phase."""
    printed: list[str] = []

    def news(refresh: Refresh | None) -> None:
        if refresh is None:
            return
        state = refresh.phase if refresh.change is None else f"{refresh.phase} {refresh.change.kind}"
        if state not in printed[-1:]:
            printed.append(state)
            change = "" if refresh.change is None else f". {refresh.change.verdict}"
            say(f"{refresh.t:.1f} s of '{follower.log.path.name}': {refresh.phase}{change}")

    if not people.is_terminal or (as_json and sys.stdout.isatty()):
        yield news
        return
    live = Live(console=people, transient=True, auto_refresh=False, redirect_stdout=False)
    with live:
        yield lambda _: live.update(screen(follower, show, people.height), refresh=True)


def screen(follower: Follower, show: str, height: int) -> Group:
    """State, change and a table of parameters that fits a terminal of `height` lines."""
    from steelyard.online.history import RECENT

    last, log = follower.last, follower.log
    if last is None:
        return Group(Text(f"{log.path}: {log.rows} rows; no estimate yet", style="cyan"))
    online, result = follower.online, last.result
    assert online is not None
    state = (
        f"{log.path}: {last.t:.1f} s, {last.samples} samples, delay of rows {online.delay_s:.2f} s; {last.phase}; "
        f"relative error {percent(result.relative_error.total)}, condition {number(result.condition_scaled)}"
    )
    shown: list[Any] = [Text(state, style="bold")]
    if log.size > log.offset:
        shown.append(ProgressBar(total=log.size, completed=log.offset))
    if last.change is not None:
        shown.append(Text(last.change.verdict, style="bold red"))
    wanted = [k for k, name in enumerate(result.base.names) if show in name]
    fitting = wanted[: max(3, height - 8 - len(shown))]
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value ± σ", "estimate", of=("std",)),
        TableColumn("std", "σ", "number", shown=False),
        TableColumn("relative_std", "Relative σ", "share"),
        TableColumn("past", f"Last {RECENT}"),
        TableColumn("unit", "Unit", "unit"),
    )
    base = result.base
    rows = [
        (
            base.names[k], result.value[k], result.std[k], result.relative_std[k], sparkline(follower.history, k),
            base.units[k],
        )
        for k in fitting
    ]  # fmt: skip
    shown.append(rich_table(table("watch", "", columns, rows)))
    if len(fitting) < len(wanted):
        shown.append(Text(f"… and {len(wanted) - len(fitting)} more: --show, or a higher terminal"))
    return Group(*shown)


def sparkline(history: History, k: int) -> str:
    """Parameter k over the recent refreshes as block characters. Their range is at least the present ± σ, so that noise
    within it is flat."""
    values = np.array([point.value[k] for point in history.recent])
    seen = values[np.isfinite(values)]
    if not len(seen):
        return ""
    std = float(np.nan_to_num(history.recent[-1].std[k]))
    low, high = min(float(seen.min()), seen[-1] - std), max(float(seen.max()), seen[-1] + std)
    if high <= low:
        return BLOCKS[len(BLOCKS) // 2] * len(values)
    steps = np.nan_to_num((values - low) / (high - low)) * (len(BLOCKS) - 1)
    return "".join(
        BLOCKS[round(step)] if known else " " for step, known in zip(steps, np.isfinite(values), strict=True)
    )
