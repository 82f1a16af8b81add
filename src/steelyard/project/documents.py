"""Documents: data as JSON, with null for numbers that are not finite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np


def record(schema: str, data: Any, **more: Any) -> dict[str, Any]:
    """A frozen dataclass or table of numbers and texts as a document: its fields and some more, null for NaN."""
    return plain({"schema": schema, **(data if isinstance(data, Mapping) else asdict(data)), **more})


def text(data: Mapping[str, Any]) -> str:
    """JSON text of a document; numbers are written so that they read back to the same bits."""
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)


def plain(x: Any) -> Any:
    """Plain data with null for every number that is not finite."""
    if isinstance(x, Mapping):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [plain(value) for value in x]
    if isinstance(x, np.ndarray):
        return plain(x.tolist())
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not np.isfinite(x):
        return None
    return x
