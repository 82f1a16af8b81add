"""Distribution of a moving link's ten identified parameters to the bodies of the file that move with it.

Motion identifies only the sum v = v_link + Σ_k T_k v_k over the link and the bodies k fixed to it, all about the link's
frame. Bodies on fixed joints keep the inertia of the file and the link gets the remainder if that is physical (P ⪰ 0).
If it is not, the sum is split as near to the file as possible,

    min Σ_k ‖D_k⁻¹(v_k − v_k,file)‖²   with   v_link + Σ_k T_k v_k = v   and   every P_k ⪰ 0

where D_k holds the sizes of body k: m l² for inertias, m l for first moments, m for masses.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.parameters import Layout, inertial_columns, transformed_inertia
from steelyard.model.robot import Link, Lump, Robot
from steelyard.physical.certificates import can_exist
from steelyard.physical.cones import ConeScales, blocks_of, minimise
from steelyard.physical.consistency import ROUNDING, check_body, robot_bodies
from steelyard.physical.constraints import Constraints

# Distance of a body of a split from the boundary of its cone, relative to its own size. Tried in turn: far enough for
# simulators to accept it, the rounding of the solver, zero.
INSIDE = (1e-3, 1e-7, 0.0)
# A body lighter than this fraction of the link's total may change by that much in a split: its own mass is too small a
# scale.
LIGHTEST = 0.01
# Parameters that differ by less than this fraction of the body's largest equal those of the file, which is not edited
# there.
SAME = 1e-14


def new_bodies(file: Robot, identified: Robot, *, every: bool = False) -> dict[str, Array]:
    """The bodies whose ten parameters differ from the file's, or all, each about its own frame, by name."""
    before, _ = robot_bodies(file)
    out: dict[str, Array] = {}
    for link, new in zip(file.links, identified.links, strict=True):
        if link.virtual or new.inertia is None:
            continue
        for name, vector in split(link, new.inertia).items():
            old = before.get(name)
            if every or old is None or np.abs(vector - old).max() > SAME * np.abs(old).max():
                out[name] = vector
    return out


def lump_notes(file: Robot, bodies: Mapping[str, Array]) -> tuple[str, ...]:
    """One sentence per link whose fixed bodies cannot keep the inertia of the file, with their names."""
    out = []
    for link in file.links:
        moved = [
            f"{lump.name} ({lump.inertia[9]:.3g} → {bodies[lump.name][9]:.3g} kg)"
            for lump in link.lumps
            if lump.inertia is not None and lump.name in bodies and not np.array_equal(bodies[lump.name], lump.inertia)
        ]
        if moved:
            out.append(
                f"Bodies fixed to '{link.name}' had to change: {', '.join(moved)}. As identified, the link with them "
                "is too light or too flat to leave them as they are. Torques are those of the sum in any case. "
                "If their inertia is known, identify with the estimator 'consistent' and regulariser = \"entropic\" or "
                '"pull-back", or bound the mass of the link (constraints.masses).'
            )
    return tuple(out)


def split(link: Link, total: Array) -> dict[str, Array]:
    """The bodies of a link and their ten parameters (10,), each about its own frame, which add up to `total` (10,).

    Bodies on fixed joints that have no inertia in the file (frames, flanges) get none and are not listed.
    """
    if not can_exist(link.name, total):
        raise ModelError(
            f"The parameters of link '{link.name}' describe no body that can exist, and simulators refuse or misuse "
            "such files. Write a consistent set: the estimator 'consistent', or the nearest feasible set (steelyard "
            "consistency)."
        )
    fixed = {lump.name: (lump, lump.inertia) for lump in link.lumps if lump.inertia is not None and lump.inertia.any()}
    if not fixed:
        return {link.name: total}
    kept = {name: inertia for name, (_, inertia) in fixed.items()}
    rest = total - sum((_map(lump) @ inertia for lump, inertia in fixed.values()), np.zeros(10))
    rest = np.where(np.abs(rest) <= ROUNDING * np.abs(total).max(), 0.0, rest)
    if check_body(link.name, rest).passes:
        return {link.name: rest} | kept
    return _nearest(link, total, rest, fixed)


def _map(lump: Lump) -> Array:
    """T (10, 10): ten parameters about the lump's frame → about the link's."""
    return np.stack([transformed_inertia(e, lump.pose.rotation, lump.pose.position) for e in np.eye(10)], axis=1)


def _nearest(link: Link, total: Array, rest: Array, fixed: Mapping[str, tuple[Lump, Array]]) -> dict[str, Array]:
    maps = [_map(lump) for lump, _ in fixed.values()]
    names = (link.name, *fixed)
    lumps = np.concatenate([inertia for _, inertia in fixed.values()])
    every = np.hstack(maps)
    of_link = rest if link.inertia is None else link.inertia - every @ lumps
    wanted = np.concatenate([of_link, lumps])
    layout = Layout(tuple(column for name in names for column in inertial_columns(name, None)))
    scales = _scales(names, wanted.reshape(-1, 10), total)
    blocks = blocks_of(layout, scales, Constraints(nonnegative=()))
    start = np.concatenate([rest, lumps])
    # the link is the remainder, so that the sum holds to rounding for any answer of the solver
    span = np.vstack([-every, np.eye(len(lumps))]) * scales.columns[10:]
    near = np.diag(1.0 / scales.columns), -wanted / scales.columns
    for inside in INSIDE:
        theta = minimise(near, blocks, start, span, inside).theta
        bodies = dict(zip(names, theta.reshape(-1, 10), strict=True))
        if all(check_body(name, vector).passes for name, vector in bodies.items()):
            return bodies
    # a point or a rod cannot be split: the link takes all of it
    return {link.name: total} | {name: np.zeros(10) for name in fixed}


def _scales(names: tuple[str, ...], wanted: Array, total: Array) -> ConeScales:
    """Mass and length of every body: from the file if comparable to the whole link, else from the whole link."""
    links: dict[str, tuple[float, float]] = {}
    columns = []
    whole = float(np.sqrt(max(total[[0, 3, 5]].max() / total[9], 1e-6)))
    for name, vector in zip(names, wanted, strict=True):
        mass = max(float(vector[9]), LIGHTEST * float(total[9]))
        length = float(np.clip(np.sqrt(max(vector[[0, 3, 5]].max(), 0.0) / mass), 0.1 * whole, 10.0 * whole))
        links[name] = mass, length
        columns.append(mass * np.array([length**2] * 6 + [length] * 3 + [1.0]))
    return ConeScales(links, np.concatenate(columns))
