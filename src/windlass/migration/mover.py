"""Mover: brings the jobs of a source into this deployment, each once, whatever interrupts it.

A page of jobs moves in four steps:

1. Hold: the jobs are enqueued for an instant that never comes. Their ids are made from their identity in the source.
2. Claim: their entries leave the lists of the source and are noted there as moving, in one step.
3. Release: the jobs get their instant and can be taken.
4. Settle: the source notes them as moved.

A repeated step 1 finds the jobs, because held jobs cannot end. A repeated step 3 is guarded by the first revision of a
job. So the next run continues after an interruption at any point, at any later time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.core.errors import BadInput, EngineFull, QueueFull, Refusal
from windlass.core.ids import format_id, parse_id, with_partition
from windlass.core.job import NewJob
from windlass.core.operations import Edit, Enqueued
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.bounds import PAYLOAD_MAX
from windlass.core.validation.jobs import check_new_job
from windlass.service import Service
from windlass.store.job_source import JobSource

from .ended_jobs import hold_ended
from .entries import FoundJob, LeftEntry, Page, ReadEntry, Reader
from .report import MigrationReport

HELD_UNTIL_MS = INSTANT_MAX
FIRST_REVISION = 1


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Note of the source about a claimed job: everything that steps 3 and 4 need."""

    target: str
    id: str = ""
    run_at_ms: int = 0
    release: str = "job"  # or `callback`, `nothing`
    queue: str
    key: str = ""
    content: str = ""


class HeldJob(msgspec.Struct, frozen=True):
    found: FoundJob
    id: bytes  # empty: this deployment had the job already
    release: str


class Mover:
    def __init__(self, source: JobSource, reader: Reader, report: MigrationReport) -> None:
        self._source = source
        self._reader = reader
        self.report = report

    def count_all(self, advance: Callable[[int], None]) -> None:
        """Read everything and change nothing."""
        seen: set[str] = set()
        for page in self._reader.pages():
            read = [_check(entry) for entry in page.entries]
            found = [entry for entry in read if isinstance(entry, FoundJob)]
            for job, is_known in zip(found, self._source.known([job.identity for job in found]), strict=True):
                if is_known or job.identity in seen:
                    self._note_known(job)
                else:
                    self.report.note_moved(job)
                seen.add(job.identity)
            for entry in read:
                if isinstance(entry, LeftEntry):
                    self.report.note_left(entry)
            page.left = len(page.entries)
            advance(len(page.entries))
        self._note_facts()

    async def move_all(self, service: Service, advance: Callable[[int], None]) -> None:
        """Move everything, after the rest of an interrupted run."""
        await service.store.open()
        await self._reader.prepare(service)
        await self._continue(service)
        for page in self._reader.pages():
            await self._move(service, page)
            advance(len(page.entries))
        self._note_facts()

    def _note_facts(self) -> None:
        for name, value in self._reader.facts().items():
            setattr(self.report, name, value)

    def _note_known(self, found: FoundJob) -> None:
        # A job in flight is listed twice, in the sorted sets of its state and of its progress.
        self.report.moved_before += not found.is_in_flight

    async def _continue(self, service: Service) -> None:
        unsettled = [(identity, _read_note(identity, note)) for identity, note in self._source.unsettled()]
        if not unsettled:
            return
        for _, note in unsettled:
            if note.target != target_of(service):
                raise BadInput(
                    f"An interrupted migration to {note.target} is not complete: repeat it with the same --url and "
                    "--namespace first."
                )
        await self._release(service, [note for _, note in unsettled])
        self._source.settle([identity for identity, _ in unsettled])
        for _, note in unsettled:
            self.report.moved += 1
            self.report.queues[note.queue] += 1

    async def _move(self, service: Service, page: Page) -> None:
        found: list[FoundJob] = []
        for entry in page.entries:
            checked = _check(entry)
            if isinstance(checked, LeftEntry):
                self._leave(page, checked)
            else:
                found.append(checked)
        known = self._source.known([job.identity for job in found])
        held = [HeldJob(job, b"", "nothing") for job, is_known in zip(found, known, strict=True) if is_known]
        new = [job for job, is_known in zip(found, known, strict=True) if not is_known]
        await self._claim(service, held + await self._hold(service, page, new))

    def _leave(self, page: Page, left: LeftEntry) -> None:
        self.report.note_left(left)
        page.left += left.entry.place != "none"

    # Step 1

    async def _hold(self, service: Service, page: Page, jobs: Sequence[FoundJob]) -> list[HeldJob]:
        pending = [job for job in jobs if job.ended is None]
        ended = [job for job in jobs if job.ended is not None]
        ids = [self._id_of(service, job) for job in pending]
        answers = await service.enqueue([_held(job, job_id) for job, job_id in zip(pending, ids, strict=True)])
        held = []
        for job, job_id, answer in zip(pending, ids, answers, strict=True):
            if isinstance(answer, Refusal):
                self._refuse(page, job, answer)
            else:
                held.append(_held_by(job, job_id, answer))
        ended_ids = [self._id_of(service, job) for job in ended]
        for job, job_id, refusal in zip(ended, ended_ids, await hold_ended(service, ended, ended_ids), strict=True):
            if refusal:
                self._leave(page, LeftEntry(entry=job.entry, reason=refusal))
            else:
                held.append(HeldJob(job, job_id, "nothing" if job.ended and job.ended.is_given_up else "callback"))
        return held

    def _id_of(self, service: Service, job: FoundJob) -> bytes:
        store = service.store
        return with_partition(job.base_id, store.partition_of_queue(job.job.queue), store.partitions)

    def _refuse(self, page: Page, job: FoundJob, refusal: Refusal) -> None:
        if isinstance(refusal, QueueFull | EngineFull):
            raise refusal  # it would be refused for all: try again when there is room
        self._leave(page, LeftEntry(entry=job.entry, reason=str(refusal)))

    # Steps 2 to 4

    async def _claim(self, service: Service, held: Sequence[HeldJob]) -> None:
        notes = [_note(service, job) for job in held]
        claims = self._source.claim(
            [job.found.entry for job in held],
            [job.found.identity for job in held],
            [msgspec.json.encode(note) for note in notes],
        )
        await self._release(service, [note for note, claim in zip(notes, claims, strict=True) if claim == "claimed"])
        # A worker of the source took the job after it was read: the worker has it.
        gone = [job.id for job, claim in zip(held, claims, strict=True) if claim == "gone" and job.id]
        if gone:
            await service.delete(gone)
        self._source.settle([job.found.identity for job, claim in zip(held, claims, strict=True) if claim == "claimed"])
        for job, claim in zip(held, claims, strict=True):
            self._note_claim(job, claim)

    def _note_claim(self, job: HeldJob, claim: str) -> None:
        if claim == "known":
            self._note_known(job.found)
        elif claim == "gone":
            self.report.running += 1
        elif not job.id:
            self.report.existing += 1
        else:
            self.report.note_moved(job.found)
            self.report.changed_ids += job.found.keeps_id and job.id != job.found.base_id

    async def _release(self, service: Service, notes: Sequence[Note]) -> None:
        """Make held jobs takeable. A job that is released already has another revision, or no longer exists."""
        now_ms = await service.now()
        edits = [
            Edit(id=parse_id(note.id), run_at_ms=max(now_ms, note.run_at_ms), if_revision=FIRST_REVISION)
            for note in notes
            if note.release == "job"
        ]
        if edits:
            await service.edit(edits)
        callbacks = [parse_id(note.id) for note in notes if note.release == "callback"]
        if callbacks:
            await service.redeliver(callbacks)


