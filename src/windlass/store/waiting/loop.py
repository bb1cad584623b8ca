"""The wait loop: poll, and if nothing is found, wait for a wakeup or until something is due, then poll again.

`wait_flow` is the loop, without I/O. `wait_async` and `wait_sync` drive it. A subclass of `Wait` says what to poll.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import WaitRegistration
from windlass.store.driver import run, run_sync

from .wakeups import BLOCK_S, Listener, Place, SyncWakeups, Wakeups

if TYPE_CHECKING:
    from windlass.store.store import Store

T = TypeVar("T")
N = TypeVar("N", int, float)
SHORTEST_PAUSE_S = 0.001  # something may be due that this caller cannot take
GRACE_MS = 5_000  # a registration outlives the wait by this
Effect: TypeAlias = Flow[Any] | float  # a poll, or seconds to wait for a wakeup


def earliest(instants: Iterable[N | None]) -> N | None:
    return min((instant for instant in instants if instant is not None), default=None)


class Look(Generic[T]):
    """Evaluated reply of one poll."""

    __slots__ = ("answer", "due_in_s", "is_found", "is_listening")

    def __init__(
        self, answer: T, is_found: object, due_in_s: float | None = None, *, is_listening: bool = True
    ) -> None:
        self.answer = answer
        self.is_found = is_found
        self.due_in_s = BLOCK_S if due_in_s is None else due_in_s
        self.is_listening = is_listening  # False: the engine may send wakeups to places without a listener


class PartitionWait(Listener):
    """A wait in one partition: its listener, and the places where the engine may have this process registered."""

    __slots__ = (
        "_earlier",
        "_others_wait",
        "is_waiting",
        "last_wakeup",
        "next_places",
        "partition",
        "registered",
        "wakeups",
    )
    wakeups: Wakeups | SyncWakeups

    def __init__(
        self, partition: int, places: tuple[Place, ...], event: asyncio.Event, job_id: bytes = b"", worker: bytes = b""
    ) -> None:
        super().__init__(places, job_id, event, worker)
        self.partition = partition
        self.next_places = places
        self.is_waiting = False  # for a wakeup, after a poll that found nothing
        # Where the engine may have this process registered, or may have sent a wakeup for something not taken.
        self.registered = frozenset(places)
        self.last_wakeup: Place | None = None  # place of the wakeup that led to this poll
        self._earlier: frozenset[Place] = frozenset()  # registered by earlier polls; a wakeup ends a registration
        self._others_wait = False

    def registration(self, left_s: float, *, direct_handoff: bool = False) -> WaitRegistration:
        """Return the registration of the next poll. The listeners of a place share one, and the last poll sets its
        time: if others wait, it must not end with this wait."""
        self._others_wait = self.wakeups.others_wait(self)
        for_s = BLOCK_S if self._others_wait else min(left_s, BLOCK_S)
        return WaitRegistration(self.wakeups.name, int(for_s * 1000) + GRACE_MS, self._others_wait, direct_handoff)

    def note_found(self, *, uses_wakeup: bool = True) -> None:
        """Note that the poll found something. Then it registered only if others wait; those of earlier polls remain."""
        if not self._others_wait:
            self.registered = self._earlier - {self.last_wakeup} if uses_wakeup else self._earlier

    def note_skipped(self) -> None:
        """Note that this partition was not polled."""
        self.registered = self._earlier

    def renew(self) -> None:
        """Listen again, for the next poll."""
        self._earlier, self.last_wakeup = self.registered, self.woken_place
        self.registered = self.registered.union(self.next_places)
        self.wakeups.renew(self, self.next_places)


class Wait(Generic[T]):
    """Something to wait for. `look` polls the engine and registers for wakeups, `read` evaluates the reply."""

    until: asyncio.Event | None = None  # ends the wait after one more poll; cancels no command in flight

    def __init__(self) -> None:
        self.event = asyncio.Event()  # set when a part should poll again, or received a job
        self.parts: Sequence[PartitionWait] = ()

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.until.is_set()

    def look(self, left_s: float) -> Flow[Any]:
        raise NotImplementedError

    def read(self, found: Any) -> Look[T]:
        raise NotImplementedError

    def received(self, is_woken: bool) -> T | None:
        """Return an answer that needs no further poll, after a wait that a wakeup or the time ended."""

    def withdraw(self) -> Flow[None]:
        """Withdraw the registrations of a wait that had its wakeups for itself."""
        for part in self.parts:
            for queue, wanted in part.registered:
                yield maintenance.pass_wakeup(part.wakeups.name, queue, (wanted,), part.partition)


def wait_flow(wait: Wait[T], wait_ms: float) -> Generator[Effect, Any, T]:
    """Poll until something is found, or the time is over."""
    give_up_at_s = time.monotonic() + wait_ms / 1000
    parts = wait.parts
    while True:
        found = yield wait.look(max(0.0, give_up_at_s - time.monotonic()))
        look = wait.read(found)
        left_s = give_up_at_s - time.monotonic()
        if look.is_found or left_s <= 0 or wait.is_over:
            return look.answer
        if look.is_listening:
            for part in parts:
                part.is_waiting = True
            is_woken = yield max(SHORTEST_PAUSE_S, min(left_s, look.due_in_s, BLOCK_S))
            for part in parts:
                part.is_waiting = False
            if (answer := wait.received(is_woken)) is not None:
                return answer
        for part in parts:
            part.renew()


async def wait_async(
    store: Store, wait: Wait[T], wait_ms: float, run_look: Callable[[Flow[Any]], Awaitable[Any]] | None = None
) -> T:
    """Wait in an event loop. A caller that does not poll again passes its wakeups on, also if it is cancelled."""
    run_look = run_look or store.run
    event, until = wait.event, wait.until
    listening = [(store.wakeups.of(part.partition), part) for part in wait.parts]
    for wakeups, part in listening:
        part.wakeups = wakeups
        wakeups.add(part)

    async def perform(effect: Effect) -> Any:
        if isinstance(effect, float):
            return await wait_for_event(event, effect, until)
        return await run_look(effect)

    try:
        return await run(wait_flow(wait, wait_ms), perform)
    finally:
        for wakeups, part in listening:
            wakeups.leave(part, part.registered)


def wait_sync(store: Store, wait: Wait[T], wait_ms: int) -> T:
    """Wait without an event loop, in one partition."""
    (part,) = wait.parts
    part.wakeups = wakeups = store.wakeups.new_sync(part.partition)

    def perform(effect: Effect) -> Any:
        return wakeups.wait(part, effect) if isinstance(effect, float) else store.run_sync(effect)

    answer = run_sync(wait_flow(wait, wait_ms), perform)
    store.run_sync(wait.withdraw())
    return answer


async def wait_for_event(event: asyncio.Event, within_s: float, until: asyncio.Event | None = None) -> bool:
    """Wait until `event` or `until` is set. Return whether `event` is."""
    if until is not None:
        waits = {asyncio.ensure_future(either.wait()) for either in (event, until)}
        try:
            await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return event.is_set()
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        event.set()

    timer = asyncio.get_running_loop().call_later(within_s, give_up)  # cheaper than asyncio.timeout
    try:
        await event.wait()
    finally:
        timer.cancel()
    return not is_late
