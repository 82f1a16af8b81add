"""result.json: an identification as a document, and the document read back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.estimators.estimator import Certificate, Hanging
from steelyard.findings import Finding
from steelyard.identification.legs import LegComparison
from steelyard.identification.result import DriveGains, Identification, RunRecord
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.parameters import Column, Layout
from steelyard.project.documents import plain
from steelyard.project.output_folder import RESULT
from steelyard.regression.scores import Score
from steelyard.signals.channels import Drives

SCHEMA = "steelyard.result/2"


def document(result: Identification, project: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The result as JSON-ready data: fractions and SI units, null where a number is not known."""
    base = result.base
    parameters = [
        {
            "name": name,
            "value": value,
            "std": std,
            "std_classical": classical,
            "relative_std": relative,
            "unit": unit,
            "expression": expression,
            "status": "cancelled" if name in result.cancelled else "estimated" if excited else "not excited",
        }
        for name, value, std, classical, relative, unit, expression, excited in zip(
            base.names,
            result.value.tolist(),
            result.std.tolist(),
            result.std_classical.tolist(),
            result.relative_std.tolist(),
            base.units,
            base.expressions,
            result.excited,
            strict=True,
        )
    ]
    return plain(
        {
            "schema": SCHEMA,
            "robot": result.robot,
            "estimator": result.estimator,
            "estimator_options": result.estimator_options,
            "verdict": result.verdict,
            "counts": {
                "standard": len(base.layout),
                "zero": len(base.zero),
                "base": len(base),
                "excited": int(result.excited.sum()),
                "essential": len(base) - len(result.cancelled),
            },
            "parameters": parameters,
            "relative_error": asdict(result.relative_error),
            "nominal": None if result.nominal is None else asdict(result.nominal),
            "unseen": None if result.unseen is None else asdict(result.unseen),
            "standard": _standard(result),
            "certificate": None if result.certificate is None else asdict(result.certificate),
            "carried": None if result.carried is None else result.carried.tolist(),
            "gains": _gains(result.gains),
            "legs": [asdict(one) | {"differ": one.differ} for one in result.legs],
            "unseen_nominal": None if result.unseen_nominal is None else asdict(result.unseen_nominal),
            "findings": [asdict(finding) for finding in result.findings],
            "clusters": result.clusters,
            "condition": result.condition,
            "condition_scaled": result.condition_scaled,
            "strong_correlations": [{"a": a, "b": b, "correlation": rho} for a, b, rho in result.strong_correlations()],
            "runs": [asdict(run) for run in result.runs],
            "versions": result.versions,
            "project": project,
            "layout": [asdict(column) for column in base.layout.columns],
            "zero": [base.layout.names[k] for k in base.zero],
            "regroupings": base.regroupings,
            "gap": {"smallest_kept": base.smallest_kept, "largest_dropped": base.largest_dropped},
            "covariance": result.covariance.tolist(),
            "covariance_classical": result.covariance_classical.tolist(),
        }
    )


def _gains(gains: DriveGains | None) -> dict[str, Any] | None:
    """A table to read, then what it takes to have the same gains again."""
    if gains is None:
        return None
    table = zip(
        gains.joints, gains.value.tolist(), gains.std.tolist(), gains.std_classical.tolist(),
        gains.std_bootstrap.tolist(), gains.units, gains.stated.tolist(), gains.error.tolist(),
        gains.joint_side.tolist(), strict=True,
    )  # fmt: skip
    names = ("joint", "value", "std", "std_classical", "std_bootstrap", "unit", "stated", "error", "joint_side")
    return {"table": [dict(zip(names, row, strict=True)) for row in table]} | asdict(gains)


def _standard(result: Identification) -> dict[str, Any] | None:
    if result.standard is None:
        return None
    values = dict(zip(result.base.layout.names, result.standard.tolist(), strict=True))
    return {"rule": result.standard_rule, "values": values}


