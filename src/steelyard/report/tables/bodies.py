"""Tables of bodies: payloads, and the links of a certified standard set."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.identification.bodies import PayloadBody, payload_bodies
from steelyard.identification.result import Identification
from steelyard.model.parameters import INERTIAL
from steelyard.physical.consistency import check_links
from steelyard.report import numerals
from steelyard.report.table import Table, TableColumn, table


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
