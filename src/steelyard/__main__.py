"""The program `steelyard`, also as `python -m steelyard`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends with the sentence and the code of any other Ctrl-C."""
    try:
        from steelyard.cli import main as run
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("error: Stopped by the user; no incomplete file was left.\n")
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
