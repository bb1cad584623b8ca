"""kill -9 of the engine in the middle of enqueues and finishes, many rounds: what was acknowledged is there."""

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

from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from tests.support.answer_log import Witness, check_invariants, drain, produce, work
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

ROUNDS = 15
EMBEDDED_ROUNDS = 5  # the supervisor's pauses grow when an engine keeps dying
PRODUCERS, WORKERS = 4, 4
PATIENCE_S = 60.0  # of a caller that finds the engine away each time it looks


@pytest.fixture(scope="module", params=["valkey", "redis"])
def durable_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--appendonly", "yes", "--appendfsync", "always")) as process:
        yield process


async def live_through(store: Store, kill: Callable[[], None], rounds: int = ROUNDS) -> None:
    service, witness = Service(store), Witness()
    async with store:
        tasks = [asyncio.create_task(produce(service, witness)) for _ in range(PRODUCERS)]
        tasks += [asyncio.create_task(work(service, witness)) for _ in range(WORKERS)]
        for _ in range(rounds):
            await _progress(witness, tasks)
            await asyncio.sleep(random.uniform(0.02, 0.15))
            await asyncio.to_thread(kill)
        await asyncio.sleep(0.05)
        witness.is_over = True
        await asyncio.gather(*tasks)
        check_invariants(store)
        await drain(service, witness)
        check_invariants(store)
    witness.judge(at_least=rounds * 5)


async def _progress(witness: Witness, tasks: Sequence[asyncio.Task[None]]) -> None:
    """On a busy machine an engine could be killed again before anybody had found it."""
    accepted = len(witness.accepted)
    while len(witness.accepted) == accepted and not any(task.done() for task in tasks):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@pytest.mark.anyio
async def test_acknowledged_operations_survive(durable_engine: EngineProcess) -> None:
    def kill() -> None:
        durable_engine.kill()
        durable_engine.mend()
        durable_engine.start()

    await live_through(make_store(durable_engine, patience_s=PATIENCE_S), kill)


@pytest.mark.anyio
async def test_the_embedded_engine_comes_back_by_itself() -> None:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        engine = EmbeddedEngine(Path(directory))

        def kill() -> None:
            pid = json.loads((Path(directory) / "engine.json").read_text())["engine_pid"]
            os.kill(pid, signal.SIGKILL)
            engine.ensure()

        await live_through(Store(parse_url(engine.url), engine=engine, is_test=True), kill, EMBEDDED_ROUNDS)
