"""Drive gains: the three estimators against literal dense ones, their error bars, and what is not determined."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares as minimised

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import TLS, Estimate, Gains, TLSMixed, named_estimator
from steelyard.estimators.estimator import GainEstimate
from steelyard.estimators.gains.equations import DriveEquations, drive_blocks
from steelyard.estimators.gains.payload_dependence import ALL
from steelyard.estimators.gains.solvers import mixed_tls, separable
from steelyard.estimators.gains.tls import total_least_squares
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.parameters import Column, Layout
from steelyard.project.papers.setups.kr270 import GAINS, kr270, logged, payload, runs
from steelyard.regression.information import BlockKey, Information, Triangle
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem

ALL_THREE = [Gains(), TLSMixed(), TLS()]
UNITLESS = [Gains(), TLSMixed()]
LOAD, MASS = "body", 2.0
LINKS, OWN, UNKNOWN = 6, 3, 3


@dataclass(frozen=True)
class Toy:
    """Random equations g_j e_j = W_j χ + K_j with known truth: a run without and one with a body of known mass.

    Joint j sees the links from j − 2 on, three columns of its own, and the payload. rows[j]: dense [W | K | e].
    """

    base: BaseParameters
    information: Information
    rows: tuple[Array, ...]
    gains: Array
    value: Array


def toy(
    seed: int,
    noise: float = 0.0,
    count: int = 240,
    motors: int = 4,
    gains: Array | None = None,
    noise_seed: int | None = None,
    std: float | None = None,
    known_size: float = 1.0,
) -> Toy:
    rng = np.random.default_rng(seed)
    columns = [Column(f"link{k + 1}", "M", "kg", kind="link") for k in range(LINKS)]
    columns += [Column(f"joint{j + 1}", f"F{k}", "N.m") for j in range(motors) for k in range(OWN)]
    columns += [Column(LOAD, symbol, "kg.m", kind="payload") for symbol in ("MX", "MY", "MZ")]
    columns += [Column(LOAD, "M", "kg", MASS, std, "payload", True)]
    robot, b = LINKS + OWN * motors, len(columns) - 1
    value = rng.normal(size=b) * 10 ** rng.uniform(-1.0, 1.0, b)
    truth = rng.choice([-1.0, 1.0], motors) * 10 ** rng.uniform(-3.0, 5.0, motors) if gains is None else gains
    shocks = np.random.default_rng(seed + 1000 if noise_seed is None else noise_seed)
    own, dense, blocks = [], [], {}
    for j in range(motors):
        reach = np.array([*range(max(j - 2, 0), LINKS), *(LINKS + OWN * j + np.arange(OWN)), *range(robot, b)])
        w = np.zeros((2 * count, b + 1))
        w[:, [*reach, b]] = rng.normal(size=(2 * count, len(reach) + 1))
        w[:count, robot:] = 0.0
        w[:, b] *= known_size
        known = MASS * w[:, b]
        effort = (w[:, :b] @ value + known) / truth[j]
        effort += noise * np.sqrt(np.mean(effort**2)) * shocks.normal(size=len(effort))
        own.append(reach)
        dense.append(np.column_stack([w[:, :b], known, effort]))
        for run, part in (("none", slice(count)), (LOAD, slice(count, None))):
            for k, rows in enumerate(np.array_split(dense[j][part], 16)):
                blocks[BlockKey(run, run, k, j)] = Triangle.of(rows[:, [*reach, b + 1, b]], len(rows))
    layout = Layout(tuple(columns))
    joints = tuple(f"joint{j + 1}" for j in range(motors))
    lengths = {"none": count // 16, LOAD: count // 16}
    information = Information(layout, joints, tuple(own), ("effort", "known"), blocks, lengths)
    base = BaseParameters(layout, (), tuple(range(b)), np.eye(b, b + 1), 1.0, 0.0)
    return Toy(base, information, tuple(dense), truth, value)


def gains_of(estimate: Estimate) -> GainEstimate:
    assert estimate.gains is not None
    return estimate.gains


def told(estimate: Estimate, code: str) -> list[str]:
    return [f"{finding.where}: {finding.message}" for finding in estimate.findings if finding.code == code]


def off(one: Array, other: Array) -> float:
    return float(np.max(np.abs(one / other - 1.0)))


# --- Truth and literal solvers ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", UNITLESS, ids=lambda e: e.name)
@pytest.mark.parametrize("seed", range(5))
def test_finds_the_truth_without_noise_whatever_sign_and_size_the_gains_have(estimator, seed: int) -> None:
    case = toy(seed)
    found = estimator.estimate(None, case.base, case.information)
    assert off(gains_of(found).factor, case.gains) < 1e-9
    assert off(found.value, case.value) < 1e-9
    assert not [finding for finding in found.findings if finding.severity == "error"]


def test_tls_finds_the_truth_without_noise() -> None:
    case = toy(1, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    found = TLS().estimate(None, case.base, case.information)
    assert off(gains_of(found).factor, case.gains) < 1e-7
    assert off(found.value, case.value) < 1e-7


def dense_sigma(case: Toy) -> Array:
    sigma = []
    for rows in case.rows:
        live = rows[:, :-1][:, np.any(rows[:, :-1] != 0.0, axis=0)]
        rest = rows[:, -1] - live @ np.linalg.lstsq(live, rows[:, -1], rcond=None)[0]
        sigma.append(np.linalg.norm(rest) / np.sqrt(len(rest) - live.shape[1]))
    return np.array(sigma)


def dense_efforts(case: Toy) -> Array:
    """diag(e_1 … e_n) over all rows, one column a motor."""
    unit = np.eye(len(case.rows))
    return np.concatenate([rows[:, -1:] * unit[j] for j, rows in enumerate(case.rows)])


def test_gains_is_the_least_squares_of_the_efforts() -> None:
    case = toy(2, noise=0.05, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    sigma = dense_sigma(case)

    def residual(x: Array) -> Array:
        h, chi = x[:4], x[4:]
        return np.concatenate(
            [(r[:, -1] - h[j] * (r[:, :-2] @ chi + r[:, -2])) / sigma[j] for j, r in enumerate(case.rows)]
        )

    start = np.concatenate([1.0 / case.gains, case.value])
    wanted = minimised(residual, start, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    found = Gains().estimate(None, case.base, case.information)
    assert off(gains_of(found).factor, 1.0 / wanted.x[:4]) < 1e-6
    assert off(found.value, wanted.x[4:]) < 1e-6
    # and its classical covariance is the textbook's: s² (JᵀJ)⁻¹
    covariance = 2.0 * wanted.cost / (len(wanted.fun) - len(wanted.x)) * np.linalg.inv(wanted.jac.T @ wanted.jac)
    change = np.diag(np.concatenate([-(wanted.x[:4] ** -2), np.ones(len(case.value))]))
    np.testing.assert_allclose(
        np.diagonal(gains_of(found).covariance_classical), np.diagonal(change @ covariance @ change), rtol=1e-4
    )


def test_tls_is_the_published_one() -> None:
    """P2 eqs 13, 16, 19 and 20 on dense rows."""
    case = toy(3, noise=0.02, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    sigma = np.repeat(dense_sigma(case), [len(rows) for rows in case.rows])
    total = np.column_stack([dense_efforts(case), -np.concatenate([rows[:, :-1] for rows in case.rows])])
    total /= sigma[:, None]
    u, s, v = np.linalg.svd(total, full_matrices=False)
    x = v[-1, :-1] / v[-1, -1]
    nearest = (total - s[-1] * np.outer(u[:, -1], v[-1]))[:, :-1]
    spread = s[-1] ** 2 / (total.shape[0] - total.shape[1])
    covariance = spread * (1.0 + x @ x) * np.linalg.inv(nearest.T @ nearest)
    found = TLS().estimate(None, case.base, case.information)
    assert off(np.concatenate([gains_of(found).factor, found.value]), x) < 1e-7
    np.testing.assert_allclose(gains_of(found).covariance_classical, covariance, rtol=1e-5, atol=1e-12)


def test_mixed_tls_blames_the_efforts_alone() -> None:
    """With its own weights: project [W K] out of the efforts, take the smallest singular vector, substitute back."""
    case = toy(4, noise=0.05, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    found = TLSMixed().estimate(None, case.base, case.information)
    sigma, factor = dense_sigma(case), gains_of(found).factor
    counts = np.array([len(rows) for rows in case.rows])
    weight = np.repeat(1.0 / (sigma * np.abs(factor)), counts)[:, None]
    exact = weight * np.concatenate([rows[:, :-1] for rows in case.rows])
    noisy = weight * dense_efforts(case) * (np.abs(factor) / np.sqrt(counts))
    u = np.linalg.svd(noisy - exact @ np.linalg.lstsq(exact, noisy, rcond=None)[0])[2][-1]
    x = np.linalg.lstsq(exact, noisy @ u, rcond=None)[0]
    assert off(u * np.abs(factor) / np.sqrt(counts) / x[-1], factor) < 1e-7
    assert off(x[:-1] / x[-1], found.value) < 1e-6


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), noise=st.sampled_from([0.0, 0.01, 0.1, 0.3]))
def test_starts_from_the_data_alone(seed: int, noise: float) -> None:
    """Gains from 1e-3 to 1e5 of either sign: the minimum found is the one a start from the truth leads to."""
    case = toy(seed, noise, count=120)
    equations = drive_blocks(case.base, case.information).whole
    found = separable(equations)
    from_truth = separable(equations, found._replace(factor=case.gains, value=case.value))
    assert off(found.factor, from_truth.factor) < 1e-6
    assert np.all(np.sign(found.factor) == np.sign(case.gains))
    assert np.all(np.sign(mixed_tls(equations).factor) == np.sign(case.gains))


# --- Units ------------------------------------------------------------------------------------------------------------


def in_other_units(equations: DriveEquations, columns: Array, efforts: Array) -> DriveEquations:
    return replace(
        equations,
        w=equations.w * columns,
        effort=equations.effort * efforts[equations.motor],
        deviation=equations.deviation * efforts,
    )


@pytest.mark.slow
@given(seed=st.integers(0, 50), column=st.integers(0, LINKS + 4 * OWN + UNKNOWN - 1), motor=st.integers(0, 3))
def test_no_unit_changes_the_answer_of_gains_and_mixed_tls(seed: int, column: int, motor: int) -> None:
    case = toy(seed, noise=0.05)
    equations = drive_blocks(case.base, case.information).whole
    columns, efforts = np.ones(len(case.base)), np.ones(4)
    columns[column], efforts[motor] = 1e3, 1e-3
    other = in_other_units(equations, columns, efforts)
    for solve in (separable, mixed_tls):
        before, after = solve(equations), solve(other)
        assert off(after.factor * efforts, before.factor) < 1e-6
        np.testing.assert_allclose(
            after.value * columns, before.value, rtol=1e-6, atol=1e-6 * np.abs(before.value).max()
        )


def test_units_change_the_answer_of_tls() -> None:
    case = toy(5, noise=0.05, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    equations = drive_blocks(case.base, case.information).whole
    columns = np.ones(len(case.base))
    columns[0] = 1e-3
    before = total_least_squares(equations)
    after = total_least_squares(in_other_units(equations, columns, np.ones(4)))
    assert off(after.factor, before.factor) > 0.01
    assert off(separable(in_other_units(equations, columns, np.ones(4))).factor, separable(equations).factor) < 1e-8
    assert told(TLS().estimate(None, case.base, case.information), "tls-scaling")


# --- Error bars -------------------------------------------------------------------------------------------------------


def test_any_weights_of_the_clusters_give_the_equations_of_these_rows() -> None:
    case = toy(6, noise=0.05)
    blocks = drive_blocks(case.base, case.information)
    clusters = [
        times
        for load in dict.fromkeys(blocks.cases)
        for times in replace(case.information, blocks=of_load(case, load)).clusters(12)
    ]
    left = np.ones(len(clusters))
    left[[2, 14]] = 0.0
    gone = {time for g in (2, 14) for time in clusters[g]}
    kept = {key: part for key, part in case.information.blocks.items() if key[:3] not in gone}
    direct = drive_blocks(case.base, replace(case.information, blocks=kept)).whole
    rest = blocks.weighted(left)
    np.testing.assert_allclose(rest.deviation, direct.deviation, rtol=1e-9)
    assert off(separable(rest).factor, separable(direct).factor) < 1e-8
    # twice the rows weigh the motors a little differently
    assert off(separable(blocks.weighted(2.0 * left)).factor, separable(direct).factor) < 1e-4


def of_load(case: Toy, load: str) -> dict[BlockKey, Triangle]:
    return {key: part for key, part in case.information.blocks.items() if key.load == load}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", UNITLESS, ids=lambda e: e.name)
def test_error_bars_are_the_spread_of_repeated_experiments(estimator) -> None:
    gains = np.array([3.0, -20.0, 0.5, 8.0])
    found, robust, classical, drawn, held = [], [], [], [], []
    for k in range(40):
        case = toy(7, noise=0.1, gains=gains, noise_seed=k)
        estimate = estimator.estimate(None, case.base, case.information)
        one = gains_of(estimate)
        truth = np.concatenate([gains, case.value])
        sigma = np.sqrt(np.diagonal(one.covariance))
        found.append(np.concatenate([one.factor, estimate.value]))
        robust.append(sigma)
        classical.append(np.sqrt(np.diagonal(one.covariance_classical)))
        drawn.append(one.bootstrap)
        # Student's t with 23 degrees of freedom
        held.append(np.abs(found[-1] - truth) < 2.07 * sigma)
    spread = np.std(found, axis=0, ddof=1)
    for bars in (robust, classical, drawn):
        ratio = np.mean(bars, axis=0) / spread
        assert 0.9 < np.mean(ratio) < 1.15
        assert np.all((ratio > 0.65) & (ratio < 1.5))
    assert 0.92 < np.mean(held) < 0.985


@pytest.mark.slow
def test_how_well_the_payload_is_weighed_is_part_of_every_error_bar() -> None:
    exact, rough = (toy(8, noise=0.05, std=std) for std in (None, 0.1))
    one, other = (gains_of(Gains().estimate(None, case.base, case.information)) for case in (exact, rough))
    np.testing.assert_array_equal(one.factor, other.factor)
    share = (0.1 / MASS) ** 2 * np.outer(one.factor, one.factor)
    for before, after in (
        (one.covariance, other.covariance),
        (one.covariance_classical, other.covariance_classical),
    ):
        np.testing.assert_allclose((after - before)[:4, :4], share, rtol=1e-6)
    np.testing.assert_allclose(other.bootstrap[:4] ** 2 - one.bootstrap[:4] ** 2, np.diagonal(share), rtol=1e-6)


def test_few_blocks_have_classical_error_bars_and_say_so() -> None:
    case = toy(9, noise=0.05)
    few = Gains().estimate(None, case.base, case.information.total())
    assert few.clusters == 0
    assert told(few, "few-blocks")
    np.testing.assert_array_equal(gains_of(few).covariance, gains_of(few).covariance_classical)


def test_gains_known_from_one_block_only_have_no_error_bar() -> None:
    case = toy(10, noise=0.05)
    blocks = {k: part for k, part in case.information.blocks.items() if k.load == "none" or k.block < 2}
    merged = replace(case.information, blocks=blocks)
    one = {k: part for k, part in merged.total().blocks.items() if k.load == LOAD}
    mixed = replace(merged, blocks={k: part for k, part in blocks.items() if k.load == "none"} | one)
    found = Gains().estimate(None, case.base, mixed)
    assert np.all(np.isfinite(gains_of(found).factor))
    assert np.all(np.isnan(np.diagonal(gains_of(found).covariance)[:4]))
    assert np.all(np.isnan(gains_of(found).bootstrap[:4]))
    assert any("gains determined by a single block" in message for message in told(found, "single-block"))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ALL_THREE, ids=lambda e: e.name)
def test_a_motor_that_moves_in_one_block_only_leaves_the_others_their_error_bars(estimator) -> None:
    case = toy(17, noise=0.02, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    blocks = {k: part for k, part in case.information.blocks.items() if k.joint != 2}
    (moved,) = (part for k, part in case.information.total().blocks.items() if k.joint == 2 and k.load == LOAD)
    blocks[BlockKey(LOAD, LOAD, 3, 2)] = moved
    found = estimator.estimate(None, case.base, replace(case.information, blocks=blocks))
    sigma = np.sqrt(np.diagonal(gains_of(found).covariance))
    assert list(np.isnan(sigma[:4])) == [False, False, True, False]
    assert any("joint3" in message for message in told(found, "single-block"))
    if estimator.name != "tls":
        assert np.all(sigma[[0, 1, 3]] < 0.02 * np.abs(case.gains[[0, 1, 3]]))


# --- Essential parameters ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [Gains(ratio=20.0), TLSMixed(ratio=20.0)], ids=lambda e: e.name)
def test_uncertain_parameters_are_cancelled_and_gains_never(estimator) -> None:
    case = toy(11, noise=0.1)
    found = estimator.estimate(None, case.base, case.information)
    plain = type(estimator)().estimate(None, case.base, case.information)
    assert 0 < found.cancelled.sum() < len(case.base)
    assert np.all(found.value[found.cancelled] == 0.0)
    assert np.all(np.isfinite(gains_of(found).factor))
    sigma = np.sqrt(np.diagonal(plain.covariance_classical))
    with np.errstate(divide="ignore"):
        relative = sigma / np.abs(plain.value)
    assert found.cancelled[np.argmax(relative)]
    assert not np.any(found.cancelled & (relative < 0.01))
    left = np.sqrt(np.diagonal(found.covariance_classical))[~found.cancelled] / np.abs(found.value[~found.cancelled])
    assert left.max() <= max(20.0 * left.min(), 0.01)
    (message,) = told(found, "essential-parameters")
    assert case.base.names[int(np.argmax(relative))] in message


def test_options_are_checked() -> None:
    for name in ("gains", "tls", "tls-mixed"):
        assert named_estimator(name, {"ratio": 30.0})
        with pytest.raises(EstimationError, match="ratio must be at least 1"):
            named_estimator(name, {"ratio": 0.5})


# --- Scale ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ALL_THREE, ids=lambda e: e.name)
def test_a_scale_that_is_not_determined_is_an_error_that_says_what_to_do(estimator) -> None:
    case = toy(12, noise=0.02)
    unknown = Layout(tuple(replace(column, known=False) for column in case.information.layout.columns))
    blind = replace(case.information, layout=unknown)
    with pytest.raises(EstimationError, match=r"no payload has known parameters.*declare a \[\[payload\]\]"):
        estimator.estimate(None, replace(case.base, layout=unknown), blind)
    with pytest.raises(EstimationError, match=r"no row contains a torque .* load case 'none'.*one run with it"):
        estimator.estimate(None, case.base, replace(case.information, blocks=of_load(case, "none")))


@pytest.mark.parametrize("estimator", ALL_THREE, ids=lambda e: e.name)
def test_a_payload_lost_in_the_noise_is_an_error(estimator) -> None:
    case = toy(12, noise=0.02, known_size=1e-5)
    with pytest.raises(EstimationError, match=r"below the noise at every joint.*use a heavier payload"):
        estimator.estimate(None, case.base, case.information)


@pytest.mark.parametrize("estimator", ALL_THREE, ids=lambda e: e.name)
def test_loaded_runs_alone_cannot_tell_the_payload_from_its_link(estimator) -> None:
    model = kr270([payload()])
    loaded = [run for run in logged(runs(), model.robot, 0.01) if run.load != "none"]
    problem = Problem(model, loaded, rest=0.0)
    with pytest.raises(EstimationError, match=r"cannot be separated from the link that carries it.*add a run"):
        estimator.estimate(None, base_parameters(model), observe(problem))


def apart(case: Toy, known: float = 0.0) -> Toy:
    """The last motor sees its own columns alone and `known` N.m of the payload: no link, no other joint's business."""
    last = len(case.rows) - 1
    own = case.information.columns[last]
    kept = [k for k, c in enumerate(own) if LINKS <= c < LINKS + OWN * (last + 1)]
    chi = case.value[own[kept]]
    rng, blocks = np.random.default_rng(1), dict(case.information.blocks)
    for key in blocks:
        if key.joint == last:
            w = rng.normal(size=(30, len(kept)))
            torque = known * rng.normal(size=30) * (key.load == LOAD)
            effort = (w @ chi + torque) / case.gains[last] + 1e-3 * rng.normal(size=30)
            blocks[key] = Triangle.of(np.column_stack([w, effort, torque]), 30)
    columns = (*case.information.columns[:-1], own[kept])
    return replace(case, information=replace(case.information, columns=columns, blocks=blocks))


