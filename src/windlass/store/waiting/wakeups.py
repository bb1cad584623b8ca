"""What wakes this process: one list in the engine that it blocks on, for its takers and whoever awaits a job's end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeAlias, cast

from windlass.core.errors import EngineNotPermitted, EngineUnavailable
from windlass.core.job import Job
from windlass.store.connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from windlass.store.connection.retry_policy import pause_s_between
from windlass.store.records.leased_record import unpack_leased

log = logging.getLogger("windlass.store")

BLOCK_S = 60  # a blocking read ends after this time and begins anew
WATCHDOG_S = 5  # longer than the read itself: then the connection counts as dead
SETTLE_S = 1.0
Place: TypeAlias = tuple[str, str]  # queue, filter text
MAINTENANCE: Place = ("", "")  # where the loops wait: no queue has an empty name


class Listener:
    """A local taker, or somebody who awaits a job's end. `event` is set when it should look again, or has been given
    what it waited for."""

    __slots__ = ("ended_as", "event", "handed", "job_id", "places", "receive", "was_rung", "worker")

    def __init__(
        self,
        places: tuple[Place, ...] = (),
        job_id: bytes = b"",
        event: asyncio.Event | None = None,
        worker: bytes = b"",
        receive: Callable[[Job], bool] | None = None,
    ) -> None:
        self.event = event or asyncio.Event()  # given by somebody who listens to several bells
        self.places = places
        self.job_id = job_id
        self.worker = worker  # that jobs may be handed to
        self.receive = receive  # is given such a job at once, and says whether it has taken it on
        self.handed: Job | None = None
        self.was_rung: Place | None = None
        self.ended_as = 0  # the state in which the awaited job ended

    def look_in(self, pause_s: float) -> None:
        """Not at once: something will be due then."""
        asyncio.get_running_loop().call_later(pause_s, self.event.set)


async def wait_for_event(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Wakeups:
    """Read from the first listener on. A read that is under way is never abandoned, since its answer would be lost with
    it; it ends by itself after the last listener is gone."""

    def __init__(
        self,
        link: ReconnectingConnection,
        root: str,
        pass_on: Callable[[str, str, tuple[str, ...]], Coroutine[Any, Any, Any]],
        give_back: Callable[[Job], None],
    ) -> None:
        self.name = secrets.token_urlsafe(9)
        self._on_cancel: Callable[[bytes], None] | None = None
        self._link = link
        self._key = f"{root}:bell:{self.name}"
        self._pass_on = pass_on
        self.give_back = give_back
        self._takers: dict[Place, deque[Listener]] = {}
        self._awaiting: dict[bytes, set[Listener]] = {}
        self._count = 0
        self._has_connected = False
        self._task: asyncio.Task[None] | None = None
        self._passing: set[asyncio.Task[Any]] = set()

    def others_wait(self, listener: Listener) -> bool:
        """Does anybody else wait at one of its places? Then the engine must keep the process registered."""
        return any(other is not listener for place in listener.places for other in self._takers.get(place, ()))

    def add(self, listener: Listener) -> None:
        for place in listener.places:
            self._takers.setdefault(place, deque()).append(listener)
        if listener.job_id:
            self._awaiting.setdefault(listener.job_id, set()).add(listener)
        self._count += 1
        self._start_reading()

    @property
    def hears_cancels(self) -> bool:
        return self._on_cancel is not None

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """From now on the bell is read until it is closed."""
        self._on_cancel = handler
        self._start_reading()

    def _start_reading(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._read(), name="windlass-bell")

    def remove(self, listener: Listener) -> None:
        self._unlist(listener)
        if listener.job_id in self._awaiting:
            self._awaiting[listener.job_id].discard(listener)
            if not self._awaiting[listener.job_id]:
                del self._awaiting[listener.job_id]
        self._count -= 1

    def leave(self, listener: Listener, owed: Collection[Place]) -> None:
        """The listener will not look again. A ring that came for it and was not used goes to the next; and where it
        leaves alone, the engine must not ring here any more. `owed` are the places where it may have or did."""
        self._unlist(listener)
        rung = listener.was_rung
        for place in listener.places:
            if place not in self._takers:
                if place == rung or place in owed:
                    self._start_passing(*place)
            elif place == rung:
                self._wake_first(place)

    async def settle(self) -> None:
        """Rings that are being passed on arrive: else they would wait for the recoverer."""
        if self._passing:
            await asyncio.wait(self._passing, timeout=SETTLE_S)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _unlist(self, listener: Listener) -> None:
        for place in listener.places:
            line = self._takers.get(place)
            if line is not None:
                with contextlib.suppress(ValueError):
                    line.remove(listener)
                if not line:
                    del self._takers[place]

    def _start_passing(self, queue: str, filter_text: str) -> None:
        task = asyncio.create_task(self._pass_on(self.name, queue, (filter_text,)))
        self._passing.add(task)
        task.add_done_callback(self._passed)

    def _passed(self, task: asyncio.Task[Any]) -> None:
        self._passing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("A ring could not be passed on (%s); the recoverer repeats it.", error)

    def connecting(self) -> None:
        """A ring may have been lost with the old connection: everybody looks again."""
        if self._has_connected:
            self._wake_all()
        self._has_connected = True

    async def _read(self) -> None:
        while self._count > 0 or self.hears_cancels:
            try:
                found = await self._link.call("BLPOP", self._key, BLOCK_S, timeout_s=BLOCK_S + WATCHDOG_S)
            except (EngineUnavailable, EngineNotPermitted) as error:
                log.warning("Cannot wait for jobs (%s). Trying again.", error)
                self._wake_all()
                await asyncio.sleep(pause_s_between(error, 0))
                continue
            if found is not None:
                self._heard(found[1])
                await asyncio.sleep(0)  # those it has woken go first
            else:
                # Registrations run out with the read: everybody looks again and registers anew.
                self._wake_all()
        self._task = None

    def _heard(self, message: bytes) -> None:
        kind, content = message[:1], message[1:]
        if kind == b"Q":
            queue, _, filter_text = content.decode().partition("\1")
            self._wake_first((queue, filter_text))
        elif kind == b"H":
            self._hand(unpack_leased(content))
        elif kind == b"E":
            for listener in self._awaiting.get(content[:16], ()):
                listener.ended_as = int(content[16:])
                listener.event.set()
        elif kind == b"C" and self._on_cancel is not None:
            self._on_cancel(content)
        elif kind == b"L":
            for listener in self._takers.get(MAINTENANCE, ()):
                listener.look_in(int(content) / 1000)

    def _hand(self, job: Job) -> None:
        """To the taker it was given to; one that is gone has no use for it."""
        for listener in self._takers.get((job.queue, ""), ()):
            if listener.worker == job.worker:
                self._unlist(listener)
                if listener.receive is None or not listener.receive(job):
                    listener.handed = job
                listener.event.set()
                return
        self.give_back(job)

    def _wake_first(self, place: Place) -> None:
        line = self._takers.get(place)
        if line is None:
            self._start_passing(*place)
            return
        listener = line[0]
        self._unlist(listener)
        listener.was_rung = place
        listener.event.set()

    def _wake_all(self) -> None:
        listeners = [listener for line in self._takers.values() for listener in line]
        listeners += [listener for group in self._awaiting.values() for listener in group]
        for listener in listeners:
            listener.event.set()


class SyncWakeups:
    """A bell of one blocking caller, on a link of its own."""

    def __init__(self, link: SyncReconnectingConnection, root: str) -> None:
        self.name = secrets.token_urlsafe(9)
        self._link = link
        self._key = f"{root}:bell:{self.name}"

    def wait(self, for_s: float) -> bytes:
        """What was rung, or nothing when the time is over."""
        block_s = max(0.001, min(for_s, BLOCK_S))
        found = self._link.call("BLPOP", self._key, f"{block_s:.3f}", timeout_s=block_s + WATCHDOG_S)
        return cast(bytes, found[1]) if found else b""

    def close(self) -> None:
        self._link.close()
