"""A body as robot files state it: mass, centre of mass and inertia about it, accepted by simulators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import inertia_matrix
from steelyard.physical.consistency import centre_of_mass, com_inertia, second_moments

# Simulators test A + B ≥ C on rounded principal moments: a plate or a rod would fail by its last digit. Second moments
# are kept above this fraction of the largest about the link's frame, which is far too small to change torques.
ROOM = 1e-11


class Inertial(NamedTuple):
    """mass [kg], com (3,) [m] in the body's frame, inertia (3, 3) [kg·m²] about it along the axes of that frame."""

    mass: float
    com: Array
    inertia: Array


def inertial(vector: Array) -> Inertial:
    """The ten parameters (10,) of a body that can exist as a file states them; a massless one is all zeros."""
    com = centre_of_mass(vector)
    if com is None:
        return Inertial(0.0, np.zeros(3), np.zeros((3, 3)))
    moments = second_moments(com_inertia(vector))
    size, axes = np.linalg.eigh(moments)
    least = ROOM * float(np.abs(second_moments(inertia_matrix(vector))).max())
    if size[0] < least:
        moments = (axes * np.maximum(size, least)) @ axes.T
        moments = 0.5 * (moments + moments.T)
    return Inertial(float(vector[9]), com, np.trace(moments) * np.eye(3) - moments)


def number(value: float) -> str:
    """Digits that read back to the same bits, without a sign of zero; whole numbers without decimals."""
    text = repr(float(value) + 0.0)
    return text[:-2] if text.endswith(".0") else text


def numbers(values: Array) -> str:
    return " ".join(number(x) for x in values)
