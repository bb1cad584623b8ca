"""A client reports its number of tasks on a signal, and a client that leaks tasks is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faults.load.task_count import request_task_count
from faults.soak.run import measure_growth

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60.0
# It leaks as many tasks as each line of its input says.
CLIENT = """
import asyncio, sys
from pathlib import Path
from faults.load.task_count import write_count_on_signal

async def run():
    write_count_on_signal(Path(sys.argv[1]))
    leaked = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        leaked += [asyncio.create_task(asyncio.Event().wait()) for _ in range(int(line))]
        print("done", flush=True)

asyncio.run(run())
"""


def _counts(history: Path, leak: int) -> list[int | None]:
    command = [sys.executable, "-c", CLIENT, str(history)]
    counts = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for _ in range(20):
            client.stdin.write(f"{leak}\n")
            client.stdin.flush()
            client.stdout.readline()
            counts.append(request_task_count(client.pid, history, PATIENCE_S))
    return counts


@pytest.mark.parametrize(("leak", "is_found"), [(3, True), (0, False)])
def test_a_client_that_leaks_tasks_is_found(tmp_path: Path, leak: int, is_found: bool) -> None:
    counts = _counts(tmp_path / "worker.jsonl", leak)
    samples = [{("worker", "tasks"): float(count)} for count in counts if count is not None]
    assert len(samples) == len(counts)
    assert [growth.is_too_much for growth in measure_growth(samples)] == [is_found]


def test_an_ended_client_has_no_task_count(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as client:
        client.wait()
        assert request_task_count(client.pid, tmp_path / "worker.jsonl", 0.0) is None
