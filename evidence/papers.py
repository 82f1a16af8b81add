"""The five papers by their commands: claims, and the tables and figures of docs/gallery.

    python evidence/papers.py [p0 …]            the claims in full; exits with 1 and names what is broken
    python evidence/papers.py --quick [p0 …]    the same with few experiments, as `steelyard paper p0 --quick`
    python evidence/papers.py --fill [p0 …]     write the tables of --quick into docs/gallery and docs/images

A place is text between `<!-- paper: p0 TABLE -->` and `<!-- end paper -->`. It holds what the command prints with
`--quick --seed 0`, for recorded robots with `--data examples/real`: change the command, never the place.
`tests/papers/test_pages.py` compares them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.project.papers.misprints import misprint_table
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest, markdown
from steelyard.project.papers.registry import EXPERIMENTS, PAPERS, reproduced
from steelyard.report.figures.palette import PALETTE
from steelyard.report.section import Figure, FigureChoice
from steelyard.report.table import Table

ROOT = Path(__file__).resolve().parent.parent
GALLERY, IMAGES = ROOT / "docs" / "gallery", ROOT / "docs" / "images"
# Project files of the recordings that the gallery shows; they need the shared data next to the repository.
RECORDED = {"p0": ROOT / "examples" / "real", "p4": ROOT / "examples" / "real"}
PLACE = re.compile(r"(<!-- paper: (?P<paper>\w+) (?P<name>[\w-]+) -->\n)(?P<held>.*?)(<!-- end paper -->)", re.DOTALL)
IMAGE = re.compile(r"\.\./images/(?P<file>(?P<paper>p\d)-(?P<part>[\w-]+?)-(?P<piece>\d+)-(?P<one>\d+)\.svg)")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 320, 66, 16, 190, 42


def claims(paper: str, quick: bool) -> list[Claim]:
    """The claims of a paper."""
    return list(made(paper, quick).claims)


def made(paper: str, quick: bool, data: Path | None = None) -> PaperPage:
    return reproduced(paper, PaperRequest(EXPERIMENTS[paper][quick], data=data))


def fill(page: PaperPage) -> None:
    """Write the page's tables and figures into the places that the gallery has for them."""
    tables = page.tables
    for file in sorted(GALLERY.glob("*.md")):
        text = file.read_text("utf-8")
        filled = PLACE.sub(lambda found: placed(found, page.paper, tables), text)
        if filled != text:
            file.write_text(filled, "utf-8")
        for found in IMAGE.finditer(filled):
            if found["paper"] == page.paper:
                (IMAGES / found["file"]).write_text(drawn(page, found), "utf-8")


def placed(found: re.Match[str], paper: str, tables: dict[str, Table]) -> str:
    if found["paper"] != paper:
        return found[0]
    if found["name"] not in tables:
        raise SystemExit(f"{paper} has no table '{found['name']}'; it has {', '.join(tables)}.")
    return f"{found[1]}\n{markdown(tables[found['name']])}\n\n{found[5]}"


def fill_misprints() -> None:
    """The page of all misprints."""
    file = GALLERY / "misprints.md"
    text = file.read_text("utf-8")
    tables = {"misprints": misprint_table(PAPERS)}
    file.write_text(PLACE.sub(lambda found: placed(found, "all", tables), text), "utf-8")


# --- Figures ----------------------------------------------------------------------------------------------------------


def drawn(page: PaperPage, found: re.Match[str]) -> str:
    """The figure of a part as SVG: p1-figures-1-0.svg is figure 0 of the second piece of part `figures` of p1."""
    (part,) = (one for one in page.parts if one.name == found["part"])
    pieces = [piece for piece in part.pieces if isinstance(piece, Figure | FigureChoice)]
    piece = pieces[int(found["piece"])]
    if isinstance(piece, Figure):
        return svg(dict(piece.figure))
    every = [one["figure"] for group in piece.groups for one in group["joints"]]
    return svg(every[int(found["one"])])


def svg(figure: dict) -> str:
    """Lines or points of a figure with one pair of axes."""
    traces = [one for one in figure["data"] if one.get("yaxis", "y") == "y" and one.get("name") != "nominal"]
    layout = figure["layout"]
    log = layout["yaxis"].get("type") == "log"
    curves = [(np.array(t["x"], float), np.array(t["y"], float)) for t in traces]
    curves = [(x, np.log10(y) if log else y) for x, y in curves]
    low, high = (float(f(np.concatenate([y[np.isfinite(y)] for _, y in curves]))) for f in (np.min, np.max))
    low, high = (np.floor(low), np.ceil(high)) if log else (low, high + (high == low))
    first, last = (float(f(np.concatenate([x for x, _ in curves]))) for f in (np.min, np.max))

    def across(x: Array) -> Array:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / max(last - first, 1e-12)

    def up(y: Array) -> Array:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="12" fill="#333"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']  # fmt: skip
    for tick in np.arange(low, high + 1) if log else np.linspace(low, high, 5):
        y = float(up(np.array(tick)))
        label = f"{10.0**tick:.0e}" if log else f"{tick:.3g}"
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')  # fmt: skip
    for tick in np.linspace(first, last, 5):
        x = float(across(np.array(tick)))
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:.3g}</text>')
    titles = [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">{titles[0]}; {titles[1]}</text>')
    colours = {"measured": "#9aa4b2", "predicted": PALETTE[0]}
    for k, (trace, (x, y)) in enumerate(zip(traces, curves, strict=True)):
        colour = colours.get(trace.get("meta", ""), (trace.get("line") or {}).get("color", PALETTE[1]))
        seen = np.isfinite(y)
        points = list(zip(across(x[seen]), up(y[seen]), strict=True))
        if trace["mode"] == "markers":
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        else:
            way = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        height = TOP + 12 + 18 * k
        edge, stroke = WIDTH - RIGHT + 10, f'stroke="{colour}" stroke-width="2"'
        out.append(f'<line x1="{edge}" x2="{edge + 20}" y1="{height - 4}" y2="{height - 4}" {stroke}/>')
        out.append(f'<text x="{edge + 26}" y="{height}">{trace["name"]}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)}; all by default")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fill", action="store_true")
    chosen = parser.parse_args()
    broken: list[Claim] = []
    for paper in chosen.papers or PAPERS:
        start = time.perf_counter()
        page = made(paper, chosen.quick or chosen.fill, RECORDED.get(paper) if chosen.fill else None)
        for claim in page.claims:
            print(f"{'holds' if claim.holds else 'BROKEN'}: {claim.claim}: {claim.measured} ({claim.bar})")
        print(f"{paper}: {page.verdict} {time.perf_counter() - start:.0f} s", flush=True)
        broken += page.broken
        if chosen.fill:
            fill(page)
    if chosen.fill:
        fill_misprints()
    print(f"{len(broken)} broken claims{''.join(f'; {claim.claim}' for claim in broken)}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
