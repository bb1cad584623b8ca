"""Links: connections that open at the first call, are renewed when they break, and then repeat their calls. Where to is
the route's to say, each time they connect.

When to repeat is decided once, in patience.py; `Link` serves asyncio, `BlockingLink` threads.
"""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.topology import fencing
from windlass.store.topology.permissions import raise_explained
from windlass.store.topology.topology import Route, Standalone

from .connection import CONNECT_LIMIT_S, Argument, CommandArgs, Connection, ConnectionLost, EngineReplyError
from .endpoint import Endpoint
from .node_connections import NodeConnections
from .retry_policy import RetryPolicy
from .sync_connection import SyncConnection

REPLY_LIMIT_S = 10.0  # shorter than a connection's own: we repeat, so a half-open socket should cost little
PATIENCE_S = 30.0

# A node that is no primary (any more) answers so: only a fresh connection can arrive at the one that is.
WRONG_NODE_KINDS = frozenset({"READONLY", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED"})
# The connection is good, but this slot's calls belong on another; others may share it.
WRONG_SLOT_KINDS = frozenset({"MOVED", "CLUSTERDOWN"})


def _raise_first_error(replies: Sequence[Any]) -> None:
    for reply in replies:
        if reply.__class__ is EngineReplyError:
            raise_explained(reply)


def _asking_commands(commands: Sequence[CommandArgs], functions: Callable[[], str]) -> list[CommandArgs]:
    """What a node is sent that was named for one call. A function may never have been called there: it is brought."""
    brought = ("FUNCTION", "LOAD", functions()) if commands[0][0] == "FCALL" else ("PING",)
    return [brought, ("ASKING",), *commands]


def _read_asking_replies(replies: list[Any], is_one: bool) -> Any:
    _raise_first_error(replies[1:3])  # not of the first: mostly the library is there already
    return replies[2] if is_one else replies[2:]


class ReconnectingConnection:
    """A `Connection` that opens at the first call and is renewed when it breaks; it repeats calls then."""

    def __init__(
        self,
        route: Route | Endpoint,
        *,
        before_connect: Callable[[], Awaitable[None]] | None = None,
        patience_s: float = PATIENCE_S,
        reply_limit_s: float = REPLY_LIMIT_S,
        nodes: NodeConnections | None = None,
        roots: Callable[[], Sequence[str]] = tuple,
        functions: Callable[[], str] = str,
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        self.route = Standalone(route) if isinstance(route, Endpoint) else route
        self._interrupted = interrupted  # called when it is not known whether a call was carried out
        self._nodes = nodes or NodeConnections()
        self._functions = functions  # the library, for a node that is asked for the first time
        self._roots = roots  # of the partitions whose tokens must only grow
        self._node: Endpoint | None = None  # where the connection goes
        self._before_connect = before_connect
        self._patience_s = patience_s
        self._reply_limit_s = reply_limit_s
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._is_closed = False

    def call(self, *args: Argument, timeout_s: float | None = None) -> Coroutine[Any, Any, Any]:
        """`timeout_s` replaces the reply limit; a blocking command needs one longer than its own."""
        return self._call_with_retry(Connection.call_within, args, timeout_s)

    def begin(self, packed: bytes) -> Coroutine[Any, Any, Any] | None:
        """A packed command, on its way when this returns, if there is a connection. What goes wrong is raised, and
        nothing repeated."""
        connection = self._connection
        if connection is None or connection.is_closed:
            return None
        return connection.start_within(self._reply_limit_s, packed)

    async def call_together(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """All replies, from one connection and with no other call in between.

        A lost connection, or a passing answer to the first command, repeats them all. Any other error is
        raised: a later command speaks of what the first has done, so its refusal does not undo that.
        """
        if len(commands) < 2:
            return [await self.call(*command, timeout_s=timeout_s) for command in commands]
        replies: list[Any] = await self._call_with_retry(_pipeline, commands, timeout_s)
        _raise_first_error(replies)
        return replies

    def reconnect(self) -> None:
        """The next call finds its node anew; calls under way are repeated there."""
        if self._connection is not None:
            self._connection.close()

    def close(self) -> None:
        """With all connections that it shares."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._nodes.close()

    async def wait_closed(self) -> None:
        if self._connecting is not None:
            await asyncio.wait({self._connecting})
        await self._nodes.wait_closed()

    async def _call_with_retry(
        self, send: Callable[..., Awaitable[Any]], what: Sequence[Any], timeout_s: float | None
    ) -> Any:
        limit_s = self._reply_limit_s if timeout_s is None else timeout_s
        policy: RetryPolicy | None = None
        named: Endpoint | None = None  # by the engine, for this one time
        while True:
            connection = self._connection
            try:
                if named is not None:
                    return await self._asking(named, limit_s, send, what)
                if connection is None or connection.is_closed:
                    connection = await self._reconnect()
                return await send(connection, limit_s, *what)
            except WindlassError as problem:
                if self._interrupted is not None and not isinstance(problem, EngineReplyError):
                    self._interrupted()
                if self._is_closed:
                    raise
                policy = policy or RetryPolicy(self.route, self._patience_s)
                pause_s = policy.pause_s_after(problem)
                named = self.route.handle_problem(problem, named or self._node)
                self._drop(connection, getattr(problem, "kind", ""))
            await asyncio.sleep(pause_s)

    async def _asking(
        self, named: Endpoint, limit_s: float, send: Callable[..., Awaitable[Any]], what: Sequence[Any]
    ) -> Any:
        """At a node that will serve the slot, and takes a call for it already when asked to."""
        connection = await self._nodes.to(named, min(CONNECT_LIMIT_S, self._patience_s))
        is_one = send is not _pipeline
        commands = _asking_commands([tuple(what)] if is_one else what, self._functions)
        return _read_asking_replies(await connection.pipeline_within(limit_s, commands), is_one)

    def _drop(self, connection: Connection | None, kind: str) -> None:
        if connection is None:
            return
        if kind in WRONG_NODE_KINDS:
            connection.close()
        elif kind in WRONG_SLOT_KINDS and self._connection is connection:
            self._connection = None

    async def _reconnect(self) -> Connection:
        """All callers wait for one attempt and share its outcome; a cancelled caller does not end it."""
        if self._is_closed:
            raise ConnectionLost("This link to the engine is closed.")
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        attempt = self._connecting
        await asyncio.wait({attempt}, timeout=self._patience_s)
        if not attempt.done():
            raise EngineUnavailable(f"Cannot connect to {self.route}: the attempt is still going on.")
        if attempt.cancelled():
            raise ConnectionLost("This link to the engine was closed while it connected.")
        return attempt.result()

    async def _connect(self) -> Connection:
        if self._before_connect is not None:
            await self._before_connect()
        self._node = await self.route.find()
        connection = await self._nodes.to(self._node, min(CONNECT_LIMIT_S, self._patience_s))
        if self.route.check is not None:
            await self._examine(self.route.check, connection, self._node)
        if roots := self._roots():
            replies = await connection.pipeline_within(self._reply_limit_s, fencing.queries(roots))
            if commands := fencing.fence_commands(roots, replies):
                _raise_first_error(await connection.pipeline_within(self._reply_limit_s, commands))
        self._connection = connection
        return connection

    async def _examine(self, question: CommandArgs, connection: Connection, node: Endpoint) -> None:
        try:
            self.route.check_node(node, await connection.call_within(self._reply_limit_s, *question))
        except BaseException:
            connection.close()
            raise

    def _connect_ended(self, attempt: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # seen, even if every caller was cancelled meanwhile


async def _pipeline(connection: Connection, limit_s: float, *commands: CommandArgs) -> list[Any]:
    replies = await connection.pipeline_within(limit_s, commands)
    _raise_first_error(replies[:1])
    return replies


class SyncReconnectingConnection:
    """The same for threads, which take turns. A call that blocks in the engine wants a link of its own."""

    def __init__(
        self,
        route: Route | Endpoint,
        *,
        before_connect: Callable[[], None] | None = None,
        patience_s: float = PATIENCE_S,
        reply_limit_s: float = REPLY_LIMIT_S,
        roots: Callable[[], Sequence[str]] = tuple,
        functions: Callable[[], str] = str,
    ) -> None:
        self.route = Standalone(route) if isinstance(route, Endpoint) else route
        self._functions = functions
        self._roots = roots
        self._node: Endpoint | None = None
        self._before_connect = before_connect
        self._patience_s = patience_s
        self._reply_limit_s = reply_limit_s
        self._lock = threading.Lock()
        self._connection: SyncConnection | None = None
        self._failed_connect: EngineUnavailable | None = None
        self._is_closed = False
        _sync_connections.add(self)

    def call(self, *args: Argument, timeout_s: float | None = None) -> Any:
        """`timeout_s` replaces the reply limit; a blocking command needs one longer than its own."""
        return self._call_with_retry(SyncConnection.call, args, timeout_s)

    def call_packed(self, packed: bytes) -> Any:
        """The same with the bytes of one command; not where the engine may name another node for it."""
        return self._call_with_retry(SyncConnection.call_packed, (packed,), None)

    def begin(self, *args: Argument) -> Callable[[], Any]:
        """Sends a call; what it answers waits for the reply. Other calls may go in between. Nothing is repeated: what
        goes wrong is raised, here or there."""
        limit_s = self._reply_limit_s
        with self._lock:
            connection = self._connection
            if connection is None or connection.is_closed:
                connection = self._connect(None)
            sent = connection.send(*args, timeout_s=limit_s)

        def receive() -> Any:
            with self._lock:
                return connection.receive(sent, timeout_s=limit_s)

        return receive

    def call_together(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """As `Link.call_together`."""
        if len(commands) < 2:
            return [self.call(*command, timeout_s=timeout_s) for command in commands]
        replies: list[Any] = self._call_with_retry(_pipeline_sync, commands, timeout_s)
        _raise_first_error(replies)
        return replies

    def close(self) -> None:
        """Waits for the call that is under way."""
        self._is_closed = True
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _call_with_retry(self, send: Callable[..., Any], what: Sequence[Any], timeout_s: float | None) -> Any:
        limit_s = self._reply_limit_s if timeout_s is None else timeout_s
        policy: RetryPolicy | None = None
        named: Endpoint | None = None
        while True:
            try:
                return self._attempt(send, what, limit_s, named)
            except WindlassError as problem:
                if self._is_closed:
                    raise
                policy = policy or RetryPolicy(self.route, self._patience_s)
                pause_s = policy.pause_s_after(problem)
                named = self.route.handle_problem(problem, named or self._node)
            time.sleep(pause_s)

    def _attempt(self, send: Callable[..., Any], what: Sequence[Any], limit_s: float, named: Endpoint | None) -> Any:
        failure_seen = self._failed_connect
        if named is not None:
            return self._asking(named, limit_s, send, what)
        with self._lock:
            connection = self._connection
            if connection is None or connection.is_closed:
                connection = self._connect(failure_seen)
            try:
                return send(connection, *what, timeout_s=limit_s)
            except EngineReplyError as refusal:
                if refusal.kind in WRONG_NODE_KINDS | WRONG_SLOT_KINDS:
                    connection.close()
                raise

    def _asking(self, named: Endpoint, limit_s: float, send: Callable[..., Any], what: Sequence[Any]) -> Any:
        """As `Link._asking`, on a connection for this one time."""
        is_one = send is not _pipeline_sync
        commands = _asking_commands([tuple(what)] if is_one else what, self._functions)
        connection = SyncConnection.open(named, min(CONNECT_LIMIT_S, self._patience_s))
        try:
            return _read_asking_replies(connection.pipeline(commands, limit_s), is_one)
        finally:
            connection.close()

    def _connect(self, failure_seen: EngineUnavailable | None) -> SyncConnection:
        if self._is_closed:
            raise ConnectionLost("This link to the engine is closed.")
        if self._failed_connect is not None and self._failed_connect is not failure_seen:
            # Another thread's attempt failed while this one waited for the lock: it counts for both.
            raise ConnectionLost(str(self._failed_connect))
        try:
            if self._before_connect is not None:
                self._before_connect()
            self._node = self.route.find_sync()
            connection = SyncConnection.open(self._node, min(CONNECT_LIMIT_S, self._patience_s))
            self._prepare(connection, self._node)
            self._connection = connection
        except EngineUnavailable as failure:
            self._failed_connect = failure
            raise
        self._failed_connect = None
        return self._connection

    def _prepare(self, connection: SyncConnection, node: Endpoint) -> None:
        try:
            if self.route.check is not None:
                self.route.check_node(node, connection.call(*self.route.check, timeout_s=self._reply_limit_s))
            if roots := self._roots():
                replies = connection.pipeline(fencing.queries(roots), self._reply_limit_s)
                if commands := fencing.fence_commands(roots, replies):
                    _raise_first_error(connection.pipeline(commands, self._reply_limit_s))
        except BaseException:
            connection.close()
            raise

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that exists only in the parent may have held the old one
        if self._connection is not None:
            self._connection.close()


def _pipeline_sync(connection: SyncConnection, *commands: CommandArgs, timeout_s: float) -> list[Any]:
    replies = connection.pipeline(commands, timeout_s)
    _raise_first_error(replies[:1])
    return replies


_sync_connections: "weakref.WeakSet[SyncReconnectingConnection]" = weakref.WeakSet()


def _reset_after_fork() -> None:
    for link in _sync_connections:
        link._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
