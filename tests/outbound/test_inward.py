"""Known ways to make this server reach addresses that only it can reach (SSRF). None works: not by a push or a callback
(post), a download (get), a redirect or a proxy."""

from __future__ import annotations

import pytest

from tests.outbound.test_outbound import Names, Site
from tests.outbound.test_outbound_get import read
from windlass.core.errors import BadInput, WindlassError
from windlass.outbound import AddressForbidden, FetchRequest, InvalidRedirect, Outbound, parse_policy

pytestmark = pytest.mark.anyio
PUBLIC = "127.0.0.2"  # represents a public address: the only one that is allowed here
POLICY = parse_policy(f"{PUBLIC}/32", is_local=False)

# Authorities that some programs read as 127.0.0.1 or as another inner address.
HOSTS = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.0.0.1",  # noqa: S104
    "0177.0.0.1", "017700000001", "00000177.1", "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[0:0::1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:7f00:1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b:1::127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1%25lo]",
    "[fe80::1%lo]", "[::1%25lo]", "１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::ffff:127.0.0.１]", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "127.0.0.1%00.example.org", "%31%32%37.0.0.1", "127.0.0.1;example.org", "example.org@127.0.0.1",
    "example.org:80@127.0.0.1", "127.0.0.1@localhost", "example.org#@127.0.0.1", "example.org\\@127.0.0.1",
    "127.0.0.1\\.example.org", "example.org%40127.0.0.1", "127.0.0.1:80:80", "",
    "169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16",
    "metadata.google.internal", "10.0.0.1", "192.168.0.1", "[fd00::1]", "224.0.0.1", "255.255.255.255",
]  # fmt: skip
SCHEMES = ["file:///etc/passwd", "ftp://{}/", "gopher://{}/_x", "unix:///run/x", "//{}/", "http:{}", "http:/{}/", "{}"]


def _url(host: str, port: int) -> str:
    return f"http://{host}:{port}/secret" if host else f"http://:{port}/secret"


class Fallible(Names):
    """A name that resolves only here leads to an inner address."""

    def __init__(self) -> None:
        super().__init__(["127.0.0.1", "::1", "169.254.169.254"])


@pytest.mark.parametrize("host", HOSTS)
async def test_no_host_leads_inward(host: str) -> None:
    async with Site().open() as inner, Outbound(POLICY, Fallible()) as outbound:
        for url in (_url(host, inner.port), _url(host, inner.port) + "?a=b"):
            with pytest.raises((AddressForbidden, BadInput)):
                await outbound.post(url, b"", {})
            with pytest.raises((AddressForbidden, BadInput)):
                await read(outbound, FetchRequest(url=url))
        assert inner.asked == []


@pytest.mark.parametrize("host", HOSTS)
async def test_no_redirect_leads_inward(host: str) -> None:
    async with Site().open() as inner, Site().open(PUBLIC) as outer, Outbound(POLICY, Fallible()) as outbound:
        there = _url(host, inner.port).encode("utf-8")
        outer._answer = b"HTTP/1.1 302 Found\r\nLocation: " + there + b"\r\nContent-Length: 0\r\n\r\n"
        with pytest.raises((AddressForbidden, InvalidRedirect)):
            await read(outbound, FetchRequest(url=f"http://{PUBLIC}:{outer.port}/"))
        assert len(outer.asked) == 1
        assert inner.asked == []
        assert (await outbound.post(f"http://{PUBLIC}:{outer.port}/", b"", {})).status == 302
        assert inner.asked == []


@pytest.mark.parametrize("host", HOSTS)
async def test_no_proxy_is_sent_inward_or_is_inward(host: str) -> None:
    async with Site().open() as inner, Site().open(PUBLIC) as proxy, Outbound(POLICY, Fallible()) as outbound:
        with pytest.raises((AddressForbidden, BadInput)):
            await read(outbound, FetchRequest(url=_url(host, 80), proxy=f"http://{PUBLIC}:{proxy.port}"))
        with pytest.raises((AddressForbidden, BadInput)):
            await read(outbound, FetchRequest(url=f"http://{PUBLIC}:{proxy.port}/", proxy=_url(host, inner.port)[:-7]))
        assert proxy.asked == inner.asked == []


@pytest.mark.parametrize("pattern", SCHEMES)
async def test_other_schemes_are_none(pattern: str) -> None:
    async with Site().open() as inner, Outbound(POLICY) as outbound:
        url = pattern.format(f"127.0.0.1:{inner.port}")
        with pytest.raises(BadInput):
            await outbound.post(url, b"", {})
        with pytest.raises(BadInput):
            await read(outbound, FetchRequest(url=url))
        assert inner.asked == []


async def test_a_name_that_turns_inward_while_its_connection_is_kept() -> None:
    """A reused connection leads to the address that was checked; a new connection is checked again."""
    fine = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with Site(fine).open() as inner, Site(fine).open(PUBLIC) as outer:
        names = Names([PUBLIC], ["127.0.0.1"])
        async with Outbound(POLICY, names) as outbound:
            for _ in range(2):
                assert (await outbound.post(f"http://turns.example:{outer.port}/", b"", {})).status == 200
            with pytest.raises(AddressForbidden):
                await outbound.post(f"http://turns.example:{inner.port}/", b"", {})
        assert inner.asked == []


async def test_nothing_of_ours_goes_along_to_another_site() -> None:
    async with Site().open(PUBLIC) as other, Site().open(PUBLIC) as outer, Outbound(POLICY) as outbound:
        where = f"HTTP/1.1 302 F\r\nLocation: http://{PUBLIC}:{other.port}/\r\nContent-Length: 0\r\n\r\n"
        outer._answer = where.encode()
        url = f"http://me:password@{PUBLIC}:{outer.port}/"
        await read(
            outbound, FetchRequest(url=url, headers={"X-Api-Key": "secret", "Cookie": "a=b", "Accept": "text/plain"})
        )
        assert b"Basic" in outer.asked[0]
        for secret in (b"Authorization", b"X-Api-Key", b"Cookie", b"password"):
            assert secret not in other.asked[0]
        assert b"text/plain" in other.asked[0]


@pytest.mark.parametrize("name", ["X\r\nHost", "X\nY", "X\0"])
async def test_no_header_brings_another_with_it(name: str) -> None:
    async with Site().open(PUBLIC) as site, Outbound(POLICY) as outbound:
        for headers in ({name: "a"}, {"X-Fine": f"a\r\n{name}: b"}, {"X-Fine": "a\nb"}, {"X-Fine": "a\0b"}):
            for ask in (
                lambda given=headers: outbound.post(f"http://{PUBLIC}:{site.port}/", b"", given),
                lambda given=headers: read(outbound, FetchRequest(url=f"http://{PUBLIC}:{site.port}/", headers=given)),
            ):
                with pytest.raises(WindlassError):
                    await ask()
        assert b"".join(site.asked).count(b"\r\nX") == 0
