"""Server that is killed while it opens an incident: the message arrives, under one id, and no second one follows."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.background.receiver import Received, Receiver
from tests.support.server_process import ServerProcess, store_options
from windlass.background.alerts.bodies import alert_body
from windlass.background.alerts.evaluator import CLAIM_MS, AlertEvaluator
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.notifier import LEASE_MS, Notifier
from windlass.core.alerts.message import ALERT_QUEUE
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.targets import WEBHOOK
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@contextlib.asynccontextmanager
async def server(store: Store) -> AsyncIterator[ServerProcess]:
    """The receiver is in this event loop: nothing may block it."""
    process = ServerProcess(store_options(store))
    await asyncio.to_thread(process.__enter__)
    try:
        yield process
    finally:
        await asyncio.to_thread(process.__exit__, None, None, None)


async def deliver_all(service: Service) -> None:
    async with Outbound(parse_policy("", is_local=True)) as outbound:
        notifier = Notifier({WEBHOOK: HttpBackend(outbound)}, bodies={ALERT_QUEUE: alert_body})
        while (await service.callbacks(most=1)).callbacks:
            await notifier.deliver_once(service)


async def test_a_killed_server_neither_loses_nor_doubles_a_message(service: Service, store: Store) -> None:
    never = asyncio.Event()
    is_dead = False

    async def answer(received: Received) -> web.Response:
        if not is_dead:
            await never.wait()
        return web.Response(status=200)

    async with store, Receiver(answer).open() as receiver, asyncio.timeout(60):
        await service.set_alert(AlertRule(name="r", kind="no_worker", targets=(receiver.url,)))
        await service.enqueue([NewJob(queue="q", name="n")])
        async with server(store) as first:
            await receiver.got.get()  # the incident is open, and its message is on its way
            first.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(first.process.wait)
        is_dead = True
        never.set()
        store.clock_offset_ms += LEASE_MS  # the message is due again
        assert await AlertEvaluator().run_once(service) == 0
        await deliver_all(service)
        opened = [received for received in receiver.all if received.decoded["event"] == "alert_opened"]
        assert len(opened) == 2
        assert len({received.id for received in opened}) == 1
        assert len({received.body for received in opened}) == 1
        [job] = (await service.take(Take(queues=("q",)))).jobs
        await service.finish([Finish(job.id, job.lease_token)])
        store.clock_offset_ms += CLAIM_MS
        await AlertEvaluator().run_once(service)
        await deliver_all(service)
    assert [received.decoded["event"] for received in receiver.all[2:]] == ["alert_over"]


async def test_a_process_that_dies_between_its_claim_and_its_move_loses_nothing(service: Service, store: Store) -> None:
    async with store:
        await service.set_alert(AlertRule(name="r", kind="no_worker", targets=("https://a.example.com",)))
        await service.enqueue([NewJob(queue="q", name="n")])
        claimed = await service.claim_alerts(interval_ms=CLAIM_MS)
        assert len(claimed.rules) == 1
        assert await AlertEvaluator().run_once(service) == 0, "the dead process has claimed this interval"
        store.clock_offset_ms += CLAIM_MS
        assert await AlertEvaluator().run_once(service) == 1
        assert len((await service.callbacks()).callbacks) == 1
