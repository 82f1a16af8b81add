"""Motor or joint side and wrong ratios: efforts or positions of a joint wrong by a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.nominal import Scales, nominal_scales
from steelyard.project.checks.channel_map.suspects import GAIN, SURE, Suspect, is_significant, joint_list, profile
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.channel_map.units import PLAUSIBLE_TRAVEL, near_degree

# A factor from this on is a gear; a smaller one is an error in a ratio or a gain.
GEAR = 8.0
# Robot files are often wrong by a quarter, and by more with a load on the flange: a factor found from the file alone
# must be larger.
NOMINAL_FACTOR = 2.5
# A joint's scale found from the other joints is accepted from this factor on.
SHARED_FACTOR = 1.3
_SHARED_SURE = 4.0
SHARED_GAIN = 0.4
# Largest amount by which an accepted factor may move an effort away from the robot file's, as a logarithm.
_AGAINST_FILE = 0.15
# A small factor must also be found when the robot file has little weight: else a wrong link there would look like one.
_DOUBT = 10.0
_EFFORT_GRID = np.concatenate([np.linspace(-6.0, 6.0, 13), [-0.4, 0.4]])
_FINE_EFFORT_GRID = np.linspace(-6.0, 6.0, 31)
_RATIO_GRID = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
_GEAR_GRID = np.linspace(0.0, 6.0, 41)


def suspects(trial: Trial) -> Iterator[Suspect]:
    """All efforts against the robot file, then each joint's effort, position, and both by a ratio."""
    scales = nominal_scales(trial)
    yield from all_efforts(trial, scales)
    for j in trial.active:
        yield from _effort(trial, j, scales)
        yield from _motion(trial, j)


def all_efforts(trial: Trial, scales: Scales | None = None) -> Iterator[Suspect]:
    """All efforts by one factor, if the robot file wants that of most joints."""
    scales = scales or nominal_scales(trial)
    known = np.flatnonzero(scales.trusted)
    if len(known) < 2:
        return
    logs = np.log(np.abs(scales.size[known]))
    off = np.abs(logs) > np.log(NOMINAL_FACTOR)
    if off.mean() < 0.7 or abs(np.sign(logs[off]).sum()) < off.sum():
        return
    common = float(np.exp(np.median(logs)))
    sizes = {j: float(abs(scales.size[j])) if scales.trusted[j] else common for j in range(trial.model.robot.dof)}
    edit = Edit(tuple(sizes), effort=scaling(len(sizes), {j: 1.0 / x for j, x in sizes.items()}))
    after = trial.verdict(edit)
    gain, spread = after.gain_over(trial.baseline)
    names = trial.model.robot.axis_names
    listed = ", ".join(f"{names[j]} {scales.size[j]:.3g}" for j in known)
    strength = float(np.abs(logs).sum())
    yield Suspect(
        edit, trial.baseline, after, gain, spread, True, strength, lambda s: _all_finding(common, listed, trial)
    )


def _effort(trial: Trial, j: int, scales: Scales) -> Iterator[Suspect]:
    n, name = trial.model.robot.dof, joint_list(trial, (j,))

    def scaled(size: float) -> Edit:
        return Edit((j,), effort=scaling(n, {j: size}))

    found = profile(trial, scaled, _grid(scales, j))
    size = float(np.exp(found.log_size))
    gain, spread = found.verdict.gain_over(trial.baseline)
    # of two joints that only determine each other's scale, the robot file decides which is wrong
    closer = 0.0
    if scales.trusted[j]:
        closer = abs(np.log(abs(scales.size[j]))) - abs(np.log(abs(scales.size[j])) + found.log_size)
    if abs(found.log_size) > np.log(GEAR):
        accepted = is_significant(gain, spread) and abs(found.log_size) < _EFFORT_GRID.max()
    else:
        large = abs(found.log_size) > max(np.log(SHARED_FACTOR), _SHARED_SURE * found.spread)
        accepted = large and gain >= max(SHARED_GAIN, SURE * spread) and _holds_without_file(trial, scaled(size))
        accepted = accepted and closer > -_AGAINST_FILE
    if accepted:
        told = f"the efforts of the other joints determine it to ±{100 * found.spread:.0f} %"
        yield Suspect(
            scaled(size),
            trial.baseline,
            found.verdict,
            gain,
            spread,
            True,
            gain + closer,
            lambda s: _finding(s, name, "effort", 1.0 / size, told),
        )
    elif scales.trusted[j] and abs(np.log(abs(scales.size[j]))) > np.log(NOMINAL_FACTOR):
        ratio = float(abs(scales.size[j]))
        after = trial.verdict(scaled(1.0 / ratio))
        gain, spread = after.gain_over(trial.baseline)
        told = f"the inertias of the robot file explain {scales.share[j]:.0%} of it, with a factor of {ratio:.3g}"
        # if the other joints contradict it, a wrong link in the file is more likely
        yield Suspect(
            scaled(1.0 / ratio),
            trial.baseline,
            after,
            gain,
            spread,
            gain > 0.0,
            gain,
            lambda s: _finding(s, name, "effort", ratio, told),
        )


