"""The tables of docs/gallery/p3.md, computed: P3 on the simulated Orthoglide, by Monte Carlo.

gains     drive gains from a weighed payload: bias, spread and error bars of three estimators
payload   a second payload, with the manufacturer's and with identified gains
control   Table 4: control laws with models identified from currents
legs      how often identical legs are found to differ, and legs that do differ

Run it as `python evidence/p3_tables.py [PART …]`; it prints Markdown. `evidence/run.py --only p3` puts its claims into
one table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import t as student

from steelyard import Model, Problem, Robot, base_parameters, observe, read_robot
from steelyard._arrays import Array, single_threaded
from steelyard.estimators import TLS, WLS, Estimator, Gains, TLSMixed
from steelyard.identification.legs import compare_legs
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.payload import UNLOADED, Payload
from steelyard.project.demos.orthoglide import (
    CTC_FOUND,
    CTC_HIGH,
    CTC_LOW,
    CTC_MAKER,
    FORWARD_PID,
    GAINS,
    LOAD,
    MAKER,
    NOISE,
    PLAIN_PID,
    PLATFORM,
    ROBOT,
    SECOND,
    Driven,
    controlled,
    driven,
    gains_from,
    logged,
    modelled,
    truth,
    weighed,
    with_gains,
)
from steelyard.project.papers.page.claims import Claim

LAWS = (PLAIN_PID, FORWARD_PID, CTC_LOW, CTC_HIGH, CTC_MAKER, CTC_FOUND)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def percent(values: Array, sign: str = "") -> list[str]:
    return [f"{100 * x:{sign}.2f}" for x in values]


# --- Gains ------------------------------------------------------------------------------------------------------------


def weighing() -> tuple[Model, BaseParameters, tuple[Driven, ...]]:
    """A free and a loaded run of 15 points each, at 200 Hz."""
    model = modelled(read_robot(ROBOT), [weighed()])
    return model, base_parameters(model), driven(model, truth(model), (UNLOADED, LOAD), np.random.default_rng(1))


def gains(quick: bool) -> Iterator[Claim]:
    experiments = 20 if quick else 100
    model, base, runs = weighing()
    rows = sum(run.q.size for run in runs)
    shown = []
    for estimator in (TLS(), TLSMixed(), Gains()):
        value, reported, classical = (np.empty((experiments, 3)) for _ in range(3))
        clusters = 2
        for k in range(experiments):
            samples = logged(runs, model.robot, NOISE, np.random.default_rng([1, k]))
            information = observe(Problem(model, samples, rest=0.0, motor_rows=True))
            estimate = estimator.estimate(None, base, information)
            found, clusters = estimate.gains, estimate.clusters
            assert found is not None
            value[k] = found.factor / GAINS
            reported[k] = np.sqrt(np.diagonal(found.covariance)[:3]) / GAINS
            classical[k] = np.sqrt(np.diagonal(found.covariance_classical)[:3]) / GAINS
        bias, spread = value.mean(axis=0) - 1.0, value.std(axis=0, ddof=1)
        bars = {"σ, eq. 20 or classical": classical, "σ, block left out": reported}
        means = {name: np.sqrt(np.mean(x**2, axis=0)) for name, x in bars.items()}
        shown.append([estimator.name, "bias", *percent(bias, "+")])
        shown.append(["", "spread", *percent(spread)])
        shown += [["", name, *percent(x)] for name, x in means.items()]
        shown.append(["", "within 1 % of the truth", *percent(np.mean(np.abs(value - 1.0) < 0.01, axis=0))])
        quantiles = (1.96, float(student.ppf(0.975, clusters - 1)))
        for (name, x), quantile in zip(bars.items(), quantiles, strict=True):
            held = np.mean(np.abs(value - 1.0) <= quantile * x, axis=0)
            shown.append(["", f"95 % coverage, {name}", *percent(held)])
        yield from _gain_claims(estimator, experiments, bias, spread, means)
    table(
        (f"{experiments} experiments, {rows} rows", "% of the truth", "g1 = 2170", "g2 = 2100", "g3 = 2070"),
        shown,
    )


def _gain_claims(
    estimator: Estimator, experiments: int, bias: Array, spread: Array, means: dict[str, Array]
) -> Iterator[Claim]:
    of = f"orthoglide, 1 % noise, {experiments} experiments, {estimator.name}"
    worst = float(np.abs(bias).max())
    yield Claim.of(f"{of}: worst bias of a gain", "< 0.2 %", worst < 0.002, "{:.2%}", worst)
    for name, std in means.items():
        digit = np.round(100.0 * std, 1)
        within = bool(np.all((digit >= 0.2) & (digit <= 0.5)))
        yield Claim.of(f"{of}: {name}", "0.2-0.5 % to a digit", within, "{:.2%}", std)
        ratio = std / spread
        within = bool(np.all(np.abs(ratio - 1.0) <= 0.25))
        yield Claim.of(f"{of}: {name} / spread", "0.75-1.25", within, "{:.2f}", ratio)


# --- A second payload -------------------------------------------------------------------------------------------------


def payload(quick: bool) -> Iterator[Claim]:
    experiments = 5 if quick else 30
    robot = read_robot(ROBOT)
    first, _, runs = weighing()
    second = modelled(robot, [Payload("second", PLATFORM)])
    again = driven(second, truth(second, {"second": SECOND}), (UNLOADED, "second"), np.random.default_rng(2))
    masses: dict[str, list[tuple[float, float]]] = {"maker's": [], "identified": [], "true": []}
    for k in range(experiments):
        found = gains_from(first, logged(runs, robot, NOISE, np.random.default_rng([1, k]))).gains
        assert found is not None
        samples = logged(again, robot, 0.02, np.random.default_rng([2, k]))
        for name, stated in zip(masses, (MAKER, found.value, GAINS), strict=True):
            result = with_gains(second, samples, stated)
            place = result.base.names.index("second.M")
            masses[name].append((float(result.value[place]), float(result.std[place])))
    shown = []
    for name, pairs in masses.items():
        value, std = np.array(pairs).T
        shown.append([name, f"{value.mean():.4f}", f"{value.std(ddof=1):.4f}", f"{np.sqrt(np.mean(std**2)):.4f}"])
        mean, wanted = float(value.mean()), 1.09 if name == "maker's" else SECOND
        claim = f"orthoglide, 1.136 kg, 2 % noise, {experiments} experiments: mean mass with {name} gains"
        yield Claim.of(claim, f"{wanted} ± 0.01 kg", abs(mean - wanted) < 0.01, "{:.3f} kg", mean)
    table((f"gains, {experiments} experiments", "mean mass [kg]", "spread", "reported σ"), shown)


# --- Control ----------------------------------------------------------------------------------------------------------


def control(quick: bool) -> Iterator[Claim]:
    seeds = range(3 if quick else 10)
    robot = read_robot(ROBOT)
    done = [controlled(robot, seed) for seed in seeds]
    for motion in ("calm", "fast"):
        shown = []
        for law in LAWS:
            ones = [x for run in done for x in run.tracking if (x.law, x.motion) == (law, motion)]
            largest, rms = (np.mean([getattr(x, name) for x in ones], axis=0) for name in ("largest", "rms"))
            shown.append([law, *(f"{1e6 * x:.1f}" for x in (*largest, *rms))])
        axes = [f"{what} {axis}" for what in ("max", "rms") for axis in (1, 2, 3)]
        table((f"{motion}, mean of {len(done)} seeds [µm]", *axes), shown)
        rms = np.array([[run.rms(law, motion) for law in LAWS] for run in done])
        pid, forward, low, high, maker, found = rms.T
        for claim, bar, ratio in (
            ("PID / PID with velocity", 5.0, pid / forward),
            ("PID with velocity / computed torque, gains 25 % too low", 5.0, forward / low),
            ("PID with velocity / computed torque, gains 25 % too high", 5.0, forward / high),
            ("computed torque, gains 25 % too low / maker's", 1.3, low / maker),
            ("computed torque, gains 25 % too high / maker's", 1.3, high / maker),
            ("computed torque, maker's / identified gains", 0.9, maker / found),
        ):
            middle = float(np.median(ratio))
            told = (middle, ratio.min(), np.mean(ratio > bar))
            name = f"orthoglide, {motion} motion, {len(done)} seeds, median ratio of rms errors: {claim}"
            yield Claim.of(name, f"> {bar}", middle > bar, "{:.2f} (lowest {:.2f}; {:.0%} above)", *told)


# --- Legs -------------------------------------------------------------------------------------------------------------


def legs(quick: bool) -> Iterator[Claim]:
    experiments = 40 if quick else 400
    robot = read_robot(ROBOT)
    model = modelled(robot)
    base, alike = base_parameters(model), truth(model)
    owner = {name: first for leg in robot.legs for name, first in zip(leg, robot.legs[0], strict=True)}
    owner |= {_link(robot, joint): _link(robot, first) for joint, first in owner.items()}
    for k, column in enumerate(model.layout.columns):
        if column.owner in owner:
            alike[k] = alike[model.layout.index(f"{owner[column.owner]}.{column.symbol}")]
    heavier = alike.copy()
    for symbol in ("Fv", "Fc"):
        heavier[model.layout.index(f"{robot.axis_names[1]}.{symbol}")] *= 1.3
    shown = []
    for name, theta, count in (("identical", alike, experiments), ("30 % more friction of drive 2", heavier, 40)):
        differing = {"any": 0, "joint11.Fv": 0, "joint11.Fc": 0}
        # new motions every ten experiments: one motion alone may be too favourable
        for k in range(count):
            runs = driven(model, theta, (UNLOADED,), np.random.default_rng([3, k // 10]))
            samples = logged(runs, robot, 0.02, np.random.default_rng([4, k]))
            found = WLS().estimate(None, base, observe(Problem(model, samples, rest=0.0, factor=GAINS.tolist())))
            compared = compare_legs(base, robot, found.value, found.covariance, found.clusters)
            differ = {one.names[0] for one in compared if one.differ}
            for parameter in differing:
                differing[parameter] += parameter in differ or (parameter == "any" and bool(differ))
        shown.append([name, str(count), *(str(x) for x in differing.values())])
        if theta is alike:
            share = differing["any"] / count
            claim = f"orthoglide, legs alike, {count} experiments: told apart"
            yield Claim.of(claim, "<= 2 %", share <= 0.02, "{:.1%}", share)
        else:
            least = min(differing["joint11.Fv"], differing["joint11.Fc"]) / count
            claim = f"orthoglide, one drive with 30 % more friction, {count} experiments: Fv and Fc told apart"
            yield Claim.of(claim, ">= 99 %", least >= 0.99, "{:.1%}", least)
    table(("legs", "experiments", "in any parameter", "in Fv of the drives", "in Fc"), shown)


def _link(robot: Robot, joint: str) -> str:
    return robot.links[robot.joint_index(joint)].name


PARTS: dict[str, Callable[[bool], Iterator[Claim]]] = {
    "gains": gains,
    "payload": payload,
    "control": control,
    "legs": legs,
}


@single_threaded
def claims(part: str, quick: bool = False) -> list[Claim]:
    """One part worked through: its tables are printed, its claims returned."""
    return list(PARTS[part](quick))


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for line in claims(part):
            print(f"\n{'holds' if line.holds else 'BROKEN'}: {line.claim}: {line.measured} ({line.bar})")
