"""Reader of Jobber's keys: lists of jobs by type, and one list of jobs that workers have taken.

The document names the lists `job_queue_<type>` and `in_process_queue`; a key of its id locks a job. Jobber's code names
the lists `<type>_queue` and `InProcess_queue`, and pushes new jobs to the right end.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import derived_id
from windlass.core.queue import FIXED_LEASE_PREFIX
from windlass.dialects.jobber import JobberJob
from windlass.service import Service
from windlass.store.job_source import JobSource, Place, SourceEntry

from .entries import FoundJob, LeftEntry, Page, ReadEntry, text_of, walk, wrong_kind

IN_PROCESS = ("in_process_queue", "InProcess_queue")
CODE_SUFFIX = "_queue"
RANDOM_VERSIONS = (4, 7)  # the last half of the id is random, as the engine expects


class JobberEntry(msgspec.Struct):
    id: str
    type: str = ""
    payload: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(JobberEntry).decode


class JobberReader:
    def __init__(self, source: JobSource, *, includes_running: bool = False) -> None:
        self._source = source
        self._includes_running = includes_running

    def count(self) -> int:
        return sum(self._source.length(key, place) for key, place in self._lists())

    async def prepare(self, service: Service) -> None:
        """Do nothing: a queue exists from its first job on."""

    def facts(self) -> dict[str, Any]:
        return {}

    def pages(self) -> Iterator[Page]:
        """Yield the taken jobs first: the recoverer would make them the next ones of their queues."""
        for key, kind in self._kinds().items():
            if kind != "list" and (key in IN_PROCESS or key.startswith(FIXED_LEASE_PREFIX)):
                yield wrong_kind(key, kind, "list")
        for key, place in self._lists():
            if key in IN_PROCESS:
                yield from walk(self._source, key, place, self._read_taken)
            else:
                yield from walk(self._source, key, place, lambda page: [read_entry(entry) for entry in page])

    def _kinds(self) -> dict[str, str]:
        keys = {*IN_PROCESS, *self._source.keys(f"{FIXED_LEASE_PREFIX}*"), *self._source.keys(f"*{CODE_SUFFIX}")}
        # A root of Windlass ends in `:{tag}`; its keys may end in the name of a queue.
        return self._source.kinds(sorted(key for key in keys if ":{" not in key))

    def _lists(self) -> list[tuple[str, Place]]:
        found = [key for key, kind in self._kinds().items() if kind == "list"]
        return [(key, _oldest_end(key)) for key in sorted(found, key=lambda key: (key not in IN_PROCESS, key))]

    def _read_taken(self, page: list[SourceEntry]) -> list[ReadEntry]:
        read = [read_entry(entry) for entry in page]
        ids = [job.identity for job in read if isinstance(job, FoundJob)]
        locks = dict(zip(ids, self._source.exist(ids), strict=True))
        return [
            LeftEntry(entry=job.entry, reason="A worker has locked the job.", is_running=True)
            if isinstance(job, FoundJob) and locks[job.identity] and not self._includes_running
            else job
            for job in read
        ]


def _oldest_end(key: str) -> Place:
    return "right" if key in IN_PROCESS or key.startswith(FIXED_LEASE_PREFIX) else "left"


def _type_of(key: str) -> str:
    """Return the type in the name of a list; empty for the list of all taken jobs."""
    if key in IN_PROCESS:
        return ""
    return key.removeprefix(FIXED_LEASE_PREFIX) if key.startswith(FIXED_LEASE_PREFIX) else key.removesuffix(CODE_SUFFIX)


def read_entry(entry: SourceEntry) -> ReadEntry:
    try:
        decoded = _decode(entry.member)
        job_type = _type_of(entry.key) or decoded.type
        if not decoded.id or not job_type:
            raise BadInput("The job has no id or no type.")
        job = JobberJob(type=job_type, payload=_payload(decoded.payload)).new_job()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Refusal) as error:
        return LeftEntry(entry=entry, reason=f"The entry is not a job of Jobber: {error}")
    base_id = _id_in(decoded.id)
    return FoundJob(
        entry=entry,
        identity=decoded.id,
        base_id=base_id or derived_id("jobber", decoded.id),
        keeps_id=bool(base_id),
        job=job,
        is_in_flight=entry.key in IN_PROCESS,
        content=text_of(entry.member),
    )


def _payload(payload: Raw | UnsetType) -> Raw | UnsetType:
    """Return the payload. Jobber's code stores it as text that holds JSON."""
    if payload is UNSET or not bytes(payload).lstrip().startswith(b'"'):
        return payload
    text = msgspec.json.decode(payload, type=str).encode()
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return payload
    return Raw(text)


def _id_in(text: str) -> bytes:
    """Return the bytes of a random UUID, or nothing: other ids could be alike in the half that the engine remembers."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        return b""
    return found.bytes if found.version in RANDOM_VERSIONS and str(found) == text.lower() else b""
