"""Faults of the proxy between processes: reset, half-open, slow and narrow connections, and connection storms."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable

from ..deployment import Deployment
from ..proxy import ProxyLink
from .fault import PROXIED, SINGLE_ADDRESS, Fault, Inject

STORM_CONNECTIONS = 300


def _choose_links(deployment: Deployment, rng: random.Random) -> list[ProxyLink]:
    """Choose one link, or all links to one side."""
    links = list(deployment.proxy.links.values())
    if not links:
        return []
    if rng.random() < 0.5:
        return [rng.choice(links)]
    target = rng.choice(["→engine", "→http", "→bedrock"])
    return [link for link in links if link.name.endswith(target)]


def _on_links(disturb: Callable[[ProxyLink, random.Random], None]) -> Inject:
    def inject(deployment: Deployment, length_s: float, rng: random.Random) -> str:
        links = _choose_links(deployment, rng)
        for link in links:
            disturb(link, rng)
        time.sleep(length_s)
        for link in links:
            link.restore()
        return ", ".join(link.name for link in links) if len(links) < 3 else f"{len(links)} links"

    return inject


def _storm(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    """Open and drop hundreds of connections, some after half a request."""
    ports = [link.port for link in deployment.proxy.links.values()]
    port = rng.choice(ports)
    give_up_at = time.monotonic() + max(length_s, 1.0)
    connections: list[socket.socket] = []
    beginnings = (b"", b"GET /healthz HT", b"*3\r\n$4\r\nLPUS", b"CreateJob\r\nname: x")
    while len(connections) < STORM_CONNECTIONS and time.monotonic() < give_up_at:
        with contextlib.suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=1.0)
            connections.append(connection)
            connection.sendall(rng.choice(beginnings))
    for connection in connections:
        connection.close()
    return f"port of {next(link.name for link in deployment.proxy.links.values() if link.port == port)}"


CUT = Fault(
    "network-cut",
    "existing and new connections are reset for a while",
    _on_links(lambda link, _: link.cut()),
    PROXIED,
    weight=4,
)
DROP = Fault(
    "network-drop", "connections are reset once", _on_links(lambda link, _: link.drop()), PROXIED,
    longest_s=0.3, weight=3,
)  # fmt: skip
STALL = Fault(
    "network-stall", "half open: connections pass no data and are not closed", _on_links(lambda link, _: link.stall()),
    PROXIED, longest_s=4.0, weight=3,
)  # fmt: skip
DELAY = Fault(
    "network-delay",
    "every packet is delayed by 20 to 300 ms",
    _on_links(lambda link, rng: link.slow(rng.uniform(0.02, 0.3))),
    PROXIED,
    longest_s=3.0,
)
NARROW = Fault(
    "network-narrow", "20 kB a second", _on_links(lambda link, _: link.slow(0.0, 20_000)), SINGLE_ADDRESS, longest_s=3.0
)
STORM = Fault(
    "connection-storm",
    f"up to {STORM_CONNECTIONS} connections opened and dropped, some after half a request",
    _storm,
    PROXIED,
)
