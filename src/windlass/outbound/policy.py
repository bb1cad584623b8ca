"""Which addresses may be dialled. Pure: the client asks about the very address that it is about to dial."""

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

# An IPv4 address in the last 32 bits: of translators (RFC 6052), and the old compatible form (RFC 4291).
_EMBEDS_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# Translators of a site (RFC 8215): where the IPv4 address stands is the site's affair.
_SITE_TRANSLATORS = IPv6Network("64:ff9b:1::/48")
# Not for the public either, whatever the version of Python that runs this knows of it: protocol assignments, among them
# the metadata of a cloud; relays of 6to4; the host agent of a cloud, at an address like any other; documentation.
_NOT_PUBLIC: tuple[Network, ...] = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv6Network("3fff::/20"),
)
_EVERYTHING: tuple[Network, ...] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class PolicySource(Protocol):
    """What the client asks before each request: the policy may change while the process runs."""

    async def current(self) -> Policy: ...


class Policy(msgspec.Struct, frozen=True):
    """Public addresses, and the networks named here. Multicast never. As a source it is always itself."""

    allowed: tuple[Network, ...] = ()

    async def current(self) -> Policy:
        return self

    def is_allowed(self, text: str) -> bool:
        """For an address as the socket layer writes it."""
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
        f"{address} is not a public address, and must not be asked from here; its network can be allowed "
        "by WINDLASS_ALLOW_PRIVATE_ADDRESSES."
    )
    if any(meant in network for meant in _destinations(ip_address(address)) for network in _LOOPBACK):
        refusal += " Loopback is allowed by default only where the server listens on loopback and no token exists."
    return refusal


def _destinations(address: Address) -> tuple[Address, ...]:
    """The addresses that a packet to this one ends up at: of a form that holds an IPv4 address, that one."""
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
    """From the setting: `yes`, `no`, or networks with commas between. When nothing is said, a server that only this
    machine can reach may reach this machine; that this ends with the first token is for the server to see to."""
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
            f"The setting allow_private_addresses is wrong: {error}. Say yes, no, or networks such as "
            "10.0.0.0/8,fd00::/8."
        ) from error
