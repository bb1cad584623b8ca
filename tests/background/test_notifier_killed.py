"""Server that is killed while it delivers callbacks: all callbacks arrive, some of them twice with the same body."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.background.receiver import Received, Receiver
from tests.support.server_process import ServerProcess, store_options
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.notifier import LEASE_MS, Notifier
from windlass.core.callbacks.signing import verify_signature
from windlass.core.job import Blob, Callback, NewJob
from windlass.core.operations import Finish, Take
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
JOBS, ANSWERED, HELD = 40, 7, 5
KEY = "k" * 32


@contextlib.asynccontextmanager
async def server(store: Store) -> AsyncIterator[ServerProcess]:
    """The receiver is in this event loop: nothing may block it."""
    process = ServerProcess(store_options(store), callback_keys=KEY, callback_host_concurrency=str(HELD))
    await asyncio.to_thread(process.__enter__)
    try:
        yield process
    finally:
        await asyncio.to_thread(process.__exit__, None, None, None)


async def test_a_killed_server_loses_no_callback(service: Service, store: Store) -> None:
    never = asyncio.Event()
    is_dead = False

    async def answer(received: Received) -> web.Response:
        """The first callbacks are answered. The server gets no answer to the others, and is killed."""
        if not is_dead and len(receiver.all) > ANSWERED:
            await never.wait()
        return web.Response(status=200)

    async with store, Receiver(answer).open() as receiver, asyncio.timeout(60):
        callback = Callback(url=receiver.url)
        await service.enqueue([NewJob(queue="q", name=str(at), callback=callback) for at in range(JOBS)])
        jobs = (await service.take(Take(queues=("q",), most=JOBS))).jobs
        await service.finish([Finish(job.id, job.lease_token, Blob(b"[1, 2]")) for job in jobs])
        async with server(store) as first:
            for _ in range(ANSWERED + HELD):
                await receiver.got.get()
            first.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(first.process.wait)
        is_dead = True
        never.set()
        store.clock_offset_ms += LEASE_MS  # those that it was delivering are due again
        async with Outbound(parse_policy("", is_local=True)) as outbound:
            notifier = Notifier({"http": HttpBackend(outbound, (KEY,))})
            while (await service.callbacks(most=1)).callbacks:
                await notifier.deliver_once(service)
    times = Counter(received.id for received in receiver.all)
    assert len(times) == JOBS
    assert {received.decoded["job"]["name"] for received in receiver.all} == {str(at) for at in range(JOBS)}
    # Those that were held, and at most as many that were answered but not settled when the end came.
    assert HELD <= sum(count == 2 for count in times.values()) <= HELD + ANSWERED
    assert max(times.values()) == 2
    bodies = {received.id: received.body for received in receiver.all}
    for received in receiver.all:
        assert received.body == bodies[received.id]
        assert verify_signature((KEY,), received.headers["windlass-signature"], received.id, received.body)
