"""Policy of allowed addresses. It does no I/O: the client asks about each address right before it connects."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Protocol, TypeAlias

import msgspec

from windlass.core.errors import BadSetting

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Networks with an IPv4 address in the last 32 bits: translators (RFC 6052), and the old compatible form (RFC 4291).
_EMBEDS_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# Translators of a site (RFC 8215): the site decides where the IPv4 address is.
_SITE_TRANSLATORS = IPv6Network("64:ff9b:1::/48")
# Not public either, whatever this version of Python knows about them: protocol assignments, which include a cloud's
# metadata service; 6to4 relays; a cloud's host agent, at an otherwise ordinary address; documentation.
_NOT_PUBLIC: tuple[Network, ...] = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv6Network("3fff::/20"),
)
_EVERYTHING: tuple[Network, ...] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class PolicySource(Protocol):
    """Source of the policy. The client reads it before each request, because the policy may change at run time."""

    async def current(self) -> Policy: ...


class Policy(msgspec.Struct, frozen=True):
    """Allows public addresses and the networks in `allowed`, never multicast. As a source, it returns itself."""

    allowed: tuple[Network, ...] = ()

    async def current(self) -> Policy:
        return self

    def is_allowed(self, text: str) -> bool:
        """Check an address in the notation of the socket layer."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return all(self._is_reachable(destination) for destination in _destinations(address))

    def _is_reachable(self, address: Address) -> bool:
        if address.is_multicast:
            return False
        return _is_public(address) or any(address in network for network in self.allowed)


def forbidden_message(address: str) -> str:
    refusal = (
        f"{address} is not a public address, so requests to it are not allowed; "
        "WINDLASS_ALLOW_PRIVATE_ADDRESSES can allow its network."
    )
    if any(meant in network for meant in _destinations(ip_address(address)) for network in _LOOPBACK):
        refusal += " Loopback is allowed by default only where the server listens on loopback and no token exists."
    return refusal


def _destinations(address: Address) -> tuple[Address, ...]:
    """Return the addresses that a packet to this address may reach: for a form that embeds an IPv4 address, that one
    too."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return address, address.sixtofour
    if address.teredo is not None:
        return address, *address.teredo
    plain = IPv6Address(int(address))  # without its scope
    if plain not in _LOOPBACK[1] and any(plain in network for network in _EMBEDS_IPV4):
        return (IPv4Address(int(plain) & 0xFFFFFFFF),)
    return (plain,)


def _is_public(address: Address) -> bool:
    if address.is_unspecified or address.is_reserved or not address.is_global:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv6Address):
        return not address.is_site_local and address not in _SITE_TRANSLATORS
    return True


def parse_policy(allow_private_addresses: str, *, is_local: bool) -> Policy:
    """Parse the setting: `yes`, `no`, or networks separated by commas. If it is empty, a server that listens on
    loopback only may reach loopback. The server itself ends this when the first token is created."""
    text = allow_private_addresses.strip()
    if text.lower() in ("1", "true", "yes", "on"):
        return Policy(_EVERYTHING)
    if text.lower() in ("0", "false", "no", "off"):
        return Policy()
    if not text:
        return Policy(_LOOPBACK if is_local else ())
    try:
        return Policy(tuple(ip_network(part.strip()) for part in text.split(",")))
    except ValueError as error:
        raise BadSetting(
            f"The setting allow_private_addresses is invalid: {error}. Use yes, no, or networks such as "
            "10.0.0.0/8,fd00::/8."
        ) from error
