"""Large answers through the guarded client: addresses on the way, and the classification of failures."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.abc import ResolveResult

from tests.outbound.test_outbound import LOCAL, Names, Site
from windlass.core.errors import BadInput
from windlass.outbound import (
    AddressForbidden,
    FetchRequest,
    Outbound,
    RequestFailed,
    TlsFailed,
    fetch,
    parse_policy,
    parse_proxy,
)

pytestmark = pytest.mark.anyio
FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def read(outbound: Outbound, wanted: FetchRequest) -> bytes:
    async with asyncio.timeout(30), outbound.get(wanted) as incoming:
        parts = []
        while part := await incoming.read():
            parts.append(part)
        return b"".join(parts)


async def test_one_connection_serves_many() -> None:
    connections: set[int] = set()

    async def fine(_: bytes, writer: asyncio.StreamWriter) -> None:
        connections.add(writer.get_extra_info("peername")[1])
        writer.write(FINE)

    async with Site(fine).open() as site, Outbound(LOCAL) as outbound:
        for _ in range(5):
            assert await read(outbound, FetchRequest(url=site.url)) == b"hello"
        assert len(connections) == 1


async def test_the_address_behind_a_name_is_what_counts() -> None:
    async with Site(FINE).open() as site, Outbound(parse_policy("no", is_local=True), Names(["127.0.0.1"])) as outbound:
        with pytest.raises(AddressForbidden):
            await read(outbound, FetchRequest(url=f"http://files.example:{site.port}/"))
        assert site.asked == []


async def test_a_name_that_turns_inward_after_the_redirect_gains_nothing() -> None:
    """The second look finds another address, and that is checked as well."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    async with Site(b"").open() as site:
        site._answer = (
            f"HTTP/1.1 302 F\r\nLocation: http://b.example:{site.port}/\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with Outbound(parse_policy("127.0.0.1/32", is_local=False), names) as outbound:
            with pytest.raises(AddressForbidden, match=r"127\.0\.0\.2"):
                await read(outbound, FetchRequest(url=f"http://a.example:{site.port}/"))
        assert len(site.asked) == 1


async def test_a_name_that_does_not_resolve_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Names):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr(fetch, "DIAL_S", 0.05)
    async with Outbound(LOCAL, Silent([])) as outbound:
        with pytest.raises(RequestFailed, match="could not be reached in time"):
            await read(outbound, FetchRequest(url="http://silent.example/"))


async def test_a_long_url_is_fetched() -> None:
    async with Site(FINE).open() as site, Outbound(LOCAL) as outbound:
        assert await read(outbound, FetchRequest(url=f"{site.url}/?signed={'x' * 8000}")) == b"hello"


async def test_what_a_proxy_would_reach_is_checked_by_what_its_name_means_here() -> None:
    names = Names(["127.0.0.2"])
    async with (
        Site(FINE).open() as proxy,
        Outbound(parse_policy("127.0.0.1/32", is_local=False), names) as outbound,
    ):
        with pytest.raises(AddressForbidden, match=r"127\.0\.0\.2"):
            await read(outbound, FetchRequest(url="http://inside.example/", proxy=proxy.url))
        assert proxy.asked == []


@pytest.mark.parametrize("kind", [TimeoutError, OSError, ConnectionResetError, ValueError])
async def test_trouble_of_the_reader_stays_its_own(kind: type[Exception]) -> None:
    async with Site(FINE).open() as site, Outbound(LOCAL) as outbound:
        with pytest.raises(kind, match="mine"):
            async with outbound.get(FetchRequest(url=site.url, timeout_s=20)):
                raise kind("mine")


async def test_time_counts_while_the_reader_does_something_else() -> None:
    async with Site(FINE).open() as site, Outbound(LOCAL) as outbound:
        with pytest.raises(RequestFailed, match="was not read within"):
            async with outbound.get(FetchRequest(url=site.url, timeout_s=0.05)):
                await asyncio.sleep(30)


async def test_trouble_tells_no_password_and_no_signature() -> None:
    """What went wrong stands in logs and in reports."""

    async def cut(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")

    async def around(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 F\r\nLocation: /x?key=SECRET\r\nContent-Length: 0\r\n\r\n")

    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    for answer, timeout_s in ((cut, None), (around, None), (silent, 0.05)):
        async with Site(answer).open() as site, Outbound(LOCAL) as outbound:
            url = f"http://me:SECRET@127.0.0.1:{site.port}/SECRET?key=SECRET#SECRET"
            with pytest.raises(RequestFailed) as raised:
                await read(outbound, FetchRequest(url=url, timeout_s=timeout_s))
            assert "SECRET" not in str(raised.value)


async def test_an_answer_that_is_not_tls() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server, Outbound(LOCAL) as outbound:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TlsFailed):
            await read(outbound, FetchRequest(url=f"https://127.0.0.1:{port}/"))


@pytest.mark.parametrize(
    "text", ["socks5://127.0.0.1:1", "127.0.0.1:8080", "http://127.0.0.1:1/path", "http://a@b@127.1/", "http://", "foo"]
)
def test_what_is_no_proxy(text: str) -> None:
    with pytest.raises(BadInput):
        parse_proxy(text)


def test_a_proxy_with_a_password() -> None:
    assert parse_proxy("http://me:p%40ss@127.0.0.1:3128") == (
        parse_proxy("http://127.0.0.1:3128").url,
        "Basic bWU6cEBzcw==",
    )
