"""Downloads from real origins: good, slow, truncated, lying, failing and dead ones."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.downloads.origin import BASE, AtWork, Handler, Origin, ReceivedRequest, answer, at_work, in_turn, png
from windlass.core.errors import EngineUnavailable
from windlass.core.job import Blob, NewJob
from windlass.core.states import State
from windlass.outbound import parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
NAME = "abcdefghijklmn"


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def work(opened: Service, tmp_path: Path) -> AsyncIterator[AtWork]:
    async with at_work(opened, tmp_path) as work:
        yield work


async def test_a_download_is_stored_and_reported_word_for_word(work: AtWork) -> None:
    content = os.urandom(300_000)
    async with Origin({"/a.bin": answer(content)}).open() as origin:
        url = origin.url("/a.bin?x=%7E1&y=a+b")
        end = await work.download(url, extra='{"k":1}')
        assert end == {
            "state": "FINISHED",
            "success": True,
            "error": "",
            "extra": '{"k":1}',
            "image_size": "",
            "resource_url": url,
            "download_url": f"{BASE}/abc/{NAME}",
            "job_id": NAME,
            "response_code": 200,
            "delivered": True,
            "delivery_error": "",
        }
        assert work.files() == {f"abc/{NAME}": content}
        assert origin.requests[0].target == "/a.bin?x=%7E1&y=a+b"  # as it was written
        assert origin.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "body"), [("200 OK", b""), ("202 Accepted", b"x"), ("204 No Content", b""), ("304 Not Modified", b"")]
)
async def test_every_status_below_400_is_a_success(work: AtWork, status: str, body: bytes) -> None:
    async with Origin(answer(body, status)).open() as origin:
        end = await work.download(origin.url(), mime_type="application/x-empty,text/plain")
        assert (end["success"], end["response_code"]) == (True, int(status[:3]))
        assert work.files() == {f"abc/{NAME}": body}


async def test_a_status_of_400_and_more_is_final(work: AtWork) -> None:
    async with Origin({}).open() as origin:
        end = await work.download(origin.url())
        assert end["state"] == "FAILED"
        assert end["message"] == (
            "Error while downloading, Received status code 404 Not Found, retriable: false, internal: false"
        )
        assert end["response_code"] == 404
        assert (len(origin.requests), work.files()) == (1, {})
        assert work.worker.counters()["download.response.404"] == 1


async def test_a_status_of_500_and_more_is_tried_again(work: AtWork) -> None:
    trouble = in_turn(answer(b"", "500 Oops"), answer(b"", "503 Later"), answer(b"fine"))
    async with Origin(trouble).open() as origin:
        end = await work.download(origin.url())
        assert (end["success"], len(origin.requests)) == (True, 3)
        counted = work.worker.counters()
        assert [counted[f"download.response.{code}"] for code in (500, 503, 200)] == [1, 1, 1]


@pytest.mark.parametrize("retries", [0, 1])
async def test_there_are_as_many_attempts_as_were_asked_for(work: AtWork, retries: int) -> None:
    async with Origin(answer(b"", "502 Bad Gateway")).open() as origin:
        end = await work.download(origin.url(), max_retries=retries)
        assert (end["attempt"], len(origin.requests)) == (retries + 1, retries + 1)
        assert "Received status code 502 Bad Gateway, retriable: true, internal: false" in end["message"]


async def test_pauses_grow_with_each_attempt(opened: Service, store: Store, tmp_path: Path) -> None:
    async with Origin(answer(b"", "500 Oops")).open() as origin:
        job_id = b""
        for attempt in (1, 2):
            async with at_work(opened, tmp_path, retry_delay_ms=60_000) as work:
                job_id = job_id or await work.put(origin.url())
                read = await work.until(job_id, lambda read, n=attempt: len(read.attempts) == n)
            assert read.job.state == State.SCHEDULED
            pause_ms = read.job.run_at_ms - read.attempts[-1].ended_at_ms
            assert pause_ms == attempt * 60_000
            store.clock_offset_ms += pause_ms


def cut(*, chunked: bool) -> Handler:
    async def handler(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        how = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" if chunked else b"Content-Length: 10\r\n\r\nhello"
        writer.write(b"HTTP/1.1 200 OK\r\n" + how)
        await writer.drain()
        writer.close()

    return handler


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_cut_is_tried_again(work: AtWork, chunked: bool) -> None:
    async with Origin(in_turn(cut(chunked=chunked), answer(b"hello all"))).open() as origin:
        end = await work.download(origin.url())
        assert (end["success"], len(origin.requests)) == (True, 2)
        assert work.files() == {f"abc/{NAME}": b"hello all"}


async def test_a_body_shorter_than_announced_is_an_unexpected_end(work: AtWork) -> None:
    async with Origin(answer(b"short", length=100)).open() as origin:
        end = await work.download(origin.url(), max_retries=0)
        assert end["message"] == "Error while downloading, unexpected EOF, retriable: true, internal: false"
        assert (end["response_code"], work.files()) == (200, {})
        assert work.worker.counters()["download.response.body"] == 1


async def test_bodies_in_chunks_and_until_the_end_of_the_connection(work: AtWork) -> None:
    async def chunks(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n")

    async def until_closed(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()
        writer.close()

    async with Origin({"/a": chunks, "/b": until_closed}).open() as origin:
        assert (await work.download(origin.url("/a"), "aaaa"))["success"]
        assert (await work.download(origin.url("/b"), "bbbb"))["success"]
        assert work.files() == {"aaa/aaaa": b"abcde", "bbb/bbbb": b"all of it"}


async def test_a_dead_origin_is_tried_again(work: AtWork) -> None:
    async with Origin({}).open() as origin:
        url = origin.url()
    end = await work.download(url, max_retries=1)
    assert (end["attempt"], end["response_code"]) == (2, 0)
    assert "cannot be reached" in end["message"]
    assert "retriable: true" in end["message"]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel"])
async def test_a_slow_origin_has_the_time_that_the_job_gives_it(work: AtWork, said: bytes) -> None:
    async def stall(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await asyncio.Event().wait()

    async with Origin(stall).open() as origin:
        end = await work.download(origin.url(), download_timeout=0.05, max_retries=1)
        assert end["attempt"] == 2
        assert "was not read within 0.05 s., retriable: true" in end["message"]
        assert work.files() == {}


async def test_what_speaks_no_http_is_tried_again(work: AtWork) -> None:
    async def confused(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with Origin(confused).open() as origin:
        assert (await work.download(origin.url(), max_retries=1))["attempt"] == 2


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Create a self-signed certificate."""
    made = tmp_path_factory.mktemp("tls")
    key, certificate = made / "key.pem", made / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=origin"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_an_unknown_certificate_is_final(work: AtWork, tls: ssl.SSLContext) -> None:
    async with Origin(answer(b"secret")).open(tls) as origin:
        end = await work.download(origin.url())
        assert end["attempt"] == 1
        assert "TLS Error occured: " in end["message"]
        assert "certificate" in end["message"]
        assert "retriable: false" in end["message"]
        assert (origin.requests, work.worker.counters()["download.response.tls"]) == ([], 1)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://", "http://127.1/", "foo", "http://127.0.0.1:99999/"])
