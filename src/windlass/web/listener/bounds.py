"""Every bound on what a client may send, hold or keep us waiting for. Nothing here is about who the client is."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    connections_max: int = 4096  # beyond it a connection is answered 503 and closed
    rejected_max: int = 64  # of these at a time; beyond it they are closed without a word

    line_bytes_max: int = 8 * 1024  # of the request target: 414
    header_bytes_max: int = 32 * 1024  # names and values of one request, trailers included: 431
    headers_max: int = 100  # fields of one request: 431

    pipelined_max: int = 16  # requests that wait behind the one under way; reading pauses there
    pipelined_bytes_max: int = 1024 * 1024  # of bodies that wait behind it
    bodies_bytes_max: int = 256 * 1024 * 1024  # of all bodies that are held at a time, whoever sent them: 503
    stream_bytes_max: int = 64 * 1024  # of a streamed body that its handler has not asked for yet
    drain_bytes_max: int = 64 * 1024  # of an unwanted body that is read only to keep the connection

    idle_timeout_s: float = 75.0  # nothing asked and nothing under way, on a new connection too
    crowded_timeout_s: float = 5.0  # the same while three quarters of the connections are in use
    head_timeout_s: float = 10.0  # from its first byte to its last: 408
    body_timeout_s: float = 30.0  # time for the next `body_step_bytes` of a gathered body, any byte of a streamed one
    body_step_bytes: int = 512
    write_timeout_s: float = 30.0  # for a client that reads nothing of its answer
    linger_timeout_s: float = 2.0  # a client that still sends after our last word may read it meanwhile
    stop_delay_s: float = 0.25  # when the server stops, requests that are on their way to it are still answered

    @property
    def sweep_s(self) -> float:
        """How often connections are looked at. Timeouts are kept to about a second, shorter ones to a quarter."""
        asked = (self.idle_timeout_s, self.crowded_timeout_s, self.head_timeout_s, self.body_timeout_s)
        return min(1.0, min(*asked, self.write_timeout_s, self.linger_timeout_s) / 4)
