"""How many tasks a client has is told when it is asked, and one that forgets tasks is found out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faults.load.telling import asked
from faults.soak import grown_of

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60.0
# For each line it is given it forgets as many tasks as it says.
CLIENT = """
import asyncio, sys
from pathlib import Path
from faults.load.telling import tell_when_asked

async def run():
    tell_when_asked(Path(sys.argv[1]))
    forgotten = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        forgotten += [asyncio.create_task(asyncio.Event().wait()) for _ in range(int(line))]
        print("done", flush=True)

asyncio.run(run())
"""


def _counts(history: Path, leak: int) -> list[int | None]:
    command = [sys.executable, "-c", CLIENT, str(history)]
    found = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for _ in range(20):
            client.stdin.write(f"{leak}\n")
            client.stdin.flush()
            client.stdout.readline()
            found.append(asked(client.pid, history, PATIENCE_S))
    return found


@pytest.mark.parametrize(("leak", "is_found_out"), [(3, True), (0, False)])
def test_a_client_that_forgets_tasks_is_found_out(tmp_path: Path, leak: int, is_found_out: bool) -> None:
    counts = _counts(tmp_path / "worker.jsonl", leak)
    samples = [{("worker", "tasks"): float(count)} for count in counts if count is not None]
    assert len(samples) == len(counts)
    assert [one.is_too_much for one in grown_of(samples)] == [is_found_out]


def test_who_is_gone_tells_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as client:
        client.wait()
        assert asked(client.pid, tmp_path / "worker.jsonl", 0.0) is None
