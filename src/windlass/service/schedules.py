"""Schedule operations: create, change, pause, run and list schedules; and the step that fires due schedules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import BadInput, CrossPartition, LimitsChanged, Refusal, RevisionConflict, UnknownSchedule
from windlass.core.operations import Enqueued
from windlass.core.scheduling import occurrences
from windlass.core.scheduling.schedule import Schedule, SchedulePage, ScheduleStatus
from windlass.core.validation.bounds import MIB, PAGE_MAX, UINT32_MAX
from windlass.core.validation.schedules import SCHEDULE_NAME_MAX, SCHEDULE_PAUSE_REASON_MAX, check_schedule
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_integer, check_text
from windlass.store.commands import schedules as calls
from windlass.store.commands.admin.maintenance import MaintenanceStep
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.limit_matcher import refresh_limits
from windlass.store.operation import Operation

from .facet import Facet

log = logging.getLogger("windlass.service")

NAMES_AT_ONCE = 1_000  # of a search
NAMES_LOOKED_AT = 10_000  # for one page
JOBS_PER_STEP = 50  # of one schedule
JOBS_PER_CALL = 500
JOB_BYTES_PER_STEP = 2 * MIB


class ScheduleOperations(Facet):
    def schedule(self, wanted: Schedule, *, if_revision: int = 0) -> Operation[ScheduleStatus]:
        """Create a schedule, or change the schedule of this name. The next occurrence is computed again if the
        recurrence changes. An equal schedule is left alone."""
        check_schedule(wanted, self._payload_max)
        check_integer("if_revision", if_revision, 0, UINT32_MAX)
        return Operation(self.store, lambda: self._schedule_flow(wanted, if_revision))

    def _schedule_flow(self, wanted: Schedule, if_revision: int) -> Flow[ScheduleStatus]:
        wanted_partition = self.store.partition_of_queue(wanted.job.queue)
        while True:
            known, partition = yield from self._find(wanted.name)
            if if_revision and (known is None or known.revision != if_revision):
                raise RevisionConflict(f"The schedule has revision {known.revision if known else 0} now.")
            if known is not None and partition != wanted_partition:
                raise CrossPartition("The schedule lies in the partition of its former queue; remove it first.")
            if known is not None and known.schedule == wanted:
                return known
            next_at_ms = None
            if known is None or not wanted.has_same_recurrence(known.schedule):
                next_at_ms = yield from _first_flow(wanted)
            answer = yield calls.schedule(wanted, known.revision if known else 0, next_at_ms, wanted_partition)
            if not isinstance(answer, RevisionConflict | LimitsChanged):
                return (yield from self._status_flow(wanted.name))

    def unschedule(self, name: str, *, if_revision: int = 0) -> Operation[None]:
        """Remove a schedule. Jobs that it created stay."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        check_integer("if_revision", if_revision, 0, UINT32_MAX)
        return Operation(self.store, lambda: self._unschedule_flow(name, if_revision))

    def _unschedule_flow(self, name: str, if_revision: int) -> Flow[None]:
        _, partition = yield from self._known(name)
        _raise_refusal((yield calls.unschedule(name, if_revision, partition)))

    def pause_schedule(self, name: str, *, reason: str = "") -> Operation[ScheduleStatus]:
        """Stop a schedule from firing until it is resumed."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        check_text("reason", reason, SCHEDULE_PAUSE_REASON_MAX, may_be_empty=True)
        return Operation(self.store, lambda: self._pause_flow(name, reason))

    def _pause_flow(self, name: str, reason: str) -> Flow[ScheduleStatus]:
        _, partition = yield from self._known(name)
        _raise_refusal((yield calls.pause_schedule(name, reason, partition)))
        return (yield from self._status_flow(name))

    def resume_schedule(self, name: str) -> Operation[ScheduleStatus]:
        """Resume a schedule with its next occurrence. Occurrences during the pause are skipped."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._resume_flow(name))

    def _resume_flow(self, name: str) -> Flow[ScheduleStatus]:
        while True:
            status, partition = yield from self._known(name)
            if not status.is_paused:
                return status
            next_at_ms = None
            if status.planned_at_ms is not None:
                now_ms = yield EngineTime()
                next_at_ms = occurrences.resumed_at_ms(status.schedule, status.planned_at_ms, now_ms)
            answer = yield calls.resume_schedule(name, status.revision, next_at_ms, partition)
            if not isinstance(answer, RevisionConflict | LimitsChanged):
                _raise_refusal(answer)
                return (yield from self._status_flow(name))

    def run_schedule(self, name: str) -> Operation[Enqueued]:
        """Create the schedule's job now, beside its recurrence, even if the schedule is paused or another of its jobs
        runs."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._run_flow(name))

    def _run_flow(self, name: str) -> Flow[Enqueued]:
        while True:
            status, partition = yield from self._known(name)
            now_ms = yield EngineTime()
            job_id = self.store.new_id(status.schedule.job.queue)
            known = self.store.limit_cache
            answer = yield calls.run_schedule(status, job_id, now_ms, known.table(partition), partition)
            if isinstance(answer, Enqueued):
                return answer
            if isinstance(answer, LimitsChanged):
                yield from refresh_limits(known, partition)
            elif not isinstance(answer, RevisionConflict):
                raise answer

    def schedules(self) -> Operation[list[ScheduleStatus]]:
        """Return all schedules, by name."""
        return Operation(self.store, self._schedules_flow)

    def _schedules_flow(self) -> Flow[list[ScheduleStatus]]:
        found: list[ScheduleStatus] = []
        for partition in range(self.store.partitions):
            page: calls.ScheduleNames = yield calls.schedules("", partition)
            while page.names:
                answers = yield calls.schedule_of(page.names, partition)
                found += [status for status in answers if status is not None]
                page = yield calls.schedules(page.names[-1], partition)
        return sorted(found, key=lambda status: status.schedule.name)

    def schedules_page(
        self, *, after: str = "", most: int = 100, search: str = "", queues: tuple[str, ...] = ()
    ) -> Operation[SchedulePage]:
        """Return a page of schedules by name, after the name `after`: those whose names contain `search`, of the queues
        that match these patterns (none: all). A page examines a bounded number of schedules, so it may be short."""
        check_text("after", after, SCHEDULE_NAME_MAX, may_be_empty=True)
        check_integer("most", most, 1, PAGE_MAX)
        check_text("search", search, SCHEDULE_NAME_MAX, may_be_empty=True)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._page_flow(after, most, search.casefold(), queues))

    def _page_flow(self, after: str, most: int, search: str, queues: tuple[str, ...]) -> Flow[SchedulePage]:
        found: list[ScheduleStatus] = []
        looked_at, at_once = 0, NAMES_AT_ONCE if search else most + 1
        while True:
            count, names = yield from self._names_flow(after, at_once)
            wanted = {name: partition for name, partition in names.items() if search in name.casefold()}
            chosen = dict(islice(wanted.items(), most + 1))
            answers = yield from self._statuses_flow(chosen)
            found += [status for status in answers if is_queue_allowed(status.schedule.job.queue, queues)]
            if len(found) > most:
                return SchedulePage(schedules=found[:most], after=found[most - 1].schedule.name, count=count)
            if len(names) < at_once and len(chosen) == len(wanted):
                return SchedulePage(schedules=found, after="", count=count)
            looked_at, after = looked_at + len(names), max(names if len(chosen) == len(wanted) else chosen)
            if looked_at >= NAMES_LOOKED_AT:
                return SchedulePage(schedules=found, after=after, count=count)

    def _names_flow(self, after: str, most: int) -> Flow[tuple[int, dict[str, int]]]:
        """Return the number of all schedules, and the next names with their partitions, sorted."""
        pages: list[calls.ScheduleNames] = yield [
            calls.schedules(after, partition, most) for partition in range(self.store.partitions)
        ]
        names = sorted((name, partition) for partition, page in enumerate(pages) for name in page.names)
        return sum(page.total for page in pages), dict(names[:most])

    def _statuses_flow(self, names: Mapping[str, int]) -> Flow[list[ScheduleStatus]]:
        """Read schedules, given with their partitions."""
        parts: dict[int, list[str]] = {}
        for name, partition in names.items():
            parts.setdefault(partition, []).append(name)
        found: list[ScheduleStatus] = []
        for partition, own in parts.items():
            for start in range(0, len(own), calls.NAMES_PER_PAGE):
                answers = yield calls.schedule_of(own[start : start + calls.NAMES_PER_PAGE], partition)
                found += [status for status in answers if status is not None]
        return sorted(found, key=lambda status: status.schedule.name)

    def schedule_of(self, name: str) -> Operation[ScheduleStatus]:
        """Return one schedule by its name."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._status_flow(name))

    def _status_flow(self, name: str) -> Flow[ScheduleStatus]:
        status, _ = yield from self._known(name)
        return status

    def _known(self, name: str) -> Flow[tuple[ScheduleStatus, int]]:
        found, partition = yield from self._find(name)
        if found is None:
            raise UnknownSchedule(f"There is no schedule {name!r}.")
        return found, partition

    def _find(self, name: str) -> Flow[tuple[ScheduleStatus | None, int]]:
        """Find a schedule and its partition. The name does not determine the partition, so all are asked."""
        answers = yield [calls.schedule_of([name], partition) for partition in range(self.store.partitions)]
        for partition, (found,) in enumerate(answers):
            if found is not None:
                return found, partition
        return None, 0

    # Step of the scheduler loop

    def fire(self) -> Operation[MaintenanceStep]:
        """Run one step of the scheduler: create the jobs of due schedules."""
        return Operation(self.store, self._fire_flow)

    def _fire_flow(self) -> Flow[MaintenanceStep]:
        steps: list[MaintenanceStep] = []
        for partition in self.partition_scope:
            steps += ((yield from self._fire_in(partition)),)
        instants = [step.next_at_ms for step in steps if step.next_at_ms is not None]
        return MaintenanceStep(
            max(step.now_ms for step in steps), sum(step.done for step in steps), min(instants, default=None)
        )

    def _fire_in(self, partition: int) -> Flow[MaintenanceStep]:
        found: calls.DueSchedules = yield calls.due(partition)
        if not found.due:
            return MaintenanceStep(found.now_ms, 0, found.next_at_ms)
        fires = []
        for due in found.due:
            try:
                fires.append(self._plan_firing(due, found.now_ms))
            except BadInput as error:  # for example, this host does not know its time zone; other schedules must fire
                log.warning(
                    "Schedule %r cannot fire: %s It is paused; correct it and resume it.", due.schedule.name, error
                )
                yield calls.pause_schedule(due.schedule.name, str(error), partition)
        known, done = self.store.limit_cache, 0
        for part in _split_firings(fires):
            answers = yield calls.fire(part, found.now_ms, known.table(partition), partition)
            if any(isinstance(answer, LimitsChanged) for answer in answers):
                yield from refresh_limits(known, partition)
            done += sum(answer for answer in answers if isinstance(answer, int))
        return MaintenanceStep(found.now_ms, done, found.now_ms)  # more schedules may be due

    def _plan_firing(self, due: calls.DueSchedule, now_ms: int) -> calls.ScheduleFiring:
        job = due.schedule.job
        most = max(1, min(JOBS_PER_STEP, JOB_BYTES_PER_STEP // (len(job.payload.data) + 1024)))
        firing = occurrences.plan_firing(due.schedule, due.next_at_ms, now_ms, most)
        ids = self.store.new_ids([job.queue] * len(firing.planned))
        jobs = [
            (at_ms, job_id, msgspec.structs.replace(job, run_at_ms=at_ms))
            for at_ms, job_id in zip(firing.planned, ids, strict=True)
        ]
        return calls.ScheduleFiring(due, firing.next_at_ms, firing.skipped, firing.missed, jobs)


def _split_firings(fires: Sequence[calls.ScheduleFiring]) -> list[list[calls.ScheduleFiring]]:
    """Split firings so that each call is short."""
    parts: list[list[calls.ScheduleFiring]] = []
    jobs = size = 0
    for firing in fires:
        jobs += len(firing.jobs)
        size += len(firing.jobs) * len(firing.due.schedule.job.payload.data)
        if not parts or jobs > JOBS_PER_CALL or size > JOB_BYTES_PER_STEP:
            parts.append([])
            jobs, size = len(firing.jobs), len(firing.jobs) * len(firing.due.schedule.job.payload.data)
        parts[-1].append(firing)
    return parts


def _first_flow(wanted: Schedule) -> Flow[int]:
    now_ms = yield EngineTime()
    first = occurrences.first_at_ms(wanted, now_ms)
    if first is None:
        raise BadInput("This schedule would never fire: check its rule, starts_at_ms and ends_at_ms.")
    return first


def _raise_refusal(answer: object) -> None:
    if isinstance(answer, Refusal):
        raise answer
