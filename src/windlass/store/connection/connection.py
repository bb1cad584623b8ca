"""Asyncio connection to an engine node, with the errors and the handshake that it shares with the sync connection.

The connection for threads is in sync_connection.py. reconnect.py adds reconnects and retries.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Self, TypeAlias, cast

import hiredis

from windlass.core.errors import BadSetting, EngineError, EngineUnavailable, WindlassError

from .endpoint import Endpoint

CONNECT_LIMIT_S = 5.0
KEEPALIVE_IDLE_S = 60

Argument: TypeAlias = bytes | str | int | float
CommandArgs: TypeAlias = tuple[Argument, ...]

INCOMPLETE: Any = object()
pack: Callable[[CommandArgs], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub: a tuple of one


class ConnectionLost(EngineUnavailable):
    """Loss of the connection before the reply arrived. The engine may or may not have executed the command."""


class EngineReplyError(EngineError):
    """Error reply of the engine. `kind` is its first word (NOSCRIPT, READONLY, WRONGTYPE, …)."""

    def __init__(self, reply: str, context: str = "") -> None:
        super().__init__(context + reply)
        self.kind = reply.partition(" ")[0]


def new_reader() -> hiredis.Reader:
    return hiredis.Reader(replyError=EngineReplyError, notEnoughData=INCOMPLETE)


def handshake(endpoint: Endpoint) -> Iterator[CommandArgs]:
    if endpoint.username:
        yield "AUTH", endpoint.username, endpoint.password or ""
    elif endpoint.password:
        yield "AUTH", endpoint.password
    if endpoint.db:
        yield "SELECT", endpoint.db
    yield "CLIENT", "SETNAME", "windlass"


_CREDENTIAL_HINTS = {
    "NOAUTH": " Write the user and the password into the URL: redis://user:password@host:6379/0",
    "WRONGPASS": " Check the user and the password in the URL.",
}


def check_handshake_refusal(endpoint: Endpoint, command: CommandArgs, refusal: EngineReplyError) -> None:
    """Raise the engine's refusal of a handshake command, with the endpoint in the message."""
    if command[0] == "CLIENT" and refusal.kind == "NOPERM":
        return  # the name only helps people who read CLIENT LIST
    if "max number of clients" in str(refusal):
        raise EngineUnavailable(f"{endpoint} accepts no more clients: raise maxclients.") from refusal
    hint = _CREDENTIAL_HINTS.get(refusal.kind, "")
    raise EngineReplyError(f"{refusal}{hint}", f"{endpoint} refused {command[0]!s}: ") from refusal


def connect_error(endpoint: Endpoint, error: OSError, timeout_s: float) -> WindlassError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "Name the CA that signed it with ?ssl_ca_certs=/path/ca.pem"
        return BadSetting(f"The certificate of {endpoint} is not trusted: {error.verify_message}. {hint}")
    reason = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
    return EngineUnavailable(f"Cannot connect to {endpoint}: {reason}.")


def tune(sock: socket.socket) -> None:
    if sock.family == getattr(socket, "AF_UNIX", None):  # Windows has none
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)


