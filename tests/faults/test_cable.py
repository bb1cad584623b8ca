"""The cable to a network namespace: its faults happen to real connections, and nothing of it is left afterwards.

Where no cable can be created, the run shows the reason and the remedy."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection, socket

import pytest

from faults import cable
from faults.cable import Cable
from faults.injection import FAULTS

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60.0
ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        while data := client.recv(1000):
            client.sendall(data)
"""


def _is_unavailable() -> bool:
    """Return whether no cable can be created. Then the reason must name a remedy."""
    reason = cable.unavailable_reason()
    assert not reason or (cable.SKIPPED in reason and ("Run this" in reason or "Install" in reason))
    return bool(reason)


@contextlib.contextmanager
def _new_cable() -> Iterator[Cable]:
    new = Cable()
    try:
        new.create()
        yield new
    finally:
        new.remove()


@contextlib.contextmanager
def _echo_connection(cable: Cable) -> Iterator[socket]:
    """Connect to an echo server at the far end."""
    command = cable.command_inside([sys.executable, "-c", ECHO, cable.far_address])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as echo:
        try:
            assert echo.stdout is not None
            port = int(echo.stdout.readline())
            with create_connection((cable.far_address, port), timeout=LIMIT_S) as connection:
                yield connection
        finally:
            echo.kill()


def _receive(connection: socket, within_s: float) -> bytes:
    connection.settimeout(within_s)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


def _list_devices() -> str:
    commands = (["ip", "-o", "link"], ["ip", "netns"], ["ip", "route", "show", "table", "all"])
    return "".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)


def _reason_after(statement: str, environment: dict[str, str]) -> str:
    program = f"import os; from faults import cable; {statement}; print(cable.unavailable_reason())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_packets_vanish_while_the_cable_is_pulled() -> None:
    if _is_unavailable():
        return
    with _new_cable() as new, _echo_connection(new) as connection:
        connection.sendall(b"before")
        assert _receive(connection, LIMIT_S) == b"before"
        new.pull()
        connection.sendall(b"during")  # sending reports no error
        assert _receive(connection, 0.3) == b""
        new.plug()
        assert _receive(connection, LIMIT_S) == b"during"  # the same connection continues


def test_packets_beyond_the_rate_are_dropped_and_sent_again() -> None:
    if _is_unavailable():
        return
    unsupported = cable.unsupported_faults()
    assert set(unsupported) <= set(FAULTS)
    assert all("Load sch_" in sentence for sentence in unsupported.values())
    if "link-narrow" in unsupported:
        return
    data = b"x" * 60_000
    with _new_cable() as new, _echo_connection(new) as connection:
        new.limit_rate(kbit=4_000)
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        received = 0
        while received < len(data) and (part := _receive(connection, LIMIT_S)):
            received += len(part)
        sender.join()
        assert received == len(data)
        (dropped,) = re.findall(r"tbf .*\n.*dropped (\d+)", _disciplines(new))
        assert int(dropped) > 0
        new.restore()
        assert "tbf" not in _disciplines(new)


def _disciplines(cable: Cable) -> str:
    """Return the queueing disciplines of the far end, with their statistics."""
    command = cable.command_inside(["tc", "-s", "qdisc"])
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_nothing_is_left_after_its_process_is_killed() -> None:
    if _is_unavailable():
        return
    program = "from faults.cable import Cable; c = Cable(); c.create(); print(c.namespace, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        suffix = name[-6:]
        assert name in _list_devices()
        assert f"wlf{suffix}n" in _list_devices()
        process.kill()
    _wait_until_removed(name, f"wlf{suffix}n")


def _wait_until_removed(*names: str) -> None:
    pause = threading.Event()
    for _ in range(600):
        if not any(name in _list_devices() for name in names):
            return
        pause.wait(0.1)
    raise AssertionError(_list_devices())


@pytest.mark.parametrize(
    ("statement", "path", "remedy"),
    [
        ("os.seteuid(65534) if os.geteuid() == 0 else None", os.environ["PATH"], "as root"),
        ("os.geteuid = lambda: 0", "/nowhere", "Install the package iproute2"),
    ],
)
def test_the_reason_names_a_remedy(statement: str, path: str, remedy: str) -> None:
    reason = _reason_after(statement, os.environ | {"PATH": path})
    assert cable.SKIPPED in reason
    assert remedy in reason


def test_a_run_continues_without_a_cable(tmp_path: Path) -> None:
    """A run of only this scenario has no scenario left, which is no failure."""
    command = [sys.executable, "-m", "faults", "--scenario", "namespace", "--seconds", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert cable.SKIPPED in done.stdout
    assert cable.SKIPPED in (tmp_path / "report.json").read_text()
