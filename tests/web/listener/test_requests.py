"""Requests and answers through a real socket: framing, order, keep-alive, what is read and what is not."""

from __future__ import annotations

import pytest

from tests.web.http_client import chunked, request, serving, talking, until

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer() -> None:
    async with serving() as application, talking(application) as talk:
        answer = await talk.ask(request("/echo?a=1&b", b"body", X_One="1"))
        assert answer.status == 200
        assert answer.body == b"POST /echo a=1&b body"
        assert answer.headers["server"] == "windlass"
        assert answer.headers["date"].endswith("GMT")
        assert answer.headers["content-type"] == "text/plain"
        assert "connection" not in answer.headers
        head = application.heads[0]
        assert head.headers["x-one"] == "1"
        assert head.peer == "127.0.0.1"


async def test_the_path_stays_encoded_and_the_query_raw() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.ask(request("/a%2Fb%20c/?x=%2F&x=?"))
        assert application.heads[0].path == "/a%2Fb%20c/"
        assert application.heads[0].query == "x=%2F&x=?"


async def test_repeated_headers_are_joined_and_spaces_around_values_dropped() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX-A:  1  \r\nx-a: 2\r\nX-Empty:\r\n\r\n")
        assert application.heads[0].headers == {"host": "a", "x-a": "1, 2", "x-empty": ""}


async def test_head_has_the_length_and_no_body() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/sized?1234", method="HEAD") + request("/echo"))
        answer = await talk.answer(to_head=True)
        assert answer.headers["content-length"] == "1234"
        assert (await talk.answer()).body.startswith(b"GET /echo")


async def test_an_answer_without_content_has_no_length() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/nothing") + request("/echo"))
        answer = await talk.answer()
        assert answer.status == 204
        assert "content-length" not in answer.headers
        assert (await talk.answer()).status == 200


@pytest.mark.parametrize(
    ("version", "asked", "told", "stays"),
    [
        ("1.1", "", None, True),
        ("1.1", "close", "close", False),
        ("1.1", "Keep-Alive", None, True),
        ("1.1", "keep-alive, close", "close", False),
        ("1.0", "", "close", False),
        ("1.0", "keep-alive", "keep-alive", True),
    ],
)
async def test_who_keeps_the_connection(version: str, asked: str, told: str | None, stays: bool) -> None:
    async with serving() as application, talking(application) as talk:
        headers = {"Connection": asked} if asked else {}
        answer = await talk.ask(request("/echo", b"x", version=version, **headers))
        assert answer.status == 200
        assert answer.headers.get("connection") == told
        if stays:
            assert (await talk.ask(request("/echo"))).status == 200
        else:
            assert await talk.is_closed()


async def test_what_follows_a_closing_request_is_not_looked_at() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/echo", Connection="close") + request("/second") + b"\0garbage")
        assert (await talk.answer()).status == 200
        assert await talk.is_closed()
        assert [head.path for head in application.heads] == ["/echo"]


async def test_nor_is_what_follows_one_that_closes_and_offers_an_upgrade() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/echo", b"x", Connection="upgrade, close", Upgrade="x") + request("/second"))
        assert (await talk.answer()).body == b"POST /echo  x"
        assert await talk.is_closed()
        assert [head.path for head in application.heads] == ["/echo"]


async def test_pipelined_requests_are_answered_in_order_one_at_a_time() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/slow") + request("/forbidden") + request("/echo", b"3") + request("/fail"))
        await application.entered.wait()
        assert application.listener.handlers_running == 1
        await until(lambda: len(application.heads) == 4)
        application.release.set()
        assert [(await talk.answer()).status for _ in range(4)] == [200, 401, 200, 500]


async def test_a_long_pipeline_waits_outside() -> None:
    """Thousands of requests in one packet do not become thousands of waiting requests, and none is lost."""
    async with serving(pipelined_max=4) as application, talking(application) as talk:
        talk.writer.write(request("/slow") + request("/echo") * 5000)
        await application.entered.wait()
        await until(lambda: len(application.heads) > 4)
        assert len(application.heads) < 150
        application.release.set()
        statuses = [(await talk.answer()).status for _ in range(5001)]
        assert statuses == [200] * 5001


async def test_a_long_pipeline_of_refusals_is_answered_to_its_end() -> None:
    async with serving(pipelined_max=4) as application, talking(application) as talk:
        talk.writer.write(request("/forbidden") * 5000 + request("/echo"))
        statuses = [(await talk.answer()).status for _ in range(5001)]
        assert statuses == [401] * 5000 + [200]


async def test_bodies_that_wait_behind_a_request_are_bounded() -> None:
    async with serving(pipelined_bytes_max=20_000, pipelined_max=1000) as application, talking(application) as talk:
        application.body_max = 100_000
        talk.writer.write(request("/slow") + request("/echo", b"x" * 10_000) * 100)
        await application.entered.wait()
        await until(lambda: application.listener.buffered_bytes >= 20_000)
        assert application.listener.buffered_bytes < 50_000
        application.release.set()
        assert [(await talk.answer()).status for _ in range(101)] == [200] * 101


async def test_a_chunked_body() -> None:
    async with serving() as application, talking(application) as talk:
        answer = await talk.ask(chunked("/echo", [b"ab", b"c" * 300, b"d"]))
        assert answer.body == b"POST /echo  ab" + b"c" * 300 + b"d"
        await talk.send(chunked("/", []).replace(b"0\r\n", b"1;x=y\r\nz\r\n0\r\nT: 1\r\n"))
        assert (await talk.answer()).body == b"POST /  z"
        assert "t" not in application.heads[1].headers


