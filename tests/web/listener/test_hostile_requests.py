"""Tests of input that is not valid HTTP, and floods of it: a clear refusal or a closed connection, flat memory, and
answers to good requests at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.connection_driver import drive_connection
from tests.web.http_client import Application, connect, request, run_application

pytestmark = pytest.mark.anyio

HOST = b"Host: a\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + HOST

MALFORMED = {
    "garbage": b"\xff\xfe\x00nonsense\r\n\r\n",
    "unknown method": b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n",
    "no version": b"GET /\r\n\r\n",
    "version 0.9": b"GET / HTTP/0.9\r\n\r\n",
    "version 1.2": b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
    "version 2": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "relative target": b"GET echo HTTP/1.1\r\n" + HOST + b"\r\n",
    "star with GET": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "foreign scheme": b"GET ftp://a/b HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "high byte in target": b"GET /\xe4 HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in target": b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in name": b"GET / HTTP/1.1\r\n" + HOST + b"X\0: a\r\n\r\n",
    "NUL in value": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n",
    "folded value": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare CR": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rY: b\r\n\r\n",
    "nameless field": b"GET / HTTP/1.1\r\n" + HOST + b": a\r\n\r\n",
    "length and coding": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "huge length": POST + b"Content-Length: 999999999999999999999999\r\n\r\nabc",
    "empty length": POST + b"Content-Length:\r\n\r\nabc",
    "other coding": POST + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "coding of 1.0": b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk size in full-width digits": POST + "Transfer-Encoding: chunked\r\n\r\n１\r\na\r\n0\r\n\r\n".encode(),
    "signed chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
    "huge chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "chunk longer than announced": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_requests_are_refused(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(data + request("/forbidden"))
        answer = await client.answer()
        assert answer.status in (400, 501, 505)
        assert answer.headers["connection"] == "close"
        assert answer.body.endswith(b".")
        assert await client.is_closed()
        assert "/forbidden" not in [head.path for head in application.heads]
    assert not caplog.records


async def test_some_refusals_say_what_to_do() -> None:
    async with run_application() as application:
        for name, words in {"TLS hello": b"http://", "HTTP/2 preface": b"HTTP/1.1", "no host": b"Host"}.items():
            async with connect(application) as client:
                assert words in (await client.round_trip(MALFORMED[name])).body


async def test_pending_answers_come_before_the_refusal() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow") + request("/echo") + b"nonsense\r\n\r\n" + request("/echo"))
        await application.entered.wait()
        application.release.set()
        assert [(await client.answer()).status for _ in range(3)] == [200, 200, 400]
        assert await client.is_closed()


@pytest.mark.parametrize("size", [1, 20, 300])
async def test_random_bytes_never_break_the_server(size: int, caplog: pytest.LogCaptureFixture) -> None:
    async with run_application() as application:
        for _ in range(50):
            async with connect(application) as client:
                await client.send(os.urandom(size) + b"\r\n\r\n")
                client.writer.write_eof()
                async with asyncio.timeout(20):
                    with contextlib.suppress(ConnectionError):
                        await client.reader.read()
        async with connect(application) as client:
            assert (await client.round_trip(request("/echo"))).status == 200
    assert not caplog.records


async def _bad(application: Application, data: bytes) -> None:
    async with connect(application) as client:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await client.send(data)
            client.writer.write_eof()
            await client.reader.read()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_memory_is_flat_under_a_flood_of_bad_requests() -> None:
    """Check that memory does not grow after the first hundreds of requests, which fill caches."""
    kinds = [
        *MALFORMED.values(),
        request("/echo", b"x" * 900)[:-10],
        request("/echo", b"x" * 5000),
        request("/fail")[:20],
    ]

    async def flood(application: Application, count: int) -> int:
        for at in range(0, count, 50):
            await asyncio.gather(*[_bad(application, kinds[(at + offset) % len(kinds)]) for offset in range(50)])
            application.heads.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async with run_application() as application, connect(application) as good:
        assert (await good.round_trip(request("/echo"))).status == 200
        tracemalloc.start()
        try:
            before = await flood(application, 500)
            after = await flood(application, 3000)
        finally:
            tracemalloc.stop()
        assert (await good.round_trip(request("/echo"))).status == 200
        assert application.listener.open == 1
    assert after - before < 300_000


async def test_slow_heads_and_bodies_do_not_stop_good_requests() -> None:
    async with (
        run_application(head_timeout_s=1.0, body_timeout_s=1.0) as application,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(200):
            slow = await stack.enter_async_context(connect(application))
            await slow.send(request("/echo", b"x" * 100)[: 20 if number % 2 else -10])
        async with connect(application) as client:
            for _ in range(100):
                assert (await client.round_trip(request("/echo", b"good"))).body.endswith(b"good")


@given(data=st.binary(max_size=200), cut=st.integers(0, 200))
@settings(max_examples=150)
def test_anything_is_answered_or_closed(data: bytes, cut: int) -> None:
    """Feed fragments of HTTP among other bytes to the connection: no input may raise an exception."""
    pieces = [b"GET / HTTP/1.1\r\nHost: a\r\n", data[:cut], b"\r\n\r\n", data[cut:]]
    drive_connection([piece for piece in pieces if piece])
