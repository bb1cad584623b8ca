"""Read operations on jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import BadInput, Refusal
from windlass.core.explain.inputs import Facts
from windlass.core.explain.reasons import Explanation
from windlass.core.explain.rules import explain
from windlass.core.flow.cause import direct_cause, trace_cause
from windlass.core.job import Blob, Ending, Job, Timeline
from windlass.core.limits.payload_index import parse_condition, path_of
from windlass.core.log import Logs
from windlass.core.operations import Listing, MemberPage, Page
from windlass.core.queue import QueueStats, QueueSurvey
from windlass.core.states import State
from windlass.core.text.payload_text import contains_text
from windlass.core.validation.bounds import DURATION_MAX
from windlass.core.validation.listings import ALL, STATES, check_listing, check_member_listing
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_boolean, check_id, check_integer, check_list
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import explain as explaining
from windlass.store.commands import jobs as jobs_commands
from windlass.store.commands import logs as logs_commands
from windlass.store.commands import queues
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.commands.queues import IndexFields, index_fields
from windlass.store.job_pages import has_labels, is_by_label, read_page, read_page_by_label, read_page_of_queues
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.recent_pages import Choice, read_recent_page, source_of_label, source_of_queues
from windlass.store.waiting import job_end

from .facet import send_or_raise
from .queues import QueueOperations

MERGED_MAX = 1_000  # queues in one list
INDEXES_READ = 1_000  # queues whose indexed fields a message considers
INDEXES_SHOWN = 5
LIST_OF_QUEUES_MS = 5_000  # how long the queues with jobs are cached, where there are more than MERGED_MAX
PAYLOADS_AT_ONCE = 8  # of those that a page of jobs has cut; each may have 1 MiB
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024  # of such payloads, about, that a search for a text reads for one page
_NO_PAYLOAD = Blob(b"")
CAUSE_STEPS_MAX = 50  # from a job to its cause


class JobOperations(QueueOperations):
    def job(self, ids: Sequence[bytes]) -> BatchOperation[Timeline]:
        """Return jobs with their attempts."""
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: self._job_flow(ids))

    def _job_flow(self, ids: Sequence[bytes]) -> Flow[list[Timeline | Refusal]]:
        replies = yield from split_by_partition(ids, self.store.partition_of_job, jobs_commands.job)
        return [jobs_commands.timeline(job_id, reply) for job_id, reply in zip(ids, replies, strict=True)]

    def queue_of(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Return the queue of each job. A job stays in the queue that it was enqueued to until it is removed, and its
        id is not given to another job for at least ten minutes after that."""
        return self._batch_of_ids(ids, jobs_commands.queue_of)

    def tombstone(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        """Return the queue of each job that finished or failed, was removed, and left a tombstone (`tombstone_ms`).
        Other ids are refused as unknown."""
        return self._batch_of_ids(ids, jobs_commands.tombstone)

    def logs(self, job_id: bytes) -> Operation[Logs]:
        """Return the last log lines of a job, of all its attempts."""
        check_id("id", job_id)
        return Operation(
            self.store, lambda: send_or_raise(logs_commands.logs(job_id, self.store.partition_of_job(job_id)))
        )

    def now(self) -> Operation[int]:
        """Return the engine's time in milliseconds since 1970."""
        return Operation(self.store, _now_flow)

    def ping(self) -> Operation[None]:
        """Check that every partition answers, and that an embedded engine still has its data directory."""
        return Operation(self.store, self._ping_flow)

    def _ping_flow(self) -> Flow[None]:
        self.store.check_data_directory()
        yield [queues.queues("0", 1, partition) for partition in range(self.store.partitions)]

    def result(self, job_id: bytes, *, wait_ms: int = 0, consume: bool = False) -> Operation[Ending | None]:
        """Return the end of a job, or None if it has not ended within `wait_ms`. With `consume`, a stored result can be
        read only once."""
        check_id("id", job_id)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        check_boolean("consume", consume)
        return WaitingOperation(
            self.store,
            lambda: job_end.wait_for_result(self.store, job_id, consume, wait_ms),
            lambda: job_end.wait_for_result_sync(self.store, job_id, consume, wait_ms),
        )

    def explain(self, job_id: bytes) -> Operation[Explanation]:
        """Explain why a job does not run, which worker has it, or how it ended, as data and in words."""
        check_id("id", job_id)
        return self.explain_within(job_id, ())

    def explain_within(self, job_id: bytes, queues: tuple[str, ...]) -> Operation[Explanation]:
        """Explain a job to a caller that may see only the queues that match these patterns (none: all). A parent, a
        child or a holder of a limit in another queue is mentioned without its state."""
        check_id("id", job_id)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._explain_flow(job_id, queues))

    def _explain_flow(self, job_id: bytes, queues: tuple[str, ...]) -> Flow[Explanation]:
        facts: Facts = yield from send_or_raise(explaining.explain(job_id, self.store.partition_of_job(job_id)))
        others = facts.others() if queues else []
        found = yield from split_by_partition(others, self.store.partition_of_job, jobs_commands.queue_of)
        # A job that was removed after the facts were read may have been in any queue, so it is hidden too.
        seen = {
            other
            for other, queue in zip(others, found, strict=True)
            if isinstance(queue, str) and is_queue_allowed(queue, queues)
        }
        facts = facts.hide(set(others) - seen)
        if not facts.is_consequence:
            return explain(facts)
        cause = (yield from self._causes_flow([job_id])).get(job_id)
        is_hidden = cause is not None and not is_queue_allowed(cause.job.queue, queues)
        return explain(msgspec.structs.replace(facts, cause=None if is_hidden else cause, is_cause_hidden=is_hidden))

    def find_cause(self, job_id: bytes) -> Operation[Timeline | None]:
        """Return the job that caused the end of a job which ended because of a job that it waited for: the first job of
        the chain, as far as it can be read within 50 steps. None: the job ended by itself, has not ended, or its cause
        is gone."""
        check_id("id", job_id)
        return Operation(self.store, lambda: self._cause_flow(job_id))

    def _cause_flow(self, job_id: bytes) -> Flow[Timeline | None]:
        return (yield from self._causes_flow([job_id])).get(job_id)

    def find_causes(self, ids: Sequence[bytes]) -> Operation[dict[bytes, Timeline]]:
        """Return the causes of many jobs by their ids, as `find_cause` finds them, without jobs that have none."""
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return Operation(self.store, lambda: self._causes_flow(ids))

    def _causes_flow(self, ids: Sequence[bytes]) -> Flow[dict[bytes, Timeline]]:
        """Read all chains at once, step by step: chains of one flow mostly share their causes."""
        known: dict[bytes, Timeline] = {}
        unread = list(dict.fromkeys(ids))
        for _ in range(CAUSE_STEPS_MAX + 1):
            if not unread:
                break
            answers: list[Timeline | Refusal] = yield from self._job_flow(unread)
            found = [answer for answer in answers if isinstance(answer, Timeline)]
            known |= {timeline.job.id: timeline for timeline in found}
            members = dict.fromkeys(direct_cause(timeline) for timeline in found)
            unread = [member for member in members if member is not None and member not in known]
        causes = {job_id: trace_cause(job_id, known) for job_id in ids}
        return {job_id: cause for job_id, cause in causes.items() if cause is not None}

    def jobs(self, listing: Listing) -> Operation[Page]:
        """Return one page of jobs: by state, of one queue or merged over all queues (the first 1,000 that have such
        jobs); or by tag or by indexed payload fields (`where`), partition by partition. A page reads a bounded number
        of jobs, so it may be empty although more pages follow.

        A page of the state `all` takes the newest jobs of every state, without the history, and sorts them by
        creation. With `text`, a page examines the payloads of up to 2,000 jobs."""
        check_listing(listing)
        return Operation(self.store, lambda: self._jobs_flow(listing))

    def jobs_within(self, listing: Listing, queues: tuple[str, ...]) -> Operation[Page]:
        """Return a page of jobs for a caller that may see only the queues that match these patterns (none: all). Jobs
        of other queues are neither listed nor counted. With more than 1,000 queues the page covers those that `survey`
        knows to have such jobs."""
        check_listing(listing)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._jobs_flow(listing, queues, is_surveyed=True))

    def _jobs_flow(self, listing: Listing, queues: tuple[str, ...] = (), *, is_surveyed: bool = False) -> Flow[Page]:
        if listing.queue and not is_by_label(listing) and not is_queue_allowed(listing.queue, queues):
            return Page([], "")
        if listing.text or listing.state == ALL:
            found: Page = yield from self._recent_flow(listing, queues, is_surveyed)
        elif is_by_label(listing):
            found = yield from read_page_by_label(listing, self.store.partitions)
            found = _restrict_page(found, queues) if queues else found
        else:
            return (yield from self._state_flow(listing, queues, is_surveyed))
        if listing.where and not (found.jobs or found.cursor or listing.cursor):
            yield from self._check_indexed(listing, queues)
        return found

    def _state_flow(self, listing: Listing, queues: tuple[str, ...], is_surveyed: bool) -> Flow[Page]:
        if listing.queue:
            return (yield from read_page(listing, self.store.partition_of_queue(listing.queue)))
        stats, is_whole = yield from self._stats_within(queues, is_surveyed)
        holding = _holding(stats, listing.state)
        found = yield from read_page_of_queues(listing, holding[:MERGED_MAX], self.store.partition_of_queue)
        return _mark_complete(found, is_whole and len(holding) <= MERGED_MAX)

    def _check_indexed(self, listing: Listing, queues: tuple[str, ...]) -> Flow[None]:
        """Raise if a search found nothing because no queue that the caller may see indexes the field."""
        names: list[str] = [listing.queue] if listing.queue else (yield from self._queues_flow())
        names = [name for name in names if is_queue_allowed(name, queues)][:INDEXES_READ]
        found = yield from split_by_partition(names, self.store.partition_of_queue, index_fields)
        indexed = {
            name: tuple(dict.fromkeys((*fields.queue, *fields.producers)))
            for name, fields in zip(names, found, strict=True)
            if isinstance(fields, IndexFields) and (fields.queue or fields.producers)
        }
        known = {path for paths in indexed.values() for path in paths}
        for condition in listing.where:
            if (path := path_of(parse_condition(condition))) not in known:
                raise BadInput(_not_indexed(path, listing.queue, indexed))

    def _stats_within(self, queues: tuple[str, ...], is_surveyed: bool) -> Flow[tuple[Sequence[QueueStats], bool]]:
        """Return the statistics of the queues that the caller may see, and whether these are all of them, read now."""
        names: Sequence[str] = yield from self._queues_flow()
        if queues:
            names = [name for name in names if is_queue_allowed(name, queues)]
        if len(names) <= MERGED_MAX:
            return (yield from self._stats_flow(names)), True
        if is_surveyed:
            survey: QueueSurvey = yield from self._survey_flow(queues)
            return survey.stats, not survey.is_in_turns
        # Many are expensive to read, and a list does not cover all of them anyway.
        found = yield from self.store.ttl_cache.read("list of queues", LIST_OF_QUEUES_MS, self._overview_flow)
        return [stats for stats in found if is_queue_allowed(stats.queue, queues)], True

    def _recent_flow(self, listing: Listing, queues: tuple[str, ...], is_surveyed: bool) -> Flow[Page]:
        choose = self._choose_by_text(listing, queues) if listing.text else None
        if is_by_label(listing):
            found = yield from read_recent_page(listing, [source_of_label(self.store.partitions)], choose)
            return _restrict_page(found, queues) if queues else found
        stats: Sequence[QueueStats]
        if listing.queue:
            stats, is_whole = (yield from self._stats_flow([listing.queue])), True
        else:
            stats, is_whole = yield from self._stats_within(queues, is_surveyed)
        states = STATES if listing.state == ALL else (listing.state,)
        holding = {state: _holding(stats, state) for state in states}
        sources = [
            source_of_queues(state, those[:MERGED_MAX], self.store.partition_of_queue)
            for state, those in holding.items()
        ]
        found = yield from read_recent_page(listing, sources, choose)
        return _mark_complete(found, is_whole and all(len(those) <= MERGED_MAX for those in holding.values()))

    def _choose_by_text(self, listing: Listing, queues: tuple[str, ...]) -> Choice:
        """Make the choice of jobs in these queues that have a text in their payload, for one page."""
        bytes_read = 0

        def is_wanted(job: Job) -> bool:
            return is_queue_allowed(job.queue, queues) and has_labels(job, listing)

        def choose(jobs: Sequence[Job]) -> Flow[Sequence[bool]]:
            nonlocal bytes_read
            cut = [job.id for job in jobs if not job.payload_is_whole and is_wanted(job)]
            whole: dict[bytes, Blob] = {}
            for start in range(0, len(cut), PAYLOADS_AT_ONCE):
                if bytes_read >= PAYLOAD_BYTES_MAX:
                    break
                ids = cut[start : start + PAYLOADS_AT_ONCE]
                read = _payloads(ids, (yield from self._job_flow(ids)))
                bytes_read += sum(len(payload.data) for payload in read.values())
                whole |= read
            unread = set(cut) - whole.keys()
            known = takewhile(lambda job: job.id not in unread, jobs)
            return [is_wanted(job) and contains_text(whole.get(job.id, job.payload), listing.text) for job in known]

        return choose

    def list_members(
        self, job_id: bytes, states: tuple[State, ...] = (), *, most: int = 50, cursor: str = ""
    ) -> Operation[MemberPage]:
        """Return one page of a job's children and of the jobs it waits for, with payloads and outcomes, optionally of
        some states only."""
        check_id("id", job_id)
        check_member_listing(states, most, cursor)
        return Operation(self.store, lambda: self._members_flow(job_id, states, most, cursor))

    def _members_flow(self, job_id: bytes, states: tuple[State, ...], most: int, cursor: str) -> Flow[MemberPage]:
        found = yield jobs_commands.list_members(job_id, states, most, cursor, self.store.partition_of_job(job_id))
        if isinstance(found, Refusal):
            raise found
        return found  # type: ignore[no-any-return]


