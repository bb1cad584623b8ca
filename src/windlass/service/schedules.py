"""Schedules: made, changed, paused, run by hand, read; and the step that fires those that are due."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from windlass.core.errors import BadInput, CrossPartition, LimitsChanged, Refusal, RevisionConflict, UnknownSchedule
from windlass.core.operations import Enqueued
from windlass.core.scheduling import occurrences
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.core.validation.bounds import MIB, UINT32_MAX
from windlass.core.validation.schedules import SCHEDULE_NAME_MAX, SCHEDULE_PAUSE_REASON_MAX, check_schedule
from windlass.core.validation.values import check_integer, check_text
from windlass.store.commands import schedules as calls
from windlass.store.commands.admin.maintenance import MaintenanceStep
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.limit_matcher import refresh_limits
from windlass.store.operation import Operation

from .facet import Facet

log = logging.getLogger("windlass.service")

JOBS_PER_STEP = 50  # of one schedule
JOBS_PER_CALL = 500
JOB_BYTES_PER_STEP = 2 * MIB


class ScheduleOperations(Facet):
    def schedule(self, wanted: Schedule, *, if_revision: int = 0) -> Operation[ScheduleStatus]:
        """Makes a schedule, or changes the one of this name; its next occurrence is computed anew when its rhythm is
        another. One that is the same already is left alone."""
        check_schedule(wanted, self._payload_max)
        check_integer("if_revision", if_revision, 0, UINT32_MAX)
        return Operation(self.store, lambda: self._schedule_flow(wanted, if_revision))

    def _schedule_flow(self, wanted: Schedule, if_revision: int) -> Flow[ScheduleStatus]:
        home = self.store.partition_of_queue(wanted.job.queue)
        while True:
            known, place = yield from self._find(wanted.name)
            if if_revision and (known is None or known.revision != if_revision):
                raise RevisionConflict(f"The schedule has revision {known.revision if known else 0} now.")
            if known is not None and place != home:
                raise CrossPartition("The schedule is at home in the partition of its queue; remove it first.")
            if known is not None and known.schedule == wanted:
                return known
            next_at_ms = None
            if known is None or not wanted.has_same_recurrence(known.schedule):
                next_at_ms = yield from _first_flow(wanted)
            answer = yield calls.schedule(wanted, known.revision if known else 0, next_at_ms, home)
            if not isinstance(answer, RevisionConflict | LimitsChanged):
                return (yield from self._status_flow(wanted.name))

    def unschedule(self, name: str, *, if_revision: int = 0) -> Operation[None]:
        """Removes a schedule; the jobs it made stay."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        check_integer("if_revision", if_revision, 0, UINT32_MAX)
        return Operation(self.store, lambda: self._unschedule_flow(name, if_revision))

    def _unschedule_flow(self, name: str, if_revision: int) -> Flow[None]:
        _, place = yield from self._known(name)
        _raised((yield calls.unschedule(name, if_revision, place)))

    def pause_schedule(self, name: str, *, reason: str = "") -> Operation[ScheduleStatus]:
        """It fires no more until it is resumed."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        check_text("reason", reason, SCHEDULE_PAUSE_REASON_MAX, may_be_empty=True)
        return Operation(self.store, lambda: self._pause_flow(name, reason))

    def _pause_flow(self, name: str, reason: str) -> Flow[ScheduleStatus]:
        _, place = yield from self._known(name)
        _raised((yield calls.pause_schedule(name, reason, place)))
        return (yield from self._status_flow(name))

    def resume_schedule(self, name: str) -> Operation[ScheduleStatus]:
        """It goes on with its next occurrence; what came while it was paused is passed over."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._resume_flow(name))

    def _resume_flow(self, name: str) -> Flow[ScheduleStatus]:
        while True:
            status, place = yield from self._known(name)
            if not status.is_paused:
                return status
            next_at_ms = None
            if status.planned_at_ms is not None:
                now_ms = yield EngineTime()
                next_at_ms = occurrences.resumed_at_ms(status.schedule, status.planned_at_ms, now_ms)
            answer = yield calls.resume_schedule(name, status.revision, next_at_ms, place)
            if not isinstance(answer, RevisionConflict | LimitsChanged):
                _raised(answer)
                return (yield from self._status_flow(name))

    def run_schedule(self, name: str) -> Operation[Enqueued]:
        """Makes its job now, apart from its rhythm, also when it is paused or another of its jobs runs."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._run_flow(name))

    def _run_flow(self, name: str) -> Flow[Enqueued]:
        while True:
            status, place = yield from self._known(name)
            now_ms = yield EngineTime()
            job_id = self.store.new_id(status.schedule.job.queue)
            known = self.store.limit_cache
            answer = yield calls.run_schedule(status, job_id, now_ms, known.table(place), place)
            if isinstance(answer, Enqueued):
                return answer
            if isinstance(answer, LimitsChanged):
                yield from refresh_limits(known, place)
            elif not isinstance(answer, RevisionConflict):
                raise answer

    def schedules(self) -> Operation[list[ScheduleStatus]]:
        """All schedules, by name."""
        return Operation(self.store, self._schedules_flow)

    def _schedules_flow(self) -> Flow[list[ScheduleStatus]]:
        found: list[ScheduleStatus] = []
        for partition in range(self.store.partitions):
            names = yield calls.schedules("", partition)
            while names:
                page = yield calls.schedule_of(names, partition)
                found += [one for one in page if one is not None]
                names = yield calls.schedules(names[-1], partition)
        return sorted(found, key=lambda one: one.schedule.name)

    def schedule_of(self, name: str) -> Operation[ScheduleStatus]:
        """One schedule by its name."""
        check_text("name", name, SCHEDULE_NAME_MAX)
        return Operation(self.store, lambda: self._status_flow(name))

    def _status_flow(self, name: str) -> Flow[ScheduleStatus]:
        status, _ = yield from self._known(name)
        return status

    def _known(self, name: str) -> Flow[tuple[ScheduleStatus, int]]:
        found, place = yield from self._find(name)
        if found is None:
            raise UnknownSchedule(f"There is no schedule {name!r}.")
        return found, place

    def _find(self, name: str) -> Flow[tuple[ScheduleStatus | None, int]]:
        """A schedule and its partition: its name does not tell where its queue is."""
        answers = yield [calls.schedule_of([name], partition) for partition in range(self.store.partitions)]
        for partition, (found,) in enumerate(answers):
            if found is not None:
                return found, partition
        return None, 0

    # The loop's step

    def fire(self) -> Operation[MaintenanceStep]:
        """One step of the scheduler: schedules that are due make their jobs."""
        return Operation(self.store, self._fire_flow)

    def _fire_flow(self) -> Flow[MaintenanceStep]:
        steps: list[MaintenanceStep] = []
        for partition in self.homes:
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
        for one in found.due:
            try:
                fires.append(self._planned(one, found.now_ms))
            except BadInput as error:  # its time zone is not known here, for example: the others must go on
                log.warning("The schedule %r is paused: %s", one.schedule.name, error)
                yield calls.pause_schedule(one.schedule.name, str(error), partition)
        known, done = self.store.limit_cache, 0
        for part in _in_parts(fires):
            answers = yield calls.fire(part, found.now_ms, known.table(partition), partition)
            if any(isinstance(answer, LimitsChanged) for answer in answers):
                yield from refresh_limits(known, partition)
            done += sum(answer for answer in answers if isinstance(answer, int))
        return MaintenanceStep(found.now_ms, done, found.now_ms)  # there may be more

    def _planned(self, due: calls.DueSchedule, now_ms: int) -> calls.ScheduleFiring:
        job = due.schedule.job
        most = max(1, min(JOBS_PER_STEP, JOB_BYTES_PER_STEP // (len(job.payload.data) + 1024)))
        firing = occurrences.plan_firing(due.schedule, due.next_at_ms, now_ms, most)
        ids = self.store.new_ids([job.queue] * len(firing.planned))
        jobs = [
            (at_ms, job_id, msgspec.structs.replace(job, run_at_ms=at_ms))
            for at_ms, job_id in zip(firing.planned, ids, strict=True)
        ]
        return calls.ScheduleFiring(due, firing.next_at_ms, firing.skipped, firing.missed, jobs)


def _in_parts(fires: Sequence[calls.ScheduleFiring]) -> list[list[calls.ScheduleFiring]]:
    """As many calls as keep each of them short."""
    parts: list[list[calls.ScheduleFiring]] = []
    jobs = size = 0
    for one in fires:
        jobs += len(one.jobs)
        size += len(one.jobs) * len(one.due.schedule.job.payload.data)
        if not parts or jobs > JOBS_PER_CALL or size > JOB_BYTES_PER_STEP:
            parts.append([])
            jobs, size = len(one.jobs), len(one.jobs) * len(one.due.schedule.job.payload.data)
        parts[-1].append(one)
    return parts


def _first_flow(wanted: Schedule) -> Flow[int]:
    now_ms = yield EngineTime()
    first = occurrences.first_at_ms(wanted, now_ms)
    if first is None:
        raise BadInput("This schedule would never fire: look at its rule, and at starts_at_ms and ends_at_ms.")
    return first


def _raised(answer: object) -> None:
    if isinstance(answer, Refusal):
        raise answer
