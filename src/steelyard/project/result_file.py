"""result.json: an identification as a document, and the document read back.

The document has one entry per field of `Identification`, written and read from the types of the fields: a new field
needs no line here. Entries for people and scripts (`verdict`, `parameters`, …) are added to it and never read back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import SteelyardError
from steelyard.identification.result import Identification
from steelyard.project.documents import plain, restored
from steelyard.project.output_folder import RESULT
from steelyard.report.tables.parameters import gain_table, parameter_table

SCHEMA = "steelyard.result/3"


def document(result: Identification, project: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The result as JSON-ready data: fractions and SI units, null where a number is not known."""
    return {"schema": SCHEMA} | plain(_summary(result)) | _fields(result) | {"project": plain(project)}


def _fields(result: Identification) -> dict[str, Any]:
    """Every field; gains and legs with what follows from them."""
    data = plain(result)
    if result.gains is not None:
        data["gains"] = {"table": gain_table(result).records()} | data["gains"]
    for entry, leg in zip(data["legs"], result.legs, strict=True):
        entry["differ"] = leg.differ
    return data


def _summary(result: Identification) -> dict[str, Any]:
    """What follows from the fields, ready to read."""
    base, judged = result.base, result.judged
    correlations = [{"a": a, "b": b, "correlation": rho} for a, b, rho in result.strong_correlations()]
    return {
        "verdict": judged.text,
        "judged": plain(judged) | {"unexplained": [joint.joint for joint in judged.unexplained]},
        "counts": {
            "standard": len(base.layout),
            "zero": len(base.zero),
            "base": len(base),
            "excited": int(result.excited.sum()),
            "essential": len(base) - len(result.cancelled),
        },
        "parameters": parameter_table(result).records(),
        "strong_correlations": correlations,
        "regroupings": base.regroupings,
        "standard_values": None
        if result.standard is None
        else dict(zip(base.layout.names, result.standard.tolist(), strict=True)),
    }


def identification(
    data: Mapping[str, Any], name: str = "This document", kind: type[Identification] = Identification
) -> Identification:
    """The identification held in a result document, which messages call by `name`; `kind` may be a subclass."""
    _check_schema(data, name)
    try:
        found = restored(dict(data), kind)
        _check_shapes(found)
        return found
    except (msgspec.ValidationError, SteelyardError, ValueError) as error:
        raise SteelyardError(
            f"{name} is not a complete Steelyard result: {str(error).rstrip('.')}. Run identify again."
        ) from None


def _check_shapes(found: Identification) -> None:
    """Arrays fit the columns they belong to."""
    base = found.base
    count, columns = len(base), len(base.layout)
    shapes = {
        "value": (found.value, (count,)),
        "covariance": (found.covariance, (count, count)),
        "covariance_classical": (found.covariance_classical, (count, count)),
        "base.map": (base.map, (count, columns)),
        "standard": (found.standard, (columns,)),
    }
    if (gains := found.gains) is not None:
        motors = len(gains.joints)
        shapes |= {
            "gains.factor": (gains.factor, (motors,)),
            "gains.covariance": (gains.covariance, (motors + count, motors + count)),
            "gains.covariance_classical": (gains.covariance_classical, (motors + count, motors + count)),
            "gains.bootstrap": (gains.bootstrap, (motors + count,)),
        }
    for name, (array, shape) in shapes.items():
        if array is not None and array.shape != shape:
            raise ValueError(f"`{name}` has the shape {array.shape}, and its columns ask for {shape}")
    for name, indices in {"base.kept": base.kept, "base.zero": base.zero}.items():
        if any(not 0 <= k < columns for k in indices):
            raise ValueError(f"`{name}` names columns beyond the {columns} of `base.layout`")


def _check_schema(data: Mapping[str, Any], name: str) -> None:
    """Results of this schema are read, also without fields that have a default; any other is refused with what to
    do."""
    given = data.get("schema")
    if given == SCHEMA:
        return
    kind, _, version = SCHEMA.partition("/")
    found = re.fullmatch(rf"{re.escape(kind)}/(\d{{1,9}})", given) if isinstance(given, str) else None
    if found is None:
        raise SteelyardError(
            f"{name} is not a result of `steelyard identify`: its schema is {given!r}, not '{SCHEMA}'. Name a run "
            f"folder, or the {RESULT} in it."
        )
    if int(found.group(1)) < int(version):
        raise SteelyardError(
            f"{name} was written by an older version of Steelyard (schema '{given}', this version reads '{SCHEMA}'), "
            "without numbers that are needed now. Run `steelyard identify` again on its project file."
        )
    raise SteelyardError(
        f"{name} was written by a newer version of Steelyard (schema '{given}', this version reads '{SCHEMA}'). "
        "Upgrade Steelyard, or run `steelyard identify` again with this version."
    )


def read_result(path: str | Path) -> Identification:
    """An identification from a run folder or its result.json."""
    file = result_file(path)
    return identification(read_document(path), f"'{file}'")


def result_file(path: str | Path) -> Path:
    """The result.json of a run folder, or the file itself."""
    place = Path(path)
    return place / RESULT if os.path.isdir(place) else place


def read_document(path: str | Path) -> dict[str, Any]:
    """The document in a run folder or its result.json, as written by `text(document(…))`."""
    file = result_file(path)
    try:
        data = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        raise SteelyardError(f"No result at '{path}': expected a run folder with {RESULT}, or that file.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SteelyardError(f"'{file}' is not a complete Steelyard result: {error}. Run identify again.") from None
    except OSError as error:
        raise SteelyardError(f"Cannot read '{file}': {error.strerror}.") from None
    if not isinstance(data, dict):
        raise SteelyardError(f"'{file}' is not a complete Steelyard result: no object. Run identify again.")
    return data
