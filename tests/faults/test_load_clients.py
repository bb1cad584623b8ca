"""Each kind of client, side by side on one server: they get on, and their histories have no finding."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from faults.history import Recorder, read_history
from faults.judging import judge, read_final
from faults.load.by_forms import serving_files
from faults.load.draining import drain
from faults.load.kinds import KINDS
from faults.load.life import Life
from faults.load.options import Options
from faults.load.receiving import receiving
from faults.load.scene import LIMITED, ORDERED, PLAIN, TICKING, prepare, quieten
from faults.load.wishes import Menu
from faults.load.working import ROUGH, Conduct
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ENOUGH = 2  # of the calls that tell
SPARED = ("downloads",)
# Which calls of each client must have been answered, or begun where nobody answers.
TELLING: dict[str, tuple[str, ...]] = {
    "producer-sdk": ("enqueue ok",),
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
    "canceller": ("enqueue ok", "cancel begun"),
    "scheduler-watch": ("fire ok",),
    "receiver": ("callback ok",),
}


class Cast:
    """The clients of a run: each until it has told enough, and all until the last has."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.lives: dict[str, Life] = {}

    def life(self, name: str) -> Life:
        self.lives[name] = Life(Recorder(self._directory / f"{name}.jsonl", name), 1, 600.0)
        return self.lives[name]

    @property
    def histories(self) -> list[Path]:
        return sorted(self._directory.glob("*.jsonl"))

    def missing(self) -> list[str]:
        told = Counter(f"{one.client} {one.call} {one.phase}" for one in read_history(self.histories))
        return [
            f"{name} {what}" for name, calls in TELLING.items() for what in calls if told[f"{name} {what}"] < ENOUGH
        ]

    def end(self) -> None:
        for life in self.lives.values():
            life.end()


@contextlib.asynccontextmanager
async def served(store: Store, tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        port=0, bedrock_port=0, download_dir=str(tmp_path / "files"), callback_retry_delay_ms=50
    )  # fmt: skip
    async with open_server(store, settings) as running:
        yield running


async def test_every_client_gets_on(store: Store, tmp_path: Path) -> None:
    (tmp_path / "histories").mkdir()
    cast = Cast(tmp_path / "histories")
    async with served(store, tmp_path) as running, receiving(cast.life("receiver")) as url, serving_files() as origin:
        promises = await prepare(running.service)
        clients = [
            asyncio.create_task(KINDS[name](cast.life(name), _options(name, store, running, url, origin)))
            for name in TELLING
            if name != "receiver"
        ]
        await _until_all_have_told(cast, clients)
        cast.end()
        await asyncio.gather(*clients)
        await quieten(running.service)
        assert await drain(cast.life("drain"), running.service, spared=SPARED, limit_s=120.0)
        await _until_all_are_delivered(running.service)
        findings = judge(cast.histories, await read_final(running.service), promises)
    assert not findings, "\n".join(map(str, findings))


async def _until_all_have_told(cast: Cast, clients: list[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(120):
        while missing := cast.missing():
            ended = [client for client in clients if client.done()]
            assert not ended, f"{ended} before {missing}"
            await asyncio.sleep(0.2)


async def _until_all_are_delivered(service: Service) -> None:
    while True:
        if not (await service.callbacks(most=1)).callbacks:
            return
        await asyncio.sleep(0.05)


def _options(name: str, store: Store, running: Server, callback: str, origin: str) -> Options:
    is_worker, queues = name.startswith("worker"), (PLAIN, LIMITED)
    if name in ("worker-sdk", "producer-sdk"):
        queues = (PLAIN, LIMITED, ORDERED, "job_queue_faults") if is_worker else (PLAIN, LIMITED, ORDERED)
    manners = tuple(one for one in ROUGH if one not in ("sleep", "abandon", "release"))
    return Options(
        kind=name, url=str(store.endpoint), namespace=store.namespace, http=running.url, bedrock=running.bedrock,
        history=Path(), client=name, menu=Menu(queues=queues, callback=callback, most=2), origin=origin,
        conduct=Conduct(queues=(*queues, TICKING) if name == "worker-app" else queues, manners=manners),
        pause_s=0.1,
    )  # fmt: skip
