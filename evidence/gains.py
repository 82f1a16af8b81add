"""Drive gains from a weighed payload: comparison of three estimators on simulated and on recorded currents.

kr270   Monte Carlo on the simulated KR270 (P2): bias, errors, and the coverage of three kinds of error bar
ur10e   a real robot, currents only: free runs and one with 2.805 kg, compared with the gains computed from its own log

Without a name both run, in about ten minutes on two cores. --quick runs 40 experiments instead of 400 (for a quick
check, not for a claim).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the simulated robot is the tests' own

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import t as student

from steelyard import Model, Problem, base_parameters, observe, read_project
from steelyard._arrays import Array, single_threaded
from steelyard.estimators import TLS, WLS, Estimate, Estimator, Gains, TLSMixed
from steelyard.estimators.gains.equations import drive_blocks
from steelyard.estimators.gains.tls import tls_covariance, total_least_squares
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.payload import Payload
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.setups import kr270
from steelyard.project.project import RunSpec
from steelyard.regression.information import Information
from steelyard.signals.samples import Samples

ESTIMATORS: tuple[Estimator, ...] = (Gains(), TLSMixed(), TLS())
BARS = ("classical", "block left out", "bootstrap")

DATA = ROOT.parent / "shared" / "data" / "ur10e"
# N.m/A, readable from the robot's own log: torque target / current target at standstill
LOG_GAINS = np.array([11.976, 11.976, 9.8386, 10.763, 10.763, 10.763])
WEIGHED = 2.805
FRICTION = ((), ("power-law",), ("power-law", "dahl"), ("stribeck",), ("power-law", "load", "dahl"))


# --- simulated --------------------------------------------------------------------------------------------------------


class Noise(NamedTuple):
    """Current noise: a share of each current's rms, and the AR(1) coefficient from row to row."""

    size: float
    colour: float

    def __str__(self) -> str:
        return f"{self.size:.0%} " + (f"AR(1) {self.colour:g}" if self.colour else "white")


class Trial(NamedTuple):
    """One estimate: gains and base values (n + b,), and σ of each by the three error bars (3, n + b)."""

    value: Array
    std: Array
    clusters: int


@cache
def setting() -> tuple[Model, BaseParameters]:
    model = kr270.kr270([kr270.payload()])
    return model, base_parameters(model)


@single_threaded
def trials(noise: Noise, seed: int) -> list[Trial]:
    """One simulated experiment, estimated three times."""
    model, base = setting()
    samples = kr270.logged(kr270.runs(), model.robot, noise.size, seed, noise.colour)
    information = observe(Problem(model, samples, rest=0.0, motor_rows=True))
    return [
        taken(Gains().estimate(None, base, information)),
        taken(TLSMixed().estimate(None, base, information)),
        tls(base, information),
    ]


def tls(base: BaseParameters, information: Information) -> Trial:
    """The published form with the published error bar alone: the others take time, and its bias is what matters."""
    equations = drive_blocks(base, information).whole
    found = total_least_squares(equations)
    std = np.full((len(BARS), len(found.factor) + len(found.value)), np.nan)
    std[0] = np.sqrt(np.diagonal(tls_covariance(equations, found)))
    return Trial(np.concatenate(found), std, 0)


def taken(estimate: Estimate) -> Trial:
    gains = estimate.gains
    assert gains is not None
    variances = [np.diagonal(gains.covariance_classical), np.diagonal(gains.covariance)]
    std = np.stack([*np.sqrt(variances), gains.bootstrap])
    return Trial(np.concatenate([gains.factor, estimate.value]), std, estimate.clusters)


class Judged(NamedTuple):
    """Experiments against the truth, per parameter: bias, rms error and σ (3, p) by the three error bars, all relative
    to the truth; and by each error bar the shares within a 95 % interval and within 3 σ (3, p)."""

    bias: Array
    rms: Array
    std: Array
    held: Array
    within: Array


