"""An engine or a server that cannot be reached: reported within seconds, with what to check."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

WITHIN_S = 3.0
BUSY_S = 17.0  # more, on a busy machine; programs wait 30 seconds


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://127.0.0.1:1/0", "Cannot reach the engine at redis://127.0.0.1:1/0: Connection refused."),
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", "Cannot reach the engine"),
        ("http://127.0.0.1:1", "Cannot reach the server at http://127.0.0.1:1: Connection refused."),
    ],
)
@pytest.mark.parametrize("command", [["queues", "ls"], ["enqueue", "mail", "send"]])
def test_it_is_reported_soon_and_says_what_to_check(url: str, words: str, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    started_s = time.monotonic()
    arguments = [sys.executable, "-m", "windlass", *command, "--url", url]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert time.monotonic() - started_s < WITHIN_S + BUSY_S
    assert (done.returncode, done.stdout) == (75, "")
    assert words in done.stderr
    assert "Check the address and the port" in done.stderr
    assert ("windlass serve" in done.stderr) == url.startswith("http")


def test_a_missing_socket_of_an_engine(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    arguments = [sys.executable, "-m", "windlass", "queues", "ls", "--url", f"unix://{tmp_path}/none.sock"]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (75, "")
    assert "No such file or directory" in done.stderr
