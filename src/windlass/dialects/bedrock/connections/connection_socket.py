"""Socket side of a connection: bounds on unread and unsent bytes, and how the connection closes."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.wire import BedrockReader, BedrockRequest, Reply, encode_reply

from .acknowledgement import SentBytes, is_reset, sent_bytes

if TYPE_CHECKING:
    from .listener import BedrockListener

FIRST_CHECK_S, LAST_CHECK_S = 0.0005, 0.05  # pauses between checks whether a client acknowledged its jobs
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}  # seconds, seconds, probes


class ConnectionSocket(asyncio.Protocol):
    # Ten thousand connections may be idle, so none has a task, a queue or a dictionary.
    __slots__ = (
        "_abort_at",
        "_has_eof",
        "_is_blocked",
        "_is_paused",
        "_listener",
        "_progress_at",
        "_reader",
        "_transport",
        "_unconfirmed",
        "_unsent",
        "_write_progress_at",
        "client",
    )  # fmt: skip

    def __init__(self, listener: BedrockListener) -> None:
        self._listener = listener
        self._reader = BedrockReader(listener.bounds)
        self._is_paused = False  # reading is paused
        self._has_eof = False
        self._unconfirmed: list[tuple[BedrockRequest, Reply]] | None = None  # jobs sent after the client's end of input
        self._is_blocked = False  # writing is paused: the client does not read
        self._unsent = 0  # bytes in the write buffer at the last check
        self._write_progress_at = 0.0  # when the client last read some bytes
        self._progress_at = (
            listener.loop.time()
        )  # when the last request started to arrive, or the last reply was written
        self._abort_at = 0.0  # when a closing connection is aborted; 0: it is not closing

    def _attach(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client = BedrockClient(peer[0] if isinstance(peer, tuple) else "")
        _keep_alive(transport.get_extra_info("socket"))

    def _write_reply(self, reply: Reply, *, closes: bool, protocol: str = "") -> None:
        if not self.client.is_gone:
            self._transport.write(encode_reply(reply, closes=closes, protocol=protocol))

    # Reading.

    def _pause(self) -> None:
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def _drop_input(self) -> None:
        self._listener.buffered_bytes -= self._reader.buffered_bytes
        self._reader = BedrockReader(self._listener.bounds)

    # Closing.

    def _reply_and_close(self, reply: Reply) -> None:
        self._write_reply(reply, closes=True)
        self._close(lingers=True)

    def _close(self, *, lingers: bool = False) -> None:
        """Close the connection after the last reply.

        With `lingers`, or when a request has arrived in part, the client may go on sending for a moment: closing a
        socket that has unread bytes would discard the last reply."""
        if self._abort_at or self.client.is_gone:
            return
        lingers = lingers or self._is_paused or self._reader.is_mid_request
        self._drop_input()
        self._write_progress_at = self._listener.loop.time()
        self._abort_at = self._write_progress_at + self._listener.bounds.linger_timeout_s
        if self._has_eof or not lingers:
            self._end()
            return
        self._resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _end(self) -> None:
        """Close the connection. Jobs that were sent after the client's end of input must be acknowledged before."""
        if self._unconfirmed:
            self._await_acknowledgement(FIRST_CHECK_S)
        else:
            self._transport.close()

    def _await_acknowledgement(self, pause_s: float) -> None:
        if self.client.is_gone:
            return
        state = sent_bytes(self._transport)
        if state is SentBytes.PENDING:  # `sweep` aborts the connection of a client that never acknowledges
            self._listener.loop.call_later(pause_s, self._await_acknowledgement, min(2 * pause_s, LAST_CHECK_S))
        elif state is SentBytes.RESET:
            self._abort()  # `connection_lost` returns the jobs
        else:
            self._unconfirmed = None
            self._transport.close()

    def _check_half_closed(self) -> None:
        """Abort the connection of a client that is gone. After the end of its input nothing is read from it."""
        if self._has_eof and is_reset(self._transport.get_extra_info("socket")):
            self._abort()

    def _abort(self) -> None:
        if not self.client.is_gone:
            self.client.is_gone = True
            self._transport.abort()

    def _check_send_timeout(self, now: float) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._write_progress_at = unsent, now
        is_over = (
            now - self._write_progress_at > self._listener.bounds.write_timeout_s if unsent else now >= self._abort_at
        )
        if is_over and (unsent or self._abort_at):
            self._abort()


def _keep_alive(peer: socket.socket) -> None:
    """Detect clients on machines that are gone, before a waiting client is given a job."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
