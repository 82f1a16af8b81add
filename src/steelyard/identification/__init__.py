"""From a problem and an estimator to an identification, and the fits before and around it.

`estimate_delays`, `with_load`, `to_scale` and `select_terms` provide the inputs of `identify`; `predict` and
`weigh_payload` use its result.
"""

from __future__ import annotations

from steelyard.identification.bodies import PayloadBody, payload_bodies
from steelyard.identification.delays import Delays, estimate_delays
from steelyard.identification.first_fit import to_scale, with_load
from steelyard.identification.identify import identify
from steelyard.identification.legs import LegComparison, compare_legs
from steelyard.identification.prediction import Prediction, predict
from steelyard.identification.result import DriveGains, Identification, RunRecord
from steelyard.identification.term_selection import (
    Offer,
    Selection,
    TermTrial,
    candidate_terms,
    independent_runs,
    select_terms,
    with_terms,
)
from steelyard.identification.weighing import PayloadResult, Quantity, weigh_payload

__all__ = [
    "Delays",
    "DriveGains",
    "Identification",
    "LegComparison",
    "Offer",
    "PayloadBody",
    "PayloadResult",
    "Prediction",
    "Quantity",
    "RunRecord",
    "Selection",
    "TermTrial",
    "candidate_terms",
    "compare_legs",
    "estimate_delays",
    "identify",
    "independent_runs",
    "payload_bodies",
    "predict",
    "select_terms",
    "to_scale",
    "weigh_payload",
    "with_load",
    "with_terms",
]
