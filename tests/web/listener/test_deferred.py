"""Tests of deferred replies and of handlers that answer at once: order, ends and failures are as with all others."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.http_client import (
    Application,
    MemoryTransport,
    RawClient,
    anyio_backend,
    connect,
    request,
    run_application,
    until,
)
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.connection import HttpConnection
from windlass.web.listener.listener import HttpListener

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.anyio


async def _start_deferred(client: RawClient, application: Application) -> asyncio.Future[bytes]:
    application.entered.clear()
    await client.send(request("/deferred", b"body"))
    async with asyncio.timeout(20):
        await application.entered.wait()
    assert application.future is not None
    return application.future


async def test_a_deferred_reply_is_written_when_its_future_is_done() -> None:
    async with run_application() as application, connect(application) as client:
        for words in (b"first", b"second"):
            future = await _start_deferred(client, application)
            assert application.listener.handlers_running == 1
            future.set_result(words)
            assert (await client.answer()).body == words


async def test_requests_behind_a_deferred_reply_wait_in_order() -> None:
    async with run_application() as application, connect(application) as client:
        future = await _start_deferred(client, application)
        await client.send(request("/at_once") + request("/echo") + request("/at_once") + request("/forbidden"))
        await until(lambda: len(application.heads) == 5)
        future.set_result(b"done")
        assert [(await client.answer()).body for _ in range(5)] == [
            b"done",
            b"at once",
            b"GET /echo  ",
            b"at once",
            b"no",
        ]


async def test_requests_beyond_the_queue_are_read_later() -> None:
    async with run_application(pipelined_max=2) as application, connect(application) as client:
        future = await _start_deferred(client, application)
        await client.send(request("/at_once", b"x" * 500) * 50)
        future.set_result(b"done")
        assert (await client.answer()).body == b"done"
        for _ in range(50):
            assert (await client.answer()).body == b"at once"


async def test_an_exception_of_a_deferred_reply_is_answered_500(caplog: pytest.LogCaptureFixture) -> None:
    async with run_application() as application, connect(application) as client:
        (await _start_deferred(client, application)).set_exception(RuntimeError("broken"))
        assert (await client.answer()).status == 500
        assert "The handler of POST /deferred failed" in caplog.text
        assert (await client.round_trip(request("/fail_at_once"))).status == 500
        assert "The handler of GET /fail_at_once failed" in caplog.text
        assert (await client.round_trip(request("/at_once"))).body == b"at once"


async def test_a_cancelled_future_is_answered_500() -> None:
    async with run_application() as application, connect(application) as client:
        (await _start_deferred(client, application)).cancel()
        answer = await client.answer()
        assert (answer.status, answer.body) == (500, b"The server cancelled the request.")


async def test_a_lost_client_does_not_end_a_deferred_reply() -> None:
    async with run_application() as application:
        async with connect(application) as client:
            future = await _start_deferred(client, application)
            client.reset()
        await until(lambda: application.listener.open == 0)
        assert not future.done()
        future.set_result(b"for nobody")
        await until(lambda: application.listener.handlers_running == 0)


async def test_a_half_closed_connection_gets_its_deferred_reply() -> None:
    async with run_application() as application, connect(application) as client:
        future = await _start_deferred(client, application)
        client.writer.write_eof()
        [connection] = application.listener._connections
        await until(lambda: connection._has_eof)
        future.set_result(b"done")
        assert (await client.answer()).body == b"done"
        assert await client.is_closed()


async def test_a_stopping_server_waits_for_a_deferred_reply() -> None:
    async with run_application() as application, connect(application) as client:
        future = await _start_deferred(client, application)
        stopping = asyncio.create_task(application.listener.stop(grace_s=20))
        await until(lambda: application.listener.is_closing)
        future.set_result(b"last")
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"last", "close")
        await stopping


async def test_a_deferred_reply_that_never_ends_is_cut() -> None:
    async with run_application() as application, connect(application) as client:
        future = await _start_deferred(client, application)
        await application.listener.stop(grace_s=0.05)
        assert future.cancelled()
        assert await client.is_closed()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_handler_that_is_cancelled_before_its_first_step_ends_its_request() -> None:
    application = Application()
    listener = application.listener = HttpListener(application, Bounds())
    connection = HttpConnection(listener)
    connection.connection_made(MemoryTransport())
    connection.data_received(request("/poll"))
    assert listener.handlers_running == 1
    connection.connection_lost(None)
    await until(lambda: listener.handlers_running == 0)
    assert not application.entered.is_set()
    assert not listener._connections
