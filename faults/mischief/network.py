"""What happens between processes: connections are reset, hang half open, are slow or narrow; hundreds come and go."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable

from ..deployment import Deployment
from ..proxy import Link
from .fault import AT_ONE_ADDRESS, PROXIED, Fault

STORM = 300


def _some(deployment: Deployment, chance: random.Random) -> list[Link]:
    """One link, or all that lead to one side."""
    links = list(deployment.proxy.links.values())
    if not links:
        return []
    if chance.random() < 0.5:
        return [chance.choice(links)]
    to = chance.choice(["→engine", "→http", "→bedrock"])
    return [link for link in links if link.name.endswith(to)]


def _told(tell: Callable[[Link, random.Random], None]) -> Callable[[Deployment, float, random.Random], str]:
    def do(deployment: Deployment, length_s: float, chance: random.Random) -> str:
        links = _some(deployment, chance)
        for link in links:
            tell(link, chance)
        time.sleep(length_s)
        for link in links:
            link.mend()
        return ", ".join(link.name for link in links) if len(links) < 3 else f"{len(links)} links"

    return do


def _storm(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    """Hundreds of connections are opened and dropped, some after half a request."""
    ports = [link.port for link in deployment.proxy.links.values()]
    port = chance.choice(ports)
    give_up_at = time.monotonic() + max(length_s, 1.0)
    opened: list[socket.socket] = []
    words = (b"", b"GET /healthz HT", b"*3\r\n$4\r\nLPUS", b"CreateJob\r\nname: x")
    while len(opened) < STORM and time.monotonic() < give_up_at:
        with contextlib.suppress(OSError):
            one = socket.create_connection(("127.0.0.1", port), timeout=1.0)
            opened.append(one)
            one.sendall(chance.choice(words))
    for one in opened:
        one.close()
    return f"port of {next(link.name for link in deployment.proxy.links.values() if link.port == port)}"


CUT = Fault(
    "network-cut",
    "existing and new connections are reset for a while",
    _told(lambda link, _: link.cut()),
    PROXIED,
    weight=4,
)
DROP = Fault(
    "network-drop", "connections are reset once", _told(lambda link, _: link.drop()), PROXIED, longest_s=0.3, weight=3
)
STALL = Fault(
    "network-stall", "half open: connections pass no data and are not closed", _told(lambda link, _: link.stall()),
    PROXIED, longest_s=4.0, weight=3,
)  # fmt: skip
DELAY = Fault(
    "network-delay",
    "every packet is delayed by 20 to 300 ms",
    _told(lambda link, chance: link.slow(chance.uniform(0.02, 0.3))),
    PROXIED,
    longest_s=3.0,
)
NARROW = Fault(
    "network-narrow", "20 kB a second", _told(lambda link, _: link.slow(0.0, 20_000)), AT_ONE_ADDRESS, longest_s=3.0
)
STORM_OF = Fault(
    "connection-storm", f"up to {STORM} connections opened and dropped, some after half a request", _storm, PROXIED
)
