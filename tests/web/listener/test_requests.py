"""Tests of requests and answers through a real socket: framing, order, keep-alive, unwanted bodies."""

from __future__ import annotations

import pytest

from tests.web.http_client import chunked, connect, request, run_application, until

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer() -> None:
    async with run_application() as application, connect(application) as client:
        answer = await client.round_trip(request("/echo?a=1&b", b"body", X_One="1"))
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
    async with run_application() as application, connect(application) as client:
        await client.round_trip(request("/a%2Fb%20c/?x=%2F&x=?"))
        assert application.heads[0].path == "/a%2Fb%20c/"
        assert application.heads[0].query == "x=%2F&x=?"


async def test_repeated_headers_are_joined_and_spaces_around_values_dropped() -> None:
    async with run_application() as application, connect(application) as client:
        await client.round_trip(b"GET / HTTP/1.1\r\nHost: a\r\nX-A:  1  \r\nx-a: 2\r\nX-Empty:\r\n\r\n")
        assert application.heads[0].headers == {"host": "a", "x-a": "1, 2", "x-empty": ""}


async def test_head_has_the_length_and_no_body() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/sized?1234", method="HEAD") + request("/echo"))
        answer = await client.answer(to_head=True)
        assert answer.headers["content-length"] == "1234"
        assert (await client.answer()).body.startswith(b"GET /echo")


async def test_an_answer_without_content_has_no_length() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/nothing") + request("/echo"))
        answer = await client.answer()
        assert answer.status == 204
        assert "content-length" not in answer.headers
        assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    ("version", "sent", "expected", "stays"),
    [
        ("1.1", "", None, True),
        ("1.1", "close", "close", False),
        ("1.1", "Keep-Alive", None, True),
        ("1.1", "keep-alive, close", "close", False),
        ("1.0", "", "close", False),
        ("1.0", "keep-alive", "keep-alive", True),
    ],
)
async def test_keep_alive(version: str, sent: str, expected: str | None, stays: bool) -> None:
    async with run_application() as application, connect(application) as client:
        headers = {"Connection": sent} if sent else {}
        answer = await client.round_trip(request("/echo", b"x", version=version, **headers))
        assert answer.status == 200
        assert answer.headers.get("connection") == expected
        if stays:
            assert (await client.round_trip(request("/echo"))).status == 200
        else:
            assert await client.is_closed()


async def test_input_after_a_closing_request_is_ignored() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/echo", Connection="close") + request("/second") + b"\0garbage")
        assert (await client.answer()).status == 200
        assert await client.is_closed()
        assert [head.path for head in application.heads] == ["/echo"]


async def test_input_after_a_closing_request_with_an_upgrade_is_ignored() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/echo", b"x", Connection="upgrade, close", Upgrade="x") + request("/second"))
        assert (await client.answer()).body == b"POST /echo  x"
        assert await client.is_closed()
        assert [head.path for head in application.heads] == ["/echo"]


async def test_pipelined_requests_are_answered_in_order_one_at_a_time() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow") + request("/forbidden") + request("/echo", b"3") + request("/fail"))
        await application.entered.wait()
        assert application.listener.handlers_running == 1
        await until(lambda: len(application.heads) == 4)
        application.release.set()
        assert [(await client.answer()).status for _ in range(4)] == [200, 401, 200, 500]


async def test_a_long_pipeline_is_not_read_at_once() -> None:
    """Check that thousands of requests in one packet are not queued at once, and that none is lost."""
    async with run_application(pipelined_max=4) as application, connect(application) as client:
        client.writer.write(request("/slow") + request("/echo") * 5000)
        await application.entered.wait()
        await until(lambda: len(application.heads) > 4)
        assert len(application.heads) < 150
        application.release.set()
        statuses = [(await client.answer()).status for _ in range(5001)]
        assert statuses == [200] * 5001


async def test_a_long_pipeline_of_refusals_is_answered_to_its_end() -> None:
    async with run_application(pipelined_max=4) as application, connect(application) as client:
        client.writer.write(request("/forbidden") * 5000 + request("/echo"))
        statuses = [(await client.answer()).status for _ in range(5001)]
        assert statuses == [401] * 5000 + [200]


async def test_bodies_that_wait_behind_a_request_are_bounded() -> None:
    async with (
        run_application(pipelined_bytes_max=20_000, pipelined_max=1000) as application,
        connect(application) as client,
    ):
        application.body_max = 100_000
        client.writer.write(request("/slow") + request("/echo", b"x" * 10_000) * 100)
        await application.entered.wait()
        await until(lambda: application.listener.buffered_bytes >= 20_000)
        assert application.listener.buffered_bytes < 50_000
        application.release.set()
        assert [(await client.answer()).status for _ in range(101)] == [200] * 101


async def test_a_chunked_body() -> None:
    async with run_application() as application, connect(application) as client:
        answer = await client.round_trip(chunked("/echo", [b"ab", b"c" * 300, b"d"]))
        assert answer.body == b"POST /echo  ab" + b"c" * 300 + b"d"
        await client.send(chunked("/", []).replace(b"0\r\n", b"1;x=y\r\nz\r\n0\r\nT: 1\r\n"))
        assert (await client.answer()).body == b"POST /  z"
        assert "t" not in application.heads[1].headers


