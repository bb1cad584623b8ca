"""An import under way: lines in, batches out. It does no I/O itself: a line that fills a batch gives the flow that
sends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import BadInput, CrossPartition, IdConflict, Refusal
from windlass.core.export import lines as export_lines
from windlass.core.ids import parse_id, with_partition
from windlass.core.job import NewJob
from windlass.core.limits.limit import Limit
from windlass.core.validation.bounds import MIB
from windlass.core.validation.export_lines import (
    check_attempt_entry,
    check_job_entry,
    check_job_line,
    check_queue_line,
    check_schedule_line,
)
from windlass.core.validation.limits import check_limit
from windlass.core.validation.schedules import check_schedule
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import job_admin, queues
from windlass.store.commands.admin import export as calls
from windlass.store.commands.command import Flow
from windlass.store.commands.limits import join_keys
from windlass.store.export import entries as stored_entries
from windlass.store.limit_matcher import refresh_limits, run_matched
from windlass.store.store import Store

BATCH_LINES = 500
BATCH_BYTES = 4 * MIB
AWAITED_WEIGHT = 1024
CANCELLED_AT_ONCE = 1_000
_OTHERWISE = {
    "queue": "The queue is configured otherwise here; it stays as it is.",
    "limit": "A limit of this name is set otherwise here; it stays as it is.",
    "schedule": "A schedule of this name is another one here; it stays as it is.",
    "job": "A job with this id and other content is here already; it stays as it is.",
    "callback": "",
}


class Waiting(NamedTuple):
    """An entry of the batch. A job's limits are matched when it is sent."""

    line: int
    home: int
    name: str
    build: Callable[[str], calls.RestoreEntry]
    job: NewJob | None = None
    is_cancel_requested: bool = False


