"""Notifier: delivers callbacks of all jobs, whatever dialect enqueued them.

The engine stores pending callbacks, their leases and their attempts, so any number of processes may deliver. When a
process dies, its callbacks are delivered again after their leases expire: each callback arrives at least once, and may
arrive twice."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback, PendingCallback
from windlass.core.errors import Refusal, WindlassError
from windlass.core.retry import Backoff
from windlass.core.validation.callbacks import DELIVERY_ERROR_MAX
from windlass.pauses import random_fraction
from windlass.retry_loop import RetryLoop
from windlass.service import Service
from windlass.store.waiting.callbacks import CapacitySource

from .backend import Backend, Undeliverable, UnknownDestination
from .http_backend import TIMEOUT_S
from .in_flight import InFlightDeliveries
from .native_body import native_body

log = logging.getLogger("windlass.background")

BodyBuilder: TypeAlias = Callable[[PendingCallback], bytes | Awaitable[bytes]]
DeliveredHook: TypeAlias = Callable[[PendingCallback], Awaitable[None]]
WAIT_MS = 60_000
IN_FLIGHT_MAX = 200  # deliveries, in total
PER_DESTINATION_MAX = 20  # deliveries in flight to one destination
ATTEMPTS = 12  # with the delays below: over almost three hours
RETRY_DELAY_MS = 5_000
RETRY_CAP_MS = 3_600_000
LEASE_MS = int(TIMEOUT_S * 1000) + 30_000
STOP_S = 5.0  # for deliveries in flight when this process stops


class Notifier:
    """Deliverer of callbacks. `run` runs until it is cancelled; `deliver_once` is one round for tests.

    `bodies` maps a queue to the builder of its callback bodies, which may be a coroutine function; the default is the
    native body. A body must not change between attempts. `on_delivered` maps a queue to a hook that is called after a
    callback was received and before it is settled; it may be called again. `attempts_by_queue` maps a queue to its
    number of attempts, if it differs."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        max_in_flight: int = IN_FLIGHT_MAX,
        max_per_destination: int = PER_DESTINATION_MAX,
        attempts: int = ATTEMPTS,
        retry_delay_ms: int = RETRY_DELAY_MS,
        lease_ms: int = LEASE_MS,
        bodies: Mapping[str, BodyBuilder] | None = None,
        on_delivered: Mapping[str, DeliveredHook] | None = None,
        attempts_by_queue: Mapping[str, int] | None = None,
    ) -> None:
        self._backends = backends
        self._in_flight = InFlightDeliveries(max_in_flight, max_per_destination)
        self._attempts, self._attempts_by_queue = attempts, attempts_by_queue or {}
        self._retry_delay_ms = retry_delay_ms
        self._lease_ms = lease_ms
        self._bodies, self._on_delivered = bodies or {}, on_delivered or {}
        self._capacities: list[CapacitySource] = []
        self._under_way: dict[asyncio.Task[None], tuple[Service, PendingCallback]] = {}
        self._counters = dict.fromkeys(
            ("successfulCallbacks", "failedCallbacks", "undefinedBackendWithCallback", "unknownTopicOrPartition"), 0
        )

    def counters(self) -> dict[str, int]:
        """Return the counters of this process. They count attempts, not callbacks."""
        return {"alive": 1, **self._counters}

    async def run(self, service: Service) -> None:
        """Deliver the callbacks of each partition in a task of its own. The tasks share the capacity."""
        try:
            async with asyncio.TaskGroup() as group:
                for partition in range(service.store.partitions):
                    within = service.within(partition)
                    group.create_task(self._run_within(within), name=f"windlass-notifier-{partition}")
        finally:
            await self._stop()

    async def deliver_once(self, service: Service) -> int:
        found = await service.take_callbacks(lease_ms=self._lease_ms, capacity=CapacitySource(self._in_flight.capacity))
        self._begin(service, found.callbacks)
        await asyncio.gather(*self._under_way)
        return len(found.callbacks)

    async def _run_within(self, service: Service) -> None:
        capacity = CapacitySource(self._in_flight.capacity)
        self._capacities.append(capacity)

        async def take_and_begin() -> None:
            late = self._begin(service, await self._take(service, capacity))
            if late:
                await _give_back(service, late)

        await RetryLoop(log, "Could not take callbacks", WindlassError).forever(take_and_begin)

    async def _take(self, service: Service, capacity: CapacitySource) -> list[PendingCallback]:
        """Take callbacks. If the wait is cancelled, callbacks that were leased at that moment go back at once."""
        operation = service.take_callbacks(lease_ms=self._lease_ms, wait_ms=WAIT_MS, capacity=capacity)
        taking = asyncio.ensure_future(operation)
        try:
            return (await asyncio.shield(taking)).callbacks
        except asyncio.CancelledError:
            capacity.close()
            await asyncio.wait({taking}, timeout=STOP_S)
            taking.cancel()
            with contextlib.suppress(WindlassError, asyncio.CancelledError):
                await _give_back(service, (await taking).callbacks)
            raise

    def _begin(self, service: Service, callbacks: Sequence[PendingCallback]) -> list[PendingCallback]:
        """Start deliveries. Return the callbacks without capacity: tasks of several partitions share it."""
        late = []
        for pending in callbacks:
            if self._in_flight.begin(pending.destination):
                task = asyncio.create_task(self._deliver(service, pending))
                self._under_way[task] = service, pending
                task.add_done_callback(lambda done: self._under_way.pop(done, None))
            else:
                late.append(pending)
        return late

    async def _deliver(self, service: Service, pending: PendingCallback) -> None:
        is_silent = False
        try:
            is_silent = await self._attempt(service, pending)
        except Refusal as refusal:
            log.debug("The state of callback %s changed during its delivery: %s", pending.key, refusal)
        except WindlassError as error:
            log.warning("Could not record the delivery of callback %s; it will be sent again: %s", pending.key, error)
        finally:
            if self._in_flight.end(pending.destination, is_silent=is_silent):
                for capacity in self._capacities:
                    capacity.notify()

    async def _attempt(self, service: Service, pending: PendingCallback) -> bool:
        """Deliver a callback and record the outcome. Return True if the receiver gave no answer."""
        try:
            await self._send(pending)
            # Before the settlement: a crash in between repeats the delivery and the hook, and skips neither.
            await self._call_delivered_hook(pending)
        except Undeliverable as failure:
            await self._retry(service, pending, failure)
            return failure.is_silent
        self._counters["successfulCallbacks"] += 1
        await service.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one()
        return False

    async def _send(self, pending: PendingCallback) -> None:
        kind = pending.callback.type or "http"
        backend = self._backends.get(kind)
        if backend is None:
            self._counters["undefinedBackendWithCallback"] += 1
            known = ", ".join(self._backends)
            raise Undeliverable(f"This server delivers no callbacks of type {kind!r}; it knows {known}.")
        with _undeliverable_on_error(pending, "The callback body could not be built"):
            built = self._bodies.get(pending.job.queue, native_body)(pending)
            body = built if isinstance(built, bytes) else await built
        with _undeliverable_on_error(pending, "The callback could not be delivered"):
            await backend.deliver(pending, body)

    async def _call_delivered_hook(self, pending: PendingCallback) -> None:
        if pending.job.queue in self._on_delivered:
            with _undeliverable_on_error(pending, "The callback was received, but the work after it failed"):
                await self._on_delivered[pending.job.queue](pending)

    async def _retry(self, service: Service, pending: PendingCallback, failure: Undeliverable) -> None:
        self._counters["failedCallbacks"] += 1
        if isinstance(failure, UnknownDestination):
            self._counters["unknownTopicOrPartition"] += 1
        backoff = Backoff(
            tries=self._attempts_by_queue.get(pending.job.queue, self._attempts),
            base_ms=self._retry_delay_ms,
            cap_ms=max(RETRY_CAP_MS, self._retry_delay_ms),
        )
        gives_up = failure.is_final or not backoff.wants_retry(pending.attempt)
        log.info(
            "Callback %s, attempt %d: %s%s", pending.key, pending.attempt, failure, " Given up." if gives_up else ""
        )
        request = FailedDelivery(
            id=pending.id,
            token=pending.token,
            delay_ms=0 if gives_up else backoff.delay_ms(pending.attempt, random_fraction()),
            error=_cut(str(failure)),
            give_up=gives_up,
        )
        await service.retry_callbacks([request]).one()

    async def _stop(self) -> None:
        """Wait for the deliveries in flight. Callbacks that remain are due again at once, for other processes."""
        self._capacities.clear()
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=STOP_S)
        left = dict(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for service, pending in left.values():
            stopped = FailedDelivery(
                id=pending.id, token=pending.token, error="The server stopped before there was an answer."
            )
            with contextlib.suppress(WindlassError):
                await service.retry_callbacks([stopped])


async def _give_back(service: Service, callbacks: Sequence[PendingCallback]) -> None:
    if callbacks:
        await service.retry_callbacks(
            [FailedDelivery(id=pending.id, token=pending.token, is_unspent=True) for pending in callbacks]
        )


@contextlib.contextmanager
def _undeliverable_on_error(pending: PendingCallback, what: str) -> Iterator[None]:
    """Turn any exception of foreign code into a failed attempt: the number of attempts is limited."""
    try:
        yield
    except Undeliverable:
        raise
    except Exception as error:
        log.exception("Callback %s: %s.", pending.key, what)
        raise Undeliverable(f"{what}: {error!r}") from error


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:DELIVERY_ERROR_MAX].decode(errors="ignore")
