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
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest

from tests.deploy.addition import TASKS, enqueue_addition, wait_until_ready
from tests.deploy.image_build import ImageBuilder
from tests.deploy.tools import DEPLOY, ROOT, check, python_program
from tests.support.engine_process import free_port
from tests.support.profiles import IS_DEEP
from tests.support.server_process import ServerProcess
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

    @pytest.mark.xdist_group("deploy-images")
    def test_the_server_image_checks_its_health_and_is_not_root(images: ImageBuilder) -> None:
        configuration = images.configuration("windlass-server")
        assert configuration["User"] == "10001:10001"
        assert configuration["Healthcheck"]["Test"] == ["CMD", "windlass-healthcheck"]
        assert configuration["Volumes"].keys() == {"/var/lib/windlass"}

    @pytest.mark.xdist_group("deploy-images")
    def test_a_server_and_a_worker_of_the_images_run_a_job(images: ImageBuilder, tmp_path: Path) -> None:
        """The volume belongs to root and to the group of the server, as a volume of Kubernetes does."""
        place = (_volume_of_root(tmp_path / "volume"), "/var/lib/windlass")
        _build_worker(images, tmp_path / "code")
        url = f"http://127.0.0.1:{free_port()}"
        settings = {"WINDLASS_HOST": "127.0.0.1", "WINDLASS_PORT": url.rpartition(":")[2], "WINDLASS_TOKEN": TOKEN}
        settings |= {"WINDLASS_BEDROCK_PORT": "off"}
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            with images.container("windlass-server", environment=settings, volume=place) as server:
                wait_until_ready(client)
                job_id = enqueue_addition(client)
                engine = {"WINDLASS_URL": url, "WINDLASS_TOKEN": TOKEN}
                with images.container("shop-worker", ["worker", "tasks:app", "--burst"], environment=engine) as worker:
                    assert worker.wait(LIMIT_S) == 0
                server.send_signal(signal.SIGTERM)
                assert server.wait(LIMIT_S) == 0
            with images.container("windlass-server", environment=settings, volume=place):
                wait_until_ready(client)
                assert client.get(f"/api/v1/jobs/{job_id}/result").json()["result"] == 5

    def _volume_of_root(path: Path) -> Path:
        path.mkdir()
        os.chown(path, 0, 10001)
        path.chmod(0o2775)
        return path

    def _build_worker(images: ImageBuilder, context: Path) -> None:
        context.mkdir()
        (context / "tasks.py").write_text(TASKS)
        (context / "Dockerfile").write_text("FROM windlass-worker\nCOPY tasks.py .\n")
        images.build("shop-worker", context)
