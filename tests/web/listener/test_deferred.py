"""Answers that wait for one future and have no task, and those that wait for nothing: order, ends and failures are as
with all others."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.http_client import Application, Talk, anyio_backend, request, serving, talking, until

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.anyio


async def _begun(talk: Talk, application: Application) -> asyncio.Future[bytes]:
    application.entered.clear()
    await talk.send(request("/deferred", b"body"))
    async with asyncio.timeout(20):
        await application.entered.wait()
    assert application.future is not None
    return application.future


async def test_it_is_answered_when_its_future_is_done() -> None:
    async with serving() as application, talking(application) as talk:
        for words in (b"first", b"second"):
            begun = await _begun(talk, application)
            assert application.listener.handlers_running == 1
            begun.set_result(words)
            assert (await talk.answer()).body == words


async def test_what_comes_behind_it_waits_in_order() -> None:
    async with serving() as application, talking(application) as talk:
        begun = await _begun(talk, application)
        await talk.send(request("/at_once") + request("/echo") + request("/at_once") + request("/forbidden"))
        await until(lambda: len(application.heads) == 5)
        begun.set_result(b"done")
        assert [(await talk.answer()).body for _ in range(5)] == [
            b"done",
            b"at once",
            b"GET /echo  ",
            b"at once",
            b"no",
        ]


async def test_more_behind_it_than_may_wait_is_read_later() -> None:
    async with serving(pipelined_max=2) as application, talking(application) as talk:
        begun = await _begun(talk, application)
        await talk.send(request("/at_once", b"x" * 500) * 50)
        begun.set_result(b"done")
        assert (await talk.answer()).body == b"done"
        for _ in range(50):
            assert (await talk.answer()).body == b"at once"


async def test_what_it_raises_is_a_failure_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as application, talking(application) as talk:
        (await _begun(talk, application)).set_exception(RuntimeError("broken"))
        assert (await talk.answer()).status == 500
        assert "The handler of POST /deferred failed" in caplog.text
        assert (await talk.ask(request("/fail_at_once"))).status == 500
        assert "The handler of GET /fail_at_once failed" in caplog.text
        assert (await talk.ask(request("/at_once"))).body == b"at once"


async def test_one_that_is_given_up_says_so() -> None:
    async with serving() as application, talking(application) as talk:
        (await _begun(talk, application)).cancel()
        answer = await talk.answer()
        assert (answer.status, answer.body) == (500, b"The server cancelled the request.")


async def test_a_client_that_vanishes_does_not_end_it() -> None:
    async with serving() as application:
        async with talking(application) as talk:
            begun = await _begun(talk, application)
            talk.vanish()
        await until(lambda: application.listener.open == 0)
        assert not begun.done()
        begun.set_result(b"for nobody")
        await until(lambda: application.listener.handlers_running == 0)


async def test_half_a_connection_still_gets_its_answer() -> None:
    async with serving() as application, talking(application) as talk:
        begun = await _begun(talk, application)
        talk.writer.write_eof()
        [connection] = application.listener._connections
        await until(lambda: connection._has_eof)
        begun.set_result(b"done")
        assert (await talk.answer()).body == b"done"
        assert await talk.is_closed()


async def test_a_server_that_stops_lets_it_end() -> None:
    async with serving() as application, talking(application) as talk:
        begun = await _begun(talk, application)
        stopping = asyncio.create_task(application.listener.stop(grace_s=20))
        await until(lambda: application.listener.is_closing)
        begun.set_result(b"last")
        answer = await talk.answer()
        assert (answer.body, answer.headers["connection"]) == (b"last", "close")
        await stopping


async def test_one_that_never_ends_is_cut() -> None:
    async with serving() as application, talking(application) as talk:
        begun = await _begun(talk, application)
        await application.listener.stop(grace_s=0.05)
        assert begun.cancelled()
        assert await talk.is_closed()
