"""Pictures of pages, to look at and for the docs: every section in light and dark, wide and on a phone.

    python evidence/screenshots.py --docs                  write docs/images from the demo of the TX40 and a motion
    python evidence/screenshots.py PAGE.html … --out DIR   write DIR/PAGE-SECTION-SCHEME-WIDTH.png of any pages

Needs Debian's chromium and playwright (the extra `test`); what it finds wrong is printed: console errors, requests,
parts that are wider than the window.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from testbed.browser import Opened, browser, opened

IMAGES = ROOT / "docs" / "images"
WIDE, PHONE = 1200, 390
# Pictures of the docs: the command and the page that it writes, in an empty folder, so that no path is seen; then for
# each picture the section ("" for what is seen first), the width of the window, and the colour scheme.
DOCS = (
    (
        ["demo", "tx40"],
        "runs/demo-tx40/project-run/report.html",
        {
            "report.png": ("", WIDE, "light"),
            "report-robot.png": ("robot", WIDE, "light"),
            "report-estimators.png": ("estimators", WIDE, "light"),
            "report-phone.png": ("", PHONE, "dark"),
        },
    ),
    (
        ["excite", "tx40", "--duration", "10", "--starts", "2", "--preview", "motion.html"],
        "motion.html",
        {"excite.png": ("", WIDE, "light")},
    ),
)


def picture(seen: Opened, section: str, file: Path) -> None:
    """One section, or the first window of the page."""
    place = "static" if section else "sticky"  # the navigation must not hide a part of a section
    seen.page.evaluate(f"document.querySelectorAll('nav').forEach((one) => (one.style.position = '{place}'))")
    if section:
        element = seen.page.locator(f"section#{section}")
        element.scroll_into_view_if_needed()
        seen.page.wait_for_timeout(300)
        element.screenshot(path=str(file))
    else:
        seen.page.evaluate("window.scrollTo(0, 0)")
        seen.page.wait_for_timeout(300)
        seen.page.screenshot(path=str(file))


def sections(seen: Opened) -> list[str]:
    return seen.page.evaluate("[...document.querySelectorAll('section[id]')].map((one) => one.id)")


def faults(seen: Opened) -> list[str]:
    wide = [f"{seen.overflow} px wider than the window"] if seen.overflow > 0 else []
    return [*seen.errors, *seen.requests, *wide]


def all_of(launched: Any, page: Path, out: Path, widths: list[int], schemes: list[str]) -> None:
    for width in widths:
        for scheme in schemes:
            seen = opened(launched, page, width, scheme)
            seen.scroll()
            for name in ("", *sections(seen)):
                picture(seen, name, out / f"{page.stem}-{name or 'top'}-{scheme}-{width}.png")
            for fault in faults(seen):
                print(f"{page.name}, {scheme}, {width} px: {fault}")
            seen.page.context.close()


def docs(launched: Any, folder: Path) -> None:
    for words, page, pictures in DOCS:
        subprocess.run([sys.executable, "-m", "steelyard", *words], check=True, cwd=folder)
        for name, (section, width, scheme) in pictures.items():
            seen = opened(launched, folder / page, width, scheme)
            seen.scroll()
            picture(seen, section, IMAGES / name)
            for fault in faults(seen):
                print(f"{name}: {fault}")
            seen.page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/screenshots"))
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--scheme", choices=("light", "dark"), action="append")
    parser.add_argument("--docs", action="store_true", help="write docs/images")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with browser() as launched, tempfile.TemporaryDirectory() as folder:
        if asked.docs:
            docs(launched, Path(folder))
        for page in asked.pages:
            all_of(launched, page, asked.out, asked.width or [WIDE, PHONE], asked.scheme or ["light", "dark"])


if __name__ == "__main__":
    main()