def judge(outcome: Sequence[Trial], true: Array) -> Judged:
    error = np.array([x.value for x in outcome]) - true
    std = np.array([x.std for x in outcome])
    quantile = np.array([1.96, student.ppf(0.975, max(outcome[0].clusters - 1, 1)), 1.96])[:, None]
    size = np.abs(error)[:, None, :]
    return Judged(
        error.mean(axis=0) / true,
        np.sqrt(np.mean(error**2, axis=0)) / np.abs(true),
        np.sqrt(np.mean(std**2, axis=0)) / np.abs(true),
        np.mean(size <= quantile * std, axis=0),
        np.mean(size <= 3.0 * std, axis=0),
    )


def simulated(console: Console, quick: bool) -> Iterator[Claim]:
    experiments = 40 if quick else 400
    model, base = setting()
    true = np.concatenate([kr270.GAINS, kr270.true_base(model, base)])
    spring = len(kr270.GAINS) + base.names.index("spring.Kr")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for k, noise in enumerate((Noise(0.05, 0.0), Noise(0.05, 0.8), Noise(0.01, 0.0))):
            # other seeds for every kind of noise: the same shocks twice would confirm nothing
            seeds = range(k * experiments, (k + 1) * experiments)
            work = pool.map(trials, [noise] * experiments, seeds, chunksize=5)
            whole = list(track(work, f"kr270, {noise}", total=experiments, console=Console(stderr=True)))
            judged = [judge(outcome, true) for outcome in zip(*whole, strict=True)]
            console.print(shown(noise, experiments, judged, spring))
            yield from claims(noise, experiments, judged)


def shown(noise: Noise, experiments: int, judged: Sequence[Judged], spring: int) -> Table:
    """Gain by gain, and the balancer's Kr and K0, which stand side by side."""
    n = len(kr270.GAINS)
    table = Table(
        "estimator", "", *(f"g{j}" for j in range(1, n + 1)), "Kr", "K0", "95 % coverage: gains, base", "within 3 σ",
        title=f"KR270, {experiments} experiments, {noise} current noise: % of the truth",
    )  # fmt: skip
    shows = [*range(n), spring, spring + 1]
    for estimator, x in zip(ESTIMATORS, judged, strict=True):
        table.add_row(estimator.name, "bias", *(f"{100 * e:+.2f}" for e in x.bias[shows]))
        table.add_row("", "rms error", *(f"{100 * e:.2f}" for e in x.rms[shows]))
        for bar, std, *shares in zip(BARS, x.std, x.held, x.within, strict=True):
            if np.isfinite(std).all():
                parts = [f"{share[:n].mean():.1%}, {share[n:].mean():.1%}" for share in shares]
                table.add_row("", f"σ, {bar}", *(f"{100 * e:.2f}" for e in std[shows]), *parts)
        table.add_section()
    return table


