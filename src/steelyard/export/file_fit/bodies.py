"""Bodies of an exported set that look unlike those of the robot file: needles, and masses far from the file's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import com_inertia, link_columns
from steelyard.physical.prior import Widths

# A body is a needle or a plate if its smallest over largest principal moment is below this fraction of the file's ...
NEEDLE = 0.1
# ... or below this ratio where the file has no body.
THIN = 1e-3
# A principal moment that many times larger or smaller than the file's is far from it.
FAR_MOMENT = 10.0
# Widths of the prior that a mass may differ by.
MASS_WIDTHS = 3.0


class BodyShape(NamedTuple):
    """Mass [kg], smallest over largest principal moment and the largest [kg·m²] of a body, and those of the file (NaN
    where it has none)."""

    link: str
    mass: float
    filed_mass: float
    ratio: float
    filed_ratio: float
    moment: float
    filed_moment: float

    @property
    def is_needle(self) -> bool:
        return self.ratio < (NEEDLE * self.filed_ratio if np.isfinite(self.filed_ratio) else THIN)

    @property
    def is_mass_far(self) -> bool:
        return abs(self.mass - self.filed_mass) > MASS_WIDTHS * Widths().mass * self.filed_mass

    @property
    def is_moment_far(self) -> bool:
        return (
            not 1.0 / FAR_MOMENT <= self.moment / self.filed_moment <= FAR_MOMENT if self.filed_moment > 0.0 else False
        )

    @property
    def sentence(self) -> str:
        """What is unlike the file, with numbers; empty if nothing is."""
        known = np.isfinite(self.filed_ratio)
        said = []
        if self.is_needle:
            file = f" (file {self.filed_ratio:.2g})" if known else ""
            said.append(f"smallest over largest principal moment {self.ratio:.2g}{file}")
        if self.is_moment_far:
            said.append(f"largest principal moment {self.moment:.3g} kg.m2 (file {self.filed_moment:.3g} kg.m2)")
        if self.is_mass_far:
            said.append(f"mass {self.mass:.3g} kg (file {self.filed_mass:.3g} kg)")
        return f"{self.link}: {', '.join(said)}" if said else ""


def body_shapes(layout: Layout, theta: Array) -> tuple[BodyShape, ...]:
    """The links of theta (C,) next to those of the robot file."""
    return tuple(_shapes(layout, theta))


def _shapes(layout: Layout, theta: Array) -> Iterator[BodyShape]:
    for name, columns in link_columns(layout).items():
        if layout.columns[columns[0]].kind != "link":
            continue
        filed = [layout.columns[k].nominal for k in columns]
        known = None not in filed and bool(filed[9])
        file = np.array(filed, float) if known else None
        own, (ratio, moment) = principal(theta[columns]), (np.nan, np.nan) if file is None else principal(file)
        masses = float(theta[columns[9]]), np.nan if file is None else float(file[9])
        yield BodyShape(name, *masses, own[0], ratio if ratio > 0.0 else np.nan, own[1], moment)


def principal(vector: Array) -> tuple[float, float]:
    """Smallest over largest principal moment of a body (10,) about its centre of mass, 1 for a massless one, and the
    largest [kg·m²]."""
    values = np.linalg.eigvalsh(com_inertia(vector))
    return (float(values[0] / values[-1]) if values[-1] > 0.0 else 1.0), float(values[-1])


def unlike_file(layout: Layout, theta: Array) -> tuple[str, ...]:
    """One sentence for all bodies that look unlike those of the file; none if all of them look like the file's."""
    said = [shape.sentence for shape in body_shapes(layout, theta) if shape.sentence]
    if not said:
        return ()
    return (
        f"Bodies unlike those of the robot file: {'; '.join(said)}. The data ask for it, or effects that the "
        "format has no place for; check them before you simulate contacts or add a tool.",
    )