async def test_an_address_that_is_none_is_final(work: AtWork, url: str) -> None:
    end = await work.download(url)
    assert (end["state"], end["attempt"]) == ("FAILED", 1)
    assert "retriable: false" in end["message"]


# What the content is


@pytest.mark.parametrize(
    ("wanted", "content", "told"),
    [
        ("image/*", png(1, 1), ""),
        ("image/png,image/jpeg", png(1, 1), ""),
        ("!text/*", png(1, 1), ""),
        ("image/jpeg", png(1, 1), "Expected mime-type to be (image/jpeg), found (image/png)"),
        ("image/*,!image/png", png(1, 1), "Expected mime-type not to be (image/png) found - (image/png)"),
        ("*", png(1, 1), "Expected mime-type to be (*), found (image/png)"),
        ("image/*", b"", "Expected mime-type to be (image/*), found (application/x-empty)"),
        ("image/*", b"<!doctype html><p>No image", "Expected mime-type to be (image/*), found (text/html)"),
    ],
)
async def test_the_type_of_the_content_decides(work: AtWork, wanted: str, content: bytes, told: str) -> None:
    async with Origin(answer(content, Content_Type="image/webp")).open() as origin:
        end = await work.download(origin.url(), mime_type=wanted)
        if not told:
            assert end["success"]
            return
        assert end["message"] == f"Error while checking the mime type, {told}, retriable: false, internal: false"
        assert (end["attempt"], end["response_code"], work.files()) == (1, 200, {})
        assert work.worker.counters()["download.response.mime"] == 1


