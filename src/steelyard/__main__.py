"""The program `steelyard`, also as `python -m steelyard`."""

import os
import signal
import sys

STOPPED = "error: Stopped by the user; no incomplete file was left.\n"


class StopRequest(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP. Not KeyboardInterrupt itself: Python would end the program by a signal where a module
    that is being imported passes one on, instead of with an exit code."""


def main() -> None:
    """Run the command line; a request to stop while it is imported ends with the sentence and the code of any other."""
    stop_on_signals()
    try:
        from steelyard.cli import main as run
    except KeyboardInterrupt:
        _say_stopped()
        sys.exit(2)
    run()


def stop_on_signals() -> None:
    """SIGTERM and SIGHUP (a terminal that closes) stop a command as Ctrl-C does; a signal that the caller ignores
    (`nohup`) stays ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    """The first request unwinds the command; a second one, which finds it still busy, ends it at once. What stays
    behind then is removed by the next run."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        one = getattr(signal, name, None)
        if one is not None and signal.getsignal(one) is _stop:
            signal.signal(one, _stop_at_once)
    raise StopRequest


def _stop_at_once(number: int, frame: object) -> None:
    _say_stopped()
    os._exit(2)


def _say_stopped() -> None:
    if sys.stderr is not None:
        sys.stderr.write(STOPPED)


if __name__ == "__main__":
    main()
