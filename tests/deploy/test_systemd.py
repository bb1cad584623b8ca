"""Units of systemd, checked by systemd's own tools.

`make check-deploy` (`WINDLASS_DEEP=1`) boots a system in a container and runs the units there, with all their
restrictions.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.deploy.addition import TASKS, enqueue_addition, wait_until_ready
from tests.deploy.booted import booted, install_units
from tests.deploy.image_build import ImageBuilder
from tests.deploy.tools import DEPLOY, check
from tests.support.engine_process import free_port
from tests.support.profiles import IS_DEEP
from windlass.cli.commands.worker import worker
from windlass.settings import load

UNITS = {
    "windlass-server.service": "windlass-server.service",
    "windlass-worker@.service": "windlass-worker@shop.service",
    "windlass-backup.service": "windlass-backup.service",
}
EXPOSURE_MAX = 25  # tenths of the points of `systemd-analyze security`; 10 points are an open service
TOKEN = "token-of-the-test-of-the-units"  # noqa: S105 (only of this test)
PROGRAM = re.compile(r"^ExecStart=(\S+)", re.M)


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit under the name of an instance, with a program that exists here."""
    text = (DEPLOY / "systemd" / request.param).read_text()
    path = tmp_path / UNITS[request.param]
    path.write_text(PROGRAM.sub("ExecStart=/bin/true", text))
    return path


def test_systemd_accepts_the_unit(unit: Path) -> None:
    assert check("systemd-analyze", "verify", "--man=no", unit) == ""


def test_systemd_accepts_the_timer(tmp_path: Path) -> None:
    (tmp_path / "windlass-backup.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    timer = tmp_path / "windlass-backup.timer"
    timer.write_text((DEPLOY / "systemd" / timer.name).read_text())
    assert check("systemd-analyze", "verify", "--man=no", timer) == ""


def test_a_mistake_in_a_unit_is_found(unit: Path) -> None:
    unit.write_text(re.sub(r"^KillMode=\w+$", "KillMode=mixd", unit.read_text(), flags=re.M))
    assert "mixd" in check("systemd-analyze", "verify", "--man=no", unit)


def test_the_unit_exposes_little(unit: Path) -> None:
    check("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", unit)


def test_systemd_creates_the_user_of_the_units(unit: Path) -> None:
    output = check("systemd-sysusers", "--dry-run", DEPLOY / "systemd" / "windlass.sysusers")
    [user] = re.findall(r"^User=(\w+)$", unit.read_text(), re.M)
    assert user in output or check("id", user)


def test_variables_of_the_units_are_settings(unit: Path, tmp_path: Path) -> None:
    given = dict(re.findall(r"^Environment=(WINDLASS_\w+)=(\S+)$", unit.read_text(), re.M))
    _, origins = load(environment=given, directory=tmp_path)
    assert {origin.source for origin in origins} - {"default"} == given.keys()


def test_workers_have_longer_than_their_grace_to_stop() -> None:
    text = (DEPLOY / "systemd" / "windlass-worker@.service").read_text()
    [arguments] = re.findall(r"^ExecStart=\S+/windlass worker (.*) \$WORKER$", text, re.M)
    [example] = re.findall(r'WORKER="([^"]*)"', text)
    [limit_s] = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.M)
    options = worker.make_context("worker", [*arguments.split(), *example.split()]).params
    assert int(limit_s) * 1000 == options["grace"] + 20_000


if IS_DEEP:

    @pytest.mark.xdist_group("deploy-images")
    def test_server_and_worker_run_under_systemd(images: ImageBuilder) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        server = {"WINDLASS_PORT": url.rpartition(":")[2], "WINDLASS_BEDROCK_PORT": "off", "WINDLASS_TOKEN": TOKEN}
        shop = {"WINDLASS_URL": url, "WINDLASS_TOKEN": TOKEN, "WORKER": "tasks:app --processes 2"}
        root = images.root_of("windlass-server")
        install_units(root, server, shop, TASKS)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with booted(root) as system, httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            wait_until_ready(client)
            first = enqueue_addition(client)
            assert client.get(f"/api/v1/jobs/{first}/result?wait_ms=20000").json()["result"] == 5
            system.run("systemctl", "stop", "windlass-worker@shop")
            second = enqueue_addition(client)
            system.run("systemctl", "restart", "windlass-server")  # the embedded engine is killed with it
            wait_until_ready(client)
            system.run("systemctl", "start", "windlass-worker@shop")
            assert client.get(f"/api/v1/jobs/{second}/result?wait_ms=20000").json()["result"] == 5
            assert system.run("systemctl", "list-units", "--failed", "--plain", "--no-legend", "windlass-*") == ""
