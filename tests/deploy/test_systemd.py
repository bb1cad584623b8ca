"""Units of systemd, checked by systemd's own tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, check
from windlass.cli.commands.worker import worker
from windlass.settings import load

UNITS = {
    "windlass-server.service": "windlass-server.service",
    "windlass-worker@.service": "windlass-worker@shop.service",
}
EXPOSURE_MAX = 25  # tenths of the points of `systemd-analyze security`; 10 points are an open service
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


def test_a_mistake_in_a_unit_is_found(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=mixd"))
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
