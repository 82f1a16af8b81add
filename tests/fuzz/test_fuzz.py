"""Every reader on damaged input: the corpus is read, what once failed stays mended, and a few seconds of mutations.

`make fuzz` runs the same for an hour. A failing input that was mended goes into regressions/READER.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.fuzz.campaign import campaign, seeds
from testbed.fuzz.readers import READERS, try_to_read

# Executions of each reader: those that start a process or compile take longer.
SLOW = ("mat", "hdf5", "gzip", "zip", "zstd", "ros2", "parquet")
EXECUTIONS, EXECUTIONS_SLOW = 400, 80


@pytest.mark.parametrize("name", READERS)
def test_regressions_and_corpus(name: str, tmp_path: Path) -> None:
    outcomes = [try_to_read(READERS[name], content, tmp_path) for content in seeds(READERS[name])]
    assert "read" in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_mutations(name: str) -> None:
    done = campaign(READERS[name], 0.0, seed=1, executions=EXECUTIONS_SLOW if name in SLOW else EXECUTIONS)
    assert not done.failures, "\n".join(done.traces.values())
