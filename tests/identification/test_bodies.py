"""Bodies: mass, centre of mass and inertia with their error bars, and the payloads of a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard.formats.robots import read_robot
from steelyard.identification.bodies import body_slope, body_values, deviations, payload_bodies
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.regression.problem import Problem
from testbed.simulated import arm, model_of, samples_of

COM, INERTIA = (
    np.array([0.04, -0.02, 0.09]),
    np.array([[0.02, 0.001, 0.0], [0.001, 0.025, -0.002], [0.0, -0.002, 0.015]]),
)
BODY = inertial_vector(3.0, COM, INERTIA)


def test_a_body_is_what_its_parameters_were_made_of() -> None:
    np.testing.assert_allclose(body_values(BODY), [3.0, *COM, *INERTIA[np.triu_indices(3)]], atol=1e-12)
    steps = 1e-6 * np.eye(10)
    slope = np.stack([(body_values(BODY + h) - body_values(BODY - h)) / 2e-6 for h in steps], axis=1)
    np.testing.assert_allclose(body_slope(BODY), slope, atol=1e-8)


def test_deviations_look_only_at_what_a_number_depends_on() -> None:
    covariance = np.full((10, 10), np.nan)
    covariance[6:, 6:] = np.diag([0.01, 0.02, 0.03, 0.1]) ** 2
    found = deviations(body_slope(BODY), covariance)
    assert found[0] == pytest.approx(0.1)
    np.testing.assert_allclose(found[1:4], np.hypot([0.01, 0.02, 0.03], 0.1 * COM) / 3.0)
    assert np.isnan(found[4:]).all()
    assert np.isnan(body_values(np.zeros(10))[1:4]).all()


def result_with(model: Model) -> Identification:
    """A result on the layout of a model: every base value is its place, every σ a tenth of that."""
    base, bare = base_parameters(model), replace(model, payloads=())
    value = 1.0 + np.arange(len(base))
    covariance = np.diag((0.1 * value) ** 2)
    fitted = identify(Problem(bare, [samples_of(bare, 400)]))
    return replace(fitted, base=base, value=value, covariance=covariance, covariance_classical=covariance)


def test_payloads_of_a_result() -> None:
    payloads = [Payload("tool", known={"M": 2.0}, std={"M": 0.1}), Payload("free")]
    result = result_with(replace(model_of(arm(4)), payloads=payloads))
    tool, free = payload_bodies(result, {"tool": "", "free": "link2"})
    assert (tool.name, tool.link, tool.stated) == ("tool", "link4", {"M": (2.0, 0.1)})
    assert (free.name, free.link, free.stated) == ("free", "link2", {})
    at = dict(zip(result.base.names, result.value, strict=True))
    np.testing.assert_allclose(tool.value[:9], [at[f"tool.{symbol}"] for symbol in INERTIAL[:9]])
    np.testing.assert_allclose(tool.body[:4], [2.0, *(tool.value[6:9] / 2.0)])
    np.testing.assert_allclose(tool.std[:4], [0.1, *(np.hypot(0.1, 0.05) * tool.body[1:4])])
    assert free.std[0] == pytest.approx(0.1 * at["free.M"])
    assert {one.link for one in payload_bodies(result)} == {""}


def test_a_sum_with_other_columns_is_no_parameter_of_the_payload() -> None:
    """What a first link carries off its axis: first moment and mass are seen as parts of ZZ alone."""
    pose = Pose(np.eye(3), np.array([0.5, 0.0, 0.0]))
    model = Model(read_robot("planar2r"), (), payloads=[Payload("tool", "link1", pose)])
    result = result_with(model)
    assert "tool.ZZ + 3*tool.MX + 2.25*tool.M" in result.base.expressions
    (tool,) = payload_bodies(result)
    assert np.isnan(tool.value).all()
    weighed = replace(model, payloads=[Payload("tool", "link1", pose, known={"M": 2.0})])
    (tool,) = payload_bodies(result_with(weighed))
    assert (tool.body[0], tool.std[0]) == (2.0, 0.0)
    assert np.isnan(tool.body[1:4]).all()
    assert payload_bodies(result_with(replace(model, payloads=()))) == ()
