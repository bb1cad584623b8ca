"""Tests of streamed bodies and answers, and of clients that disconnect before the end."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.http_client import chunked, connect, request, run_application, until

pytestmark = pytest.mark.anyio


async def test_a_streamed_answer_comes_in_chunks_and_keeps_the_connection() -> None:
    async with run_application() as application, connect(application) as client:
        answer = await client.round_trip(request("/parts"))
        assert answer.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in answer.headers
        assert answer.body == b"onetwo"
        assert (await client.round_trip(request("/echo"))).status == 200
        assert application.notes == ["parts closed"]


async def test_a_streamed_answer_to_http_1_0_ends_with_the_connection() -> None:
    async with run_application() as application, connect(application) as client:
        answer = await client.round_trip(request("/parts", version="1.0", Connection="keep-alive"))
        assert answer.headers["connection"] == "close"
        assert "transfer-encoding" not in answer.headers
        assert answer.body == b"onetwo"


async def test_head_of_a_streamed_answer() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/parts", method="HEAD") + request("/echo"))
        assert (await client.answer(to_head=True)).headers["transfer-encoding"] == "chunked"
        assert (await client.answer()).status == 200


async def test_an_answer_that_fails_midway_has_no_last_chunk() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/broken_parts") + request("/echo"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await client.answer()
        assert [head.path for head in application.heads] == ["/broken_parts", "/echo"]
        assert await client.is_closed()


async def test_an_answer_is_written_no_faster_than_it_is_read() -> None:
    async with run_application() as application, connect(application, limit=1024) as client:
        await client.send(request("/flood"))
        await application.entered.wait()
        await client.reader.readuntil(b"\r\n\r\n")
        count = -1
        while count != len(application.notes):  # until the number does not change any more
            count = len(application.notes)
            await asyncio.sleep(0.2)
        assert count < 40
        total = 0
        async for piece in client.chunks():
            total += len(piece)
        assert total == 64 * 1024 * 1024


async def test_large_answers_to_a_client_that_does_not_read_are_bounded() -> None:
    async with run_application() as application, connect(application, limit=1024) as client:
        client.writer.write(request("/sized?4000000") * 50)
        count = -1
        while count != sum(application.listener.answered):
            count = sum(application.listener.answered)
            await asyncio.sleep(0.2)
        assert count < 10
        assert [len((await client.answer()).body) for _ in range(50)] == [4_000_000] * 50


async def test_refusals_to_a_client_that_does_not_read_are_bounded() -> None:
    """Check the bound of unsent data: refusals have no handler that could be held back."""
    async with run_application() as application, connect(application, limit=1024) as client:
        client.writer.write(request("/forbidden") * 200_000)
        count = -1
        while count != len(application.heads):
            count = len(application.heads)
            await asyncio.sleep(0.2)
        assert count < 150_000
        assert (await client.answer()).status == 401


async def test_a_streamed_body_of_any_length_is_held_in_small_pieces() -> None:
    async with run_application(stream_bytes_max=10_000) as application, connect(application) as client:
        size = 30_000_000
        client.writer.write(request("/count?paused", b"x" * size))
        await application.entered.wait()
        await asyncio.sleep(0)
        [connection] = application.listener._connections
        receiving = connection._parser.receiving
        assert receiving is not None
        assert receiving.received < 500_000
        application.release.set()
        assert (await client.answer()).body == str(size).encode()
        assert (await client.round_trip(request("/echo"))).status == 200


async def test_a_chunked_streamed_body() -> None:
    async with run_application() as application, connect(application) as client:
        assert (await client.round_trip(chunked("/count", [b"x" * 5000] * 100))).body == b"500000"
        assert (await client.round_trip(chunked("/count", []))).body == b"0"


async def test_answer_and_body_at_the_same_time() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(b"POST /duplex HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        chunks = client.chunks()
        for word in (b"one", b"two", b"three"):
            await client.send(b"%x\r\n%b\r\n" % (len(word), word))
            assert await anext(chunks) == word.upper()
        await client.send(b"0\r\n\r\n")
        assert [piece async for piece in chunks] == []
        assert (await client.round_trip(request("/echo"))).status == 200


@pytest.mark.parametrize("size", [2000, 30_000])
async def test_a_handler_that_ends_before_the_body(size: int) -> None:
    """Check that a short rest is discarded and a long rest closes the connection; the answer arrives in both cases."""
    async with run_application(drain_bytes_max=20_000) as application, connect(application) as client:
        whole = request("/early", b"x" * size) + request("/echo")
        await client.send(whole[:1000])
        answer = await client.answer()
        assert answer.body == b"early"
        if size == 2000:
            assert (await client.round_trip(whole[1000:])).status == 200
        else:
            assert answer.headers["connection"] == "close"
            assert await client.is_closed()


async def test_a_handler_that_ends_before_a_chunked_body() -> None:
    async with run_application(drain_bytes_max=20_000) as application, connect(application) as client:
        await client.send(chunked("/early", [b"x" * 5000])[:1000])
        assert (await client.answer()).body == b"early"
        await client.send(b"x" * 4000)
        client.writer.write(b"\r\n" + b"1000\r\n" + b"x" * 0x1000 + b"\r\n" + b"f0000\r\n" + b"x" * 100_000)
        assert await client.is_closed()


async def test_a_truncated_body_raises_in_its_handler() -> None:
    async with run_application() as application:
        async with connect(application) as client:
            await client.send(request("/careless", b"x" * 100)[:-10])
            await application.entered.wait()
        await application.ended.wait()
        assert application.notes == ["IncompleteBody"]


async def test_a_half_closed_client_is_answered_that_its_body_was_incomplete() -> None:
    async with run_application() as application:
        for path in ("/careless", "/echo"):
            async with connect(application) as client:
                await client.send(request(path, b"x" * 100)[:-10])
                client.writer.write_eof()
                answer = await client.answer()
                assert (answer.status, answer.headers["connection"]) == (400, "close")
                assert b"before the end of the body" in answer.body


async def test_invalid_http_in_a_streamed_body_ends_its_handler() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(b"POST /careless HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await application.entered.wait()
        answer = await client.round_trip(b"nonsense\r\n")
        assert (answer.status, application.notes) == (400, ["IncompleteBody"])
        assert await client.is_closed()


@pytest.mark.parametrize("path", ["/poll", "/feed"])
@pytest.mark.parametrize("half", [True, False])
async def test_a_waiting_handler_is_cancelled_when_the_client_disconnects(path: str, half: bool) -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request(path))
        await application.entered.wait()
        if half:
            client.writer.write_eof()
        else:
            client.reset()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert application.notes == (["poll cancelled True"] if path == "/poll" else ["feed closed"])
        await until(lambda: application.listener.handlers_running == 0)


async def test_a_waiting_handler_is_not_started_for_a_lost_client() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow") + request("/poll"))
        client.writer.write_eof()
        await application.entered.wait()
        application.entered.clear()
        application.release.set()
        assert (await client.answer()).body == b"slow"
        assert await client.is_closed()
        assert not application.entered.is_set()


async def test_other_handlers_run_to_their_end() -> None:
    async with run_application() as application:
        async with connect(application) as client:
            await client.send(request("/slow"))
            await application.entered.wait()
            client.reset()
        await until(lambda: application.listener.open == 0)
        assert application.listener.handlers_running == 1
        application.release.set()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert application.notes == ["slow True"]


async def test_a_streamed_answer_runs_to_its_end_without_its_reader() -> None:
    async with run_application() as application:
        async with connect(application) as client:
            await client.send(request("/flood"))
            await application.entered.wait()
            client.reset()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert len(application.notes) == 64


async def test_continue_is_sent_to_a_streamed_body() -> None:
    async with run_application() as application, connect(application) as client:
        whole = request("/count", b"12345", Expect="100-continue")
        await client.send(whole[:-5])
        assert (await client.answer()).status == 100
        assert (await client.round_trip(whole[-5:])).body == b"5"