async def test_nothing_is_fetched_to_its_end_that_is_not_wanted(work: AtWork) -> None:
    async def endless(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"text without end\n" * 100)
            await writer.drain()

    async with Origin(endless).open() as origin:
        assert "found (text/plain)" in (await work.download(origin.url(), mime_type="image/*"))["message"]


@pytest.mark.parametrize(
    ("content", "size"),
    [(png(10, 10), "10x10"), (b"%PDF-1.4\n%\xe2\xe3\n", ""), (b"BM" + b"\0" * 60, ""), (b"", "")],
    ids=["png", "pdf", "bmp", "empty"],
)
async def test_the_size_of_an_image_is_reported_on_request(work: AtWork, content: bytes, size: str) -> None:
    async with Origin(answer(content)).open() as origin:
        assert (await work.download(origin.url(), "with", extract_image_size=True))["image_size"] == size
        assert (await work.download(origin.url(), "without"))["image_size"] == ""


async def test_an_image_that_cannot_be_read_is_final(work: AtWork) -> None:
    async with Origin(answer(png(10, 10)[:20])).open() as origin:
        end = await work.download(origin.url(), extract_image_size=True)
        assert end["message"].startswith("Error while extracting the image size, image: ")
        assert (end["attempt"], end["response_code"], work.files()) == (1, 200, {})
        assert work.worker.counters()["download.response.image-size"] == 1


async def test_a_body_beyond_the_limit_is_given_up(opened: Service, tmp_path: Path) -> None:
    async with at_work(opened, tmp_path, size_max=1000) as work, Origin({}).open() as origin:
        origin._routes = {"/told": answer(b"x" * 1001), "/exact": answer(b"x" * 1000), "/untold": until_closed(1001)}
        for path in ("/told", "/untold"):
            end = await work.download(origin.url(path), path[1:])
            assert "more than 1000 bytes" in end["message"]
            assert (end["attempt"], work.files()) == (1, {})
        assert (await work.download(origin.url("/exact"), "exact"))["success"]


def until_closed(size: int) -> Handler:
    async def handler(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * size)
        await writer.drain()
        writer.close()

    return handler


# Where it goes, and with what


def redirect(url: str, status: str = "302 Found") -> Handler:
    return answer(b"", status, Location=url)


async def test_redirects_are_followed_ten_times(work: AtWork) -> None:
    routes: dict[str, Handler] = {f"/{n}": redirect(f"/{n - 1}") for n in range(1, 12)}
    async with Origin(routes | {"/0": answer(b"here")}).open() as origin:
        assert (await work.download(origin.url("/10"), "aaaa"))["success"]
        end = await work.download(origin.url("/11"), "bbbb")
        assert "Stopped after 10 redirects" in end["message"]
        assert (end["attempt"], work.files()) == (1, {"aaa/aaaa": b"here"})


