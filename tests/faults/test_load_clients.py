"""All kinds of load clients together on one server: each makes progress, and their histories have no finding."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from faults.checks import check_histories, read_final_state
from faults.history import Recorder, read_history
from faults.load.callback_receiver import callback_receiver
from faults.load.client_kinds import CLIENT_KINDS
from faults.load.context import ClientContext
from faults.load.drain import drain
from faults.load.front_ends.downloads import file_server
from faults.load.job_generator import JobMix
from faults.load.options import Options
from faults.load.setup import DURABLE, DURABLE_ENGINE, FLOWS, LIMITED, ORDERED, PLAIN, TICKING, pause_schedules, set_up
from faults.load.worker import MIXED_ACTIONS, WorkerProfile
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ENOUGH = 2  # of each expected call
DRAINING = ("worker-durable", "worker-durable-engine")  # clients that run the jobs of their queues to the end
EXCLUDED_FROM_DRAIN = ("downloads", DURABLE, DURABLE_ENGINE)
# Calls of each client that must have been answered, or begun where there is no answer.
EXPECTED_CALLS: dict[str, tuple[str, ...]] = {
    "producer-sdk": ("enqueue ok",),
    "producer-flows": ("enqueue ok", "observe ok", "requeue ok"),
    "producer-durable": ("enqueue ok", "signal ok", "read ok"),
    "producer-http": ("enqueue ok",),
    "producer-bedrock": ("enqueue ok",),
    "producer-lightjq": ("enqueue ok",),
    "producer-jobber": ("enqueue ok",),
    "producer-downloader": ("enqueue ok",),
    "producer-processor": ("enqueue ok", "run begun", "finish begun"),
    "worker-sdk": ("take ok", "finish ok"),
    "worker-http": ("take ok", "finish ok"),
    "worker-bedrock": ("take ok", "finish ok"),
    "worker-push": ("run begun", "finish ok"),
    "worker-app": ("run ok",),
    "worker-durable": ("run ok", "step ok", "sleep ok", "wait ok"),
    "worker-durable-engine": ("finish ok", "step ok", "suspend ok"),
    "canceller": ("enqueue ok", "cancel begun"),
    "scheduler-watch": ("fire ok",),
    "receiver": ("callback ok",),
}


class Clients:
    """The clients of a run. They run until each has made its expected calls."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.contexts: dict[str, ClientContext] = {}

    def add(self, name: str) -> ClientContext:
        self.contexts[name] = ClientContext(Recorder(self._directory / f"{name}.jsonl", name), 1, 600.0)
        return self.contexts[name]

    @property
    def histories(self) -> list[Path]:
        return sorted(self._directory.glob("*.jsonl"))

    def missing_calls(self) -> list[str]:
        counts = Counter(f"{entry.client} {entry.call} {entry.phase}" for entry in read_history(self.histories))
        expected = [f"{name} {call}" for name, calls in EXPECTED_CALLS.items() for call in calls]
        return [call for call in expected if counts[call] < ENOUGH]

    def end(self, *, all_but: Collection[str] = ()) -> None:
        for name, context in self.contexts.items():
            if name not in all_but:
                context.end()


@contextlib.asynccontextmanager
async def open_test_server(store: Store, tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        port=0, bedrock_port=0, download_dir=str(tmp_path / "files"), callback_retry_delay_ms=50
    )  # fmt: skip
    async with open_server(store, settings) as server:
        yield server


async def test_every_client_makes_progress(store: Store, tmp_path: Path) -> None:
    (tmp_path / "histories").mkdir()
    clients = Clients(tmp_path / "histories")
    async with (
        open_test_server(store, tmp_path) as server,
        callback_receiver(clients.add("receiver")) as url,
        file_server() as origin,
    ):
        guarantees = await set_up(server.service)
        tasks = [
            asyncio.create_task(CLIENT_KINDS[name](clients.add(name), _options(name, store, server, url, origin)))
            for name in EXPECTED_CALLS
            if name != "receiver"
        ]
        await _wait_for_calls(clients, tasks)
        clients.end(all_but=DRAINING)
        await pause_schedules(server.service)
        assert await drain(clients.add("drain"), server.service, excluded=EXCLUDED_FROM_DRAIN, limit_s=120.0)
        clients.end()
        await asyncio.gather(*tasks)
        await _wait_for_callbacks(server.service)
        findings = check_histories(clients.histories, await read_final_state(server.service), guarantees)
    assert not findings, "\n".join(map(str, findings))


async def _wait_for_calls(clients: Clients, tasks: list[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(120):
        while missing := clients.missing_calls():
            ended = [task for task in tasks if task.done()]
            assert not ended, f"{ended} before {missing}"
            await asyncio.sleep(0.2)


async def _wait_for_callbacks(service: Service) -> None:
    while True:
        if not (await service.callbacks(most=1)).callbacks:
            return
        await asyncio.sleep(0.05)


def _options(name: str, store: Store, server: Server, callback: str, origin: str) -> Options:
    is_worker, queues = name.startswith("worker"), (PLAIN, LIMITED)
    if name in ("worker-sdk", "producer-sdk"):
        queues = (PLAIN, LIMITED, ORDERED, FLOWS, "job_queue_faults") if is_worker else (PLAIN, LIMITED, ORDERED)
    if name == "producer-flows":
        queues = (FLOWS,)
    actions = tuple(action for action in MIXED_ACTIONS if action not in ("sleep", "abandon", "release"))
    return Options(
        kind=name, url=str(store.endpoint), namespace=store.namespace, http=server.url, bedrock=server.bedrock,
        history=Path(), client=name, mix=JobMix(queues=queues, callback=callback, most=2), origin=origin,
        profile=WorkerProfile(queues=(*queues, TICKING) if name == "worker-app" else queues, actions=actions),
        pause_s=0.1,
    )  # fmt: skip