def _now_flow() -> Flow[int]:
    return (yield EngineTime())  # type: ignore[no-any-return]


def _not_indexed(path: str, queue: str, indexed: Mapping[str, Sequence[str]]) -> str:
    shown = [f"{name}: {', '.join(paths)}" for name, paths in sorted(indexed.items())[:INDEXES_SHOWN]]
    more = f" (and {len(indexed) - len(shown)} more queues)" if len(indexed) > len(shown) else ""
    return (
        f"The field {path!r} is not indexed{f' in queue {queue!r}' if queue else ''}. "
        f"Indexed fields: {'; '.join(shown) or 'none'}{more}. "
        f"Index it with index=({path!r},) of its task, or with "
        f"`windlass queues configure {queue or 'QUEUE'} --index {path}`; this applies to later jobs."
    )


def _holding(stats: Sequence[QueueStats], state: str) -> list[QueueStats]:
    """Return the queues that have jobs in a state."""
    return [queue for queue in stats if getattr(queue, state)]


def _mark_complete(found: Page, is_complete: bool) -> Page:
    return found if is_complete else msgspec.structs.replace(found, is_complete=False)


def _payloads(ids: Sequence[bytes], answers: Sequence[Timeline | Refusal]) -> dict[bytes, Blob]:
    """Return the whole payloads of jobs. A job that was removed since has none."""
    return {
        job_id: answer.job.payload if isinstance(answer, Timeline) else _NO_PAYLOAD
        for job_id, answer in zip(ids, answers, strict=True)
    }


def _restrict_page(found: Page, queues: tuple[str, ...]) -> Page:
    """Remove jobs of other queues from a page by tag, which has jobs of all queues."""
    jobs = [job for job in found.jobs if is_queue_allowed(job.queue, queues)]
    last_attempts = {job.id: found.last_attempts[job.id] for job in jobs if job.id in found.last_attempts}
    return Page(jobs, found.cursor, len(jobs), last_attempts)
