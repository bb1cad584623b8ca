"""The Helm chart: its files, the sets of values that the tests use, and the manifests that they give.

The renderer is a Go program, and Go is large. So the rendered manifests are in the repository, with a digest of the
files that they were made from. `make check-deploy` renders them again and compares; `make rendered-chart` writes them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.tools import DEPLOY, ROOT, check

CHART = DEPLOY / "helm" / "windlass"
HERE = Path(__file__).parent
RENDERER = HERE / "render"
RENDERED = HERE / "rendered"
DIGEST = RENDERED / "digest.txt"
VALUES: dict[str, list[Path]] = {"default": []} | {path.stem: [path] for path in sorted((HERE / "values").iterdir())}
RELEASES = {"default": ("windlass", "default")}  # name and namespace; others: shop, jobs
CUSTOM = ("keda.sh/", "monitoring.coreos.com/")  # groups of kinds that Kubernetes itself does not have


def manifests(name: str) -> list[dict[str, Any]]:
    """Return the resources that the chart gives with a set of values."""
    documents = yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text())
    return [document for document in documents if document]


def of_kind(name: str, kind: str) -> list[dict[str, Any]]:
    return [document for document in manifests(name) if document["kind"] == kind]


def digest_of_sources() -> str:
    """Return a digest of all files that the rendered manifests depend on."""
    found = hashlib.sha256()
    paths = [path for folder in (CHART, RENDERER, HERE / "values") for path in folder.rglob("*") if path.is_file()]
    for path in sorted(paths):
        found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()


def build_renderer(directory: Path) -> Path:
    """Compile the renderer with the Go packages of Debian, which are not modules."""
    program = directory / "render"
    environment = os.environ | {
        "GO111MODULE": "off",
        "GOPATH": "/usr/share/gocode",
        "GOCACHE": str(directory / "cache"),
    }
    subprocess.run(["go", "build", "-o", program, "."], cwd=RENDERER, env=environment, check=True)
    return program


def render(renderer: Path, name: str) -> str:
    return check(renderer, CHART, *RELEASES.get(name, ("shop", "jobs")), *VALUES[name])


def main() -> None:
    """Write the rendered manifests and their digest."""
    with tempfile.TemporaryDirectory() as directory:
        renderer = build_renderer(Path(directory))
        for name in VALUES:
            (RENDERED / f"{name}.yaml").write_text(render(renderer, name))
    DIGEST.write_text(f"{digest_of_sources()}\n")


if __name__ == "__main__":
    sys.exit(main())
