"""Allowed addresses, and valid URLs."""

from __future__ import annotations

import pytest

from windlass.core.errors import BadInput, BadSetting
from windlass.outbound import parse_http_url, parse_policy

PUBLIC = ("93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1")
NOT_PUBLIC = (
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",  # noqa: S104
    "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.7", "240.0.0.1",
    "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::10.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",
    "2002:7f00:1::1", "2002:a00:1::1", "2002:c0a8:101::1", "2001:0:7f00:1:0:0:f5ff:fffe", "100::1",
    "192.0.0.192", "192.88.99.1", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "3fff::1", "::ffff:0:7f00:1",
    "::ffff:168.63.129.16", "64:ff9b::c000:c0",
)  # fmt: skip
MULTICAST = ("224.0.0.1", "239.255.255.250", "ff02::1", "::ffff:224.0.0.1", "64:ff9b::e000:1")
NOT_ADDRESSES = ("", "localhost", "1.2.3", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "::gg")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_dialled(address: str) -> None:
    assert parse_policy("no", is_local=False).is_allowed(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_others_only_when_they_are_allowed(address: str) -> None:
    assert not parse_policy("no", is_local=True).is_allowed(address)
    assert parse_policy("yes", is_local=False).is_allowed(address)


@pytest.mark.parametrize("address", [*MULTICAST, *NOT_ADDRESSES])
def test_some_never(address: str) -> None:
    assert not parse_policy("yes", is_local=True).is_allowed(address)


def test_networks_are_allowed_one_by_one() -> None:
    policy = parse_policy("10.1.0.0/16, fd00::/8", is_local=False)
    assert [policy.is_allowed(one) for one in ("10.1.2.3", "10.2.0.1", "fd00::5", "127.0.0.1")] == [
        True,
        False,
        True,
        False,
    ]
    assert policy.is_allowed("::ffff:10.1.2.3")
    assert policy.is_allowed("64:ff9b::a01:203")


def test_unless_said_otherwise_loopback_is_for_servers_on_loopback() -> None:
    local, other = parse_policy("", is_local=True), parse_policy("", is_local=False)
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert local.is_allowed(address)
        assert not other.is_allowed(address)
    assert not local.is_allowed("10.0.0.1")
    assert not local.is_allowed("0.0.0.0")  # noqa: S104


@pytest.mark.parametrize("text", ["maybe", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8;fd00::/8", ","])
def test_a_wrong_setting_is_said(text: str) -> None:
    with pytest.raises(BadSetting, match="allow_private_addresses"):
        parse_policy(text, is_local=True)


@pytest.mark.parametrize(
    "text",
    [
        "http://worker.example", "https://worker.example:8443/base", "http://127.0.0.1:80/x?y=1", "http://[::1]:8080/",
        "http://my_host/", "http://xn--bcher-kva.example/", "http://bücher.example/", "HTTP://EXAMPLE.COM./",
    ],
)  # fmt: skip
def test_urls_that_are_taken(text: str) -> None:
    assert parse_http_url(text).scheme in ("http", "https")


@pytest.mark.parametrize(
    "text",
    [
        "", "worker.example", "ftp://worker.example/", "file:///etc/passwd", "gopher://x/", "http://", "http:///x",
        "http://user@host/", "http://user:secret@host/", "http://@host/", "http://:@host/", "http://host/#part",
        "http://host:0/", "http://host:65536/", "http://host:x/", "http://127.1/", "http://2130706433/",
        "http://0x7f000001/", "http://0177.0.0.1/", "http://0x7f.1/", "http://127.0.0.1./", "http://1.2.3.4.5/",
        "http://host\\@evil/", "http://ho st/", "http://host/\r\nX: y", "http://host/\t", "http://[::1/", "http://[fe80]/",
        "http://-x.example/", "http://a..b/", "http://" + "a" * 64 + ".example/", "http://x/" + "y" * 2048,
    ],
)  # fmt: skip
def test_urls_that_are_not(text: str) -> None:
    with pytest.raises(BadInput):
        parse_http_url(text)
