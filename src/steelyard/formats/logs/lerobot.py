"""LeRobot datasets (v2.0 to v3): Parquet files with a list of joint values per row, and `meta/info.json`.

`observation.state` becomes `observation.state.shoulder_pan.pos`, … where info.json names its motors, else
`observation.state[0]`, …; the same for every other feature that is a list of numbers. From v3 on a file holds many
episodes, each on a clock that starts at 0; `episode_index` numbers them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.formats.logs.parquet import ParquetTable
from steelyard.signals.recording import Recording

EPISODE = "episode_index"
_MARKS = frozenset({EPISODE, "frame_index", "timestamp"})
# data/chunk-000/file-000.parquet lies two folders below the dataset; copied files may lie fewer folders below.
_FOLDERS_UP = 4


def read_parquet(path: Path, salvage: bool = False) -> Recording:
    """The recording in a Parquet file, of a LeRobot dataset or any other."""
    table = ParquetTable.at(path)
    return read_lerobot(table, salvage) if is_dataset(table) else table.recording(salvage=salvage)


def is_dataset(table: ParquetTable) -> bool:
    """True if the columns are those of every LeRobot dataset."""
    return set(table.kinds) >= _MARKS


def read_lerobot(table: ParquetTable, salvage: bool = False) -> Recording:
    """The recording of all episodes in a file."""
    return replace(table.recording(*_motor_names(table), salvage), episode_column=EPISODE)


def _motor_names(table: ParquetTable) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Names of the values in each column of lists, from the info.json of the dataset the file lies in."""
    path = table.file.path.resolve()
    for folder in path.parents[:_FOLDERS_UP]:
        info = folder / "meta" / "info.json"
        if info.is_file():
            try:
                features = json.loads(info.read_text("utf-8"))["features"]
                found = {column: _names(features.get(column), size) for column, size in table.lengths.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                why = f"{type(error).__name__}: {error}"
                return {}, (f"'{info}' cannot be read ({why}): the values of lists are numbered instead of named.",)
            return {column: names for column, names in found.items() if names}, ()
    return {}, ()


def _names(feature: Mapping[str, Any] | None, size: int) -> list[str]:
    """Names of one feature: a list, or a table of one list ({"motors": […]}); empty where they do not fit."""
    names = None if feature is None else feature.get("names")
    if isinstance(names, Mapping):
        groups = [group for group in names.values() if isinstance(group, list)]
        names = groups[0] if len(groups) == 1 else None
    if not isinstance(names, list) or len(names) != size or len({str(name) for name in names}) != size:
        return []
    return [str(name) for name in names]