class Importer:
    """Reads the lines of one export in order."""

    def __init__(self, store: Store, payload_max: int, set_limit: Callable[[Limit], Flow[int]]) -> None:
        self.done = export_lines.ImportReport()
        self._store = store
        self._payload_max = payload_max
        self._set_limit = set_limit
        self._kind = ""
        self._batch: list[Waiting] = []
        self._bytes = 0
        self._seen: Counter[str] = Counter()
        self._is_over = False
        self._to_cancel: list[bytes] = []

    def read(self, text: Any) -> Flow[None] | None:
        """Takes one line in; a flow that must be run before the next, if there is one."""
        self.done.lines += 1
        number = self.done.lines
        if number == 1:
            export_lines.decode_header(text)
            return None
        line = export_lines.decode_line(text, number)
        if self._is_over:
            raise BadInput(f"Line {number} comes after the end of the export.")
        try:
            return self._read_line(line, len(text))
        except Refusal as refusal:
            raise type(refusal)(f"Line {number}: {refusal}") from refusal

    def finish(self) -> Flow[None]:
        """After the last line: jobs find those they belong to."""
        if not self._is_over:
            raise BadInput(
                f"The export is cut off: it has no end after line {self.done.lines}. "
                "What came in stays; import the whole file again."
            )
        for partition in range(self._store.partitions):
            yield from self._reunite(partition)
        yield from self._cancel()

    def _reunite(self, partition: int) -> Flow[None]:
        is_more = True
        while is_more:
            is_more, unknown = yield calls.restored(partition)
            self.done.unknown_awaited += unknown

    def _read_line(self, line: export_lines.AnyLine, size: int) -> Flow[None] | None:
        if isinstance(line, export_lines.HeaderLine):
            raise BadInput("a header can only be the first line.")
        if isinstance(line, export_lines.EndLine):
            return self._read_end(line)
        if isinstance(line, export_lines.LimitLine):
            check_limit(line.limit)
            self._seen["limit"] += 1
            return self._limit(line.limit, self.done.lines, self._send())
        entry = self._entry(line)
        self._seen[_kind_of(line)] += 1
        return self._add(_kind_of(line), entry, _weight(line, size)) if entry else None

    def _read_end(self, line: export_lines.EndLine) -> Flow[None]:
        for kind in export_lines.KINDS:
            if line.counts.get(kind) != self._seen[kind]:
                said = line.counts.get(kind)
                raise BadInput(f"the end speaks of {said} lines of kind {kind}, but {self._seen[kind]} were there.")
        self._is_over = True
        return self._send()

    def _add(self, kind: str, entry: Waiting, size: int) -> Flow[None] | None:
        """Batches are of one kind: configuration is in place before the first job."""
        before = self._send() if self._batch and (self._kind != kind or self._is_full(size)) else None
        self._kind = kind
        self._batch.append(entry)
        self._bytes += size
        return before

    def _is_full(self, size: int) -> bool:
        return len(self._batch) >= BATCH_LINES or self._bytes + size > BATCH_BYTES

    # Entries

    def _entry(self, line: export_lines.AnyLine) -> Waiting | None:
        if isinstance(line, export_lines.QueueLine):
            return self._queue(line)
        if isinstance(line, export_lines.ScheduleLine):
            return self._schedule(line)
        if isinstance(line, export_lines.CallbackLine):
            return self._callback(line)
        assert isinstance(line, export_lines.JobLine)  # noqa: S101 (the other kinds are dealt with)
        return self._job(line)

    def _queue(self, line: export_lines.QueueLine) -> Waiting:
        check_queue_line(line)
        home = self._store.partition_of_queue(line.name)
        return Waiting(self.done.lines, home, line.name, lambda _: stored_entries.read_queue(line))

    def _schedule(self, line: export_lines.ScheduleLine) -> Waiting:
        schedule = stored_entries.schedule_in(line)
        check_schedule(schedule, self._payload_max)
        check_schedule_line(line)
        home = self._store.partition_of_queue(schedule.job.queue)
        return Waiting(
            self.done.lines,
            home,
            schedule.name,
            lambda _: stored_entries.read_schedule(line, schedule, lambda one: self._rehomed(one, home)),
        )

    def _job(self, line: export_lines.JobLine) -> Waiting | None:
        entry, home = line.job, self._store.partition_of_queue(line.job.queue)
        job = self._content(entry, home)
        check_job_line(line, job, self._payload_max)
        after = [self._rehomed(one.id, home) for one in line.after]
        others = {entry.parent_queue, *(one.queue for one in line.after)} - {""}
        if any(self._store.partition_of_queue(queue) != home for queue in others):
            self._refuse(self.done.lines, "job", entry.id, CrossPartition())
            return None
        if job.id != parse_id(entry.id):
            self.done.remade_ids += 1
        return Waiting(
            self.done.lines,
            home,
            entry.id,
            lambda limits: stored_entries.read_job(line, job, limits, after),
            job,
            line.is_cancel_requested,
        )

    def _callback(self, line: export_lines.CallbackLine) -> Waiting:
        home = self._store.partition_of_queue(line.job.queue)
        job = self._content(line.job, home)
        check_job_entry(line.job, job, self._payload_max)
        if line.last_attempt is not None:
            check_attempt_entry(line.last_attempt)
        if job.callback is None or line.id != line.job.id or line.job.state not in job.callback.events:
            raise BadInput("a callback is of a job that asked for it, and that has ended so.")
        return Waiting(self.done.lines, home, line.id, lambda _: stored_entries.read_callback(line, job))

    def _content(self, entry: export_lines.JobEntry, home: int) -> NewJob:
        parent = self._rehomed(entry.parent, home) if entry.parent else b""
        return stored_entries.new_job_in(entry, self._rehomed(entry.id, home), parent)

    def _rehomed(self, text: str, home: int) -> bytes:
        return with_partition(parse_id(text), home, self._store.partitions)

    # Sending

    def _limit(self, limit: Limit, line: int, before: Flow[None]) -> Flow[None]:
        yield from before
        for partition in range(self._store.partitions):
            table = yield from refresh_limits(self._store.limit_cache, partition)
            for known in table.limits.values():
                if known.name == limit.name:
                    self._note(line, "limit", limit.name, "existing" if known == limit else IdConflict())
                    return
        try:
            yield from self._set_limit(limit)
        except CrossPartition as refusal:
            return self._refuse(line, "limit", limit.name, refusal)
        self.done.added["limit"] += 1

    def _send(self) -> Flow[None]:
        batch, self._batch, self._bytes = self._batch, [], 0
        return self._sending(batch, self._kind)

    def _sending(self, batch: Sequence[Waiting], kind: str) -> Flow[None]:
        known = self._store.limit_cache

        def attempt(part: Sequence[Waiting]) -> Flow[list[str | Refusal]]:
            return split_by_partition(part, lambda one: one.home, self._restore)

        answers = yield from run_matched(known, batch, lambda one: one.home, attempt)
        for one, answer in zip(batch, answers, strict=True):
            self._note(one.line, kind, one.name, answer)
            if one.job and one.is_cancel_requested and answer == "added":
                self._to_cancel.append(one.job.id)
        if kind == "queue":
            yield from self._relane(batch)
        if len(self._to_cancel) >= CANCELLED_AT_ONCE:
            yield from self._cancel()

    def _restore(self, part: Sequence[Waiting], home: int) -> Any:
        table = self._store.limit_cache.table(home)
        entries = [
            one.build(
                join_keys(table.match(one.job.queue, one.job.name, one.job.lane, one.job.payload)) if one.job else ""
            )
            for one in part
        ]
        return calls.restore(entries, table.version, home)

    def _relane(self, batch: Sequence[Waiting]) -> Flow[None]:
        for one in batch:
            while (yield queues.relane(one.name, one.home)):
                pass

    def _cancel(self) -> Flow[None]:
        """They were leased, and their workers asked to stop."""
        ids, self._to_cancel = self._to_cancel, []
        yield from split_by_partition(
            ids,
            self._store.partition_of_job,
            lambda some, home: job_admin.cancel(some, "cancelled", True, False, False, home),
        )

    def _note(self, line: int, what: str, name: str, answer: str | Refusal) -> None:
        if isinstance(answer, Refusal):
            refusal = IdConflict(_OTHERWISE[what]) if isinstance(answer, IdConflict) else answer
            self._refuse(line, what, name, refusal)
        else:
            (self.done.added if answer == "added" else self.done.existing)[what] += 1

    def _refuse(self, line: int, what: str, name: str, refusal: Refusal) -> None:
        self.done.refused[what] += 1
        if len(self.done.reasons) < export_lines.REASONS_KEPT:
            self.done.reasons.append(export_lines.ImportRefusal(line, f"{what} {name}", refusal.code, str(refusal)))


def _weight(line: export_lines.AnyLine, size: int) -> int:
    """Jobs to wait for cost more than their bytes: four jobs that wait for a thousand others fill a batch."""
    return size + AWAITED_WEIGHT * len(line.after) if isinstance(line, export_lines.JobLine) else size


def _kind_of(line: export_lines.AnyLine) -> str:
    return str(line.__struct_config__.tag)