@pytest.mark.slow
@pytest.mark.parametrize("known", [0.0, 1e-12, 1e-5], ids=["no torque", "rounding", "below the noise"])
@pytest.mark.parametrize("estimator", UNITLESS, ids=lambda e: e.name)
def test_a_gain_without_scale_is_named_and_leaves_the_others_alone(estimator, known: float) -> None:
    case = apart(toy(13, noise=0.01, gains=np.array([3.0, -20.0, 0.5, 8.0])), known)
    found = estimator.estimate(None, case.base, case.information)
    one = gains_of(found)
    assert np.isnan(one.factor[3])
    assert off(one.factor[:3], case.gains[:3]) < 0.02
    assert np.all(np.isnan(found.value) == [name.startswith("joint4") for name in case.base.names])
    assert np.all(np.isfinite(np.diagonal(one.covariance)[:3]))
    (message,) = told(found, "gain-undetermined")
    assert message.startswith("joint4: the gain of joint4 is not determined")
    assert "joint4.F0" in told(found, "not-excited")[0]
    assert "joint4" not in {x.joint for x in one.dependences}


@pytest.mark.parametrize("estimator", ALL_THREE, ids=lambda e: e.name)
def test_a_motor_without_rows_has_no_gain(estimator) -> None:
    case = toy(14, noise=0.01, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    blocks = {key: part for key, part in case.information.blocks.items() if key.joint != 1}
    found = estimator.estimate(None, case.base, replace(case.information, blocks=blocks))
    assert list(np.isnan(gains_of(found).factor)) == [False, True, False, False]
    assert told(found, "gain-undetermined") == [
        "joint2: the gain of joint2 is not determined: it has no rows with an effort"
    ]
    assert "joint2.F0" in told(found, "not-excited")[0]


def test_no_effort_at_all_is_told() -> None:
    case = toy(15)
    blocks = {}
    for key, part in case.information.blocks.items():
        r = part.r.copy()
        r[:, -2] = 0.0
        blocks[key] = Triangle(r, part.rows)
    with pytest.raises(EstimationError, match="No motor has rows with an effort"):
        Gains().estimate(None, case.base, replace(case.information, blocks=blocks))


# --- What a gain depends on -------------------------------------------------------------------------------------------


def test_hangs_are_what_private_copies_cost() -> None:
    """Brute force: the motor's rows get columns of their own for the payload, and σ is computed from dense rows."""
    case = toy(16, noise=0.02, gains=np.array([3.0, -20.0, 0.5, 8.0]))
    found = Gains().estimate(None, case.base, case.information)
    sigma, one, b = dense_sigma(case), gains_of(found), len(case.base)
    body = {f"{LOAD}.MX": b - 3, f"{LOAD}.MY": b - 2, f"{LOAD}.MZ": b - 1, f"{LOAD}.M": b}
    for j, joint in enumerate(case.information.joints):
        inflations = {x.parameter: x.inflation for x in one.dependences if x.joint == joint}
        plain = dense_deviation(case, found, sigma, j, [])
        for name, columns in [*((name, [k]) for name, k in body.items()), (ALL, list(body.values()))]:
            wanted = dense_deviation(case, found, sigma, j, columns) / plain
            if wanted > 1.06:
                assert inflations[name] == pytest.approx(wanted, rel=1e-6)
            elif wanted < 1.04:
                assert name not in inflations
    assert list(one.dependences) == sorted(one.dependences, key=lambda h: (h.joint, -h.inflation))


def dense_deviation(case: Toy, found: Estimate, sigma: Array, motor: int, copied: list[int]) -> float:
    factor = gains_of(found).factor
    parts = []
    for j, rows in enumerate(case.rows):
        torque = rows[:, :-2] @ found.value + rows[:, -2]
        copies = rows[:, copied] if j == motor else np.zeros((len(rows), len(copied)))
        wide = np.column_stack([rows[:, :-2] / factor[j], copies, np.outer(torque, np.eye(len(case.rows))[j])])
        parts.append(wide / sigma[j])
    jacobian = np.concatenate(parts)
    jacobian = jacobian / np.linalg.norm(jacobian, axis=0)
    return float(np.sqrt(np.linalg.inv(jacobian.T @ jacobian)[motor - len(case.rows), motor - len(case.rows)]))


@pytest.mark.slow
@pytest.mark.parametrize("known", ["mass", "everything"])
@pytest.mark.parametrize("estimator", UNITLESS, ids=lambda e: e.name)
def test_a_payload_centred_on_an_axis_leaves_its_gain_weak(estimator, known: str) -> None:
    """P2: the mass has no torque at joint 6; without first moments its gain depends on inertias."""
    symbols = ("M",) if known == "mass" else ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
    for centred in (False, True):
        model = kr270([payload(symbols, centred)])
        problem = Problem(model, logged(runs(centred=centred), model.robot, 0.01), rest=0.0)
        found = estimator.estimate(None, base_parameters(model), observe(problem))
        weak = told(found, "gain-uncertain")
        assert len(told(found, "gain-dependence")) == 1
        if not centred:
            assert not weak
            assert off(gains_of(found).factor, GAINS) < 0.01
            continue
        (message,) = weak
        assert message.startswith("joint6: the gain of joint6 has a relative σ of")
        if known == "mass":
            assert "has no torque at this joint (its column is zero)" in message
            assert "175kg.ZZ" in message
        else:
            assert "has little torque at this joint" in message
