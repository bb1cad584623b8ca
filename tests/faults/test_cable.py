"""The cable to a network namespace: what is done to it happens to real connections, and nothing is left of it. Where
none can be laid, that is said, with what to do about it."""

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
from faults.mischief import FAULTS

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60.0
ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        one, _ = server.accept()
        while data := one.recv(1000):
            one.sendall(data)
"""


def _is_refused() -> bool:
    """Where no cable can be laid, why not must have been said instead."""
    said = cable.refusal()
    assert not said or (cable.LEFT_OUT in said and ("Run this" in said or "Install" in said))
    return bool(said)


@contextlib.contextmanager
def _laid() -> Iterator[Cable]:
    one = Cable()
    try:
        one.lay()
        yield one
    finally:
        one.remove()


@contextlib.contextmanager
def _connected(one: Cable) -> Iterator[socket]:
    """With somebody at the far end who repeats what is said."""
    command = one.inside([sys.executable, "-c", ECHO, one.far_address])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as echo:
        try:
            assert echo.stdout is not None
            port = int(echo.stdout.readline())
            with create_connection((one.far_address, port), timeout=LIMIT_S) as connection:
                yield connection
        finally:
            echo.kill()


def _hears(connection: socket, within_s: float) -> bytes:
    connection.settimeout(within_s)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


def _known() -> str:
    commands = (["ip", "-o", "link"], ["ip", "netns"], ["ip", "route", "show", "table", "all"])
    return "".join(subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in commands)


def _refused_to(words: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", f"import os; from faults import cable; {words}; print(cable.refusal())"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_packets_vanish_while_the_cable_is_pulled() -> None:
    if _is_refused():
        return
    with _laid() as one, _connected(one) as connection:
        connection.sendall(b"before")
        assert _hears(connection, LIMIT_S) == b"before"
        one.pull()
        connection.sendall(b"meanwhile")  # nobody says that it cannot be
        assert _hears(connection, 0.3) == b""
        one.plug()
        assert _hears(connection, LIMIT_S) == b"meanwhile"  # the same connection goes on


def test_what_does_not_fit_through_is_dropped_and_sent_again() -> None:
    if _is_refused():
        return
    lacking = cable.lacking()
    assert set(lacking) <= set(FAULTS)
    assert all("Load sch_" in sentence for sentence in lacking.values())
    if "link-narrow" in lacking:
        return
    much = b"x" * 60_000
    with _laid() as one, _connected(one) as connection:
        one.narrow(kbit=4_000)
        saying = threading.Thread(target=connection.sendall, args=(much,))
        saying.start()
        heard = 0
        while heard < len(much) and (data := _hears(connection, LIMIT_S)):
            heard += len(data)
        saying.join()
        assert heard == len(much)
        (dropped,) = re.findall(r"tbf .*\n.*dropped (\d+)", _queues(one))
        assert int(dropped) > 0
        one.mend()
        assert "tbf" not in _queues(one)


def _queues(one: Cable) -> str:
    """Of the far end, with what they have done."""
    return subprocess.run(one.inside(["tc", "-s", "qdisc"]), capture_output=True, text=True, check=True).stdout


def test_nothing_is_left_of_it_even_when_its_process_is_killed() -> None:
    if _is_refused():
        return
    words = "from faults.cable import Cable; c = Cable(); c.lay(); print(c.namespace, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        mark = name[-6:]
        assert name in _known()
        assert f"wlf{mark}n" in _known()
        process.kill()
    _until_gone(name, f"wlf{mark}n")


def _until_gone(*names: str) -> None:
    waited = threading.Event()
    for _ in range(600):
        if not any(name in _known() for name in names):
            return
        waited.wait(0.1)
    raise AssertionError(_known())


@pytest.mark.parametrize(
    ("words", "path", "says"),
    [
        ("os.seteuid(65534) if os.geteuid() == 0 else None", os.environ["PATH"], "as root"),
        ("os.geteuid = lambda: 0", "/nowhere", "Install the package iproute2"),
    ],
)
def test_why_it_cannot_be_done_and_what_to_do(words: str, path: str, says: str) -> None:
    said = _refused_to(words, os.environ | {"PATH": path})
    assert cable.LEFT_OUT in said
    assert says in said


def test_a_run_goes_on_without_it(tmp_path: Path) -> None:
    """Another scenario of the same run is not this test's business: none is left, and that is no failure."""
    words = [sys.executable, "-m", "faults", "--scenario", "namespace", "--seconds", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | {"PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert cable.LEFT_OUT in done.stdout
    assert cable.LEFT_OUT in (tmp_path / "report.json").read_text()
