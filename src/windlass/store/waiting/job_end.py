"""Results of jobs, and waiting without polling for a job's end."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.job import Ending
from windlass.core.states import State
from windlass.store.commands import jobs
from windlass.store.commands.command import Flow
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, wait_async, wait_sync


def _ending_of(answer: Ending | Refusal, ended_as: int = 0) -> Ending | None:
    """Return the job's ending, or None if it has not ended. If the record is gone, the state comes from the wakeup."""
    if isinstance(answer, AlreadyEnded | UnknownJob):
        if not ended_as:
            raise answer
        if not State(ended_as).is_ended:
            raise UnknownJob("The job was deleted during the wait for its end.")
        return Ending(state=State(ended_as))
    if isinstance(answer, Refusal):
        raise answer
    return answer if answer.state.is_ended else None


def _result_flow(job_id: bytes, consume: bool, wakeup_list: str, partition: int) -> Flow[Any]:
    return (yield jobs.result(job_id, consume, wakeup_list, partition))


class _ResultWait(Wait[Ending | None]):
    """Wait for the end of a job."""

    def __init__(self, job_id: bytes, consume: bool, partition: int) -> None:
        super().__init__()
        self._job_id = job_id
        self._consume = consume
        self._part = PartitionWait(partition, (), self.event, job_id)
        self._is_registered = True
        self.parts = (self._part,)

    def look(self, _left_s: float) -> Flow[Any]:
        return _result_flow(self._job_id, self._consume, self._part.wakeups.name, self._part.partition)

    def read(self, answer: Ending | Refusal) -> Look[Ending | None]:
        ending = _ending_of(answer, self._part.ended_as)
        self._is_registered = ending is None
        return Look(ending, ending)

    def withdraw(self) -> Flow[None]:
        if self._is_registered:
            yield jobs.result(self._job_id, False, self._part.wakeups.name, self._part.partition, leaves=True)


async def wait_for_result(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    await store.open()
    partition = store.partition_of_job(job_id)
    if not wait_ms:
        return _ending_of(await store.run(_result_flow(job_id, consume, "", partition)))
    return await wait_async(store, _ResultWait(job_id, consume, partition), wait_ms)


def wait_for_result_sync(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    store.open_sync()
    partition = store.partition_of_job(job_id)
    if not wait_ms:
        return _ending_of(store.run_sync(_result_flow(job_id, consume, "", partition)))
    return wait_sync(store, _ResultWait(job_id, consume, partition), wait_ms)
