"""The lock file and the list of dependencies agree with constraints.txt and pyproject.toml, and name no index."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    found = (re.match(r"([\w.-]+)==([^\s\\]+)", line) for line in lines)
    return {plain(one[1]): one[2] for one in found if one}


def test_the_lock_pins_what_the_constraints_do_with_hashes() -> None:
    text, locked, wanted = (
        (ROOT / "requirements.lock").read_text("utf-8"),
        pinned("requirements.lock"),
        pinned("constraints.txt"),
    )
    assert {name: version for name, version in locked.items() if wanted.get(name, version) != version} == {}
    assert set(wanted) - set(locked) == set()
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)) == len(locked)
    assert not re.search(r"://|file:|@ ", text)


def test_the_list_of_dependencies_is_that_of_the_package() -> None:
    text = (ROOT / "sbom.cdx.json").read_text("utf-8")
    document = json.loads(text)
    own = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", own["version"])
    listed = {plain(one["name"]): one["version"] for one in document["components"]}
    needed = {plain(re.split(r"[^\w.-]", one)[0]) for one in own["dependencies"]}
    assert needed <= set(listed)
    wanted = pinned("constraints.txt")
    assert {name: version for name, version in listed.items() if wanted.get(name, version) != version} == {}
    assert not re.search(r"://|file:", text)