def claims(noise: Noise, experiments: int, judged: Sequence[Judged]) -> Iterator[Claim]:
    n = len(kr270.GAINS)
    of = f"kr270, {noise}, {experiments} experiments"
    # with coloured noise the assumption of mixed TLS on σ_j does not hold: printed, but no claim
    for estimator, x in zip(ESTIMATORS[: 1 if noise.colour else 2], judged, strict=False):
        name, worst = estimator.name, int(np.abs(x.bias[:n]).argmax())
        chance = x.rms[worst] / np.sqrt(experiments)
        claim, told = f"{of}: worst bias of a gain, {name}", (x.bias[worst], chance, worst + 1)
        yield Claim.of(claim, "< 1 %", abs(x.bias[worst]) < 0.01, "{:+.2%} ± {:.2%} (joint {})", *told)
        # largest of 69 means over the experiments that chance alone explains
        chance, worst = 4.0 / np.sqrt(experiments), float(np.max(np.abs(x.bias[n:]) / x.rms[n:]))
        claim = f"{of}: worst bias of a base parameter, in its own rms errors, {name}"
        yield Claim.of(claim, f"< {chance:.2f} (chance)", worst < chance, "{:.2f}", worst)
        within = float(x.within[1, :n].mean())
        yield Claim.of(f"{of}: gains within 3 reported σ, {name}", ">= 99 %", within >= 0.99, "{:.2%}", within)
        for what, shares in (("gain", x.held[1, :n]), ("base parameter", x.held[1, n:])):
            mean, low = float(shares.mean()), float(shares.min())
            claim = f"{of}: 95 % intervals hold, mean over every {what}, {name}"
            yield Claim.of(claim, "92-98 %", 0.92 <= mean <= 0.98, "{:.1%} (lowest {:.1%})", mean, low)
    if noise.size >= 0.05:
        worst = float(np.abs(judged[2].bias[:n]).max())
        yield Claim.of(f"{of}: the published form is biased, worst gain, tls", "> 5 %", worst > 0.05, "{:.1%}", worst)


# --- recorded ---------------------------------------------------------------------------------------------------------


def recorded(console: Console, quick: bool) -> Iterator[Claim]:
    """UR10e: gains from currents, and the payload's mass from the log's own gains."""
    if not DATA.is_dir():
        yield Claim.of("ur10e, real currents", "-", True, "skipped: no shared data")
        return
    samples = currents()
    free = [run.name for run in samples if run.load == "none"]
    plain = gain_information(samples, ())
    table = Table("ur10e: gain / log's gain − 1 [%]", *(f"joint {j}" for j in range(1, 7)), "mean |e|")
    errors = {}
    for estimator in ESTIMATORS:
        errors[estimator.name] = _error(estimator, *plain)
        _add(table, f"{estimator.name}, all runs", errors[estimator.name])
    whole = Gains().estimate(None, *plain).gains
    assert whole is not None
    sigma = np.sqrt(np.diagonal(whole.covariance)[:6]) / LOG_GAINS
    sets = []
    for extra in track(FRICTION[1:], "ur10e, friction sets", console=Console(stderr=True)):
        sets.append(_error(Gains(), *gain_information(samples, extra)))
        _add(table, f"gains, + {', '.join(extra)}", sets[-1])
    left = np.array([_error(Gains(), plain[0], without(plain[1], [name])) for name in free])
    pair = [name for name in free if "50s_14harm" not in name]
    _add(table, "gains, one pair of runs", _error(Gains(), plain[0], without(plain[1], pair)))
    found = errors["gains"]
    spread = np.array([found, *sets])
    runs = np.sqrt((len(left) - 1) / len(left) * np.sum((left - left.mean(axis=0)) ** 2, axis=0))
    for label, row in (
        ("σ, one block left out", sigma),
        ("σ, bootstrap", whole.bootstrap[:6] / LOG_GAINS),
        ("σ, one run left out", runs),
        ("lowest over friction sets", spread.min(axis=0)),
        ("highest over friction sets", spread.max(axis=0)),
    ):
        _add(table, label, row, mean=False)
    table.add_row("within 2 σ", *("yes" if abs(e) <= 2.0 * x else "no" for e, x in zip(found, sigma, strict=True)), "")
    table.add_row("explained by", *explained(found, runs, spread), "")
    console.print(table)
    worst, mean = float(np.abs(found).max()), float(np.abs(found).mean())
    yield Claim.of("ur10e, currents only: every gain of gains", "within 8 %", worst <= 0.08, "{:.1%}", worst)
    yield Claim.of("ur10e, currents only: mean |error| of gains", "<= 4 %", mean <= 0.04, "{:.1%}", mean)
    for extra, said in (((), "plain friction"), (("load",), "with load friction")):
        mass, std = weighed(samples, extra)
        claim = f"ur10e, the log's gains: mass of the payload of {WEIGHED} kg, {said}"
        yield Claim.of(claim, "± 2 %", abs(mass / WEIGHED - 1.0) <= 0.02, "{:.3f} ± {:.3f} kg", mass, std)


