"""The store: one deployment of the engine. It opens connections, runs flows and receives wakeups."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from windlass.core.errors import EngineNotPermitted, WindlassError
from windlass.core.ids import make_head, make_ids, partition_of_id
from windlass.core.job import Durability
from windlass.core.partition import hash_tags, partition_of, slot_of

from .batching.command_batchers import CommandBatchers
from .batching.random_ids import random_tail
from .batching.request_ids import RequestId, RequestIds
from .cache.history import HistoryCache
from .cache.limits import LimitCache
from .cache.queue_survey import QueueSurveys
from .cache.ttl import TtlCache
from .clock import EngineClock
from .commands.command import (
    Argument,
    BatchCommand,
    Command,
    Effect,
    EngineTime,
    Flow,
    MigratingPartitions,
    NodeCommand,
)
from .connection.connection import EngineReplyError
from .connection.endpoint import Address
from .connection.pool import ConnectionPool, topology_of
from .connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from .connection.replies import mark_unconfirmed
from .driver import run, run_sync, start, start_sync
from .embedded.data_directory import Cut
from .embedded.engine import EmbeddedEngine
from .engine_code import EngineCode
from .events.fanout import Fanout
from .keys import root_of
from .scripts import library
from .topology.bootstrap import DeploymentOptions, open_deployment
from .topology.permissions import CallsBy
from .topology.requirements import Deployment
from .topology.topology import run_search, run_search_sync
from .waiting.registry import WakeupRegistry

log = logging.getLogger("windlass.store")

T = TypeVar("T")
_SINGLE = (Command, BatchCommand)  # a union written in `isinstance` would be made in each call
DURABLE_WAIT_MS = 5_000
CONFIRMATION_LIMIT_S = 30.0  # several commands may queue on the durable connection


class Store:
    """One deployment under one namespace. It opens at the first call; close it when done."""

    def __init__(
        self,
        endpoint: Address,
        *,
        engine: EmbeddedEngine | None = None,
        namespace: str = "wl",
        partitions: int = 0,  # 0: the stored number; for a new namespace 1, in a cluster 16
        durability: Durability = "memory",
        is_managed: bool = False,  # the service makes each write durable, as its operator declares
        allow_eviction: bool = False,
        patience_s: float = 30.0,
        is_test: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        self.topology = topology_of(endpoint)
        self.deployment: Deployment | None = None
        self._engine = engine
        self._is_clone = False  # a clone does not stop the engine
        self.durability: Durability = durability
        self.is_managed = is_managed
        self._options = DeploymentOptions(
            namespace, partitions, durability, DURABLE_WAIT_MS, allow_eviction, is_test, is_managed
        )
        self._patience_s = patience_s
        self._open_lock = threading.Lock()
        self._clock = EngineClock()
        self.limit_cache = LimitCache()
        self.history_cache = HistoryCache()
        self.ttl_cache = TtlCache()
        self.queue_surveys = QueueSurveys()
        self._tags: tuple[str, ...] = ("0",)
        self.roots: Sequence[str] = [root_of(namespace, "0")]
        # Looked up at each call: a test may replace the library.
        self._code = EngineCode(lambda: library(), is_embedded=engine is not None)  # noqa: PLW0108
        self._pool = ConnectionPool(self.topology, engine, patience_s, self._code.load_command_for)
        self._request_ids = RequestIds()
        self._batchers = CommandBatchers(self._call, self._request_ids)
        self.wakeups = WakeupRegistry(self, self._pool, self._perform)
        self._background: set[asyncio.Task[Any]] = set()
        self.fanout = Fanout(self)

    # Layout and ids

    def root(self, partition: int) -> str:
        return self.roots[partition]

    @property
    def is_embedded(self) -> bool:
        return self._engine is not None

    @property
    def cuts(self) -> Sequence[Cut]:
        """Bytes that were cut off the embedded engine's files; empty for other engines."""
        return self._engine.cuts if self._engine is not None else ()

    def check_data_directory(self) -> None:
        """Raise if the embedded engine's directory was deleted or replaced. Its supervisor may be dead, too."""
        if self._engine is not None:
            self._engine.check_directory()

    @property
    def partitions(self) -> int:
        return self.deployment.partitions if self.deployment else 1

    def partition_of_queue(self, queue: str) -> int:
        return partition_of(queue, self.partitions)

    def partition_of_job(self, job_id: bytes) -> int:
        return partition_of_id(job_id) % self.partitions

    def new_id(self, queue: str) -> bytes:
        found = self.deployment
        partition = 0 if found is None or found.partitions == 1 else partition_of(queue, found.partitions)
        return make_head(time.time_ns() // 1_000_000, partition) + random_tail()

    def new_ids(self, queues: Sequence[str]) -> list[bytes]:
        """Return one id per queue, in the partition of that queue, with one clock reading for all."""
        at_ms = int(time.time() * 1000)
        if self.partitions == 1:
            return make_ids(at_ms, 0, len(queues), os.urandom)
        heads = {queue: make_head(at_ms, self.partition_of_queue(queue)) for queue in set(queues)}
        return [heads[queue] + random_tail() for queue in queues]

    @property
    def clock_offset_ms(self) -> int:
        return self._clock.offset_ms

    @clock_offset_ms.setter
    def clock_offset_ms(self, offset_ms: int) -> None:
        """Move the engine's time for this store and its clones. Only a deployment marked as a test accepts it."""
        self._clock.offset_ms = offset_ms

    # Open and close

    async def open(self) -> Deployment:
        if self.deployment is None:
            await asyncio.to_thread(self.open_sync)
        return cast(Deployment, self.deployment)

    def open_sync(self) -> Deployment:
        """Start or join the embedded engine, if any, and check the deployment before the first write."""
        with self._open_lock:
            if self.deployment is None:
                if self._engine is not None:
                    self._engine.join()
                before = self._engine.ensure if self._engine else None
                self._opened(open_deployment(self.topology, self._options, self._patience_s, before))
            return cast(Deployment, self.deployment)

    def _opened(self, found: Deployment) -> None:
        self._tags = hash_tags(found.partitions)
        self.roots = [root_of(self.namespace, tag) for tag in self._tags]
        self._pool.set_partitions(self._tags, self.roots)
        self._code.opened(found)
        self.deployment = found

    def clone(self) -> Store:
        """Return another store for the same deployment, for another event loop. Its owner closes it."""
        other = Store(
            self.endpoint,
            engine=self._engine,
            namespace=self.namespace,
            durability=self.durability,
            is_managed=self.is_managed,
            patience_s=self._patience_s,
        )
        other._is_clone, other._clock = True, self._clock
        other._opened(self.open_sync())
        return other

    async def close(self) -> None:
        if self._background:
            await asyncio.wait(self._background, timeout=self._patience_s)
        await self.fanout.close()
        await self.wakeups.close()
        await self._pool.close()
        self.wakeups.clear()
        self._batchers.clear()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        self._pool.close_sync()
        if self._engine is not None and not self._is_clone:
            self._engine.leave()

    close_now = close_sync  # former name, which documents gave to users

    async def __aenter__(self) -> Store:
        await self.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def _sync_connection(self) -> SyncReconnectingConnection:
        return self._pool.sync_connection("calls", 0)

    def _connection(self, purpose: str, partition: int = 0) -> ReconnectingConnection:
        return self._pool.connection(purpose, partition)

    def new_connection(self, partition: int, connecting: Callable[[], None]) -> ReconnectingConnection:
        """Return a connection that its owner closes. `connecting` is called before each connect."""
        return self._pool.new_connection(partition, connecting)

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work for a cancelled caller. `close` waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("Could not release jobs taken for a cancelled caller: %s. Their leases will expire.", error)

    # Run flows

    async def run(self, flow: Flow[T]) -> T:
        if self.deployment is None:
            await self.open()
        return await run(flow, self._perform)

    async def run_unjoined(self, flow: Flow[T]) -> T:
        """Run a flow whose commands are not joined with those of other callers: a batcher has joined its jobs."""
        if self.deployment is None:
            await self.open()
        return await run(flow, self._perform_unjoined)

    def run_sync(self, flow: Flow[T]) -> T:
        """Run a flow without an event loop: one round trip per command, in this thread."""
        if self.deployment is None:
            self.open_sync()
        return run_sync(flow, self._perform_sync)

    def start_sync(self, flow: Flow[T]) -> Callable[[], T]:
        """Send the first command of a flow now, and return a function that waits for the result of the flow."""
        if self.deployment is None:
            self.open_sync()
        return start_sync(flow, self._perform_sync, self._send_ahead_sync)

    def start(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
        """Send the first command of a flow now, if the store is open, and return a coroutine for the result."""
        return self.run(flow) if self.deployment is None else start(flow, self._perform, self._send_ahead)

    def _send_ahead_sync(self, effect: Effect) -> Callable[[], Any] | None:
        """Send a single command. Confirmed commands use another connection. Commands that reserve numbers are not sent
        ahead: their repeat after an error would have another request id and reserve again."""
        if (
            isinstance(effect, _SINGLE)
            and not effect.reserves_numbers
            and len(commands := self._commands_of(effect)) == 1
        ):
            with contextlib.suppress(WindlassError):
                return self._pool.sync_connection("calls", effect.partition).start(*commands[0])
        return None

    def _send_ahead(self, effect: Effect) -> Coroutine[Any, Any, Any] | None:
        """Send a command that needs no confirmation and reserves no numbers. It is not batched with others."""
        if not isinstance(effect, _SINGLE) or effect.reserves_numbers or effect.durability is not None:
            return None
        prefix = self.command_prefix(effect.operation, effect.partition)
        return self._pool.connection("calls", effect.partition).start(effect.encode(prefix))

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, list):
            return await asyncio.gather(*(self._perform(part) for part in effect))
        if isinstance(effect, BatchCommand):
            return effect.parse(await self._batchers.submit(effect))
        if isinstance(effect, EngineTime):
            return self._clock.now_ms() or self._clock.learn(await self._connection("calls").call("TIME"))
        if isinstance(effect, MigratingPartitions):
            return self._partitions_of(await run_search(self.topology.find_migrating_slots()))
        if isinstance(effect, NodeCommand):
            return await asyncio.to_thread(self._perform_sync, effect)
        return effect.parse(await self._call(effect.operation, effect.partition, effect.args, effect.durability))

    async def _perform_unjoined(self, effect: Effect) -> Any:
        if isinstance(effect, list):
            return await asyncio.gather(*(self._perform_unjoined(part) for part in effect))
        if isinstance(effect, BatchCommand):
            return effect.parse(await self._batchers.send_alone(effect))
        return await self._perform(effect)

    def _perform_sync(self, effect: Effect) -> Any:
        if isinstance(effect, list):
            return [self._perform_sync(part) for part in effect]
        if isinstance(effect, EngineTime):
            return self._clock.now_ms() or self._clock.learn(self._sync_connection.call("TIME"))
        if isinstance(effect, MigratingPartitions):
            return self._partitions_of(run_search_sync(self.topology.find_migrating_slots()))
        if isinstance(effect, NodeCommand):
            return self._send_to_node(effect)
        return effect.parse(self._call_sync(effect))

    def _send_to_node(self, command: NodeCommand) -> Any:
        """Return the reply or the refusal. An unreachable engine raises."""
        try:
            return self._pool.sync_connection("calls", command.partition).call(*command.command)
        except (EngineReplyError, EngineNotPermitted) as error:
            return error

    def _partitions_of(self, slots: set[int]) -> list[int]:
        return [partition for partition, tag in enumerate(self._tags) if slot_of(tag) in slots]

    # Calls of operations

    @property
    def calls_by(self) -> CallsBy:
        return self._code.calls_by

    @property
    def scripts_because(self) -> str:
        """Return why operations are called by scripts; empty: by functions."""
        return self._code.scripts_because

    def command_prefix(self, operation: str, partition: int) -> tuple[Argument, ...]:
        """Return the words of a call before the arguments of its operation."""
        return *self._code.head(operation), 1, self.root(partition), self._clock.offset_ms

    def _commands(
        self, operation: str, partition: int, args: Sequence[Argument], durability: Durability | None
    ) -> list[tuple[Argument, ...]]:
        commands: list[tuple[Argument, ...]] = [(*self.command_prefix(operation, partition), *args)]
        if durability is not None:
            confirm = cast(Deployment, self.deployment).command_for(durability, DURABLE_WAIT_MS)
            if confirm is not None:
                commands.append(confirm)
        return commands

    async def _call(
        self, operation: str, partition: int, args: Sequence[Argument], durability: Durability | None
    ) -> Any:
        while True:
            commands = self._commands(operation, partition, args, durability)
            connection = self._pool.connection("calls" if len(commands) == 1 else "durable", partition)
            try:
                if len(commands) == 1:
                    return await connection.call(*commands[0])
                return mark_unconfirmed(await connection.call_together(commands, timeout_s=CONFIRMATION_LIMIT_S))
            except EngineReplyError as error:
                self._code.check_missing(error)
            await self._code.load(operation, connection)

    def _commands_of(
        self, effect: Command[Any] | BatchCommand[Any], request_id: RequestId = ()
    ) -> list[tuple[Argument, ...]]:
        return self._commands(effect.operation, effect.partition, (*request_id, *effect.args), effect.durability)

    def _call_sync(self, effect: Command[Any] | BatchCommand[Any]) -> Any:
        with self._request_ids.assign(effect) as request_id:
            while True:
                commands = self._commands_of(effect, request_id)
                # Not on the connections for calls: a confirmation may take long.
                purpose = "calls" if len(commands) == 1 else "durable"
                with self._pool.thread_connections(purpose, effect.partition).lend() as connection:
                    try:
                        if len(commands) == 1:
                            return connection.call(*commands[0])
                        return mark_unconfirmed(connection.call_together(commands, timeout_s=CONFIRMATION_LIMIT_S))
                    except EngineReplyError as error:
                        self._code.check_missing(error)
                    self._code.load_sync(effect.operation, connection)

    @property
    def call_packed(self) -> Callable[[bytes], Any]:
        """Return the function that calls one packed command. The store must be open, on one node."""
        return self._sync_connection.call_packed

    def on_interruption(self, handler: Callable[[], None]) -> None:
        """Call `handler` when calls lose their connection. They are repeated; the engine may have executed them."""
        self._pool.on_interruption.append(handler)
