"""The engine as the rest of Windlass sees it: it performs calls, awaited or at once, and wakes those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar, cast

from windlass.core.errors import EngineFull, EngineNotPermitted, WindlassError
from windlass.core.ids import make_id, make_ids, partition_of_id
from windlass.core.job import Durability, Job
from windlass.core.operations import LeaseRef
from windlass.core.partition import hash_tags, partition_of, slot_of

from .batching.batcher import Batcher
from .batching.random_ids import random_64
from .batching.request_ids import RequestId, RequestIds
from .cache.history import Chronicle
from .cache.limits import KnownLimits
from .cache.ttl import Lately
from .clock import EngineClock
from .commands import reports
from .commands.admin import maintenance
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
from .connection.connection import CommandArgs, EngineReplyError
from .connection.endpoint import Address
from .connection.pool import ConnectionPool, topology_of
from .connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from .connection.replies import check_library_missing, is_library_loaded, load_without_memory_limit, mark_unconfirmed
from .driver import run, run_sync, start, start_sync
from .embedded.data_directory import Cut
from .embedded.engine import EmbeddedEngine
from .events.fanout import Fanout
from .scripts import library
from .topology.bootstrap import DeploymentOptions, open_deployment, root_of
from .topology.requirements import Deployment
from .topology.topology import run_search, run_search_sync
from .waiting.wakeups import Bell, BlockingBell, Listener

log = logging.getLogger("windlass.store")

T = TypeVar("T")
DURABLE_WAIT_MS = 5_000
CONFIRMATION_LIMIT_S = 30.0  # several may stand in line on the durable link


class Store:
    """One deployment under one namespace. Opens by itself with the first call; close it when done."""

    def __init__(
        self,
        endpoint: Address,
        *,
        engine: EmbeddedEngine | None = None,
        namespace: str = "wl",
        partitions: int = 0,  # 0: as they are; in a new deployment one, in a new cluster 16
        durability: Durability = "memory",
        allow_eviction: bool = False,
        patience_s: float = 30.0,
        is_test: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        self.topology = topology_of(endpoint)
        self.deployment: Deployment | None = None
        self._engine = engine
        self._is_clone = False  # then the engine is left by the other
        self.durability: Durability = durability
        self._options = DeploymentOptions(namespace, partitions, durability, DURABLE_WAIT_MS, allow_eviction, is_test)
        self._patience_s = patience_s
        self._opening = threading.Lock()
        self._clock = EngineClock()
        self.limit_cache = KnownLimits()
        self.history_cache = Chronicle()
        self.ttl_cache = Lately()
        self._tags: tuple[str, ...] = ("0",)
        self._roots = [root_of(namespace, "0")]
        self._pool = ConnectionPool(self.topology, engine, patience_s)
        self._batchers: dict[tuple[Any, ...], Batcher] = {}
        self._request_ids = RequestIds()
        self._bells: dict[int, Bell] = {}
        self._on_cancel: Callable[[bytes], None] | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self.fanout = Fanout(self)

    # Where things are

    def root(self, partition: int) -> str:
        return self._roots[partition]

    @property
    def is_embedded(self) -> bool:
        return self._engine is not None

    @property
    def cuts(self) -> Sequence[Cut]:
        """Bytes that were cut off the embedded engine's files; of other engines nothing is known."""
        return self._engine.cuts if self._engine is not None else ()

    def check_data_directory(self) -> None:
        """Raise when the embedded engine's directory was deleted or replaced; its keeper may be dead, too."""
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
        return make_id(int(time.time() * 1000), self.partition_of_queue(queue), random_64())

    def new_ids(self, queues: Sequence[str]) -> list[bytes]:
        """One id for each, at home where its queue is. One clock reading for all of them."""
        at_ms = int(time.time() * 1000)
        if self.partitions == 1:
            return make_ids(at_ms, 0, len(queues), os.urandom)
        homes = {queue: self.partition_of_queue(queue) for queue in set(queues)}
        return [make_id(at_ms, homes[queue], random_64()) for queue in queues]

    @property
    def clock_offset_ms(self) -> int:
        return self._clock.offset_ms

    @clock_offset_ms.setter
    def clock_offset_ms(self, offset_ms: int) -> None:
        """Moves the engine's time for this store and its twins; only a deployment marked as a test accepts it."""
        self._clock.offset_ms = offset_ms

    # Opening and closing

    async def open(self) -> Deployment:
        if self.deployment is None:
            await asyncio.to_thread(self.open_sync)
        return cast(Deployment, self.deployment)

    def open_sync(self) -> Deployment:
        """Joins the embedded engine if there is one, and checks what it finds before anything is written."""
        with self._opening:
            if self.deployment is None:
                if self._engine is not None:
                    self._engine.join()
                before = self._engine.ensure if self._engine else None
                self._opened(open_deployment(self.topology, self._options, self._patience_s, before))
            return cast(Deployment, self.deployment)

    def _opened(self, found: Deployment) -> None:
        self._tags = hash_tags(found.partitions)
        self._roots = [root_of(self.namespace, tag) for tag in self._tags]
        self._pool.set_partitions(self._tags, self._roots)
        self.deployment = found

    def _inquire(self, inquiry: NodeCommand) -> Any:
        """What it refuses is an answer; an engine that is away is not."""
        try:
            return self._pool.sync_connection("calls", inquiry.partition).call(*inquiry.command)
        except (EngineReplyError, EngineNotPermitted) as error:
            return error

    def clone(self) -> Store:
        """Another store for the same deployment, for another event loop; close it."""
        other = Store(
            self.endpoint,
            engine=self._engine,
            namespace=self.namespace,
            durability=self.durability,
            patience_s=self._patience_s,
        )
        other._is_clone, other._clock = True, self._clock
        other._opened(self.open_sync())
        return other

    async def close(self) -> None:
        if self._background:
            await asyncio.wait(self._background, timeout=self._patience_s)
        await self.fanout.close()
        for bell in self._bells.values():
            await bell.settle()
            bell.close()
        await self._pool.close()
        self._bells.clear()
        self._batchers.clear()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        self._pool.close_sync()
        if self._engine is not None and not self._is_clone:
            self._engine.leave()

    async def __aenter__(self) -> Store:
        await self.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def _sync_connection(self) -> SyncReconnectingConnection:
        return self._pool.sync_connection("calls", 0)

    def _link(self, purpose: str, partition: int = 0) -> ReconnectingConnection:
        return self._pool.connection(purpose, partition)

    def new_connection(self, partition: int, connecting: Callable[[], None]) -> ReconnectingConnection:
        """A link that its owner closes; `connecting` is called before each of its connections."""
        return self._pool.new_connection(partition, connecting)

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """What must still be done for a caller that is gone; close waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done_in_background)

    def _done_in_background(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("What a cancelled caller had taken could not be given back (%s); its lease runs out.", error)

    # Performing flows

    async def run(self, flow: Flow[T]) -> T:
        if self.deployment is None:
            await self.open()
        return await run(flow, self._perform)

    def run_sync(self, flow: Flow[T]) -> T:
        """The same without an event loop: one round trip per call, in this thread."""
        if self.deployment is None:
            self.open_sync()
        return run_sync(flow, self._perform_sync)

    def start_sync(self, flow: Flow[T]) -> Callable[[], T]:
        """The first call of a flow is sent before this returns, so that the engine is at work meanwhile."""
        if self.deployment is None:
            self.open_sync()
        return start_sync(flow, self._perform_sync, self._send_ahead_sync)

    def start(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
        """The same in an event loop, once the store is open."""
        return self.run(flow) if self.deployment is None else start(flow, self._perform, self._send_ahead)

    def _send_ahead_sync(self, effect: Effect) -> Callable[[], Any] | None:
        """Only what is one command: a confirmation comes on another link. And nothing that draws: what goes wrong is
        asked again in the ordinary way, and would draw by another slip."""
        if (
            isinstance(effect, Command | BatchCommand)
            and not effect.reserves_numbers
            and len(commands := self._commands_of(effect)) == 1
        ):
            with contextlib.suppress(WindlassError):
                return self._pool.sync_connection("calls", effect.partition).start(*commands[0])
        return None

    def _send_ahead(self, effect: Effect) -> Coroutine[Any, Any, Any] | None:
        """The same here: not what is confirmed, nor what draws. It does not wait for others (coalesce.py)."""
        if not isinstance(effect, Command | BatchCommand) or effect.reserves_numbers or effect.durability is not None:
            return None
        prefix = self._command_prefix(effect.operation, effect.partition)
        return self._pool.connection("calls", effect.partition).start(effect.encode(prefix))

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, list):
            return await asyncio.gather(*(self._perform(one) for one in effect))
        if isinstance(effect, BatchCommand):
            return effect.parse(await self._batcher(effect).submit(effect.items, effect.size))
        if isinstance(effect, EngineTime):
            return self._clock.now_ms() or self._clock.learn(await self._link("calls").call("TIME"))
        if isinstance(effect, MigratingPartitions):
            return self._torn(await run_search(self.topology.find_migrating_slots()))
        if isinstance(effect, NodeCommand):
            return await asyncio.to_thread(self._perform_sync, effect)
        return effect.parse(await self._call(effect.operation, effect.partition, effect.args, effect.durability))

    def _perform_sync(self, effect: Effect) -> Any:
        if isinstance(effect, list):
            return [self._perform_sync(one) for one in effect]
        if isinstance(effect, EngineTime):
            return self._clock.now_ms() or self._clock.learn(self._sync_connection.call("TIME"))
        if isinstance(effect, MigratingPartitions):
            return self._torn(run_search_sync(self.topology.find_migrating_slots()))
        if isinstance(effect, NodeCommand):
            return self._inquire(effect)
        return effect.parse(self._call_sync(effect))

    def _batcher(self, call: BatchCommand[Any]) -> Batcher:
        kind = (call.operation, call.partition, call.head, call.durability, call.reserves_numbers)
        found = self._batchers.get(kind)
        if found is None:
            if len(self._batchers) > 100:  # heads can differ, e.g. by their lease
                self._batchers = {key: kept for key, kept in self._batchers.items() if not kept.is_idle}

            async def send(arguments: list[Argument]) -> list[Any]:
                with self._request_ids.assign(call) as slip:
                    args = [*slip, *call.head, *arguments]
                    return cast("list[Any]", await self._call(call.operation, call.partition, args, call.durability))

            found = self._batchers[kind] = Batcher(send)
        return found

    # Calling the engine's functions

    def function(self, operation: str) -> str:
        return library().function(operation)

    def _command_prefix(self, operation: str, partition: int) -> tuple[Argument, ...]:
        return "FCALL", self.function(operation), 1, self.root(partition), self._clock.offset_ms

    def _commands(
        self, operation: str, partition: int, args: Sequence[Argument], durability: Durability | None
    ) -> list[tuple[Argument, ...]]:
        commands: list[tuple[Argument, ...]] = [(*self._command_prefix(operation, partition), *args)]
        if durability is not None:
            confirm = cast(Deployment, self.deployment).command_for(durability, DURABLE_WAIT_MS)
            if confirm is not None:
                commands.append(confirm)
        return commands

    async def _call(
        self, operation: str, partition: int, args: Sequence[Argument], durability: Durability | None
    ) -> Any:
        commands = self._commands(operation, partition, args, durability)
        link = self._pool.connection("calls" if len(commands) == 1 else "durable", partition)
        while True:
            try:
                if len(commands) == 1:
                    return await link.call(*commands[0])
                return mark_unconfirmed(await link.call_together(commands, timeout_s=CONFIRMATION_LIMIT_S))
            except EngineReplyError as error:
                check_library_missing(error)
            await self._load_library(link)

    async def _load_library(self, link: ReconnectingConnection) -> None:
        cast(Deployment, self.deployment).check_may_load()
        try:
            await link.call("FUNCTION", "LOAD", library().source)
        except EngineReplyError as error:
            if error.kind == "OOM":
                await link.call_together(self._loading_when_full(error))
            elif not is_library_loaded(error):
                raise

    def _commands_of(
        self, effect: Command[Any] | BatchCommand[Any], slip: RequestId = ()
    ) -> list[tuple[Argument, ...]]:
        return self._commands(effect.operation, effect.partition, (*slip, *effect.args), effect.durability)

    def _call_sync(self, effect: Command[Any] | BatchCommand[Any]) -> Any:
        with self._request_ids.assign(effect) as slip:
            return self._send_sync(effect, self._commands_of(effect, slip))

    def _send_sync(self, effect: Command[Any] | BatchCommand[Any], commands: list[tuple[Argument, ...]]) -> Any:
        # Apart: a confirmation may take its time.
        link = self._pool.sync_connection("calls" if len(commands) == 1 else "durable", effect.partition)
        while True:
            try:
                if len(commands) == 1:
                    return link.call(*commands[0])
                return mark_unconfirmed(link.call_together(commands, timeout_s=CONFIRMATION_LIMIT_S))
            except EngineReplyError as error:
                check_library_missing(error)
            self._load_library_sync(link)

    def call_packed(self, packed: bytes) -> Any:
        """One command as bytes, where all partitions are at one node."""
        return self._pool.sync_connection("calls", 0).call_packed(packed)

    def _load_library_sync(self, link: SyncReconnectingConnection) -> None:
        cast(Deployment, self.deployment).check_may_load()
        try:
            link.call("FUNCTION", "LOAD", library().source)
        except EngineReplyError as error:
            if error.kind == "OOM":
                link.call_together(self._loading_when_full(error))
            elif not is_library_loaded(error):
                raise

    def _loading_when_full(self, refusal: EngineReplyError) -> list[CommandArgs]:
        if self._engine is None:
            raise EngineFull() from refusal
        memory_max = cast(Deployment, self.deployment).memory_max
        return load_without_memory_limit(("FUNCTION", "LOAD", "REPLACE", library().source), memory_max)

    # Waiting

    def bell(self, partition: int) -> Bell:
        found = self._bells.get(partition)
        if found is None:

            async def pass_on(name: str, queue: str, filters: tuple[str, ...]) -> Any:
                return await self._perform(maintenance.pass_wakeup(name, queue, filters, partition))

            def give_back(job: Job) -> None:
                self.run_in_background(self._perform(reports.release([LeaseRef(job.id, job.lease_token)], partition)))

            # Looked up when it connects: the bell does not exist before its link.
            purpose = f"bell {partition}"
            link = self._pool.connection(purpose, partition, lambda: self._bells[partition].connecting())  # noqa: PLW0108
            found = self._bells[partition] = Bell(link, self.root(partition), pass_on, give_back)
            if self._on_cancel is not None:
                found.hear_cancels(self._on_cancel)
        return found

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """The bells of all partitions tell the handler; until the store is open, those that exist and those to come."""
        self._on_cancel = handler
        for partition in range(self.partitions) if self.deployment else self._bells:
            self.bell(partition).hear_cancels(handler)

    def cancel_wakeup_list(self, partition: int) -> str:
        """The name of the bell that hears of cancel requests in a partition; empty when nobody listens."""
        return self.bell(partition).name if self._on_cancel is not None else ""

    def on_interruption(self, handler: Callable[[], None]) -> None:
        """Call `handler` when calls of this store lose their connection. They are repeated; whether the engine has
        carried them out before is not known."""
        self._pool.on_interruption.append(handler)

    # Slots of a cluster

    def _torn(self, slots: set[int]) -> list[int]:
        return [partition for partition, tag in enumerate(self._tags) if slot_of(tag) in slots]

    @contextlib.asynccontextmanager
    async def listen(self, partition: int, listener: Listener) -> AsyncIterator[Bell]:
        bell = self.bell(partition)
        bell.add(listener)
        try:
            yield bell
        finally:
            bell.remove(listener)

    @contextlib.contextmanager
    def listen_sync(self, partition: int) -> Iterator[BlockingBell]:
        bell = BlockingBell(self._pool.new_sync_connection(partition), self.root(partition))
        try:
            yield bell
        finally:
            bell.close()
