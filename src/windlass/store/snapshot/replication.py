"""Data of an engine at one instant, as a new replica receives them (SYNC), written to a file in the RDB format."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import IO

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, WindlassError
from windlass.store.connection.connection import CommandArgs, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.replies import is_command_unknown
from windlass.store.connection.sync_connection import SyncConnection

SILENT_S = 60.0  # an engine that prepares the data sends an empty line every few seconds
READ_BYTES = 1 << 20
GREETING_MAX = 256  # bytes
MARK_BYTES = 40
HEAD_BYTES = 4_096  # in which the instant is
# A replica that accepts data of unknown length, and wants no writes after them: the engine buffers none for it.
_INTRODUCTION: tuple[CommandArgs, ...] = (("REPLCONF", "capa", "eof"), ("REPLCONF", "rdb-only", 1))
_CREATED = b"\xfa\x05ctime"  # field of an RDB: instant at which the engine began to save, in seconds
_INTEGER_BYTES = {0xC0: 1, 0xC1: 2, 0xC2: 4}  # encodings of an integer, and how many bytes follow


def receive_snapshot(node: Endpoint, file: IO[bytes]) -> int:
    """Write the data of a node to a file. Return the instant that they are of, by the clock of the engine: the second
    in which it began, so that all writes acknowledged before are in them."""
    connection = SyncConnection.open(node)
    try:
        connection.pipeline(_INTRODUCTION)  # an engine that knows them not, or forbids them, tells so at SYNC as well
        sock = connection.start_stream("SYNC", timeout_s=SILENT_S)
        start = _Start()
        with _explain_loss(node):
            rest, mark, length = _read_greeting(sock, node)
            chunks = _until_mark(sock, rest, mark) if mark else _until_length(sock, rest, length)
            for chunk in chunks:
                start.read(chunk)
                file.write(chunk)
        return start.created_at_ms(node)
    finally:
        connection.close()


class _Start:
    """First bytes of an RDB."""

    def __init__(self) -> None:
        self._head = bytearray()

    def read(self, chunk: bytes) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[:HEAD_BYTES]

    def created_at_ms(self, node: Endpoint) -> int:
        at = self._head.find(_CREATED) + len(_CREATED)
        size = _INTEGER_BYTES.get(self._head[at], 0) if at >= len(_CREATED) and at < len(self._head) else 0
        if not self._head.startswith((b"REDIS", b"VALKEY")) or not size:
            raise EngineUnavailable(f"{node} sent no snapshot in the RDB format, or one without its instant.")
        return int.from_bytes(self._head[at + 1 : at + 1 + size], "little") * 1_000


def _read_greeting(sock: socket.socket, node: Endpoint) -> tuple[bytes, bytes, int]:
    """Return the first data, and either the mark that ends the data or their length."""
    buffered = b""
    while True:
        buffered = (buffered + _receive(sock)).lstrip(b"\n")  # empty lines: the engine is preparing the data
        line, end, rest = buffered.partition(b"\r\n")
        if end:
            break
        if len(buffered) > GREETING_MAX:
            raise EngineUnavailable(f"{node} did not answer SYNC as an engine does.")
    if line.startswith(b"$EOF:") and len(line) == len(b"$EOF:") + MARK_BYTES:
        return rest, line[-MARK_BYTES:], 0
    if line.startswith(b"$") and line[1:].isdigit():
        return rest, b"", int(line[1:])
    raise _refusal(node, line.decode(errors="replace"))


def _refusal(node: Endpoint, line: str) -> WindlassError:
    reply = EngineReplyError(line.removeprefix("-"))
    if reply.kind == "NOPERM" or is_command_unknown(reply, "sync"):
        return EngineNotPermitted(
            f"{node} gives this user no snapshot: {reply}. Grant it with `ACL SETUSER USER +sync +replconf`, or use a "
            "user that may; a managed service may forbid it for all. With --live, the backup reads the running engine "
            "instead; it is then not of one instant (docs/backup.md)."
        )
    return EngineUnavailable(f"{node} gives no snapshot now: {reply}.")


def _until_mark(sock: socket.socket, rest: bytes, mark: bytes) -> Iterator[bytes]:
    """Yield data up to the mark, after which the engine sends nothing."""
    while not rest.endswith(mark):
        if len(rest) > MARK_BYTES:
            yield rest[:-MARK_BYTES]
            rest = rest[-MARK_BYTES:]
        rest += _receive(sock)
    yield rest[:-MARK_BYTES]


def _until_length(sock: socket.socket, rest: bytes, length: int) -> Iterator[bytes]:
    while len(rest) < length:
        yield rest
        length -= len(rest)
        rest = _receive(sock)
    yield rest[:length]


def _receive(sock: socket.socket) -> bytes:
    try:
        data = sock.recv(READ_BYTES)
    except (TimeoutError, BlockingIOError) as error:
        raise ConnectionResetError(f"nothing came for {SILENT_S:g} s") from error
    except OSError as error:  # also of TLS
        raise ConnectionResetError(str(error)) from error
    if not data:
        raise ConnectionResetError("the engine closed the connection")
    return data


@contextlib.contextmanager
def _explain_loss(node: Endpoint) -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise EngineUnavailable(
            f"{node} broke off the snapshot: {error}. Its log has the reason; a service that forbids SYNC may do this, "
            "too (--live works there; docs/backup.md)."
        ) from error