async def test_continue_is_sent_when_the_body_is_wanted() -> None:
    async with run_application() as application, connect(application) as client:
        whole = request("/echo", b"12345", Expect="100-continue")
        await client.send(whole[:-5])
        assert (await client.answer()).status == 100
        await client.send(whole[-5:])
        assert (await client.answer()).body == b"POST /echo  12345"
        assert (await client.round_trip(request("/echo", b"1", Expect="100-continue"))).status == 200


async def test_continue_is_not_sent_before_earlier_answers() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow") + request("/echo", b"12345", Expect="100-continue")[:-5])
        await until(lambda: len(application.heads) == 2)
        application.release.set()
        assert [(await client.answer()).status for _ in range(2)] == [200, 100]
        assert (await client.round_trip(b"12345")).status == 200


@pytest.mark.parametrize(("path", "size", "status"), [("/forbidden", 5, 401), ("/echo", 1001, 413)])
async def test_continue_is_not_sent_to_refused_requests(path: str, size: int, status: int) -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request(path, b"x" * size, Expect="100-continue")[:-size])
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.is_closed()


async def test_a_short_unwanted_body_is_discarded() -> None:
    async with run_application() as application, connect(application) as client:
        whole = request("/forbidden", b"x" * 500)
        await client.send(whole[:-400])
        assert (await client.answer()).status == 401
        await client.send(whole[-400:] + request("/echo"))
        assert (await client.answer()).status == 200


async def test_a_long_unwanted_body_closes_the_connection() -> None:
    async with run_application(drain_bytes_max=1000) as application, connect(application) as client:
        await client.send(request("/forbidden", b"x" * 5000)[:-4000])
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await client.is_closed()


async def test_a_client_that_goes_on_sending_still_reads_the_refusal() -> None:
    async with run_application() as application, connect(application) as client:
        client.writer.write(request("/echo", b"x" * 8_000_000))
        answer = await client.answer()
        assert answer.status == 413
        assert b"1000 bytes" in answer.body
        await client.writer.drain()


@pytest.mark.parametrize("path", ["/fail", "/given_up", "/unplanned", "/split_header", "/split_refusal"])
async def test_a_failure_of_a_handler_does_not_close_the_connection(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_application() as application, connect(application) as client:
        answer = await client.round_trip(request(path))
        assert answer.status == 500
        assert "set-cookie" not in answer.headers
        assert b"Traceback" not in answer.body
        assert (await client.round_trip(request("/echo"))).status == 200
    assert ("Traceback" in caplog.text) == (path != "/given_up")


async def test_targets_with_a_scheme_and_the_star() -> None:
    async with run_application() as application, connect(application) as client:
        await client.round_trip(b"GET http://named:81/echo?q=1 HTTP/1.1\r\nHost: other\r\n\r\n")
        await client.round_trip(b"GET http://named HTTP/1.1\r\nHost: other\r\n\r\n")
        assert (await client.round_trip(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")).body == b"OPTIONS *  "
        seen = [(head.path, head.query, head.headers["host"]) for head in application.heads]
        assert seen == [("/echo", "q=1", "named:81"), ("/", "", "named"), ("*", "", "a")]


@pytest.mark.parametrize("body", [None, b"12345"])
async def test_an_upgrade_is_ignored_and_the_body_still_read(body: bytes | None) -> None:
    async with run_application() as application, connect(application) as client:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQ"}
        whole = request("/echo", body, **upgrade)
        await client.send(whole[:-2])
        await until(lambda: len(application.heads) == (body is not None))
        await client.send(whole[-2:] + request("/echo", b"next"))
        assert (await client.answer()).body.endswith(body or b"GET /echo  ")
        assert (await client.answer()).body == b"POST /echo  next"


async def test_an_upgrade_with_a_chunked_body() -> None:
    async with run_application() as application, connect(application) as client:
        whole = chunked("/echo", [b"abc", b"d"]).replace(b"Host", b"Connection: upgrade\r\nUpgrade: x\r\nHost")
        await client.send(whole + request("/echo"))
        assert (await client.answer()).body == b"POST /echo  abcd"
        assert (await client.answer()).status == 200


async def test_a_half_closed_client_gets_its_answers() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow") + request("/echo"))
        client.writer.write_eof()
        await application.entered.wait()
        application.release.set()
        assert [(await client.answer()).status for _ in range(2)] == [200, 200]
        assert await client.is_closed()


async def test_the_callback_of_each_answer() -> None:
    async with run_application() as application, connect(application) as client:
        noted = []
        application.listener.on_answer = lambda *note: noted.append(note)
        await client.round_trip(request("/sized?7"))
        await client.round_trip(request("/forbidden"))
        await client.round_trip(request("/parts"))
        await client.round_trip(b"garbage\r\n\r\n")
        heads, statuses, sizes, durations, clients = zip(*noted, strict=True)
        assert [head and head.path for head in heads] == ["/sized", "/forbidden", "/parts", None]
        assert statuses == (200, 401, 200, 400)
        assert sizes[:3] == (7, 2, 6)
        assert all(duration >= 0 for duration in durations)
        assert {client.peer for client in clients} == {"127.0.0.1"}
        assert application.listener.answered[2:5] == [2, 0, 2]