def identification(data: Mapping[str, Any], name: str = "This document") -> Identification:
    """The identification held in a result document, which messages call by `name`."""
    _check_schema(data, name)
    layout = Layout(tuple(Column(**column) for column in data["layout"]))
    kept = tuple(layout.index(name) for name in data["regroupings"])
    mapping = np.zeros((len(kept), len(layout)))
    for k, group in enumerate(data["regroupings"].values()):
        for name, coefficient in group.items():
            mapping[k, layout.index(name)] = coefficient
    base = BaseParameters(
        layout,
        tuple(layout.index(name) for name in data["zero"]),
        kept,
        mapping,
        data["gap"]["smallest_kept"],
        data["gap"]["largest_dropped"],
    )
    return Identification(
        robot=data["robot"],
        estimator=data["estimator"],
        estimator_options=data["estimator_options"],
        base=base,
        value=_array([p["value"] for p in data["parameters"]]),
        covariance=_array(data["covariance"]),
        covariance_classical=_array(data["covariance_classical"]),
        clusters=data["clusters"],
        condition=data["condition"],
        condition_scaled=data["condition_scaled"],
        relative_error=_score(data["relative_error"]),
        nominal=None if data["nominal"] is None else _score(data["nominal"]),
        unseen=None if data["unseen"] is None else _score(data["unseen"]),
        unseen_nominal=None if data["unseen_nominal"] is None else _score(data["unseen_nominal"]),
        cancelled=tuple(p["name"] for p in data["parameters"] if p["status"] == "cancelled"),
        standard=None if data["standard"] is None else _array(list(data["standard"]["values"].values())),
        carried=None if data.get("carried") is None else _array(data["carried"]),
        standard_rule="" if data["standard"] is None else data["standard"]["rule"],
        certificate=_certificate(data.get("certificate")),
        gains=_gains_of(data["gains"]),
        legs=tuple(_leg_comparison(one) for one in data.get("legs", [])),
        runs=tuple(RunRecord(**{**run, "history": tuple(run["history"])}) for run in data["runs"]),
        findings=tuple(Finding(**finding) for finding in data["findings"]),
        versions=data["versions"],
    )


def _check_schema(data: Mapping[str, Any], name: str) -> None:
    """Results of this schema are read, those without its latest keys too; any other is refused with what to do."""
    given = data.get("schema")
    if given == SCHEMA:
        return
    kind, _, version = SCHEMA.partition("/")
    found = re.fullmatch(rf"{re.escape(kind)}/(\d+)", given) if isinstance(given, str) else None
    if found is None:
        raise SteelyardError(
            f"{name} is no result of `steelyard identify`: its schema is {given!r}, not '{SCHEMA}'. Name a run folder, "
            f"or the {RESULT} in it."
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


def _certificate(data: Mapping[str, Any] | None) -> Certificate | None:
    return None if data is None else Certificate(**{**data, "boundary": tuple(data["boundary"])})


def _leg_comparison(data: Mapping[str, Any]) -> LegComparison:
    return LegComparison(tuple(data["names"]), tuple(data["values"]), tuple(data["std"]), data["unit"], data["p"])


def _gains_of(data: Mapping[str, Any] | None) -> DriveGains | None:
    if data is None:
        return None
    drives: dict[str, Any] | None = data["drives"]
    if drives is not None:
        drives = {key: tuple(x) if isinstance(x, list) else x for key, x in drives.items()}
    return DriveGains(
        tuple(data["joints"]),
        _array(data["factor"]),
        None if drives is None else Drives(**drives),
        _array(data["covariance"]),
        _array(data["covariance_classical"]),
        _array(data["bootstrap"]),
        tuple(Hanging(**hanging) for hanging in data["hangs"]),
    )


def read_result(path: str | Path) -> Identification:
    """An identification from a run folder or its result.json."""
    return result_of(read_document(path), result_file(path))


def result_of(data: Mapping[str, Any], file: Path) -> Identification:
    """The identification held in the document that was read from `file`, checked."""
    try:
        found = identification(data, f"'{file}'")
        shape = (len(found.base), len(found.base))
        names = tuple(parameter["name"] for parameter in data["parameters"])
        if names != found.base.names or found.covariance.shape != shape or found.covariance_classical.shape != shape:
            raise ValueError("its parameters do not fit its regroupings")
        return found
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SteelyardError(f"'{file}' is not a complete Steelyard result: {error}. Run identify again.") from None


def result_file(path: str | Path) -> Path:
    """The result.json of a run folder, or the file itself."""
    place = Path(path)
    return place / RESULT if place.is_dir() else place


def read_document(path: str | Path) -> dict[str, Any]:
    """The document in a run folder or its result.json, as written by `text(document(…))`."""
    file = result_file(path)
    try:
        data = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise SteelyardError(f"No result at '{path}': expected a run folder with {RESULT}, or that file.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SteelyardError(f"'{file}' is not a complete Steelyard result: {error}. Run identify again.") from None
    except OSError as error:
        raise SteelyardError(f"Cannot read '{file}': {error.strerror}.") from None
    if not isinstance(data, dict):
        raise SteelyardError(f"'{file}' is not a complete Steelyard result: no object. Run identify again.")
    return data


def _array(values: list[Any]) -> Array:
    return np.array(values, dtype=float)


def _score(data: Mapping[str, Any]) -> Score:
    def numbers(table: Mapping[str, float | None]) -> dict[str, float]:
        return {name: np.nan if x is None else x for name, x in table.items()}

    return Score(
        data["total"],
        numbers(data["joints"]),
        numbers(data["rmse"]),
        dict(data["rows"]),
        data["mask"],
        numbers(data["effort"]),
    )
