"""Wakeups of this process: one list per partition in the engine, read with BLPOP, for all local listeners."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.core.errors import EngineNotPermitted, EngineUnavailable
from windlass.core.job import Job
from windlass.core.operations import ANY_JOB_WITH_STEPS
from windlass.store import keys
from windlass.store.commands.take import filter_text
from windlass.store.connection.reconnect import ReconnectingConnection
from windlass.store.connection.retry_policy import pause_s_between
from windlass.store.records.leased_record import unpack_leased

if TYPE_CHECKING:
    from windlass.store.connection.pool import ConnectionPool

log = logging.getLogger("windlass.store")

BLOCK_S = 60.0  # a blocking read ends after this time and is repeated
WATCHDOG_S = 5  # added to the time of the read; then the connection counts as dead
SETTLE_S = 1.0
Place: TypeAlias = tuple[str, str]  # queue, filter text
HANDED_OVER_TO = (filter_text(ANY_JOB_WITH_STEPS), "")  # filters of takers to which a job may be handed over
MAINTENANCE: Place = ("", "")  # the background loops wait here; no queue has an empty name


class Listener:
    """A local taker, or a caller that waits for a job's end. `event` is set when the listener should poll again, or
    when it received a job."""

    __slots__ = ("_wakes_at_s", "ended_as", "event", "handed", "job_id", "places", "woken_place", "worker")

    def __init__(
        self,
        places: tuple[Place, ...] = (),
        job_id: bytes = b"",
        event: asyncio.Event | None = None,
        worker: bytes = b"",
    ) -> None:
        self.event = event or asyncio.Event()  # given by a caller that listens in several partitions
        self.places = places
        self.job_id = job_id
        self.worker = worker  # may receive a direct handoff; empty: no handoff
        self.handed: Job | None = None
        self.woken_place: Place | None = None
        self.ended_as = 0  # the state in which the awaited job ended
        self._wakes_at_s = math.inf  # by a timer of `wake_after`

    def receive(self, _job: Job) -> bool:
        """Called at once with a job that was handed over. Return whether the job was accepted."""
        return False

    def reset(self, places: tuple[Place, ...]) -> None:
        """Forget the last wakeup."""
        self.places = places
        self.handed = None
        self.woken_place = None
        self._wakes_at_s = math.inf
        self.event.clear()

    def wake_after(self, pause_s: float) -> None:
        """Wake the listener after this time, unless a timer wakes it earlier."""
        loop = asyncio.get_running_loop()
        at_s = loop.time() + pause_s
        if at_s < self._wakes_at_s:
            self._wakes_at_s = at_s
            loop.call_at(at_s, self.event.set)


def _place_of(content: bytes) -> Place:
    queue, _, filter_text = content.decode().partition("\1")
    return queue, filter_text


def _ended_state(content: bytes) -> int:
    return int(content[16:])  # after the job id


class Wakeups:
    """Wakeups of one partition, read as long as there are listeners.

    A blocking read is never cancelled, because its reply would be lost. It ends by itself after the last listener left.
    """

    def __init__(
        self,
        connection: ReconnectingConnection,
        root: str,
        pass_on: Callable[[str, str, tuple[str, ...]], Coroutine[Any, Any, Any]],
        give_back: Callable[[Job], None],
    ) -> None:
        self.name = secrets.token_urlsafe(9)
        self._on_cancel: Callable[[bytes], None] | None = None
        self._connection = connection
        self._key = keys.wakeup_list(root, self.name)
        self._pass_on = pass_on
        self.give_back = give_back
        self._by_place: dict[Place, deque[Listener]] = {}
        self._by_job: dict[bytes, set[Listener]] = {}
        self._count = 0
        self._has_connected = False
        self._task: asyncio.Task[None] | None = None
        self._passing_on: set[asyncio.Task[Any]] = set()

    def others_wait(self, listener: Listener) -> bool:
        """Return whether another listener waits at one of its places. If so, the engine must keep the registration of
        this process."""
        return any(other is not listener for place in listener.places for other in self._by_place.get(place, ()))

    def add(self, listener: Listener) -> None:
        self._add_to_places(listener)
        if listener.job_id:
            self._by_job.setdefault(listener.job_id, set()).add(listener)
        self._count += 1
        self._start_reading()

    def renew(self, listener: Listener, places: tuple[Place, ...]) -> None:
        """Listen again, as the last at these places. A job that was handed over and not used goes back."""
        self._remove_from_places(listener)
        if listener.handed is not None:
            self.give_back(listener.handed)
        listener.reset(places)
        self._add_to_places(listener)

    @property
    def reads_cancels(self) -> bool:
        return self._on_cancel is not None

    def read_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Call `handler` with the id of each job whose cancellation is requested. Reads the list until `close`."""
        self._on_cancel = handler
        self._start_reading()

    def _start_reading(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._read(), name="windlass-wakeups")

    def wake_when_due(self, places: Collection[Place], due_in_s: float) -> None:
        """Wake the listeners of these places when something is due that a poll of another caller has seen. The polls of
        the listeners came before, so their own waits may end later."""
        if due_in_s < BLOCK_S:  # by then they poll again
            for place in places:
                for listener in self._by_place.get(place, ()):
                    listener.wake_after(due_in_s)

    def leave(self, listener: Listener, registered: Collection[Place] = ()) -> None:
        """Remove a listener that will not poll again.

        Its unused job goes back, and its unused wakeup to the next listener of the place. If there is none, pass it on
        to another process and end the registration of this process. `registered`: places where the engine may have
        this process registered, or may have sent a wakeup.
        """
        self._count -= 1
        self._remove_from_places(listener)
        self._remove_from_jobs(listener)
        if listener.handed is not None:
            self.give_back(listener.handed)
        woken_place = listener.woken_place
        if woken_place is not None:
            self._wake_first(woken_place)
        for place in registered:
            if place != woken_place and place not in self._by_place:
                self._start_pass_on(*place)

    async def settle(self) -> None:
        """Wait until wakeups are passed on. Otherwise the jobs would wait for the recoverer."""
        if self._passing_on:
            await asyncio.wait(self._passing_on, timeout=SETTLE_S)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _add_to_places(self, listener: Listener) -> None:
        for place in listener.places:
            self._by_place.setdefault(place, deque()).append(listener)

    def _remove_from_jobs(self, listener: Listener) -> None:
        listeners = self._by_job.get(listener.job_id)
        if listeners is not None:
            listeners.discard(listener)
            if not listeners:
                del self._by_job[listener.job_id]

    def _remove_from_places(self, listener: Listener) -> None:
        for place in listener.places:
            listeners = self._by_place.get(place)
            if listeners is not None:
                with contextlib.suppress(ValueError):
                    listeners.remove(listener)
                if not listeners:
                    del self._by_place[place]

    def _start_pass_on(self, queue: str, filter_text: str) -> None:
        task = asyncio.create_task(self._pass_on(self.name, queue, (filter_text,)))
        self._passing_on.add(task)
        task.add_done_callback(self._on_passed)

    def _on_passed(self, task: asyncio.Task[Any]) -> None:
        self._passing_on.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("Could not pass on a wakeup: %s. The recoverer will repeat it.", error)

    def connecting(self) -> None:
        """Wake all listeners on a reconnect: a wakeup may have been lost with the old connection."""
        if self._has_connected:
            self._wake_all()
        self._has_connected = True

    async def _read(self) -> None:
        while self._count > 0 or self.reads_cancels:
            try:
                found = await self._connection.call("BLPOP", self._key, BLOCK_S, timeout_s=BLOCK_S + WATCHDOG_S)
            except (EngineUnavailable, EngineNotPermitted) as error:
                log.warning("Cannot wait for jobs: %s. Trying again.", error)
                self._wake_all()
                await asyncio.sleep(pause_s_between(error, 0))
                continue
            if found is not None:
                self._handle_message(found[1])
                await asyncio.sleep(0)  # let the woken listeners run first
            else:
                # Registrations expire with the read: all listeners poll again and so register again.
                self._wake_all()
        self._task = None

    def _handle_message(self, message: bytes) -> None:
        kind, content = message[:1], message[1:]
        if kind == b"Q":
            self._wake_first(_place_of(content))
        elif kind == b"H":
            self._hand_over(unpack_leased(content))
        elif kind == b"E":
            for listener in self._by_job.get(content[:16], ()):
                listener.ended_as = _ended_state(content)
                listener.event.set()
        elif kind == b"C" and self._on_cancel is not None:
            self._on_cancel(content)
        elif kind == b"L":
            for listener in self._by_place.get(MAINTENANCE, ()):
                listener.wake_after(int(content) / 1000)

    def _hand_over(self, job: Job) -> None:
        """Give the job to the taker that it is leased to, or release it if that taker has left."""
        for wanted in HANDED_OVER_TO:
            for listener in self._by_place.get((job.queue, wanted), ()):
                if listener.worker == job.worker:
                    self._remove_from_places(listener)
                    if not listener.receive(job):
                        listener.handed = job
                    listener.event.set()
                    return
        self.give_back(job)

    def _wake_first(self, place: Place) -> None:
        listeners = self._by_place.get(place)
        if listeners is None:
            self._start_pass_on(*place)
            return
        listener = listeners[0]
        self._remove_from_places(listener)
        listener.woken_place = place
        listener.event.set()

    def _wake_all(self) -> None:
        listeners = [listener for group in self._by_place.values() for listener in group]
        listeners += [listener for group in self._by_job.values() for listener in group]
        for listener in listeners:
            listener.event.set()


class SyncWakeups:
    """Wakeups of one blocking caller, in a list of its own. A new list for each caller: it has no old messages."""

    def __init__(self, pool: ConnectionPool, partition: int, root: str) -> None:
        self.name = secrets.token_urlsafe(9)
        self._pool = pool
        self._partition = partition
        self._key = keys.wakeup_list(root, self.name)

    def others_wait(self, _listener: Listener) -> bool:
        return False

    def renew(self, listener: Listener, places: tuple[Place, ...]) -> None:
        listener.reset(places)

    def wait(self, listener: Listener, for_s: float) -> bool:
        """Read the next message, at most for `for_s` seconds. Return whether there was one."""
        block_s = max(0.001, min(for_s, BLOCK_S))
        with self._pool.blocking_connection(self._partition) as connection:
            found = connection.call("BLPOP", self._key, f"{block_s:.3f}", timeout_s=block_s + WATCHDOG_S)
        if found is None:
            return False
        kind, content = found[1][:1], found[1][1:]
        if kind == b"Q":
            listener.woken_place = _place_of(content)
        elif kind == b"E":
            listener.ended_as = _ended_state(content)
        return True