def explained(error: Array, runs: Array, spread: Array) -> list[str]:
    """What accounts for the distance from the log's gain: 2 σ over free runs left out, or the choice of friction terms.

    The one loaded run cannot be left out, so that its own part is in neither.
    """
    out = []
    for e, std, sets in zip(error, runs, spread.T, strict=True):
        reasons = (("runs", abs(e) <= 2.0 * std), ("friction", sets.min() <= 0.0 <= sets.max()))
        out.append(", ".join(name for name, yes in reasons if yes) or "unexplained")
    return out


def currents() -> tuple[Samples, ...]:
    """The eleven free runs and the loaded one, efforts in amperes."""
    project = read_project(ROOT / "examples" / "real" / "ur10e-free.toml")
    project.spec.channels.effort.gain = [1.0] * 6
    loaded = DATA / "ident_load_50s_14harm.parquet"
    project.spec.run.append(RunSpec(log=str(loaded), load="weighed", rows=(195, 4966)))
    return tuple(project.samples(project.robot(), "identify"))


def problem_of(samples: Sequence[Samples], extra: Sequence[str], payload: Payload, **more: object) -> Problem:
    project = read_project(ROOT / "examples" / "real" / "ur10e-free.toml")
    model = Model(project.robot(), named_terms([*DEFAULT_TERMS, *extra]), payloads=[payload])
    stated = project.spec.prepare
    rest, lowpass, step = stated.rest, stated.lowpass_hz, stated.decimate
    return Problem(model, samples, lowpass_hz=lowpass, decimate=step, rest=rest, **more)  # type: ignore[arg-type]


def gain_information(samples: Sequence[Samples], extra: Sequence[str]) -> tuple[BaseParameters, Information]:
    problem = problem_of(samples, extra, Payload("weighed", known={"M": WEIGHED}), motor_rows=True)
    return base_parameters(problem.model), observe(problem)


@single_threaded
def weighed(samples: Sequence[Samples], extra: Sequence[str]) -> tuple[float, float]:
    """Mass [kg] and σ of the payload, nothing known about it, with the log's gains."""
    problem = problem_of(samples, extra, Payload("weighed"), factor=LOG_GAINS.tolist())
    base = base_parameters(problem.model)
    estimate = WLS().estimate(None, base, observe(problem))
    k = base.names.index("weighed.M")
    return float(estimate.value[k]), float(np.sqrt(estimate.covariance[k, k]))


def without(information: Information, runs: Sequence[str]) -> Information:
    """The information less some runs."""
    return replace(information, blocks={k: t for k, t in information.blocks.items() if k.run not in runs})


@single_threaded
def _error(estimator: Estimator, base: BaseParameters, information: Information) -> Array:
    gains = estimator.estimate(None, base, information).gains
    assert gains is not None
    return gains.factor / LOG_GAINS - 1.0


def _add(table: Table, label: str, row: Array, mean: bool = True) -> None:
    table.add_row(label, *(f"{100 * x:+.2f}" for x in row), f"{100 * np.abs(row).mean():.2f}" if mean else "")


PARTS: dict[str, Callable[[Console, bool], Iterator[Claim]]] = {"kr270": simulated, "ur10e": recorded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    console = Console(width=180)
    table = Table("claim", "bar", "measured", "holds", title="Drive gains")
    broken, start = 0, time.perf_counter()
    for name in [n for n in PARTS if chosen.part in (None, n)]:
        for line in PARTS[name](console, chosen.quick):
            table.add_row(line.claim, line.bar, line.measured, "yes" if line.holds else "NO")
            broken += not line.holds
    console.print(table)
    console.print(f"{broken} broken claims; {time.perf_counter() - start:.0f} s")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
