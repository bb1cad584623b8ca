"""windlass serve as a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.server import build_store
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.embedded.memory_bound import default_memory_max, describe_memory_bound

WINDLASS = [sys.executable, "-m", "windlass"]


@pytest.fixture
def data_dir() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="wl-", ignore_cleanup_errors=True) as directory:
        yield directory


def start(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    environment |= {"WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"} | settings
    return subprocess.Popen(
        [*WINDLASS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"{words!r} not in {seen!r}; stderr: {process.stderr.read() if process.stderr else ''}")


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_prints_the_engine_and_stops_cleanly(data_dir: str, number: int) -> None:
    process = start("serve", "--data-dir", data_dir)
    seen = read_until(process, "Stop with")
    assert data_dir in seen
    assert f"  memory      {describe_memory_bound(default_memory_max())}\n" in seen
    assert "fsync" in seen
    assert end(process, number)[0] == 0


def test_says_that_a_service_makes_writes_durable() -> None:
    with EngineProcess("valkey") as engine:
        process = start("serve", "--url", engine.unix_url, WINDLASS_ENGINE_DURABILITY="managed")
        seen = read_until(process, "Stop with")
        code, errors = end(process, signal.SIGTERM)
    assert "  durability  managed by the engine's service (WINDLASS_ENGINE_DURABILITY)\n" in seen
    assert code == 0
    assert "append-only" not in errors, "no warning of lost jobs"


def test_an_enqueued_job_survives_the_server(data_dir: str) -> None:
    process = start("serve", "--data-dir", data_dir)
    read_until(process, "Stop with")
    service = Service(build_store(Settings(data_dir=data_dir)))
    service.enqueue([NewJob(queue="q", name="n")]).one().wait()
    service.store.close_sync()
    assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
    again = Service(build_store(Settings(data_dir=data_dir)))
    assert len(again.take(Take(queues=("q",))).wait().jobs) == 1
    again.store.close_sync()


def test_the_background_loops_promote_and_recover_jobs(data_dir: str) -> None:
    process = start("serve", "--data-dir", data_dir)
    read_until(process, "Stop with")
    service = Service(build_store(Settings(data_dir=data_dir)))
    service.enqueue([NewJob(queue="q", name="n", delay_ms=150, lease_ms=150, timeout_ms=0)]).one().wait()
    first = service.take(Take(queues=("q",), wait_ms=10_000)).wait().jobs[0]
    assert first.attempt == 1
    again = service.take(Take(queues=("q",), wait_ms=10_000)).wait().jobs[0]
    assert (again.id, again.attempt) == (first.id, 2)
    service.store.close_sync()
    assert end(process, signal.SIGTERM)[0] == 0


def test_a_missing_engine_exits_with_75() -> None:
    with EngineProcess("valkey", tcp=True) as engine:
        url = engine.url
    done = subprocess.run(
        [*WINDLASS, "serve", "--url", url],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "WINDLASS_PATIENCE": "1s", "WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"},
        check=False,
    )
    assert done.returncode == 75
    assert "Traceback" not in done.stderr
    assert "Check that it runs" in done.stderr


def test_a_wrong_url_is_a_usage_error() -> None:
    ports = ["--port", "0", "--bedrock-port", "0"]
    done = subprocess.run(
        [*WINDLASS, "serve", "--url", "http://x", *ports], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "redis://" in done.stderr
