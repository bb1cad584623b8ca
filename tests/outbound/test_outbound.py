"""Guarded client against real sockets on loopback: allowed addresses, and faulty servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from windlass.core.errors import BadInput
from windlass.outbound import (
    AddressForbidden,
    FetchRequest,
    Outbound,
    Policy,
    RequestFailed,
    ResponseTooLarge,
    parse_policy,
)

pytestmark = pytest.mark.anyio
LOCAL = parse_policy("", is_local=True)
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """Server that answers as the test wants and records the requests."""

    def __init__(self, answer: bytes | Answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok") -> None:
        self._answer = answer
        self.asked: list[bytes] = []
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(head)
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                if isinstance(self._answer, bytes):
                    writer.write(self._answer)
                    await writer.drain()
                else:
                    await self._answer(body, writer)

    @contextlib.asynccontextmanager
    async def open(self, host: str = "127.0.0.1") -> AsyncIterator[Site]:
        server = await asyncio.start_server(self._serve, host, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Names(AbstractResolver):
    """Names as a test wants them: the answers in turn, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


async def test_a_request_and_its_answer() -> None:
    async with Site().open() as site, Outbound(LOCAL) as outbound:
        answered = await outbound.post(site.url + "/worker-job?x=1", b"body", {"worker-id": "7"})
        assert (answered.status, answered.body, answered.headers["content-length"]) == (202, b"ok", "2")
        assert site.asked[0].startswith(b"POST /worker-job?x=1 HTTP/1.1\r\n")
        assert b"worker-id: 7" in site.asked[0]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{}", "http://[::ffff:127.0.0.1]:{}", "http://localhost:{}", "http://0.0.0.0:{}"]
)
async def test_an_address_that_is_not_allowed_is_never_dialled(url: str) -> None:
    async with Site().open("0.0.0.0") as site, Outbound(parse_policy("", is_local=False)) as outbound:  # noqa: S104
        with pytest.raises(AddressForbidden, match="WINDLASS_ALLOW_PRIVATE_ADDRESSES"):
            await outbound.post(url.format(site.port), b"", {})
        assert site.asked == []


class ChangingPolicy:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    async def current(self) -> Policy:
        return self.policy


async def test_a_connection_of_another_policy_is_not_used_again() -> None:
    changing = ChangingPolicy(LOCAL)
    async with Site().open() as site, Outbound(changing) as outbound:
        await outbound.post(site.url, b"", {})
        changing.policy = Policy()
        with pytest.raises(AddressForbidden, match=r"WINDLASS_ALLOW_PRIVATE_ADDRESSES.*no token exists"):
            await outbound.post(site.url, b"", {})
        with pytest.raises(AddressForbidden):
            async with outbound.get(FetchRequest(url=site.url)):
                pass
        changing.policy = LOCAL
        await outbound.post(site.url, b"", {})
        assert len(site.asked) == 2


async def test_the_address_behind_a_name_is_what_counts() -> None:
    async with Site().open() as site, Outbound(parse_policy("no", is_local=True), Names(["127.0.0.1"])) as outbound:
        with pytest.raises(AddressForbidden):
            await outbound.post(f"http://worker.example:{site.port}", b"", {})
        assert site.asked == []


async def test_a_name_that_changes_between_two_looks_gains_nothing() -> None:
    """Each look is dialled as it was checked: there is no second look to deceive."""
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    async with Site().open() as site, Outbound(parse_policy("127.0.0.2/32", is_local=False), names) as outbound:
        with pytest.raises(RequestFailed) as first:
            await outbound.post(f"http://worker.example:{site.port}", b"", {})
        assert not isinstance(first.value, AddressForbidden)  # it connected to 127.0.0.2, which has no listener
        assert names.asked == ["worker.example"]
        with pytest.raises(AddressForbidden):
            await outbound.post(f"http://worker.example:{site.port}", b"", {})
        assert site.asked == []


async def test_of_several_addresses_only_allowed_ones_are_dialled() -> None:
    names = Names(["10.0.0.1", "127.0.0.1", "::ffff:10.0.0.1"])
    async with Site().open() as site, Outbound(LOCAL, names) as outbound:
        assert (await outbound.post(f"http://worker.example:{site.port}", b"", {})).status == 202


async def test_redirects_are_answers() -> None:
    async with Site().open() as inner:
        where = f"HTTP/1.1 307 Go\r\nLocation: {inner.url}/secret\r\nContent-Length: 0\r\n\r\n".encode()
        async with Site(where).open() as site, Outbound(LOCAL) as outbound:
            assert (await outbound.post(site.url, b"", {})).status == 307
        assert inner.asked == []


async def test_cookies_are_not_kept_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site().open() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        async with Site(cookie).open() as site, Outbound(LOCAL) as outbound:
            for _ in range(2):
                await outbound.post(site.url, b"", {})
            assert len(site.asked) == 2
            assert b"ookie" not in b"".join(site.asked)
        assert proxy.asked == []


async def test_an_answer_that_is_too_long_is_given_up() -> None:
    async def endless(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    async with Site(endless).open() as site, Outbound(LOCAL) as outbound, asyncio.timeout(20):
        with pytest.raises(ResponseTooLarge):
            await outbound.post(site.url, b"", {}, timeout_s=15, answer_max=10_000)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 202 Accep", b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nab"])
async def test_an_answer_that_does_not_come_is_given_up(said: bytes) -> None:
    async def stall(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await asyncio.sleep(60)

    async with Site(stall).open() as site, Outbound(LOCAL) as outbound, asyncio.timeout(20):
        with pytest.raises(RequestFailed, match="has not answered within"):
            await outbound.post(site.url, b"", {}, timeout_s=0.2)


@pytest.mark.parametrize(
    "said",
    [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"],
)
async def test_what_is_not_http_is_no_answer(said: bytes) -> None:
    async with Site(said).open() as site, Outbound(LOCAL) as outbound:
        with pytest.raises(RequestFailed):
            await outbound.post(site.url, b"", {}, timeout_s=10)


async def test_no_listener() -> None:
    async with Site().open() as site:
        url = site.url
    async with Outbound(LOCAL) as outbound:
        with pytest.raises(RequestFailed, match="cannot be reached"):
            await outbound.post(url, b"", {})


async def test_an_unknown_certificate_is_no_answer() -> None:
    async with Site(b"\x15\x03\x03\x00\x02\x02\x28").open() as site, Outbound(LOCAL) as outbound:
        with pytest.raises(RequestFailed):
            await outbound.post(site.url.replace("http:", "https:"), b"", {}, timeout_s=5)


async def test_a_url_that_cannot_be_used_is_bad_input() -> None:
    async with Outbound(LOCAL) as outbound:
        with pytest.raises(BadInput):
            await outbound.post("http://user:secret@127.0.0.1/", b"", {})