@pytest.mark.parametrize("status", ["301 Moved", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_all_kinds_of_redirects_are_followed(work: AtWork, status: str) -> None:
    async with Origin({"/a": redirect("b c?d", status), "/b%20c": answer(b"here")}).open() as origin:
        assert (await work.download(origin.url("/a")))["response_code"] == 200
        assert origin.requests[1].target == "/b%20c?d"


@pytest.mark.parametrize("where", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://0x7f000001/", "http://[::1"])
async def test_a_redirect_to_nowhere_is_final(work: AtWork, where: str) -> None:
    async with Origin(redirect(where)).open() as origin:
        end = await work.download(origin.url())
        assert "redirects to an unusable URL" in end["message"]
        assert end["attempt"] == 1


async def test_a_redirect_inward_is_refused(opened: Service, tmp_path: Path) -> None:
    """The first address is allowed by name; the one it leads to is not."""
    async with Origin(answer(b"secret")).open() as inner:
        inward = inner.url().replace("127.0.0.1", "127.0.0.2")
        async with (
            Origin(redirect(inward)).open() as origin,
            at_work(opened, tmp_path, policy=parse_policy("127.0.0.1/32", is_local=False)) as work,
        ):
            end = await work.download(origin.url())
        assert "127.0.0.2 is not a public address" in end["message"]
        assert (end["attempt"], inner.requests) == (1, [])


async def test_headers_of_the_processor_and_of_the_job(opened: Service, tmp_path: Path) -> None:
    headers = {"User-Agent": "fetcher/1", "X-One": "default", "X-Two": "default"}
    async with at_work(opened, tmp_path, headers=headers) as work, Origin(answer(b"x")).open() as origin:
        given = {"x-one": "mine", "X-Three": "also", "Content-Length": "7", "Transfer-Encoding": "chunked"}
        assert (await work.download(origin.url(), request_headers=given))["success"]
        asked = origin.requests[0].headers
        assert {name: asked.get(name) for name in ("user-agent", "x-one", "x-two", "x-three")} == {
            "user-agent": "fetcher/1",
            "x-one": "mine",
            "x-two": "default",
            "x-three": "also",
        }
        assert not {"content-length", "transfer-encoding"} & set(asked)


async def test_secrets_stay_with_the_site_they_were_given_for(work: AtWork) -> None:
    secrets = {"Authorization": "Bearer s", "Cookie": "c=1", "X-Api-Key": "k", "Accept": "image/*"}
    async with Origin(answer(b"x")).open() as other:
        routes = {"/a": redirect("/b"), "/b": redirect(other.url("/c"))}
        async with Origin(routes).open() as origin:
            assert (await work.download(origin.url("/a"), request_headers=secrets))["success"]
            assert origin.requests[1].headers["x-api-key"] == "k"
        asked = other.requests[0].headers
        assert asked["accept"] == "image/*"
        assert not {"authorization", "cookie", "x-api-key"} & set(asked)


async def test_a_user_and_a_password_in_the_address(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        url = origin.url().replace("://", "://me:p%40ss@")
        end = await work.download(url)
        assert (end["success"], end["resource_url"]) == (True, url)
        assert origin.requests[0].headers["authorization"] == "Basic bWU6cEBzcw=="


# Proxies


async def test_the_proxy_of_the_aggregation_is_used(opened: Service, tmp_path: Path) -> None:
    async def proxy_of(_: Service, aggregation: str) -> str:
        return proxy.url("").replace("://", "://me:secret@") if aggregation == "far" else ""

    async with (
        Origin(answer(b"through")).open() as proxy,
        Origin(answer(b"direct")).open() as origin,
        at_work(opened, tmp_path, given={"proxy_of": proxy_of}) as work,
    ):
        await work.download(origin.url(), "aaaa", aggr_id="far")
        await work.download(origin.url(), "bbbb", aggr_id="near")
        await work.download("http://name.that.only.the.proxy.knows.invalid/x", "cccc", aggr_id="far")
        assert work.files() == {"aaa/aaaa": b"through", "bbb/bbbb": b"direct", "ccc/cccc": b"through"}
        assert proxy.requests[0].target == origin.url()
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
        assert proxy.requests[1].target == "http://name.that.only.the.proxy.knows.invalid/x"


async def test_what_is_secret_goes_through_a_tunnel(opened: Service, tmp_path: Path) -> None:
    async def proxy_of(_: Service, aggregation: str) -> str:
        return proxy.url("").replace("://", "://me:secret@")

    async with (
        Origin(answer(b"", "502 No Way")).open() as proxy,
        at_work(opened, tmp_path, given={"proxy_of": proxy_of}) as work,
    ):
        end = await work.download("https://far.invalid/x", max_retries=1, request_headers={"X-Key": "k"})
        assert (end["attempt"], [one.method for one in proxy.requests]) == (2, ["CONNECT", "CONNECT"])
        assert proxy.requests[0].target == "far.invalid:443"
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
        assert "x-key" not in proxy.requests[0].headers


async def test_a_proxy_leads_nowhere_that_is_forbidden(opened: Service, tmp_path: Path) -> None:
    async def proxy_of(_: Service, aggregation: str) -> str:
        return proxy.url("") if aggregation == "near" else proxy.url("").replace("127.0.0.1", "127.0.0.9")

    async with (
        Origin(answer(b"through")).open() as proxy,
        at_work(
            opened,
            tmp_path,
            policy=parse_policy("127.0.0.1/32", is_local=False),
            given={"proxy_of": proxy_of},
        ) as work,
    ):
        target = await work.download("http://127.0.0.2:7/x", "aaaa", aggr_id="near")
        assert "127.0.0.2 is not a public address" in target["message"]
        itself = await work.download("http://127.0.0.1:7/x", "bbbb", aggr_id="far")
        assert "127.0.0.9 is not a public address" in itself["message"]
        assert proxy.requests == []


async def test_a_proxy_that_is_none_is_final_and_counted(opened: Service, tmp_path: Path) -> None:
    async def proxy_of(_: Service, aggregation: str) -> str:
        return "socks5://127.0.0.1:1080"

    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path, given={"proxy_of": proxy_of}) as work:
        end = await work.download(origin.url())
        assert "the proxy of the aggregation cannot be used" in end["message"]
        assert (origin.requests, work.worker.counters()["invalidProxies"]) == ([], 1)


async def test_a_proxy_that_cannot_be_asked_for_spends_no_attempt(opened: Service, tmp_path: Path) -> None:
    async def proxy_of(_: Service, aggregation: str) -> str:
        raise EngineUnavailable("away")

    async with (
        Origin(answer(b"x")).open() as origin,
        at_work(opened, tmp_path, given={"proxy_of": proxy_of}, retry_delay_ms=60_000) as work,
    ):
        job_id = await work.put(origin.url(), "aaaa", max_retries=0)
        read = await work.until(job_id, lambda read: read.job.state == State.SCHEDULED)
        assert (read.job.attempt, origin.requests) == (0, [])
        assert (await work.download(origin.url(), "bbbb", aggr_id=""))["success"]


async def test_the_proxy_of_the_environment_is_not_for_this_machine(
    work: AtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Origin(answer(b"through")).open() as proxy, Origin(answer(b"direct")).open() as origin:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        monkeypatch.setenv("no_proxy", "spared.invalid")
        await work.download(origin.url(), "aaaa")
        await work.download("http://far.invalid/x", "bbbb")
        spared = await work.download("http://spared.invalid/x", "cccc", max_retries=0)
        assert work.files() == {"aaa/aaaa": b"direct", "bbb/bbbb": b"through"}
        assert "cannot be reached" in spared["message"]


# Jobs that others have made


@pytest.mark.parametrize(
    "payload",
    [b"null", b"{}", b'{"url":7}', b'{"url":"http://127.0.0.1/","id":"../../x"}', b'{"url":"http://x/","id":"a/b/c"}'],
)
async def test_a_job_that_is_no_download_fails_and_says_why(work: AtWork, payload: bytes) -> None:
    job = NewJob(queue="downloads", name="other", payload=Blob(payload), result_ttl_ms=60_000)
    end = await work.end_of((await work.service.enqueue([job]).one()).id)
    assert end["state"] == "FAILED"
    assert "Error while reading the job" in end["message"]
    assert work.files() == {}


async def test_a_job_of_another_producer_gets_the_defaults(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        payload: dict[str, Any] = {"url": origin.url()}
        job = NewJob(queue="downloads", name="n", payload=Blob(json.dumps(payload).encode()), result_ttl_ms=60_000)
        job_id = (await work.service.enqueue([job]).one()).id
        end = await work.end_of(job_id)
        assert end["success"]
        assert list(work.files().values()) == [b"x"]
