"""Bounds of a listener: connections, sizes and timeouts. They are the same for all clients."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one listener. The status in a comment answers a request beyond the limit."""

    connections_max: int = 4096  # further connections are answered 503 and closed
    rejected_max: int = 64  # connections being rejected at a time; further ones are closed without an answer

    line_bytes_max: int = 8 * 1024  # request target: 414
    header_bytes_max: int = 32 * 1024  # names and values of one request, trailers included: 431
    headers_max: int = 100  # fields of one request: 431

    pipelined_max: int = 16  # requests queued behind the current one; then reading pauses
    pipelined_bytes_max: int = 1024 * 1024  # bodies of the queued requests
    bodies_bytes_max: int = 256 * 1024 * 1024  # all buffered bodies of all connections: 503
    stream_bytes_max: int = 64 * 1024  # buffered part of a streamed body; then reading pauses
    drain_bytes_max: int = 64 * 1024  # discarded part of an unwanted body; then the connection is closed

    idle_timeout_s: float = 75.0  # no request, on a new connection too
    crowded_timeout_s: float = 5.0  # the same while three quarters of the connections are in use
    head_timeout_s: float = 10.0  # from the first byte of a request head to its last: 408
    body_timeout_s: float = 30.0  # for the next `body_step_bytes` of a buffered body, any byte of a streamed one: 408
    body_step_bytes: int = 512
    write_timeout_s: float = 30.0  # for a client that reads nothing of its answer
    linger_timeout_s: float = 2.0  # for a client that still sends after the last answer, so that it can read it
    stop_delay_s: float = 0.25  # between the stop and closing idle connections: requests in transit are still answered

    @property
    def sweep_s(self) -> float:
        """Interval between two checks of all connections: a second, or a quarter of the shortest timeout."""
        reading = (self.idle_timeout_s, self.crowded_timeout_s, self.head_timeout_s, self.body_timeout_s)
        return min(1.0, min(*reading, self.write_timeout_s, self.linger_timeout_s) / 4)
