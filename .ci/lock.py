"""Write the lock file of the development set with hashes, and the list of dependencies of a release (CycloneDX).

    python .ci/lock.py

Both come from one resolve by pip under constraints.txt on Python 3.11, Linux x86-64: requirements.lock for
`pip install --require-hashes -r requirements.lock`, and sbom.cdx.json, which the wheel carries in its metadata folder.
Neither holds the address of an index.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK, LIST = ROOT / "requirements.lock", ROOT / "sbom.cdx.json"
EXTRAS = "test,dev,mjcf,bags,hdf5,zstd,docs"
# What a user installs: the wheel with every extra that reads files.
USED = "mjcf,bags,hdf5,zstd"


def resolved(extras: str) -> list[dict[str, Any]]:
    """Packages that pip would install, in the order of their names, with metadata and hash."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report",
             str(report), "-c", str(ROOT / "constraints.txt"), f"{ROOT}[{extras}]"],
            check=True,
        )  # fmt: skip
        found = json.loads(report.read_text("utf-8"))["install"]
    return sorted(
        (one for one in found if one["metadata"]["name"] != "steelyard"),
        key=lambda one: one["metadata"]["name"].lower(),
    )


def sha256(one: dict[str, Any]) -> str:
    return one["download_info"]["archive_info"]["hashes"]["sha256"]


def lock(packages: list[dict[str, Any]]) -> str:
    lines = ["# Written by .ci/lock.py: the development set on Python 3.11, Linux x86-64, with the hash of each wheel."]
    for one in packages:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        lines += [f"{name}=={version} \\", f"    --hash=sha256:{sha256(one)}"]
    return "\n".join(lines) + "\n"


def component(one: dict[str, Any]) -> dict[str, Any]:
    data = one["metadata"]
    name, version = data["name"], data["version"]
    licence = data.get("license_expression") or (data.get("license") or "").strip().partition("\n")[0][:100]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": sha256(one)}],
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
    }


def listed(packages: list[dict[str, Any]]) -> str:
    own = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own_purl = f"pkg:pypi/{own['name']}@{own['version']}"
    components = [component(one) for one in packages]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": own_purl, "name": own["name"], "version": own["version"],
                "purl": own_purl, "licenses": [{"expression": own["license"]}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own_purl, "dependsOn": [one["bom-ref"] for one in components]}],
    }  # fmt: skip
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    LOCK.write_text(lock(resolved(EXTRAS)), "utf-8")
    LIST.write_text(listed(resolved(USED)), "utf-8")
