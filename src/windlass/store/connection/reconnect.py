"""Connections that open at the first call, reconnect when they break, and repeat the failed calls.

The route names the node at each connect; retry_policy.py decides which calls are repeated.
`ReconnectingConnection` serves asyncio, `SyncReconnectingConnection` threads.
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
from windlass.store.topology.topology import NodeRoute, Standalone

from .connection import CONNECT_LIMIT_S, Argument, CommandArgs, Connection, ConnectionLost, EngineReplyError
from .endpoint import Endpoint
from .node_connections import NodeConnections
from .redirection import LoadCommand, asking_commands, asking_result, no_code, raise_first_error
from .retry_policy import RetryPolicy
from .sync_connection import SyncConnection

REPLY_LIMIT_S = 10.0  # shorter than a connection's own limit: calls are repeated, so give up on a half-open socket soon
PATIENCE_S = 30.0

# Replies of a node that is not (or no longer) a primary. Only a new connection can reach the current primary.
WRONG_NODE_KINDS = frozenset({"READONLY", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED"})
# The connection works, but this slot is served by another node. Other slots may still use the connection.
WRONG_SLOT_KINDS = frozenset({"MOVED", "CLUSTERDOWN"})


class ReconnectingConnection:
    """Asyncio connection that opens at the first call, reconnects when it breaks, and repeats failed calls."""

    def __init__(
        self,
        route: NodeRoute | Endpoint,
        *,
        before_connect: Callable[[], Awaitable[None]] | None = None,
        patience_s: float = PATIENCE_S,
        reply_limit_s: float = REPLY_LIMIT_S,
        nodes: NodeConnections | None = None,
        roots: Callable[[], Sequence[str]] = tuple,
        load_command: LoadCommand = no_code,
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        self.route = Standalone(route) if isinstance(route, Endpoint) else route
        self._interrupted = interrupted  # called when it is unknown whether the engine executed a call
        self._nodes = nodes or NodeConnections()
        self._load_command = load_command  # for a node that lacks the code
        self._roots = roots  # of the partitions whose tokens must only grow
        self._node: Endpoint | None = None  # node of the current connection
        self._before_connect = before_connect
        self._patience_s = patience_s
        self._reply_limit_s = reply_limit_s
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._is_closed = False

    def call(self, *args: Argument, timeout_s: float | None = None) -> Coroutine[Any, Any, Any]:
        """Call a command. `timeout_s` replaces the reply limit; it must exceed the timeout of a blocking command."""
        return self._call_with_retry(Connection.call_within, args, timeout_s)

    def start(self, packed: bytes) -> Coroutine[Any, Any, Any] | None:
        """Send a packed command now and return a coroutine for its reply, or None without a connection.

        Errors are raised; nothing is repeated.
        """
        connection = self._connection
        if connection is None or connection.is_closed:
            return None
        return connection.start_within(self._reply_limit_s, packed)

    async def call_together(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """Return all replies, from one connection and with no other call in between.

        A lost connection, or a transient error of the first command, repeats them all. Any other error is
        raised: a later command refers to the effect of the first, so its refusal does not undo the first.
        """
        if len(commands) < 2:
            return [await self.call(*command, timeout_s=timeout_s) for command in commands]
        replies: list[Any] = await self._call_with_retry(_pipeline, commands, timeout_s)
        raise_first_error(replies)
        return replies

    def reconnect(self) -> None:
        """Drop the connection. The next call looks up its node again; calls in flight are repeated there."""
        if self._connection is not None:
            self._connection.close()

    def close(self) -> None:
        """Close it with all connections that it shares."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._nodes.close()

    async def wait_closed(self) -> None:
        if self._connecting is not None:
            await asyncio.wait({self._connecting})
        await self._nodes.wait_closed()

    async def _call_with_retry(
        self, send: Callable[..., Awaitable[Any]], args: Sequence[Any], timeout_s: float | None
    ) -> Any:
        limit_s = self._reply_limit_s if timeout_s is None else timeout_s
        policy: RetryPolicy | None = None
        redirected_to: Endpoint | None = None  # by the engine, for one call (ASK)
        while True:
            connection = self._connection
            try:
                if redirected_to is not None:
                    return await self._asking(redirected_to, limit_s, send, args)
                if connection is None or connection.is_closed:
                    connection = await self._reconnect()
                return await send(connection, limit_s, *args)
            except WindlassError as problem:
                if self._interrupted is not None and not isinstance(problem, EngineReplyError):
                    self._interrupted()
                if self._is_closed:
                    raise
                policy = policy or RetryPolicy(self.route, self._patience_s)
                pause_s = policy.pause_s_after(problem)
                redirected_to = self.route.handle_problem(problem, redirected_to or self._node)
                self._drop(connection, getattr(problem, "kind", ""))
            await asyncio.sleep(pause_s)

    async def _asking(
        self, redirected_to: Endpoint, limit_s: float, send: Callable[..., Awaitable[Any]], args: Sequence[Any]
    ) -> Any:
        """Call at the node that imports the slot. It accepts calls for the slot after ASKING."""
        connection = await self._nodes.to(redirected_to, min(CONNECT_LIMIT_S, self._patience_s))
        is_single = send is not _pipeline
        commands = asking_commands([tuple(args)] if is_single else args, self._load_command)
        return asking_result(await connection.pipeline_within(limit_s, commands), is_single)

    def _drop(self, connection: Connection | None, kind: str) -> None:
        if connection is None:
            return
        if kind in WRONG_NODE_KINDS:
            connection.close()
        elif kind in WRONG_SLOT_KINDS and self._connection is connection:
            self._connection = None

    async def _reconnect(self) -> Connection:
        """Connect. All callers wait for one attempt and share its outcome; a cancelled caller does not end it."""
        if self._is_closed:
            raise ConnectionLost("This connection to the engine is closed.")
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        attempt = self._connecting
        await asyncio.wait({attempt}, timeout=self._patience_s)
        if not attempt.done():
            raise EngineUnavailable(f"Cannot connect to {self.route}: the attempt has not ended yet.")
        if attempt.cancelled():
            raise ConnectionLost("This connection to the engine was closed while it connected.")
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
                raise_first_error(await connection.pipeline_within(self._reply_limit_s, commands))
        self._connection = connection
        return connection

    async def _examine(self, query: CommandArgs, connection: Connection, node: Endpoint) -> None:
        try:
            self.route.check_node(node, await connection.call_within(self._reply_limit_s, *query))
        except BaseException:
            connection.close()
            raise

    def _connect_ended(self, attempt: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # retrieved, even if every caller was cancelled


async def _pipeline(connection: Connection, limit_s: float, *commands: CommandArgs) -> list[Any]:
    replies = await connection.pipeline_within(limit_s, commands)
    raise_first_error(replies[:1])
    return replies


def _close_if_wrong(connection: SyncConnection | None, problem: WindlassError) -> None:
    """Close a connection to a node that no longer has the data."""
    if connection and isinstance(problem, EngineReplyError) and problem.kind in WRONG_NODE_KINDS | WRONG_SLOT_KINDS:
        connection.close()


class SyncReconnectingConnection:
    """Reconnecting connection for threads, which take turns. A command that blocks in the engine needs its own."""

    def __init__(
        self,
        route: NodeRoute | Endpoint,
        *,
        before_connect: Callable[[], None] | None = None,
        patience_s: float = PATIENCE_S,
        reply_limit_s: float = REPLY_LIMIT_S,
        roots: Callable[[], Sequence[str]] = tuple,
        load_command: LoadCommand = no_code,
    ) -> None:
        self.route = Standalone(route) if isinstance(route, Endpoint) else route
        self._load_command = load_command
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
        """Call a command. `timeout_s` replaces the reply limit; it must exceed the timeout of a blocking command."""
        return self._call_with_retry(SyncConnection.call, args, timeout_s)

    def call_packed(self, packed: bytes) -> Any:
        """Call with one packed command. Not for clusters, where the engine may redirect the call."""
        problem: WindlassError | None = None
        self._lock.acquire()  # the first attempt is written out, which saves 3,000 of an enqueue's 60,000 instructions
        try:
            if (connection := self._connection) is not None and not connection.is_closed:
                return connection.call_packed(packed, self._reply_limit_s)
        except WindlassError as error:
            problem = error
            _close_if_wrong(self._connection, error)
        finally:
            self._lock.release()
        return self._call_with_retry(SyncConnection.call_packed, (packed,), None, problem)

    def start(self, *args: Argument) -> Callable[[], Any]:
        """Send a command and return a function that waits for its reply. Other calls may be made in between.

        Nothing is repeated: errors are raised here or by the returned function.
        """
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
        """Return all replies, as `ReconnectingConnection.call_together` does."""
        if len(commands) < 2:
            return [self.call(*command, timeout_s=timeout_s) for command in commands]
        replies: list[Any] = self._call_with_retry(_pipeline_sync, commands, timeout_s)
        raise_first_error(replies)
        return replies

    def close(self) -> None:
        """Wait for the call in flight, then close."""
        self._is_closed = True
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _call_with_retry(
        self,
        send: Callable[..., Any],
        args: Sequence[Any],
        timeout_s: float | None,
        problem: WindlassError | None = None,
    ) -> Any:
        """Repeat attempts until one succeeds. `problem` is that of a first attempt, if there was one."""
        limit_s = self._reply_limit_s if timeout_s is None else timeout_s
        policy: RetryPolicy | None = None
        redirected_to: Endpoint | None = None
        while True:
            try:
                if problem is not None:
                    raise problem
                return self._attempt(send, args, limit_s, redirected_to)
            except WindlassError as found:
                if self._is_closed:
                    raise
                policy = policy or RetryPolicy(self.route, self._patience_s)
                pause_s = policy.pause_s_after(found)
                redirected_to = self.route.handle_problem(found, redirected_to or self._node)
            problem = None
            time.sleep(pause_s)

    def _attempt(
        self, send: Callable[..., Any], args: Sequence[Any], limit_s: float, redirected_to: Endpoint | None
    ) -> Any:
        failure_seen = self._failed_connect
        if redirected_to is not None:
            return self._asking(redirected_to, limit_s, send, args)
        with self._lock:
            connection = self._connection
            if connection is None or connection.is_closed:
                connection = self._connect(failure_seen)
            try:
                return send(connection, *args, timeout_s=limit_s)
            except EngineReplyError as refusal:
                _close_if_wrong(connection, refusal)
                raise

    def _asking(self, redirected_to: Endpoint, limit_s: float, send: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call at the node that imports the slot, on a connection for this call only."""
        is_single = send is not _pipeline_sync
        commands = asking_commands([tuple(args)] if is_single else args, self._load_command)
        connection = SyncConnection.open(redirected_to, min(CONNECT_LIMIT_S, self._patience_s))
        try:
            return asking_result(connection.pipeline(commands, limit_s), is_single)
        finally:
            connection.close()

    def _connect(self, failure_seen: EngineUnavailable | None) -> SyncConnection:
        if self._is_closed:
            raise ConnectionLost("This connection to the engine is closed.")
        if self._failed_connect is not None and self._failed_connect is not failure_seen:
            # Another thread's attempt failed while this thread waited for the lock; it counts for both.
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
                    raise_first_error(connection.pipeline(commands, self._reply_limit_s))
        except BaseException:
            connection.close()
            raise

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that exists only in the parent may have held the old one
        if self._connection is not None:
            self._connection.close()


def _pipeline_sync(connection: SyncConnection, *commands: CommandArgs, timeout_s: float) -> list[Any]:
    replies = connection.pipeline(commands, timeout_s)
    raise_first_error(replies[:1])
    return replies


_sync_connections: "weakref.WeakSet[SyncReconnectingConnection]" = weakref.WeakSet()


def _reset_after_fork() -> None:
    for connection in _sync_connections:
        connection._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
