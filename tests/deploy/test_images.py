"""The Dockerfile: checked by hadolint, in line with the package and its settings, with a health check that works.

`make check-deploy` (`WINDLASS_DEEP=1`) builds the images and runs them: a server that is not root, with a read-only
root and a volume that belongs to root, and a worker with code of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest

from tests.deploy.image_build import ImageBuilder
from tests.deploy.tools import DEPLOY, ROOT, check, python_program
from tests.support.engine_process import free_port
from tests.support.profiles import IS_DEEP
from tests.support.server_process import ServerProcess, wait_until
from windlass.settings import load

TEXT = (ROOT / "Dockerfile").read_text()
STEPS = re.sub(r"\\\n", " ", TEXT)
HEALTHCHECK = DEPLOY / "docker" / "healthcheck.py"
TOKEN = "token-of-the-test-of-the-images"  # noqa: S105 (only of this test)
LIMIT_S = 60.0


def test_hadolint_accepts_the_dockerfile() -> None:
    assert check(python_program("hadolint"), "--strict-labels", ROOT / "Dockerfile") == ""


def test_files_of_the_build_exist_and_are_not_ignored() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", STEPS, re.M) for word in line.split()[:-1]]
    sources = [word for word in copied if not word.startswith("--")]
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert {source for source in sources if not any(fnmatch(source, f"{name}*") for name in allowed)} == set()


def test_the_package_has_the_extras_that_the_server_installs() -> None:
    [extras] = re.findall(r"'\.\[([\w,-]+)\]'", STEPS)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= declared.keys()


def test_variables_of_the_images_are_settings(tmp_path: Path) -> None:
    given = dict(re.findall(r"(WINDLASS_\w+)=(\S+)", STEPS))
    _, origins = load(environment=given, directory=tmp_path)
    assert {origin.source for origin in origins} - {"default"} == given.keys()


def _health(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return subprocess.run(
        [sys.executable, HEALTHCHECK], check=False, capture_output=True, text=True, env=environment | variables
    )


def test_the_health_check_follows_the_settings_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(["--data-dir", str(tmp_path)]) as server:
        port = str(server.address[1])
        assert _health(WINDLASS_PORT=port, WINDLASS_HOST="0.0.0.0").returncode == 0  # noqa: S104 (as in the image)
        without_api = {"WINDLASS_ROLES": "notifier", "WINDLASS_HEALTH_PORT": port}
        assert _health(**without_api).returncode == 0
    assert "refused" in _health(WINDLASS_PORT=port).stderr
    assert _health(WINDLASS_PORT=port).returncode == 1
    assert "WINDLASS_HEALTH_PORT" in _health(WINDLASS_ROLES="notifier").stderr


def test_the_health_check_speaks_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ("-subj", "/CN=windlass.example.org", "-days", "1")
    check("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", key, "-out", certificate)
    tls = {"tls_certificate": str(certificate), "tls_key": str(key)}
    with ServerProcess(["--data-dir", str(tmp_path / "data")], **tls) as server:
        variables = {"WINDLASS_PORT": str(server.address[1]), "WINDLASS_TLS_CERTIFICATE": str(certificate)}
        assert _health(**variables).returncode == 0


if IS_DEEP:
    TASKS = """
from windlass import Windlass

app = Windlass()


@app.task
def add(a: int, b: int) -> int:
    return a + b
"""

    @pytest.fixture(scope="module")
    def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageBuilder]:
        builder = ImageBuilder(tmp_path_factory.mktemp("images"))
        builder.make_base()
        try:
            for target in ("worker", "server"):
                builder.build(f"windlass-{target}", ROOT, f"--target={target}")
            yield builder
        finally:
            builder.close()

    def test_the_server_image_checks_its_health_and_is_not_root(images: ImageBuilder) -> None:
        configuration = images.configuration("windlass-server")
        assert configuration["User"] == "10001:10001"
        assert configuration["Healthcheck"]["Test"] == ["CMD", "windlass-healthcheck"]
        assert configuration["Volumes"].keys() == {"/var/lib/windlass"}

    def test_a_server_and_a_worker_of_the_images_run_a_job(images: ImageBuilder, tmp_path: Path) -> None:
        """The volume belongs to root and to the group of the server, as a volume of Kubernetes does."""
        volume = tmp_path / "volume"
        volume.mkdir()
        os.chown(volume, 0, 10001)
        volume.chmod(0o2775)
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "tasks.py").write_text(TASKS)
        (tmp_path / "code" / "Dockerfile").write_text("FROM windlass-worker\nCOPY tasks.py .\n")
        images.build("shop-worker", tmp_path / "code")
        port = str(free_port())
        settings = {"WINDLASS_HOST": "127.0.0.1", "WINDLASS_PORT": port, "WINDLASS_BEDROCK_PORT": "off"}
        settings |= {"WINDLASS_TOKEN": TOKEN}
        place = (volume, "/var/lib/windlass")
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {TOKEN}"})

        server = images.start("windlass-server", environment=settings, volume=place)
        try:
            wait_until(lambda: _is_ready(client))
            call = {"queue": "default", "name": "add", "payload": {"a": 2, "b": 3}, "result_ttl_ms": 600_000}
            job = client.post("/api/v1/jobs", json=call)
            assert job.status_code == 201, job.text
            url = {"WINDLASS_URL": f"http://127.0.0.1:{port}", "WINDLASS_TOKEN": TOKEN}
            worker = images.start("shop-worker", ["worker", "tasks:app", "--burst"], environment=url)
            assert worker.wait(LIMIT_S) == 0
            server.send_signal(signal.SIGTERM)
            assert server.wait(LIMIT_S) == 0
        finally:
            server.kill()

        server = images.start("windlass-server", environment=settings, volume=place)
        try:
            wait_until(lambda: _is_ready(client))
            found = client.get(f"/api/v1/jobs/{job.json()['id']}/result").json()
            assert (found["state"], found["result"]) == ("finished", 5)
        finally:
            server.kill()

    def _is_ready(client: httpx.Client) -> bool:
        try:
            return client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False
