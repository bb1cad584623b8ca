"""compose.yaml: valid for the schema of the Compose specification, and right for a real engine, server and worker."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.tools import ROOT, check, python_program
from tests.support.engine_process import EngineProcess
from tests.support.server_process import ServerProcess, environment
from windlass.settings import load

FILE = ROOT / "compose.yaml"
CONTENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, Any] = CONTENT["services"]
TOKEN = "token-of-the-test-of-compose"  # noqa: S105 (only of this test)
LIMIT_S = 60.0


def test_the_specification_accepts_the_file() -> None:
    check(python_program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", FILE)


def test_names_and_files_lead_somewhere() -> None:
    for service in SERVICES.values():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys()
        volumes = [text.partition(":")[0] for text in service.get("volumes", [])]
        assert {name for name in volumes if not name.startswith(".")} <= CONTENT["volumes"].keys()
        assert {name for name in volumes if name.startswith(".") and not (ROOT / name).exists()} == set()
        assert {entry["source"] for entry in service.get("configs", [])} <= CONTENT["configs"].keys()
        assert set(service.get("secrets", [])) <= CONTENT["secrets"].keys()
    assert {entry["file"] for entry in CONTENT["configs"].values() if not (ROOT / entry["file"]).is_file()} == set()
    targets = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert targets <= set(re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.M))


def test_images_of_others_have_versions_and_no_port_is_public() -> None:
    for service in SERVICES.values():
        assert "build" in service or re.search(r":v?\d", service["image"]), service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_nothing_starts_without_a_token() -> None:
    assert SERVICES["server"]["environment"]["WINDLASS_TOKEN"].startswith("${WINDLASS_TOKEN:?")
    assert "ALLOW_ANONYMOUS" not in FILE.read_text()


def test_variables_are_settings(tmp_path: Path) -> None:
    for name in ("server", "worker"):
        given = SERVICES[name]["environment"] | {"WINDLASS_TOKEN": TOKEN}
        _, origins = load(environment=given, directory=tmp_path)
        assert {origin.source for origin in origins} - {"default"} == given.keys()


def test_engine_server_and_worker_run_a_job() -> None:
    """The commands of the file, without containers: on ports of this test."""
    program, *options = shlex.split(SERVICES["engine"]["command"])
    assert program == "valkey-server"
    with (
        EngineProcess("valkey", tcp=True, config=options) as engine,
        ServerProcess(["--url", engine.url], token=TOKEN) as server,
        httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}) as client,
    ):
        assert "every reply is sent after its fsync" in server.output
        job = {"queue": "default", "name": "greet", "payload": {"name": "compose"}, "result_ttl_ms": 60_000}
        made = client.post("/api/v1/jobs", json=job)
        assert made.status_code == 201
        _run_worker(engine.url)
        assert client.get(f"/api/v1/jobs/{made.json()['id']}/result").json()["result"] == "Hello, compose!"


def _run_worker(url: str) -> None:
    [folder] = [text.split(":")[0] for text in SERVICES["worker"]["volumes"]]
    command = [sys.executable, "-m", "windlass", *SERVICES["worker"]["command"], "--burst"]
    subprocess.run(command, cwd=ROOT / folder, env=environment(url=url), check=True, timeout=LIMIT_S)
