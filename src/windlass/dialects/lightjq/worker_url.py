"""Whether a worker's URL may be called at all, said when it registers. What counts is checked again at each call."""

from __future__ import annotations

import asyncio
import socket

from windlass.core.errors import BadInput
from windlass.outbound import Policy, checked_url

LOOKUP_TIMEOUT_S = 2.0


async def check_reachable(url: str, policy: Policy) -> None:
    """BadInput when none of its addresses may be dialled from here. A name that stands for none now may do so later."""
    parts = checked_url(url)
    addresses = await _addresses(parts.host or "", parts.port or 0)
    if addresses and not any(map(policy.may_dial, addresses)):
        raise BadInput(
            f"url leads to {addresses[0]}, which is not a public address and must not be called from here; register a "
            "public one, or have its network allowed by WINDLASS_ALLOW_PRIVATE_ADDRESSES."
        )


async def _addresses(host: str, port: int) -> list[str]:
    looking_up = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    try:
        return [str(found[4][0]) for found in await asyncio.wait_for(looking_up, LOOKUP_TIMEOUT_S)]
    except (OSError, UnicodeError, TimeoutError):
        return []
