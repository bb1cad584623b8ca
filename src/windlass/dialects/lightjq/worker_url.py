"""Check of a worker's URL at registration. Each call checks the address again."""

from __future__ import annotations

import asyncio
import socket

from windlass.core.errors import BadInput
from windlass.outbound import Policy, parse_http_url

LOOKUP_TIMEOUT_S = 2.0


async def check_reachable(url: str, policy: Policy) -> None:
    """Raise BadInput if no address of the URL may be called. A host without an address is accepted."""
    parts = parse_http_url(url)
    addresses = await _addresses(parts.host or "", parts.port or 0)
    if addresses and not any(map(policy.is_allowed, addresses)):
        raise BadInput(
            f"url leads to {addresses[0]}, which is not a public address and may not be called; register a public "
            "address, or allow its network with WINDLASS_ALLOW_PRIVATE_ADDRESSES."
        )


async def _addresses(host: str, port: int) -> list[str]:
    lookup = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    try:
        return [str(entry[4][0]) for entry in await asyncio.wait_for(lookup, LOOKUP_TIMEOUT_S)]
    except (OSError, UnicodeError, TimeoutError):
        return []
