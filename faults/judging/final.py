"""The state after a run, once everything has drained: all that a person could still see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.diagnosis import MEANINGS
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Listing
from windlass.service import Service

from .identity import identity

STATES = ("queued", "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history")
PAGE = 100
_DECODERS: dict[Codec, Callable[[bytes], Any]] = {
    Codec.JSON: msgspec.json.decode,
    Codec.MSGPACK: msgspec.msgpack.decode,
}


class FinalJob(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    key: str = ""
    queue: str = ""
    state: str
    attempt: int = 0
    token: int = 0
    schedule: str = ""
    planned_at_ms: int = 0


class Final(msgspec.Struct, kw_only=True, dict=True):
    jobs: Mapping[str, FinalJob] = {}  # by identity
    owed: frozenset[str] = frozenset()  # jobs with a callback that is owed, or was given up where people see it
    limits: Mapping[str, int] = {}  # limit -> jobs that count as running
    fired: Mapping[str, int] = {}  # schedule -> jobs it has made
    doctor: tuple[str, ...] = ()  # what is wrong, in words

    def find(self, job: str, keys: Collection[str]) -> FinalJob | None:
        """By id; or by key, where the front end told no id."""
        if job in self.jobs or not keys:
            return self.jobs.get(job)
        return next((self.by_key[key] for key in keys if key in self.by_key), None)

    @cached_property
    def by_key(self) -> dict[str, FinalJob]:
        return {job.key: job for job in self.jobs.values() if job.key}


async def read_final(service: Service) -> Final:
    """To be asked when nothing moves any more."""
    jobs = {job.id: job for state in STATES for job in await _jobs_in(service, state)}
    diagnosis = await service.doctor()
    return Final(
        jobs=jobs,
        owed=frozenset([identity(debt.job.key) for debt in await _debts(service)]),
        limits={one.limit.name: sum(level.running for level in one.levels) for one in await service.limits()},
        fired={one.schedule.name: one.fired for one in await service.schedules()},
        doctor=tuple(
            f"{one.code}: {one.what} ({one.count}: {', '.join(one.examples)})"
            for one in diagnosis.findings
            if one.code in MEANINGS
        ),
    )


async def _jobs_in(service: Service, state: str) -> list[FinalJob]:
    found: list[FinalJob] = []
    for queue in await service.queues():
        cursor = ""
        while True:
            page = await service.jobs(Listing(queue=queue, state=state, most=PAGE, cursor=cursor))
            found += map(final_job, page.jobs)
            cursor = page.cursor
            if not cursor:
                break
    return found


async def _debts(service: Service) -> list[PendingCallback]:
    found: list[PendingCallback] = []
    for given_up in (False, True):
        cursor = ""
        while True:
            page = await service.callbacks(given_up=given_up, most=PAGE, cursor=cursor)
            found += page.callbacks
            cursor = page.cursor
            if not cursor:
                break
    return found


def final_job(job: Job) -> FinalJob:
    return FinalJob(
        id=identity(job.key), key=key_of(job.payload), queue=job.queue, state=job.state.label, attempt=job.attempt,
        token=job.lease_token, schedule=job.schedule, planned_at_ms=job.planned_at_ms or 0,
    )  # fmt: skip


def key_of(payload: Blob) -> str:
    """The key that a producer of ours gave a job: every front end has a place for it in what becomes the payload."""
    try:
        value = _DECODERS[payload.codec](payload.data)
    except (KeyError, msgspec.DecodeError):
        return ""
    return str(next(_keys_in(value), ""))


def _keys_in(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for name in ("key", "extra"):
            if value.get(name):
                yield value[name]
