"""A page in Debian's Chromium, driven by playwright: what it draws, what it asks for, what it complains about."""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# WebGL in software, so that the 3D pictures are drawn on a machine without a graphics card.
OPTIONS = (
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
)  # fmt: skip


# Seconds until something that does not come is a failure: a loaded machine draws slowly.
PATIENCE_S = 180.0


@dataclass
class Opened:
    """A page in the browser, with its console errors and its requests that leave the file."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def scroll(self) -> None:
        """Look at every part of the page, so that all figures are drawn."""
        height = self.page.evaluate("document.documentElement.scrollHeight")
        for y in range(0, height + 600, 500):
            self.page.evaluate(f"window.scrollTo(0, {y})")
            self.page.wait_for_timeout(40)
        self.wait(
            "[...document.querySelectorAll('.multiples .plot')].filter((one) => one.offsetParent)"
            ".every((one) => one.classList.contains('js-plotly-plot'))"
        )
        self.page.wait_for_timeout(200)

    def print(self) -> None:
        """What the page does before it is printed, with its figures drawn."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawn = "(one) => one.querySelector('.js-plotly-plot')"
        self.wait(f"[...document.querySelectorAll('.printed figure')].every({drawn})")
        self.page.emulate_media(media="print")

    def wait(self, condition: str, seconds: float = PATIENCE_S) -> None:
        """Until a JavaScript expression is true. Playwright's own waiting needs `eval`, which the page forbids."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            if time.monotonic() > end:
                pytest.fail(f"still not true after {seconds:g} s: {condition}")
            self.page.wait_for_timeout(50)

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def drawn_pixels(self, selector: str) -> list[float]:
        """The share of pixels of every element of a selector that differ from its first pixel: near zero if empty."""
        shares = []
        for element in self.page.query_selector_all(selector):
            element.scroll_into_view_if_needed()
            picture = base64.b64encode(element.screenshot()).decode()
            shares.append(self.page.evaluate(_COUNT, picture))
        return shares


# Counts pixels in the browser itself, so that no library for images is needed.
_COUNT = """async (picture) => {
  const image = new Image();
  image.src = "data:image/png;base64," + picture;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  drawing.drawImage(image, 0, 0);
  const pixels = new Uint32Array(drawing.getImageData(0, 0, image.width, image.height).data.buffer);
  return pixels.filter((one) => one !== pixels[0]).length / pixels.length;
}"""


def need_browser() -> Any:
    """Playwright, or the test is skipped with the reason."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    return pytest.importorskip("playwright.sync_api", reason='no playwright: pip install "steelyard[test]"')


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    with need_browser().sync_playwright() as play:
        launched = play.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        try:
            yield launched
        finally:
            launched.close()


def opened(launched: Any, file: Path, width: int = 1200, scheme: str = "light") -> Opened:
    """The page of a file in a window of this width; requests that leave the machine are refused and noted. Pages that
    were opened before are closed: their figures would go on drawing."""
    for earlier in launched.contexts:
        earlier.close()
    context = launched.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=False)
    context.set_default_timeout(1e3 * PATIENCE_S)
    seen = Opened(context.new_page())

    def note(route: Any) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            seen.requests.append(route.request.url)
            route.abort()

    context.route("**/*", note)
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.on("console", lambda said: seen.errors.append(said.text) if said.type == "error" else None)
    seen.page.set_default_timeout(120_000)  # a busy machine
    seen.page.goto(file.resolve().as_uri())
    return seen