class Connection(asyncio.Protocol):
    """Pipelining connection: commands of one event loop iteration are written together, replies match by order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = new_reader()
        self._outgoing: list[bytes] = []
        self._pending: deque[asyncio.Future[Any]] = deque()
        self._lost_reason: str | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()

    @classmethod
    async def open(cls, endpoint: Endpoint, timeout_s: float = CONNECT_LIMIT_S) -> Self:
        connection = cls()
        try:
            async with asyncio.timeout(timeout_s):
                await connection._connect(endpoint)
                await connection._handshake(endpoint)
        except OSError as error:
            connection.close()
            raise connect_error(endpoint, error, timeout_s) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def call(self, *args: Argument) -> asyncio.Future[Any]:
        return self.call_packed(pack(args))

    def call_packed(self, packed: bytes) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._lost_reason is not None:
            future.set_exception(ConnectionLost(self._lost_reason))
            return future
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(packed)
        self._pending.append(future)
        return future

    async def call_within(self, timeout_s: float, *args: Argument) -> Any:
        """Send a command and await its reply.

        Without a reply in time the connection is aborted, so that a half-open socket blocks no caller forever.
        """
        return await self._within(timeout_s, self.call(*args))

    def start_within(self, timeout_s: float, packed: bytes) -> Coroutine[Any, Any, Any]:
        """Write a packed command, and all commands queued before it, now. Return a coroutine for the reply."""
        if self._lost_reason is not None:
            return self._within(timeout_s, self.call_packed(packed))
        future: asyncio.Future[Any] = self._loop.create_future()
        self._outgoing.append(packed)
        self._pending.append(future)
        self._flush()
        return self._within(timeout_s, future)

    async def _within(self, timeout_s: float, future: asyncio.Future[Any]) -> Any:
        watchdog = self._loop.call_later(timeout_s, self._abort_unanswered, future, timeout_s)
        try:
            return await future
        finally:
            watchdog.cancel()

    async def pipeline_within(self, timeout_s: float, commands: Sequence[CommandArgs]) -> list[Any]:
        """Return all replies in order, error replies as values. All must arrive within the timeout."""
        futures = self._send_together(commands)
        watchdog = self._loop.call_later(timeout_s, self._abort_unanswered, futures[-1], timeout_s)
        try:
            replies = await asyncio.gather(*futures, return_exceptions=True)
        finally:
            watchdog.cancel()
        if isinstance(replies[-1], ConnectionLost):  # replies come in order, so a loss always includes the last
            raise replies[-1]
        return replies

    async def drain(self) -> None:
        """Wait until the write buffer is below its limit."""
        self._flush()
        await self._writable.wait()
        if self._lost_reason is not None:
            raise ConnectionLost(self._lost_reason)

    @property
    def is_closed(self) -> bool:
        return self._lost_reason is not None

    def close(self) -> None:
        """Close the connection. Pending calls fail now; unwritten commands are dropped."""
        self._lose("The connection to the engine was closed by this process.")

    async def wait_closed(self) -> None:
        await self._gone.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass

    def data_received(self, data: bytes) -> None:
        next_reply, next_call = self._reader.gets, self._pending.popleft
        try:
            self._reader.feed(data)
            while (reply := next_reply()) is not INCOMPLETE:
                future = next_call()
                if future.done():
                    continue  # cancelled; it stayed queued so that later replies match their calls
                if reply.__class__ is EngineReplyError:
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self._lose(f"The engine sent bytes that are not a reply: {error}.")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(f"The connection to the engine was lost: {error or 'closed by the engine'}.")
        self._gone.set()

    async def _connect(self, endpoint: Endpoint) -> None:
        if endpoint.unix_path is not None:
            await self._loop.create_unix_connection(lambda: self, endpoint.unix_path)
            return
        transport, _ = await self._loop.create_connection(
            lambda: self, endpoint.host, endpoint.port, ssl=endpoint.ssl_context()
        )
        tune(transport.get_extra_info("socket"))

    async def _handshake(self, endpoint: Endpoint) -> None:
        for command in handshake(endpoint):
            try:
                await self.call(*command)
            except EngineReplyError as refusal:
                check_handshake_refusal(endpoint, command, refusal)

    def _send_together(self, commands: Sequence[CommandArgs]) -> list[asyncio.Future[Any]]:
        if self._lost_reason is not None:
            raise ConnectionLost(self._lost_reason)
        packed = b"".join(map(pack, commands))  # first, so that a wrong argument sends none of them
        futures: list[asyncio.Future[Any]] = [self._loop.create_future() for _ in commands]
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(packed)
        self._pending.extend(futures)
        return futures

    def _flush(self) -> None:
        if self._outgoing and self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
            self._outgoing.clear()

    def _abort_unanswered(self, future: asyncio.Future[Any], timeout_s: float) -> None:
        if not future.done():
            self._lose(f"The engine gave no reply within {timeout_s:g} s.")

    def _lose(self, reason: str) -> None:
        if self._lost_reason is not None:
            return
        self._lost_reason = reason
        self._outgoing.clear()
        for future in self._pending:
            if not future.done():
                future.set_exception(ConnectionLost(reason))
        self._pending.clear()
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
