"""Tests of the bounds of the listener: sizes, connections and timeouts. Timeouts are short; no test measures time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.web.http_client import Application, RawClient, chunked, connect, request, run_application, until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def send_to_application(data: bytes, **bounds: float) -> AsyncIterator[tuple[RawClient, Application]]:
    async with run_application(**bounds) as application, connect(application) as client:
        await client.send(data)
        yield client, application


async def assert_refused(client: RawClient, status: int, words: bytes) -> None:
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert words in answer.body
    assert await client.is_closed()


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (request("/" + "x" * 100), 414, b"100 bytes"),
        (b"GET /" + b"x" * 200_000, 414, b"100 bytes"),
        (HEAD + b"X: " + b"x" * 500 + b"\r\n\r\n", 431, b"500 bytes"),
        (HEAD + b"X: " + b"x" * 200_000, 431, b"500 bytes"),
        (HEAD + b"x" * 200_000, 431, b"500 bytes"),
        (HEAD + b"X: 1\r\n" * 10 + b"\r\n", 431, b"10 header fields"),
        (b"\r\n" * 100_000, 431, b"500 bytes"),
        (chunked("/", [b"x"])[:-2] + b"X: " + b"x" * 200_000, 431, b"500 bytes"),
        (chunked("/", [b"x"])[:-2] + b"X: 1\r\n" * 100, 431, b"header fields"),
        (chunked("/", []).replace(b"0\r\n", b"1;" + b"x" * 200_000), 431, b"500 bytes"),
    ],
    ids=["target", "target without end", "field", "value without end", "name without end", "fields", "empty lines",
         "trailer without end", "trailers", "chunk extension"],
)  # fmt: skip
async def test_heads_are_bounded(data: bytes, status: int, words: bytes) -> None:
    async with send_to_application(data, line_bytes_max=100, header_bytes_max=500, headers_max=10) as (client, _):
        await assert_refused(client, status, words)


async def test_a_head_just_within_the_bounds() -> None:
    head = HEAD + b"".join(b"X-%02d: %s\r\n" % (number, b"x" * 300) for number in range(99)) + b"\r\n"
    async with send_to_application(head) as (client, application):
        assert (await client.answer()).status == 200
        assert len(application.heads[0].headers) == 100


async def test_a_body_that_is_announced_too_large_is_refused_unread() -> None:
    async with send_to_application(request("/echo", b"x" * 1001)[:-1001]) as (client, _):
        answer = await client.answer()
        assert answer.status == 413
        assert b"1000 bytes" in answer.body


async def test_a_chunked_body_is_refused_when_it_grows_too_large() -> None:
    async with send_to_application(chunked("/echo", [b"x" * 600] * 2)[:-5]) as (client, _):
        await assert_refused(client, 413, b"1000 bytes")


async def test_tiny_chunks_cost_no_more_than_their_length() -> None:
    async with send_to_application(chunked("/echo", [b"x"] * 1000)) as (client, _):
        assert len((await client.answer()).body) == 1012
        await client.send(chunked("/echo", [b"x"] * 1001))
        await assert_refused(client, 413, b"1000 bytes")


async def test_all_bodies_together_are_bounded() -> None:
    async with (
        run_application(bodies_bytes_max=1500) as application,
        connect(application) as first,
        connect(application) as two,
    ):
        await first.send(request("/echo", b"x" * 1000)[:-1])
        await until(lambda: application.listener.buffered_bytes == 999)
        await two.send(request("/echo", b"x" * 600))
        await assert_refused(two, 503, b"try again")
        assert (await first.round_trip(b"x")).status == 200
        assert (await first.round_trip(request("/echo", b"x" * 1000))).status == 200


async def test_connections_beyond_the_limit_are_answered_503() -> None:
    async with run_application(connections_max=2) as application:
        async with connect(application) as first, connect(application) as two:
            assert (await first.round_trip(request("/echo"))).status == 200
            assert (await two.round_trip(request("/echo"))).status == 200
            async with connect(application) as three:
                await three.send(request("/echo"))
                await assert_refused(three, 503, b"connections")
            assert application.listener.open == 2
        await until(lambda: application.listener.open == 0)
        async with connect(application) as four:
            assert (await four.round_trip(request("/echo"))).status == 200


async def test_a_flood_of_connections_does_not_stop_open_connections() -> None:
    async with run_application(connections_max=1, rejected_max=5) as application, connect(application) as first:
        assert (await first.round_trip(request("/echo"))).status == 200
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                await stack.enter_async_context(connect(application))
            assert (await first.round_trip(request("/echo"))).status == 200
            assert len(application.listener._rejected) <= 5


async def test_silent_connections_make_room_when_there_are_many() -> None:
    bounds = {"connections_max": 4, "crowded_timeout_s": 0.2}
    async with run_application(**bounds) as application, contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(connect(application))
        await until(lambda: application.listener.open == 4)
        await until(lambda: application.listener.open < 3)
        late = await stack.enter_async_context(connect(application))
        assert (await late.round_trip(request("/echo"))).status == 200


async def test_a_head_that_does_not_end_in_time() -> None:
    async with send_to_application(HEAD + b"X:", head_timeout_s=0.2) as (client, _):
        await assert_refused(client, 408, b"0.2 seconds")


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for() -> None:
    async with send_to_application(b"G", head_timeout_s=0.3) as (client, _):

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in request("/echo", X="x" * 2000)[1:]:
                    await client.send(bytes([byte]))
                    await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        await assert_refused(client, 408, b"head")
        trickling.cancel()
        await asyncio.wait({trickling})


async def test_a_body_that_stops_coming() -> None:
    async with send_to_application(request("/echo", b"x" * 100)[:-10], body_timeout_s=0.2) as (client, _):
        await assert_refused(client, 408, b"0.2 seconds")


async def test_a_body_that_comes_too_slowly() -> None:
    async with send_to_application(request("/echo", b"x" * 1000)[:-999], body_timeout_s=0.3) as (client, _):

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    await client.send(b"x")
                    await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        await assert_refused(client, 408, b"body")
        trickling.cancel()
        await asyncio.wait({trickling})


async def test_a_streamed_body_that_stalls_raises_in_its_handler() -> None:
    async with send_to_application(request("/careless", b"x" * 100)[:-10], body_timeout_s=0.2) as (client, application):
        answer = await client.answer()
        assert (answer.status, application.notes) == (400, ["IncompleteBody"])


async def test_a_streamed_body_that_its_handler_does_not_read_is_not_too_slow() -> None:
    data = request("/count?paused", b"x" * 1_000_000)
    async with send_to_application(b"", body_timeout_s=0.5, stream_bytes_max=1000) as (client, application):
        client.writer.write(data)
        await application.entered.wait()
        await asyncio.sleep(1)
        application.release.set()
        assert (await client.answer()).body == b"1000000"


async def test_a_slow_handler_does_not_time_out_its_client() -> None:
    bounds = {"idle_timeout_s": 0.5, "head_timeout_s": 0.5, "body_timeout_s": 0.5, "write_timeout_s": 0.5}
    async with send_to_application(request("/slow", b"body"), **bounds) as (client, application):
        await application.entered.wait()
        await asyncio.sleep(1)
        application.release.set()
        assert (await client.answer()).body == b"slow"


@pytest.mark.parametrize("first", [b"", request("/echo")])
async def test_a_silent_connection_is_closed(first: bytes) -> None:
    async with send_to_application(first, idle_timeout_s=0.5) as (client, _):
        if first:
            assert (await client.answer()).status == 200
        assert await client.is_closed()


async def test_a_client_that_does_not_read_is_dropped() -> None:
    async with run_application(write_timeout_s=0.3) as application, connect(application, limit=1024) as client:
        await client.send(request("/flood"))
        await application.ended.wait()  # the handler runs on without a reader
        assert application.listener.open == 0


async def test_a_client_that_does_not_read_the_last_answer_is_dropped() -> None:
    async with run_application(write_timeout_s=0.3) as application, connect(application, limit=1024) as client:
        await client.send(request("/sized?50000000", Connection="close"))
        await until(lambda: application.listener.answered[2] == 1)
        await until(lambda: application.listener.open == 0)


async def test_a_client_that_reads_slowly_is_not_dropped() -> None:
    async with run_application(write_timeout_s=1.5) as application, connect(application, limit=1024) as client:
        await client.send(request("/sized?20000000", Connection="close"))
        await client.reader.readuntil(b"\r\n\r\n")
        total = 0
        for _ in range(20):
            total += len(await client.reader.readexactly(1_000_000))
            await asyncio.sleep(0.1)
        assert total == 20_000_000


async def test_a_lingering_connection_is_cut_in_the_end() -> None:
    async with run_application(linger_timeout_s=0.2) as application, connect(application) as client:
        await client.send(b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 400
        await until(lambda: application.listener.open == 0)
