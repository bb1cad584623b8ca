"""kill -9 of the engine during enqueues and finishes, in many rounds: every acknowledged operation survives."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.answer_log import AnswerLog, check_invariants, drain, produce, work
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

ROUNDS = 15
EMBEDDED_ROUNDS = 5  # the supervisor's pauses grow with each crash
PRODUCERS, WORKERS = 4, 4
PATIENCE_S = 60.0  # of a caller that finds the engine away at every try


@pytest.fixture(scope="module", params=["valkey", "redis"])
def durable_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--appendonly", "yes", "--appendfsync", "always")) as process:
        yield process


async def run_through_kills(store: Store, kill: Callable[[], None], rounds: int = ROUNDS) -> None:
    service, log = Service(store), AnswerLog()
    async with store:
        tasks = [asyncio.create_task(produce(service, log)) for _ in range(PRODUCERS)]
        tasks += [asyncio.create_task(work(service, log)) for _ in range(WORKERS)]
        for _ in range(rounds):
            await _wait_for_progress(log, tasks)
            await asyncio.sleep(random.uniform(0.02, 0.15))
            await asyncio.to_thread(kill)
        await asyncio.sleep(0.05)
        log.is_over = True
        await asyncio.gather(*tasks)
        check_invariants(store)
        await drain(service, log)
        check_invariants(store)
    log.check(at_least=rounds * 5)


async def _wait_for_progress(log: AnswerLog, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until a job is accepted: on a busy machine the engine could be killed again before a client connects."""
    accepted = len(log.accepted)
    while len(log.accepted) == accepted and not any(task.done() for task in tasks):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@pytest.mark.anyio
async def test_acknowledged_operations_survive(durable_engine: EngineProcess) -> None:
    def kill() -> None:
        durable_engine.kill()
        durable_engine.repair_files()
        durable_engine.start()

    await run_through_kills(make_store(durable_engine, patience_s=PATIENCE_S), kill)


@pytest.mark.anyio
async def test_the_embedded_engine_is_restarted() -> None:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        engine = EmbeddedEngine(Path(directory))

        def kill() -> None:
            pid = json.loads((Path(directory) / "engine.json").read_text())["engine_pid"]
            os.kill(pid, signal.SIGKILL)
            engine.ensure()

        await run_through_kills(Store(parse_url(engine.url), engine=engine, is_test=True), kill, EMBEDDED_ROUNDS)
