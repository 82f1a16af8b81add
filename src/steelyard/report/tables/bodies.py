"""Tables of bodies: payloads, and the links of a certified standard set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard.identification.bodies import PayloadBody, payload_bodies
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL
from steelyard.physical.consistency import check_links
from steelyard.report import numerals
from steelyard.report.figures.skeleton import Ellipsoid
from steelyard.report.table import Emphasis, Table, TableColumn, table

# A body is called a needle if its ratio of semi-axes is below this multiple of that in the robot file.
NEEDLE = 0.1


def payload_table(result: Identification, links: Mapping[str, str] | None = None) -> Table:
    """Every payload of the runs, on the links of `links`: stated parameters, mass, centre of mass."""
    quantities = (("mass", "Mass", "kg"), ("com_x", "Centre of mass x", "m"), ("com_y", "y", "m"), ("com_z", "z", "m"))
    columns = (
        TableColumn("name", "Payload"),
        TableColumn("link", "On link"),
        TableColumn("stated", "Stated"),
        *(
            column
            for key, heading, unit in quantities
            for column in (
                TableColumn(key, heading, "estimate", of=(f"{key}_std",), unit=unit),
                TableColumn(f"{key}_std", f"σ of {heading}", "number", unit=unit, shown=False),
            )
        ),
    )
    rows = [
        (
            one.name,
            one.link or numerals.DASH,
            _stated(one),
            # without a positive σ a number is exact or not known
            *(y for x, std in zip(one.body[:4], one.std[:4], strict=True) for y in (x, std if std > 0.0 else 0.0)),
        )
        for one in payload_bodies(result, links)
    ]
    note = (
        "Carried in the runs of the load case of that name. In the payload's own frame; centre of mass = first moment "
        "/ mass, σ to first order. Stated parameters were held, those without ± as exact; the others are base "
        "parameters."
    )
    return table("payloads", "Payloads", columns, rows, notes=[note])


def _stated(payload: PayloadBody) -> str:
    """The stated parameters: `M = 2.805 ± 0.002`, "all ten parameters" or "nothing"."""
    if len(payload.stated) == len(INERTIAL):
        return "all ten parameters"
    parts = (
        f"{symbol} = {numerals.given(x)}" + (f" ± {numerals.given(deviation)}" if deviation else "")
        for symbol, (x, deviation) in payload.stated.items()
    )
    return ", ".join(parts) or "nothing"


def body_table(result: Identification) -> Table:
    """Every body of a certified standard set; no rows without a certificate."""
    certificate, theta = result.certificate, result.standard
    columns = (
        TableColumn("name", "Body"),
        TableColumn("mass", "Mass", "number", unit="kg"),
        TableColumn("com", "Centre of mass", "numbers", unit="m", digits=3),
        TableColumn("moments", "Principal moments", "numbers", unit="kg.m2", digits=3),
        TableColumn("smallest", "Smallest eigenvalue of P", "number", digits=3),
        TableColumn("boundary", "On the boundary", "flag"),
    )
    if certificate is None or theta is None:
        return Table("bodies", "Bodies", columns, ())
    rows = [
        (
            one.name,
            one.mass,
            one.com or (),
            one.eigenvalues,
            certificate.smallest[one.name],
            one.name in certificate.boundary,
        )
        for one in check_links(result.base.layout, theta).links
    ]
    return table("bodies", "Bodies", columns, rows, ["strong" if row[-1] else "" for row in rows])


def ellipsoid_table(
    model: Model, bodies: Mapping[str, Sequence[Ellipsoid | None]], shown: Mapping[str, Sequence[Ellipsoid | None]]
) -> Table:
    """The semi-axes of every body of the picture, by role, and what is unusual about it."""
    columns = (
        TableColumn("number", "No."),
        TableColumn("link", "Link"),
        *(TableColumn(f"axes_{role}", f"Semi-axes, {role}", "numbers", unit="m", digits=3) for role in bodies),
        TableColumn("remark", "Remark"),
    )
    rows = []
    for k, link in enumerate(model.robot.links):
        own = {role: every[k] for role, every in bodies.items()}
        if all(one is None for one in own.values()):
            continue
        remark = _remark({role: every[k] for role, every in shown.items()}, own)
        axes = [() if one is None else tuple(one.axes.tolist()) for one in own.values()]
        rows.append((str(k + 1), link.name, *axes, remark))
    weights: list[Emphasis] = ["warning" if row[-1] else "" for row in rows]
    return table("ellipsoids", "Bodies in the picture", columns, rows, weights)


def _remark(shown: Mapping[str, Ellipsoid | None], own: Mapping[str, Ellipsoid | None]) -> str:
    found, stated = own.get("identified"), own.get("file")
    if "identified" in own and found is None:
        return "identified: no such body can exist"
    if found is None:
        return ""
    if shown["identified"] is None:
        return "identified: not drawn, larger than the robot or far from its joint"
    usual = 1.0 if stated is None else stated.slenderness
    if found.slenderness < NEEDLE * usual:
        return f"a needle: smallest over largest semi-axis {numerals.given(found.slenderness)}" + (
            "" if stated is None else f", in the file {numerals.given(stated.slenderness)}"
        )
    return ""


def cost_text(result: Identification) -> str:
    """The cost of a certificate as text: the change of the weighted residual, which is minimised, and of the relative
    error."""
    certificate = result.certificate
    if certificate is None:
        return ""
    weighted = f"weighted residual {certificate.cost:+.2%}"
    if certificate.cost_unweighted is None:
        return weighted
    now = result.relative_error.total
    return f"{weighted}, relative error {numerals.share(certificate.error_before(now))} → {numerals.share(now)}"