def _read_note(identity: str, stored: bytes) -> Note:
    try:
        note = msgspec.json.decode(stored, type=Note)
        parse_id(note.id or format_id(bytes(16)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadInput) as error:
        raise BadInput(
            f"The source has an unreadable note about the job {identity[:80]!r} of an interrupted migration ({error}). "
            "Delete its field of the hash windlass:moving:… there if the job must not be moved."
        ) from error
    return note


def target_of(service: Service) -> str:
    namespace = service.store.namespace
    return f"{service.store.endpoint}, namespace {namespace}" if namespace else str(service.store.endpoint)


def _check(entry: ReadEntry) -> ReadEntry:
    """Check a job as an enqueue does, so that a wrong job does not stop the others of its page."""
    if isinstance(entry, FoundJob):
        try:
            check_new_job(entry.job, PAYLOAD_MAX)
        except Refusal as refusal:
            return LeftEntry(entry=entry.entry, reason=str(refusal))
    return entry


def _held(found: FoundJob, job_id: bytes) -> NewJob:
    return msgspec.structs.replace(found.job, id=job_id, run_at_ms=HELD_UNTIL_MS)


def _held_by(found: FoundJob, job_id: bytes, answer: Enqueued) -> HeldJob:
    """Return the job as held, unless another job has its unique key, or it has ended already."""
    is_ours = answer.id == job_id and answer.status != "ended"
    return HeldJob(found, job_id if is_ours else b"", "job" if is_ours else "nothing")


def _note(service: Service, job: HeldJob) -> Note:
    return Note(
        target=target_of(service),
        id=format_id(job.id) if job.id else "",
        run_at_ms=job.found.run_at_ms,
        release=job.release,
        queue=job.found.job.queue,
        key=job.found.entry.key,
        content=job.found.content,
    )
