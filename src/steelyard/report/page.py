"""render: an identification as one HTML page that needs nothing else, neither a server nor the network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.report import numerals, tables
from steelyard.report.figures import run_figures
from steelyard.report.templates import file_text, rendered


def render(
    result: Identification,
    predictions: tuple[Prediction, ...],
    title: str,
    links: Mapping[str, str] | None = None,
) -> str:
    """The page; `links` names the link that carries each payload.

    The same arguments give the same bytes: it carries no date and no random identifier.
    """
    parameters = tables.parameter_rows(result)
    return rendered(
        "page.html",
        title,
        result=result,
        verdict=spoken(result.verdict),
        scores=tables.error_scores(result),
        errors=tables.error_rows(result),
        legend=tables.KINDS,
        gains=tables.gain_rows(result),
        gains_stated=result.gains is not None and bool(np.isfinite(result.gains.stated).any()),
        payloads=tables.payload_rows(result, links),
        bodies=tables.body_rows(result),
        price=tables.price_in_words(result),
        parameters=parameters,
        qualities=tables.QUALITIES,
        quality_counts=tables.quality_counts(parameters),
        findings=tables.ordered_findings(result.findings),
        finding_counts=tables.finding_counts(result.findings),
        rows=sum(result.relative_error.rows.values()),
        runs_drawn=[prediction.run for prediction in predictions],
        figures=embedded_json([run_figures(p, result.base.layout) for p in predictions]),
        script=Markup(file_text("page.js")),
        plotly=embedded_script(get_plotlyjs()) if predictions else "",
    )


def spoken(sentence: str) -> str:
    """A sentence without NaN: a number that does not exist is a dash."""
    return re.sub(r"\bnan\b%?", numerals.DASH, sentence)


def embedded_json(value: Any) -> Markup:
    """JSON that may stand inside a script element: no `<`, so no end tag and no comment; NaN is refused."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def embedded_script(source: str) -> Markup:
    """Program text that may stand inside a script element; `<\\/` is `</` in a JavaScript string or pattern."""
    return Markup(source.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
