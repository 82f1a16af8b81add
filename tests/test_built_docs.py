"""The documentation as it is read: built without warnings, every public name in the reference, links that lead
somewhere, formulas drawn in a browser, and no request that leaves the machine."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import zlib
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import steelyard

DOCS = Path(__file__).resolve().parents[1] / "docs"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Loads every page in turn in a frame, waits until MathJax is done with it, and reports what it sees.
LOOK = """<!doctype html><title>look</title><body><script>
const pages = PAGES;
(async () => {
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style = "width: 1200px; height: 800px";
    const loaded = new Promise(done => frame.onload = done);
    frame.src = "/" + page;
    document.body.append(frame);
    await loaded;
    const window = frame.contentWindow, document_ = frame.contentDocument;
    await window.MathJax?.startup?.promise;
    const maths = [...document_.querySelectorAll(".math")];
    const text = document_.querySelector("article").cloneNode(true);
    text.querySelectorAll("pre, code, mjx-container, script, .sig").forEach(node => node.remove());
    await fetch("/report", {method: "POST", body: JSON.stringify({
      page, formulas: maths.length,
      drawn: maths.filter(node => node.querySelector("mjx-container svg")).length,
      errors: [...document_.querySelectorAll("[data-mjx-error]")].map(node => node.dataset.mjxError),
      raw: text.textContent.match(/\\\\\\(|\\\\\\[|\\\\begin|\\$[^$\\n]+\\$/g) ?? [],
    })});
    frame.remove();
  }
})();
</script></body>"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as HTML, as `make docs` builds them."""
    pytest.importorskip("furo", reason='the docs extra is not installed: pip install "steelyard[docs]", or make docs')
    out = tmp_path_factory.mktemp("docs") / "html"
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", DOCS, out]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """Anchors and links of a page, and the addresses of what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in found:
            self.loads.append(found["src"])
        if tag == "link" and "stylesheet" in found.get("rel", "") and "href" in found:
            self.loads.append(found["href"])


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(built: Path) -> None:
    inventory = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = re.findall(r"^(\S+) py:\w+ \S+ (\S+)#", zlib.decompress(inventory).decode("utf-8"), re.MULTILINE)
    pages = dict(entries)
    names = {f"steelyard.{name}": "steelyard" for name in steelyard._NAMES}
    for namespace in steelyard._NAMESPACES:
        names |= {f"steelyard.{namespace}.{name}": namespace for name in getattr(steelyard, namespace).__all__}
    assert len(names) > 250
    assert {name: pages.get(name) for name in names} == {name: f"reference/{page}.html" for name, page in names.items()}


@pytest.mark.slow
def test_links_and_what_pages_load_are_there(built: Path) -> None:
    pages = {path: Page(path) for path in built.rglob("*.html")}
    assert len(pages) > 60
    dead, leaving = [], []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append((path.relative_to(built).as_posix(), link))
        for address in page.loads:
            parts = urlsplit(address)
            if parts.scheme not in ("", "data") or parts.netloc:
                leaving.append((path.relative_to(built).as_posix(), address))
            elif not parts.scheme and not (path.parent / unquote(parts.path)).exists():
                dead.append((path.relative_to(built).as_posix(), address))
    assert not dead
    assert not leaving


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, hears what the pages report, and what they would load from elsewhere (by their policy)."""

    def __init__(self, *arguments: Any, looked: str, heard: Queue[dict[str, Any]], **options: Any) -> None:
        self.looked, self.heard = looked, heard
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        policy = "default-src 'self' 'unsafe-inline' data: blob:; report-uri /leaves"
        self.send_header("Content-Security-Policy-Report-Only", policy)
        super().end_headers()

    def do_GET(self) -> None:
        if self.path != "/look.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.looked.encode())
        return None

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.put(told)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt install chromium)")
def test_a_browser_without_a_network_draws_every_formula(built: Path, tmp_path: Path) -> None:
    pages = sorted(path.relative_to(built).as_posix() for path in built.rglob("*.html"))
    pages = [page for page in pages if "<article" in (built / page).read_text("utf-8")]
    heard: Queue[dict[str, Any]] = Queue()
    handler = partial(Server, directory=str(built), looked=LOOK.replace("PAGES", json.dumps(pages)), heard=heard)
    seen: dict[str, dict[str, Any]] = {}
    leaves: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", f"--user-data-dir={tmp_path}",
                "--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/look.html",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while len(seen) < len(pages):
                told = heard.get(timeout=60.0)
                if "csp-report" in told:
                    leaves.append(f"{told['csp-report']['document-uri']} asks for {told['csp-report']['blocked-uri']}")
                else:
                    seen[told["page"]] = told
        except Empty:
            pytest.fail(f"the browser stopped after {len(seen)} of {len(pages)} pages")
        finally:
            browser.terminate()
            browser.wait(timeout=30.0)
            server.shutdown()
    assert not leaves
    assert sum(page["formulas"] for page in seen.values()) > 100
    for name, page in seen.items():
        assert page["drawn"] == page["formulas"], name
        assert (page["errors"], page["raw"]) == ([], []), name
