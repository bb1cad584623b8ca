"""Sync connection for threads: one call or pipeline at a time, on a plain socket."""

import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import hiredis

from .connection import (
    CONNECT_LIMIT_S,
    INCOMPLETE,
    Argument,
    CommandArgs,
    ConnectionLost,
    EngineReplyError,
    check_handshake_refusal,
    connect_error,
    handshake,
    new_reader,
    pack,
    tune,
)
from .endpoint import Endpoint

REPLY_LIMIT_S = 30.0
READ_BYTES = 65_536
_TIMEVAL = struct.Struct("ll")  # seconds, microseconds


class SentCommands:
    """Commands that were sent, with the replies received so far."""

    __slots__ = ("count", "replies")

    def __init__(self, count: int) -> None:
        self.count = count
        self.replies: list[Any] = []


class SyncConnection:
    """Connection for one thread at a time. It refuses to work in a process forked after it was opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = new_reader()
        self._pid = os.getpid()
        self._lost_reason: str | None = None
        self._sent: deque[SentCommands] = deque()  # replies come in this order
        self._limit_s = -1.0

    @classmethod
    def open(cls, endpoint: Endpoint, timeout_s: float = CONNECT_LIMIT_S) -> Self:
        try:
            connection = cls(_connected_socket(endpoint, timeout_s))
        except OSError as error:
            raise connect_error(endpoint, error, timeout_s) from error
        try:
            connection._handshake(endpoint, timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def call(self, *args: Argument, timeout_s: float | None = None) -> Any:
        [reply] = self._round_trip(pack(args), 1, timeout_s)
        if reply.__class__ is EngineReplyError:
            raise reply
        return reply

    def call_packed(self, packed: bytes, timeout_s: float) -> Any:
        """Call with a command that is already packed."""
        if self._sent or timeout_s != self._limit_s:
            [reply] = self._round_trip(packed, 1, timeout_s)
        else:
            if self._lost_reason is not None or os.getpid() != self._pid:
                self._refuse_if_lost()
            try:
                self._socket.sendall(packed)
                self._reader.feed(self._socket.recv(READ_BYTES))  # `_next_reply` sees the end of the stream
                reply = self._next_reply()
            except (OSError, hiredis.ProtocolError) as error:
                raise self._connection_error(error, timeout_s) from error
            except BaseException:
                self.close()  # as in _send
                raise
        if reply.__class__ is EngineReplyError:
            raise reply
        return reply

    def pipeline(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """Return all replies in order, error replies as values."""
        return self._round_trip(b"".join(map(pack, commands)), len(commands), timeout_s)

    @property
    def is_closed(self) -> bool:
        return self._lost_reason is not None

    def close(self) -> None:
        self._lose("The connection to the engine was closed by this process.")
        self._socket.close()  # also one that carries a stream

    def send(self, *args: Argument, timeout_s: float | None = None) -> SentCommands:
        """Send a command; `receive` returns its reply. Other calls may be made in between."""
        return self._send(pack(args), 1, REPLY_LIMIT_S if timeout_s is None else timeout_s)

    def receive(self, sent: SentCommands, timeout_s: float | None = None) -> Any:
        if not sent.replies:
            self._refuse_if_lost()
        [reply] = self._receive(sent, REPLY_LIMIT_S if timeout_s is None else timeout_s)
        if reply.__class__ is EngineReplyError:
            raise reply
        return reply

    def start_stream(self, *args: Argument, timeout_s: float) -> socket.socket:
        """Send a command whose answer is a stream, and return the socket that it comes from. No other command can be
        sent on this connection afterwards."""
        self._send(pack(args), 1, timeout_s)
        self._lost_reason = "The connection to the engine carries a stream."
        return self._socket

    def _round_trip(self, packed: bytes, reply_count: int, timeout_s: float | None) -> list[Any]:
        limit_s = REPLY_LIMIT_S if timeout_s is None else timeout_s
        return self._receive(self._send(packed, reply_count, limit_s), limit_s)

    def _send(self, packed: bytes, reply_count: int, limit_s: float) -> SentCommands:
        self._refuse_if_lost()
        try:
            if limit_s != self._limit_s:
                self._set_timeout(limit_s)
            self._socket.sendall(packed)
        except (OSError, hiredis.ProtocolError) as error:
            raise self._connection_error(error, limit_s) from error
        except BaseException:
            self.close()  # interrupted: the rest of this reply would be read as the next call's
            raise
        sent = SentCommands(reply_count)
        self._sent.append(sent)
        return sent

    def _refuse_if_lost(self) -> None:
        if os.getpid() != self._pid:
            self._lose("The connection to the engine was opened before a fork and is the parent's.")
        if self._lost_reason is not None:
            raise ConnectionLost(self._lost_reason)

    def _receive(self, sent: SentCommands, limit_s: float) -> list[Any]:
        try:
            while len(sent.replies) < sent.count:
                oldest = self._sent[0]
                oldest.replies.append(self._next_reply())
                if len(oldest.replies) == oldest.count:
                    self._sent.popleft()
        except (OSError, hiredis.ProtocolError) as error:
            raise self._connection_error(error, limit_s) from error
        except BaseException:
            self.close()  # interrupted: the rest of this reply would be read as the next call's
            raise
        return sent.replies

    def _set_timeout(self, limit_s: float) -> None:
        """Set the socket timeout, in the kernel where possible: Python's own timeouts poll before each I/O call."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(limit_s)
        else:
            self._socket.settimeout(None)
            limit = _TIMEVAL.pack(int(limit_s), max(1, int(limit_s % 1 * 1_000_000)))  # zero means no limit
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._limit_s = limit_s

    def _connection_error(self, error: Exception, limit_s: float) -> ConnectionLost:
        if isinstance(error, TimeoutError | BlockingIOError):
            return self._lose(f"The engine gave no reply within {limit_s:g} s.")
        return self._lose(f"The connection to the engine was lost: {error}.")

    def _next_reply(self) -> Any:
        while (reply := self._reader.gets()) is INCOMPLETE:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError("closed by the engine")
            self._reader.feed(data)
        return reply

    def _handshake(self, endpoint: Endpoint, timeout_s: float) -> None:
        for command in handshake(endpoint):
            try:
                self.call(*command, timeout_s=timeout_s)
            except EngineReplyError as refusal:
                check_handshake_refusal(endpoint, command, refusal)

    def _lose(self, reason: str) -> ConnectionLost:
        if self._lost_reason is None:
            self._lost_reason = reason
            self._socket.close()  # no shutdown(): after a fork it would end the parent's connection too
        return ConnectionLost(reason)


def _connected_socket(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    if endpoint.unix_path is None:
        sock = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
    else:
        sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        if endpoint.unix_path is not None:
            sock.connect(endpoint.unix_path)
        tune(sock)
        context = endpoint.ssl_context()
        return sock if context is None else context.wrap_socket(sock, server_hostname=endpoint.host)
    except BaseException:
        sock.close()
        raise