async def test_continue_is_said_when_the_body_is_wanted() -> None:
    async with serving() as application, talking(application) as talk:
        whole = request("/echo", b"12345", Expect="100-continue")
        await talk.send(whole[:-5])
        assert (await talk.answer()).status == 100
        await talk.send(whole[-5:])
        assert (await talk.answer()).body == b"POST /echo  12345"
        assert (await talk.ask(request("/echo", b"1", Expect="100-continue"))).status == 200


async def test_continue_is_not_said_before_earlier_answers() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/slow") + request("/echo", b"12345", Expect="100-continue")[:-5])
        await until(lambda: len(application.heads) == 2)
        application.release.set()
        assert [(await talk.answer()).status for _ in range(2)] == [200, 100]
        assert (await talk.ask(b"12345")).status == 200


@pytest.mark.parametrize(("path", "size", "status"), [("/forbidden", 5, 401), ("/echo", 1001, 413)])
async def test_continue_is_not_said_to_what_is_refused(path: str, size: int, status: int) -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request(path, b"x" * size, Expect="100-continue")[:-size])
        answer = await talk.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await talk.is_closed()


async def test_a_short_unwanted_body_is_read_over() -> None:
    async with serving() as application, talking(application) as talk:
        whole = request("/forbidden", b"x" * 500)
        await talk.send(whole[:-400])
        assert (await talk.answer()).status == 401
        await talk.send(whole[-400:] + request("/echo"))
        assert (await talk.answer()).status == 200


async def test_a_long_unwanted_body_ends_the_connection() -> None:
    async with serving(drain_bytes_max=1000) as application, talking(application) as talk:
        await talk.send(request("/forbidden", b"x" * 5000)[:-4000])
        answer = await talk.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await talk.is_closed()


async def test_a_client_that_goes_on_sending_still_reads_the_refusal() -> None:
    async with serving() as application, talking(application) as talk:
        talk.writer.write(request("/echo", b"x" * 8_000_000))
        answer = await talk.answer()
        assert answer.status == 413
        assert b"1000 bytes" in answer.body
        await talk.writer.drain()


@pytest.mark.parametrize("path", ["/fail", "/given_up", "/unplanned", "/split_header", "/split_refusal"])
async def test_a_failure_is_one_request_not_the_connection(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as application, talking(application) as talk:
        answer = await talk.ask(request(path))
        assert answer.status == 500
        assert "set-cookie" not in answer.headers
        assert b"Traceback" not in answer.body
        assert (await talk.ask(request("/echo"))).status == 200
    assert ("Traceback" in caplog.text) == (path != "/given_up")


async def test_targets_with_a_scheme_and_the_star() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.ask(b"GET http://named:81/echo?q=1 HTTP/1.1\r\nHost: other\r\n\r\n")
        await talk.ask(b"GET http://named HTTP/1.1\r\nHost: other\r\n\r\n")
        assert (await talk.ask(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")).body == b"OPTIONS *  "
        seen = [(head.path, head.query, head.headers["host"]) for head in application.heads]
        assert seen == [("/echo", "q=1", "named:81"), ("/", "", "named"), ("*", "", "a")]


@pytest.mark.parametrize("body", [None, b"12345"])
async def test_an_upgrade_is_ignored_and_the_body_still_read(body: bytes | None) -> None:
    async with serving() as application, talking(application) as talk:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQ"}
        whole = request("/echo", body, **upgrade)
        await talk.send(whole[:-2])
        await until(lambda: len(application.heads) == (body is not None))
        await talk.send(whole[-2:] + request("/echo", b"next"))
        assert (await talk.answer()).body.endswith(body or b"GET /echo  ")
        assert (await talk.answer()).body == b"POST /echo  next"


async def test_an_upgrade_with_a_chunked_body() -> None:
    async with serving() as application, talking(application) as talk:
        whole = chunked("/echo", [b"abc", b"d"]).replace(b"Host", b"Connection: upgrade\r\nUpgrade: x\r\nHost")
        await talk.send(whole + request("/echo"))
        assert (await talk.answer()).body == b"POST /echo  abcd"
        assert (await talk.answer()).status == 200


async def test_a_half_closed_client_gets_its_answers() -> None:
    async with serving() as application, talking(application) as talk:
        await talk.send(request("/slow") + request("/echo"))
        talk.writer.write_eof()
        await application.entered.wait()
        application.release.set()
        assert [(await talk.answer()).status for _ in range(2)] == [200, 200]
        assert await talk.is_closed()


async def test_what_is_noted_of_each_answer() -> None:
    async with serving() as application, talking(application) as talk:
        noted = []
        application.listener.on_answer = lambda *note: noted.append(note)
        await talk.ask(request("/sized?7"))
        await talk.ask(request("/forbidden"))
        await talk.ask(request("/parts"))
        await talk.ask(b"garbage\r\n\r\n")
        heads, statuses, sizes, durations, clients = zip(*noted, strict=True)
        assert [head and head.path for head in heads] == ["/sized", "/forbidden", "/parts", None]
        assert statuses == (200, 401, 200, 400)
        assert sizes[:3] == (7, 2, 6)
        assert all(duration >= 0 for duration in durations)
        assert {client.peer for client in clients} == {"127.0.0.1"}
        assert application.listener.answered[2:5] == [2, 0, 2]
