"""Importer: turns lines of an export into batches. It does no I/O: a line that fills a batch returns the flow that
sends the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.core.alerts.incident import Transition
from windlass.core.alerts.message import ALERT_QUEUE
from windlass.core.alerts.targets import is_message
from windlass.core.alerts.validation import check_alert_rule
from windlass.core.errors import BadInput, CrossPartition, IdConflict, Refusal
from windlass.core.export import lines as export_lines
from windlass.core.export.import_report import REASONS_KEPT, ImportRefusal, ImportReport
from windlass.core.filters.saved_filter import SavedFilter, check_saved_filter
from windlass.core.ids import parse_id, with_partition
from windlass.core.job import FlowRef, NewJob
from windlass.core.limits.limit import Limit, LimitTable
from windlass.core.namespace.format import FIRST
from windlass.core.validation.bounds import MIB
from windlass.core.validation.export_lines import (
    check_attempt_entry,
    check_flow_line,
    check_job_entry,
    check_job_line,
    check_message,
    check_queue_line,
    check_schedule_line,
    check_tombstone_line,
)
from windlass.core.validation.limits import check_limit
from windlass.core.validation.schedules import check_schedule
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import job_admin, queues
from windlass.store.commands.admin import alerts, filters
from windlass.store.commands.admin import export as calls
from windlass.store.commands.command import Flow
from windlass.store.commands.limits import join_keys
from windlass.store.export import entries as stored_entries
from windlass.store.export import flow_entries
from windlass.store.export.entries import NO_MATCH, JobMatch
from windlass.store.limit_matcher import refresh_limits, run_matched
from windlass.store.store import Store
from windlass.store.topology.namespace_format import raise_format

BATCH_LINES = 500
BATCH_BYTES = 4 * MIB
AWAITED_WEIGHT = 1024
CANCELLED_AT_ONCE = 1_000
_CONFLICTS = {
    "queue": "The queue has another configuration here; it is left unchanged.",
    "limit": "A different limit of this name exists here; it is left unchanged.",
    "filter": "A different saved filter of this name exists here; it is left unchanged.",
    "schedule": "A different schedule of this name exists here; it is left unchanged.",
    "job": "A job with this id and other content exists here; it is left unchanged.",
    "alert": "A different alert rule of this name exists here; it is left unchanged.",
    "callback": "",
    "flow": "Another flow with this id exists here; it is left unchanged.",
    "tombstone": "",
}


class BatchEntry(NamedTuple):
    """Entry of a batch. The limits and indexed fields of a job are matched when the batch is sent."""

    line: int
    partition: int
    name: str
    build: Callable[[JobMatch], calls.RestoreEntry]
    job: NewJob | None = None
    is_cancel_requested: bool = False


class Importer:
    """Reads the lines of one export in order."""

    def __init__(
        self, store: Store, payload_max: int, set_limit: Callable[[Limit], Flow[int]], *, first_line: int = 0
    ) -> None:
        """`first_line`: number of the first line, for a part of an export without header and end; 0: a whole
        export."""
        self.done = ImportReport()
        self._first_line = first_line
        self._store = store
        self._payload_max = payload_max
        self._set_limit = set_limit
        self._kind = ""
        self._batch: list[BatchEntry] = []
        self._bytes = 0
        self._seen: Counter[str] = Counter()
        self._is_over = False
        self._to_cancel: list[bytes] = []

    def read(self, text: Any) -> Flow[None] | None:
        """Read one line. Return a flow that must run before the next line, or None."""
        self.done.lines += 1
        if self.done.lines == 1 and not self._first_line:
            return self._take_format(export_lines.decode_header(text))
        number = self._number
        line = export_lines.decode_line(text, number)
        if self._is_over:
            raise BadInput(f"Line {number} comes after the end of the export.")
        try:
            return self._read_line(line, len(text))
        except Refusal as refusal:
            raise type(refusal)(f"Line {number}: {refusal}") from refusal

    def _take_format(self, header: export_lines.HeaderLine) -> Flow[None] | None:
        """Refuse earlier programs here, too, before the first line that they would misread."""
        return self._raise_format(header.namespace_format) if header.namespace_format > FIRST else None

    def _raise_format(self, number: int) -> Flow[None]:
        yield from raise_format(range(self._store.partitions), number)

    @property
    def _number(self) -> int:
        """Number of the current line in its file."""
        return self.done.lines + max(self._first_line - 1, 0)

    def finish_part(self) -> Flow[None]:
        """Send the rest of a part. `complete` follows after the last part."""
        yield from self._send()
        yield from self._cancel()

    def finish(self) -> Flow[None]:
        """Link jobs to their parents and dependencies after the last line."""
        if not self._is_over:
            raise export_lines.truncated(self.done.lines)
        yield from self.complete()
        yield from self._cancel()

    def complete(self) -> Flow[ImportReport]:
        """Link jobs to their parents and dependencies."""
        for partition in range(self._store.partitions):
            yield from self._relink(partition)
        return self.done

    def _relink(self, partition: int) -> Flow[None]:
        is_more = True
        while is_more:
            is_more, unknown = yield calls.restored(partition)
            self.done.unknown_awaited += unknown

    def _read_line(self, line: export_lines.AnyLine, size: int) -> Flow[None] | None:
        if isinstance(line, export_lines.HeaderLine):
            raise BadInput("a header can only be the first line.")
        if isinstance(line, export_lines.EndLine):
            if self._first_line:
                raise BadInput("a part of an export has no end; leave it out.")
            return self._read_end(line)
        if isinstance(line, export_lines.LimitLine):
            check_limit(line.limit)
            self._seen["limit"] += 1
            return self._limit(line.limit, self._number, self._send())
        if isinstance(line, export_lines.FilterLine):
            saved = SavedFilter(name=line.name, page=line.page, fields=line.fields)
            check_saved_filter(saved)
            self._seen["filter"] += 1
            return self._filter(saved, self._number, self._send())
        if isinstance(line, export_lines.AlertLine):
            check_alert_rule(line.rule)
            self._seen["alert"] += 1
            return self._alert(line, self._number, self._send())
        entry = self._entry(line)
        self._seen[export_lines.kind_of(line)] += 1
        return self._add(export_lines.kind_of(line), entry, _weight(line, size)) if entry else None

    def _read_end(self, line: export_lines.EndLine) -> Flow[None]:
        export_lines.check_counts(line, self._seen)
        self._is_over = True
        return self._send()

    def _add(self, kind: str, entry: BatchEntry, size: int) -> Flow[None] | None:
        """Add an entry to the batch. A batch has entries of one kind, so configuration precedes the first job."""
        before = self._send() if self._batch and (self._kind != kind or self._is_full(size)) else None
        self._kind = kind
        self._batch.append(entry)
        self._bytes += size
        return before

    def _is_full(self, size: int) -> bool:
        return len(self._batch) >= BATCH_LINES or self._bytes + size > BATCH_BYTES

    # Entries

    def _entry(self, line: export_lines.AnyLine) -> BatchEntry | None:
        if isinstance(line, export_lines.QueueLine):
            return self._queue(line)
        if isinstance(line, export_lines.ScheduleLine):
            return self._schedule(line)
        if isinstance(line, export_lines.CallbackLine):
            return self._callback(line)
        if isinstance(line, export_lines.FlowLine):
            return self._flow(line)
        if isinstance(line, export_lines.TombstoneLine):
            return self._tombstone(line)
        assert isinstance(line, export_lines.JobLine)  # noqa: S101 (other kinds are handled above)
        return self._job(line)

    def _queue(self, line: export_lines.QueueLine) -> BatchEntry:
        check_queue_line(line)
        partition = self._store.partition_of_queue(line.name)
        return BatchEntry(self._number, partition, line.name, lambda _: stored_entries.read_queue(line))

    def _schedule(self, line: export_lines.ScheduleLine) -> BatchEntry:
        schedule = stored_entries.schedule_of(line)
        check_schedule(schedule, self._payload_max)
        check_schedule_line(line)
        partition = self._store.partition_of_queue(schedule.job.queue)
        return BatchEntry(
            self._number,
            partition,
            schedule.name,
            lambda _: stored_entries.read_schedule(
                line, schedule, lambda job_id: self._with_partition(job_id, partition)
            ),
        )

    def _job(self, line: export_lines.JobLine) -> BatchEntry | None:
        entry, partition = line.job, self._store.partition_of_queue(line.job.queue)
        job = self._content(entry, partition)
        check_job_line(line, job, self._payload_max)
        after = [self._with_partition(awaited.id, partition) for awaited in line.after]
        others = {entry.parent_queue, *(awaited.queue for awaited in line.after)} - {""}
        if any(self._store.partition_of_queue(queue) != partition for queue in others):
            self._refuse(self._number, "job", entry.id, CrossPartition())
            return None
        if job.id != parse_id(entry.id):
            self.done.remade_ids += 1
        return BatchEntry(
            self._number,
            partition,
            entry.id,
            lambda match: stored_entries.read_job(
                line, job, match, after, lambda job_id: self._with_partition(job_id, partition)
            ),
            job,
            line.is_cancel_requested,
        )

    def _callback(self, line: export_lines.CallbackLine) -> BatchEntry:
        partition = self._store.partition_of_queue(line.job.queue)
        job = self._content(line.job, partition)
        check = check_message if line.job.queue == ALERT_QUEUE and is_message(job.callback) else check_job_entry
        check(line.job, job, self._payload_max)
        if line.last_attempt is not None:
            check_attempt_entry(line.last_attempt)
        if job.callback is None or line.id != line.job.id or line.job.state not in job.callback.events:
            raise BadInput("the job of a callback must have requested it for the state in which the job ended.")
        return BatchEntry(self._number, partition, line.id, lambda _: stored_entries.read_callback(line, job))

    def _flow(self, line: export_lines.FlowLine) -> BatchEntry | None:
        check_flow_line(line)
        partitions = {self._store.partition_of_queue(step.queue) for step in line.steps}
        if len(partitions) > 1:
            self._refuse(self._number, "flow", line.id, CrossPartition())
            return None
        (partition,) = partitions

        def map_id(text: str) -> bytes:
            return self._with_partition(text, partition)

        return BatchEntry(
            self._number, partition, line.id, lambda _: flow_entries.read_flow(line, map_id(line.id), map_id)
        )

    def _tombstone(self, line: export_lines.TombstoneLine) -> BatchEntry:
        check_tombstone_line(line)
        partition = self._store.partition_of_queue(line.queue)
        job_id = self._with_partition(line.id, partition)
        return BatchEntry(self._number, partition, line.id, lambda _: stored_entries.read_tombstone(line, job_id))

    def _content(self, entry: export_lines.JobEntry, partition: int) -> NewJob:
        parent = self._with_partition(entry.parent, partition) if entry.parent else b""
        flow = entry.flow
        place = FlowRef(self._with_partition(flow.id, partition), flow.name, flow.step) if flow else None
        return stored_entries.new_job_of(entry, self._with_partition(entry.id, partition), parent, place)

    def _with_partition(self, text: str, partition: int) -> bytes:
        return with_partition(parse_id(text), partition, self._store.partitions)

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

    def _filter(self, saved: SavedFilter, line: int, before: Flow[None]) -> Flow[None]:
        yield from before
        for known in (yield filters.filters()):
            if known.name == saved.name:
                return self._note(line, "filter", saved.name, "existing" if known == saved else IdConflict())
        answer = yield filters.save_filter(saved, "")
        self._note(line, "filter", saved.name, answer if isinstance(answer, Refusal) else "added")

    def _alert(self, line: export_lines.AlertLine, number: int, before: Flow[None]) -> Flow[None]:
        """Set a rule as one that was set by hand: the settings of the servers here declare their own."""
        yield from before
        rule = replace(line.rule, is_declared=False)
        stored: alerts.StoredAlerts = yield alerts.alerts(0)
        for one in stored.rules:
            if one.status.rule.name == rule.name:
                is_same = replace(one.status.rule, is_declared=False) == rule
                return self._note(number, "alert", rule.name, "existing" if is_same else IdConflict())
        answer = yield alerts.set_alert(rule)
        if not isinstance(answer, Refusal):
            answer = yield alerts.move_alert(rule.name, b"", Transition(state=line.state), ())
        self._note(number, "alert", rule.name, answer if isinstance(answer, Refusal) else "added")

    def _send(self) -> Flow[None]:
        batch, self._batch, self._bytes = self._batch, [], 0
        return self._send_batch(batch, self._kind)

    def _send_batch(self, batch: Sequence[BatchEntry], kind: str) -> Flow[None]:
        known = self._store.limit_cache

        def attempt(part: Sequence[BatchEntry]) -> Flow[list[str | Refusal]]:
            return split_by_partition(part, lambda entry: entry.partition, self._restore)

        answers = yield from run_matched(known, batch, lambda entry: entry.partition, attempt)
        for entry, answer in zip(batch, answers, strict=True):
            self._note(entry.line, kind, entry.name, answer)
            if entry.job and entry.is_cancel_requested and answer == "added":
                self._to_cancel.append(entry.job.id)
        if kind == "queue":
            yield from self._relane(batch)
        if len(self._to_cancel) >= CANCELLED_AT_ONCE:
            yield from self._cancel()

    def _restore(self, part: Sequence[BatchEntry], partition: int) -> Any:
        table = self._store.limit_cache.table(partition)
        entries = [entry.build(_match(entry.job, table) if entry.job else NO_MATCH) for entry in part]
        return calls.restore(entries, table.version, partition)

    def _relane(self, batch: Sequence[BatchEntry]) -> Flow[None]:
        for entry in batch:
            while (yield queues.relane(entry.name, entry.partition)):
                pass

    def _cancel(self) -> Flow[None]:
        """Cancel imported jobs that were leased and whose stop was requested."""
        ids, self._to_cancel = self._to_cancel, []
        yield from split_by_partition(
            ids,
            self._store.partition_of_job,
            lambda some, partition: job_admin.cancel(some, "cancelled", True, False, False, partition),
        )

    def _note(self, line: int, what: str, name: str, answer: str | Refusal) -> None:
        if isinstance(answer, Refusal):
            refusal = IdConflict(_CONFLICTS[what]) if isinstance(answer, IdConflict) else answer
            self._refuse(line, what, name, refusal)
        else:
            (self.done.added if answer == "added" else self.done.existing)[what] += 1

    def _refuse(self, line: int, what: str, name: str, refusal: Refusal) -> None:
        self.done.refused[what] += 1
        if len(self.done.reasons) < REASONS_KEPT:
            self.done.reasons.append(ImportRefusal(line, f"{what} {name}", refusal.code, str(refusal)))


def _weight(line: export_lines.AnyLine, size: int) -> int:
    """Return the size of a line in a batch. Dependencies cost more than their bytes: four jobs with a thousand
    dependencies each fill a batch."""
    return size + AWAITED_WEIGHT * len(line.after) if isinstance(line, export_lines.JobLine) else size


def _match(job: NewJob, table: LimitTable) -> JobMatch:
    limits = table.match(job.queue, job.name, job.lane, job.payload)
    return JobMatch(join_keys(limits), table.index_entries(job.queue, job.index, job.payload))
