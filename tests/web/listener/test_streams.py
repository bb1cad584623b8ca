"""Bodies and answers that are written and read as they come, and clients that go before the end."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.http_client import chunked, request, serving, talking, until

pytestmark = pytest.mark.anyio


async def test_a_streamed_answer_comes_in_chunks_and_keeps_the_connection() -> None:
    async with serving() as application, talking(application) as talk:
        answer = await talk.ask(request("/parts"))
        assert answer.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in answer.headers
        assert answer.body == b"onetwo"
        assert (await talk.ask(request("/echo"))).status == 200
        assert application.notes == ["parts closed"]


async def test_a_streamed_answer_to_http_1_0_ends_with_the_connection() -> None:
    async with serving() as application, talking(application) as talk:
        answer = await talk.ask(request("/parts", version="1.0", Connection="keep-alive"))
        assert answer.headers["connection"] == "close"
        assert "transfer-encoding" not in answer.headers
        assert answer.body == b"onetwo"


async def test_head_of_a_streamed_answer() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/parts", method="HEAD") + request("/echo"))
        assert (await talk.answer(to_head=True)).headers["transfer-encoding"] == "chunked"
        assert (await talk.answer()).status == 200


async def test_an_answer_that_breaks_off_has_no_end() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/broken_parts") + request("/echo"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await talk.answer()
        assert [head.path for head in application.heads] == ["/broken_parts", "/echo"]
        assert await talk.is_closed()


async def test_an_answer_is_written_no_faster_than_it_is_read() -> None:
    async with serving() as application, talking(application, limit=1024) as talk:
        await talk.send(request("/flood"))
        await application.entered.wait()
        await talk.reader.readuntil(b"\r\n\r\n")
        count = -1
        while count != len(application.notes):  # until it stands still
            count = len(application.notes)
            await asyncio.sleep(0.2)
        assert count < 40
        total = 0
        async for piece in talk.chunks():
            total += len(piece)
        assert total == 64 * 1024 * 1024


async def test_large_answers_to_who_does_not_read_do_not_pile_up() -> None:
    async with serving() as application, talking(application, limit=1024) as talk:
        talk.writer.write(request("/sized?4000000") * 50)
        count = -1
        while count != sum(application.listener.answered):
            count = sum(application.listener.answered)
            await asyncio.sleep(0.2)
        assert count < 10
        assert [len((await talk.answer()).body) for _ in range(50)] == [4_000_000] * 50


async def test_refusals_to_who_does_not_read_do_not_pile_up() -> None:
    """They need no handler, so nothing but the bound on what is unsent holds them back."""
    async with serving() as application, talking(application, limit=1024) as talk:
        talk.writer.write(request("/forbidden") * 200_000)
        count = -1
        while count != len(application.heads):
            count = len(application.heads)
            await asyncio.sleep(0.2)
        assert count < 150_000
        assert (await talk.answer()).status == 401


async def test_a_streamed_body_of_any_length_is_held_in_small_pieces() -> None:
    async with serving(stream_bytes_max=10_000) as application, talking(application) as talk:
        size = 30_000_000
        talk.writer.write(request("/count?paused", b"x" * size))
        await application.entered.wait()
        await asyncio.sleep(0)
        [connection] = application.listener._connections
        receiving = connection._parser.receiving
        assert receiving is not None
        assert receiving.received < 500_000
        application.release.set()
        assert (await talk.answer()).body == str(size).encode()
        assert (await talk.ask(request("/echo"))).status == 200


async def test_a_chunked_streamed_body() -> None:
    async with serving() as application, talking(application) as talk:
        assert (await talk.ask(chunked("/count", [b"x" * 5000] * 100))).body == b"500000"
        assert (await talk.ask(chunked("/count", []))).body == b"0"


async def test_answer_and_body_at_the_same_time() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(b"POST /duplex HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        await talk.reader.readuntil(b"\r\n\r\n")
        chunks = talk.chunks()
        for word in (b"one", b"two", b"three"):
            await talk.send(b"%x\r\n%b\r\n" % (len(word), word))
            assert await anext(chunks) == word.upper()
        await talk.send(b"0\r\n\r\n")
        assert [piece async for piece in chunks] == []
        assert (await talk.ask(request("/echo"))).status == 200


@pytest.mark.parametrize("size", [2000, 30_000])
async def test_a_handler_that_ends_before_the_body(size: int) -> None:
    """A short rest is read over, before a long one the connection ends; the answer arrives in both cases."""
    async with serving(drain_bytes_max=20_000) as application, talking(application) as talk:
        whole = request("/early", b"x" * size) + request("/echo")
        await talk.send(whole[:1000])
        answer = await talk.answer()
        assert answer.body == b"early"
        if size == 2000:
            assert (await talk.ask(whole[1000:])).status == 200
        else:
            assert answer.headers["connection"] == "close"
            assert await talk.is_closed()


async def test_a_handler_that_ends_before_a_chunked_body() -> None:
    async with serving(drain_bytes_max=20_000) as application, talking(application) as talk:
        await talk.send(chunked("/early", [b"x" * 5000])[:1000])
        assert (await talk.answer()).body == b"early"
        await talk.send(b"x" * 4000)
        talk.writer.write(b"\r\n" + b"1000\r\n" + b"x" * 0x1000 + b"\r\n" + b"f0000\r\n" + b"x" * 100_000)
        assert await talk.is_closed()


async def test_a_body_that_breaks_off_is_told_to_its_handler() -> None:
    async with serving() as application:
        async with talking(application) as talk:
            await talk.send(request("/careless", b"x" * 100)[:-10])
            await application.entered.wait()
        await application.ended.wait()
        assert application.notes == ["IncompleteBody"]


async def test_a_half_closed_client_learns_that_its_body_was_not_whole() -> None:
    async with serving() as application:
        for path in ("/careless", "/echo"):
            async with talking(application) as talk:
                await talk.send(request(path, b"x" * 100)[:-10])
                talk.writer.write_eof()
                answer = await talk.answer()
                assert (answer.status, answer.headers["connection"]) == (400, "close")
                assert b"before the end of the body" in answer.body


async def test_a_streamed_body_that_is_not_http_ends_its_handler() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(b"POST /careless HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await application.entered.wait()
        answer = await talk.ask(b"nonsense\r\n")
        assert (answer.status, application.notes) == (400, ["IncompleteBody"])
        assert await talk.is_closed()


@pytest.mark.parametrize("path", ["/poll", "/feed"])
@pytest.mark.parametrize("half", [True, False])
async def test_who_waits_is_cancelled_when_the_client_has_gone(path: str, half: bool) -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request(path))
        await application.entered.wait()
        if half:
            talk.writer.write_eof()
        else:
            talk.vanish()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert application.notes == (["poll cancelled True"] if path == "/poll" else ["feed closed"])
        await until(lambda: application.listener.handlers_running == 0)


async def test_who_would_wait_for_a_client_that_has_gone_is_not_begun() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/slow") + request("/poll"))
        talk.writer.write_eof()
        await application.entered.wait()
        application.entered.clear()
        application.release.set()
        assert (await talk.answer()).body == b"slow"
        assert await talk.is_closed()
        assert not application.entered.is_set()


async def test_all_others_run_to_their_end() -> None:
    async with serving() as application:
        async with talking(application) as talk:
            await talk.send(request("/slow"))
            await application.entered.wait()
            talk.vanish()
        await until(lambda: application.listener.open == 0)
        assert application.listener.handlers_running == 1
        application.release.set()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert application.notes == ["slow True"]


async def test_a_streamed_answer_runs_to_its_end_without_its_reader() -> None:
    async with serving() as application:
        async with talking(application) as talk:
            await talk.send(request("/flood"))
            await application.entered.wait()
            talk.vanish()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert len(application.notes) == 64


async def test_continue_is_said_to_a_streamed_body() -> None:
    async with serving() as application, talking(application) as talk:
        whole = request("/count", b"12345", Expect="100-continue")
        await talk.send(whole[:-5])
        assert (await talk.answer()).status == 100
        assert (await talk.ask(whole[-5:])).body == b"5"
