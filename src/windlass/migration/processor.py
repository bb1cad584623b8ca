"""Reader of the processor's keys: lists of uuids by queue, sorted sets of jobs in flight, and a hash for each job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import derived_id
from windlass.core.validation.bounds import UNIQUE_MAX
from windlass.core.validation.values import check_text
from windlass.dialects.stdio.jobs import new_job
from windlass.service import Service
from windlass.store.job_source import JobSource, Place, SourceEntry

from .entries import FoundJob, LeftEntry, Page, ReadEntry, text_of, walk, wrong_kind
from .report import KEPT

KEEP_MS = 3_600_000  # the default of `windlass processor --keep`
QUEUED = "jobs_queued:"
PROGRESS = "jobs_progress:"
IN_FLIGHT = ("jobs_processing:", PROGRESS, "jobs_dispatched:")  # the first that names a job moves it
WORKERS = ("workers_last_seen:", "workers_idle:", "workers_busy:")


class ProcessorReader:
    def __init__(self, source: JobSource) -> None:
        self._source = source
        self._progress: dict[str, float] = {}  # of the first jobs in progress

    def count(self) -> int:
        return sum(self._source.length(key, place) for key, kind, place in self._keys() if _is_right(kind, place))

    async def prepare(self, service: Service) -> None:
        """Do nothing: a queue exists from its first job on."""

    def facts(self) -> dict[str, Any]:
        workers = {key: self._source.members(key) for prefix in WORKERS for key in self._source.keys(f"{prefix}*")}
        return {"workers": workers, "progress": self._progress}

    def pages(self) -> Iterator[Page]:
        """Yield the jobs in flight first: the processor would put them back at the front of their queues."""
        for key, kind, place in self._keys():
            if _is_right(kind, place):
                yield from walk(self._source, key, place, self._read)
            else:
                yield wrong_kind(key, kind, "sorted set" if place == "zset" else "list")

    def _keys(self) -> list[tuple[str, str, Place]]:
        wanted: list[tuple[str, Place]] = [(prefix, "zset") for prefix in IN_FLIGHT]
        found: list[tuple[str, str, Place]] = []
        for prefix, place in [*wanted, (QUEUED, "right")]:
            kinds = self._source.kinds(self._source.keys(f"{prefix}*"))
            found += [(key, kind, place) for key, kind in kinds.items()]
        return found

    def _read(self, page: list[SourceEntry]) -> list[ReadEntry]:
        for entry in page:
            if entry.key.startswith(PROGRESS) and len(self._progress) < KEPT:
                self._progress[text_of(entry.member)] = entry.score
        hashes = self._source.hashes([text_of(entry.member) for entry in page])
        return [read_entry(entry, fields) for entry, fields in zip(page, hashes, strict=True)]


def _is_right(kind: str, place: Place) -> bool:
    return kind == ("zset" if place == "zset" else "list")


def read_entry(entry: SourceEntry, stored: dict[bytes, bytes] | None) -> ReadEntry:
    queue, job_uuid = entry.key.partition(":")[2], text_of(entry.member)
    try:
        raw = (stored or {}).get(b"json")
        if raw is None:
            raise BadInput(f"The hash {job_uuid} has no field json.")
        fields = _fields(raw, queue, job_uuid)
        job = new_job(raw, fields, keep_ms=KEEP_MS, attempts=0)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Refusal) as error:
        return LeftEntry(entry=entry, reason=f"The job cannot be read: {error}")
    return FoundJob(
        entry=entry,
        identity=f"{queue}\t{job_uuid}",
        base_id=derived_id("processor", queue, job_uuid),
        job=job,
        is_in_flight=not entry.key.startswith(QUEUED),
    )


def _fields(raw: bytes, queue: str, job_uuid: str) -> dict[str, Any]:
    """Decode a job. Workers send its uuid and queue back, so both must be those of the keys."""
    fields: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    for name, wanted in (("uuid", job_uuid), ("queue_name", queue)):
        if fields.get(name) != wanted:
            raise BadInput(f"{name} must be {wanted!r}, as in the key, not {fields.get(name)!r:.60}.")
    check_text("uuid", job_uuid, UNIQUE_MAX)
    return fields
