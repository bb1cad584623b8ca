"""Targets on loopback: allowed by default only while no token exists, in every process that sends requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest

from tests.background.receiver import Receiver
from windlass.core.access.tokens import NewToken, Role
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.job import Callback, NewJob
from windlass.core.operations import Finish, Take
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SETTING = "WINDLASS_ALLOW_PRIVATE_ADDRESSES"
STATIC = "a-token-from-the-settings"
WAIT_S = 20.0


def settings(**more: Any) -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api,notifier", **more)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().open() as receiver:
        yield receiver


async def create_token(service: Service) -> str:
    return (await service.create_token(NewToken(name="first", roles=frozenset({Role.ADMIN})))).text


async def end_job(service: Service, url: str) -> bytes:
    """Finish a job with a callback to this URL."""
    await service.enqueue([NewJob(queue="q", name="n", callback=Callback(url=url))])
    [job] = (await service.take(Take(queues=("q",)))).jobs
    await service.finish([Finish(job.id, job.lease_token, None)]).one()
    return job.id


async def failed_callback(service: Service, job_id: bytes) -> PendingCallback:
    found: list[PendingCallback] = []

    async def has_failed() -> bool:
        found[:] = (await service.job_callbacks(job_id)).callbacks
        return bool(found and found[0].error)

    await until(has_failed)
    return found[0]


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await is_so():  # noqa: ASYNC110 (the engine's news, not ours)
            await asyncio.sleep(0.02)


async def received(receiver: Receiver) -> None:
    async with asyncio.timeout(WAIT_S):
        await receiver.got.get()


async def register(server: Server, url: str, token: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    body = msgspec.msgpack.encode({"name": "w", "max_jobs": 1, "url": url})
    async with httpx.AsyncClient(base_url=server.url) as client:
        return await client.post("/lightjq/worker", content=body, headers=headers)


async def test_the_first_token_ends_callbacks_to_this_machine(
    store: Store, service: Service, receiver: Receiver
) -> None:
    """Over a connection that is still open, too."""
    async with open_server(store.clone(), settings()), store:
        await end_job(service, receiver.url)
        await received(receiver)
        await create_token(service)

        async def is_refused() -> bool:
            job = await end_job(service, receiver.url)
            await until(lambda: _is_settled_or_failed(service, job))
            return bool((await service.job_callbacks(job)).callbacks)

        await until(is_refused)  # a process knows of a new token within a second
        count = len(receiver.all)
        pending = await failed_callback(service, await end_job(service, receiver.url))
        assert SETTING in pending.error
        assert "no token exists" in pending.error
        assert len(receiver.all) == count


async def _is_settled_or_failed(service: Service, job_id: bytes) -> bool:
    callbacks = (await service.job_callbacks(job_id)).callbacks
    return not callbacks or bool(callbacks[0].error)


@pytest.mark.parametrize(("allowed", "is_delivered"), [
    ("127.0.0.0/8", True), ("yes", True), ("no", False), ("", False),
])  # fmt: skip
async def test_with_a_token_the_setting_decides(
    store: Store, service: Service, receiver: Receiver, allowed: str, is_delivered: bool
) -> None:
    async with open_server(store.clone(), settings(allow_private_addresses=allowed, token=STATIC)), store:
        job = await end_job(service, receiver.url)
        if is_delivered:
            await received(receiver)
        else:
            assert SETTING in (await failed_callback(service, job)).error
            assert receiver.all == []


async def test_without_tokens_the_setting_decides_too(store: Store, service: Service, receiver: Receiver) -> None:
    async with open_server(store.clone(), settings(allow_private_addresses="no")), store:
        assert SETTING in (await failed_callback(service, await end_job(service, receiver.url))).error
        assert receiver.all == []


async def test_every_server_of_an_engine_notices_the_first_token(store: Store, service: Service) -> None:
    url = "http://127.0.0.1:9/"
    async with open_server(store.clone(), settings()) as one, open_server(store.clone(), settings()) as other, store:
        for server in (one, other):
            assert (await register(server, url)).status_code == 201
        token = await create_token(service)
        for server in (one, other):

            async def is_refused(server: Server = server) -> bool:
                answer = await register(server, url, token)
                return answer.status_code == 400 and SETTING in answer.text

            await until(is_refused)
