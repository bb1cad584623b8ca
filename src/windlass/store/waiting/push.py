"""Waiting without polling for jobs to push: for a job that a worker with free capacity accepts, for free capacity, or
for a new worker."""

from __future__ import annotations

from windlass.core.errors import Refusal
from windlass.core.operations import Dispatch
from windlass.store.commands.command import Flow
from windlass.store.commands.push import DispatchResult, dispatch
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, wait_async
from .take import take_once
from .wakeups import Place

PUSH: Place = ("\2push", "")  # as in lua/lib/workers/push_workers.lua


def dispatch_flow(
    most: int, accept_ms: int, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[DispatchResult]:
    found = yield dispatch(most, accept_ms, partition, registration)
    if isinstance(found, Refusal):
        raise found
    return found  # type: ignore[no-any-return]


class _DispatchWait(Wait[Dispatch]):
    """Wait for a job to push. The reply names the places where the engine sends wakeups. If they include places
    without a listener, listen there and poll once more."""

    def __init__(self, most: int, accept_ms: int, partition: int) -> None:
        super().__init__()
        self._most = most
        self._accept_ms = accept_ms
        self._part = PartitionWait(partition, (PUSH,), self.event)
        self.parts = (self._part,)

    def look(self, left_s: float) -> Flow[DispatchResult]:
        part = self._part
        return dispatch_flow(self._most, self._accept_ms, part.partition, part.registration(left_s))

    def read(self, found: DispatchResult) -> Look[Dispatch]:
        part, wanted = self._part, found.places | {PUSH}
        part.registered |= wanted
        if found.taken.jobs:
            part.note_found()
        part.next_places = tuple(wanted)
        is_listening = wanted.issubset(part.places)
        return Look(found.dispatch, found.taken.jobs, found.due_in_s, is_listening=is_listening)


async def dispatch_waiting(store: Store, most: int, accept_ms: int, wait_ms: int, partition: int) -> Dispatch:
    """Lease jobs for push workers as soon as there are any; wait up to `wait_ms`."""
    await store.open()
    wait = _DispatchWait(most, accept_ms, partition)
    return await wait_async(store, wait, wait_ms, lambda flow: take_once(store, flow))