def _grid(scales: Scales, j: int) -> Array:
    """Factors to try on an effort: coarse and around that of the robot file, or fine without one."""
    if scales.share[j] < 0.5 or scales.size[j] == 0.0:
        return _FINE_EFFORT_GRID
    near = np.array([-0.3, 0.0, 0.3]) - np.log(abs(scales.size[j]))
    return np.concatenate([_EFFORT_GRID, [x for x in near if np.abs(_EFFORT_GRID - x).min() > 0.1]])


def _motion(trial: Trial, j: int) -> Iterator[Suspect]:
    """The joint's position multiplied by a factor, and position and effort by a ratio that acts on both."""
    n, name = trial.model.robot.dof, joint_list(trial, (j,))

    def position(size: float) -> Edit:
        return Edit((j,), q=scaling(n, {j: size}))

    def ratio(size: float) -> Edit:
        return Edit((j,), scaling(n, {j: 1.0 / size}), scaling(n, {j: size}))

    travel = trial.travel[j]
    grid = _RATIO_GRID
    if travel > PLAUSIBLE_TRAVEL[1]:
        grid = -_GEAR_GRID
    elif travel < 10.0 * PLAUSIBLE_TRAVEL[0]:
        grid = _GEAR_GRID
    yield from _sized(trial, position, grid, lambda s, size: _finding(s, name, "position", 1.0 / size, ""))
    yield from _sized(trial, ratio, -grid, lambda s, size: _finding(s, name, "ratio", 1.0 / size, ""))


def _sized(
    trial: Trial, scaled: Callable[[float], Edit], grid: Array, finding: Callable[[Suspect, float], Finding]
) -> Iterator[Suspect]:
    found = profile(trial, scaled, grid, 0.5 * GAIN)
    size = float(np.exp(found.log_size))
    gain, spread = found.verdict.gain_over(trial.baseline)
    large = abs(found.log_size) > max(np.log(SHARED_FACTOR), _SHARED_SURE * found.spread)
    if near_degree(abs(found.log_size), found.spread):
        return  # left to the check of units
    if large and is_significant(gain, spread) and _holds_without_file(trial, scaled(size)):
        yield Suspect(scaled(size), trial.baseline, found.verdict, gain, spread, True, gain, lambda s: finding(s, size))


def _holds_without_file(trial: Trial, edit: Edit) -> bool:
    loose = replace(trial, doubt=_DOUBT * trial.doubt)
    gain, spread = loose.verdict(edit).gain_over(loose.baseline)
    return gain >= max(0.5 * SHARED_GAIN, spread)


def _finding(suspect: Suspect, name: str, signal: str, size: float, told: str) -> Finding:
    """`size`: factor by which the logged signal is too large."""
    times = f"{size:.3g} times too large" if size > 1.0 else f"{1.0 / size:.3g} times too small"
    proof = f"{suspect.evidence} without that factor" + (f"; {told}" if told else "")
    key = {"position": "q", "effort": "effort", "ratio": "q and effort"}[signal]
    if max(size, 1.0 / size) >= GEAR:
        motor = (signal != "position") == (size < 1.0)
        side = "on the motor side" if motor else "on the joint side and a ratio applied in addition"
        return Finding(
            "wrong-gear-side",
            "error",
            f"the {signal} of {name} is {times}, as if it were logged {side}: {proof}",
            name,
            f'set side = "motor" with the ratio of {name} in [channels] {key}, or remove the ratio',
        )
    return Finding(
        "wrong-ratio",
        "error",
        f"the {signal} of {name} is {times}: {proof}",
        name,
        f"correct 'ratio' or 'gain' of {name} in [channels] {key}",
    )


def _all_finding(common: float, listed: str, trial: Trial) -> Finding:
    times = f"about {common:.3g} times too large" if common > 1.0 else f"about {1.0 / common:.3g} times too small"
    told = f"measured effort divided by that of the inertias in the robot file, beyond friction: {listed}"
    if max(common, 1.0 / common) >= GEAR:
        return Finding(
            "wrong-gear-side",
            "error",
            f"the efforts of all joints are {times}, as if they were logged on the other side of the gears: {told}",
            "all joints",
            'set side = "motor" with every ratio in [channels] effort, or remove the ratios; check the unit too',
        )
    return Finding(
        "wrong-ratio",
        "error",
        f"the efforts of all joints are {times}: {told}",
        "all joints",
        f"correct 'gain', 'ratio' or the unit of the efforts; or '{trial.model.robot.name}' has another size",
    )
