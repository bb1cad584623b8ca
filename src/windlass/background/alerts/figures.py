"""Figures of alert rules, measured with few bounded reads. What several rules need is read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.alerts.incident import SUBJECTS_MAX, AlertState, AlertStatus, Figure
from windlass.core.alerts.rule import MINUTE_MS, OF_QUEUES, AlertRule
from windlass.core.diagnosis import Severity
from windlass.core.operations import Worker
from windlass.core.queue import QueueStats
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

QUEUES_MAX = 500  # of all rules, by name
STEPS_MINUTES = (1, 5, 15)  # of histories
STEPS_PER_WINDOW = 100  # more make the steps longer: a request for histories has a limit


class Measurement:
    """One measurement of all rules."""

    def __init__(self, service: Service, statuses: Sequence[AlertStatus], now_ms: int) -> None:
        self._service = service
        self._statuses = [status for status in statuses if status.rule.is_enabled]
        self._now_ms = now_ms
        self._queues: list[str] = []  # that a rule matches
        self._is_cut = False
        self._stats: list[QueueStats] = []
        self._served: frozenset[str] | None = None  # queues of live workers
        self._schedules: list[ScheduleStatus] | None = None

    async def figures(self) -> dict[str, Figure]:
        """Return the figure of each enabled rule, by the rule's name."""
        await self._read_queues()
        return {status.rule.name: await self._measure(status.rule, status.state) for status in self._statuses}

    async def _read_queues(self) -> None:
        rules = [status.rule for status in self._statuses if status.rule.kind in OF_QUEUES]
        if not rules:
            return
        names = [name for name in await self._service.queues() if any(_matches(rule, name) for rule in rules)]
        self._queues, self._is_cut = names[:QUEUES_MAX], len(names) > QUEUES_MAX
        if self._queues and any(rule.kind != "failures" for rule in rules):
            self._stats = await self._service.stats(self._queues)

    async def _measure(self, rule: AlertRule, state: AlertState) -> Figure:
        match rule.kind:
            case "failures":
                return await self._failures(rule)
            case "oldest_age":
                ages = {stats.queue: stats.oldest_age_ms or 0 for stats in self._stats_of(rule)}
                return self._worst(ages, max(ages.values(), default=0))
            case "no_worker":
                waiting = await self._without_worker(rule)
                return self._worst(waiting, sum(waiting.values()))
            case "schedule_missed":
                return await self._lateness(rule, state)
            case "callback_given_up":
                return Figure(value=await self._service.given_up_since(within_ms=rule.window_ms))
            case _:
                return await self._engine_risks()

    async def _failures(self, rule: AlertRule) -> Figure:
        """Measure the failures within the window. Its oldest step counts by the part of it that is in the window."""
        names = [name for name in self._queues if _matches(rule, name)]
        if not names:
            return self._worst({}, 0)
        step_minutes = next(step for step in STEPS_MINUTES if rule.window_ms <= step * MINUTE_MS * STEPS_PER_WINDOW)
        step_ms, since_ms = step_minutes * MINUTE_MS, self._now_ms - rule.window_ms
        steps = ceil(rule.window_ms / step_ms) + 1
        histories = await self._service.histories(names, step_minutes=step_minutes, steps=steps)
        failed = {
            name: sum(step.failed * min(1.0, max(0, step.at_ms + step_ms - since_ms) / step_ms) for step in found)
            for name, found in histories.items()
        }
        return self._worst(failed, round(sum(failed.values()) * MINUTE_MS / rule.window_ms, 4))

    async def _without_worker(self, rule: AlertRule) -> dict[str, int]:
        """Return the waiting jobs of each queue from which nothing takes. Workers are read only if one may be."""
        idle = {
            stats.queue: stats.queued
            for stats in self._stats_of(rule)
            if stats.queued and not (stats.is_paused or stats.running or stats.waiting_takers)
        }
        served = await self._served_queues() if idle else frozenset()
        return {queue: queued for queue, queued in idle.items() if queue not in served}

    async def _served_queues(self) -> frozenset[str]:
        if self._served is None:
            live = await self._live_workers()
            self._served = frozenset(queue for worker in live for queue in worker.info.queues)
        return self._served

    async def _live_workers(self) -> list[Worker]:
        found: list[Worker] = []
        while True:
            page = await self._service.workers(start=len(found), most=PAGE_MAX)
            found += page
            if len(page) < PAGE_MAX:
                return [worker for worker in found if worker.silent_at_ms > self._now_ms]

    async def _lateness(self, rule: AlertRule, state: AlertState) -> Figure:
        """Measure the lateness of due occurrences. An occurrence that was counted as missed is no longer due, so the
        count is compared with that of the last measurement."""
        if self._schedules is None:
            self._schedules = await self._service.schedules()
        found = [status for status in self._schedules if _matches(rule, status.schedule.name)]
        late = {status.schedule.name: self._now_ms - status.next_at_ms for status in found if status.next_at_ms}
        missed = sum(status.missed for status in found)
        has_grown = missed > state.counter and state.revision > 0
        grew_at_ms = self._now_ms if has_grown else state.grew_at_ms
        value = max(0, max(late.values(), default=0))
        subjects = _largest({name: lateness for name, lateness in late.items() if lateness >= rule.threshold})
        if grew_at_ms and self._now_ms - grew_at_ms < rule.window_ms:
            value = max(value, int(rule.threshold))
            subjects = subjects or _largest({status.schedule.name: status.missed for status in found})
        return Figure(value=value, subjects=subjects, counter=missed, grew_at_ms=grew_at_ms)

    async def _engine_risks(self) -> Figure:
        findings = [finding for node in await self._service.engines() for finding in node.findings]
        risks = [finding for finding in findings if finding.severity is not Severity.NOTE]
        codes = dict.fromkeys(finding.code for finding in sorted(risks, key=lambda one: one.severity))
        return Figure(value=len(codes), subjects=tuple(codes)[:SUBJECTS_MAX])

    def _stats_of(self, rule: AlertRule) -> Iterable[QueueStats]:
        return (stats for stats in self._stats if _matches(rule, stats.queue))

    def _worst(self, by_queue: Mapping[str, float], value: float) -> Figure:
        return Figure(value=value, subjects=_largest(by_queue), is_cut=self._is_cut)


def _matches(rule: AlertRule, name: str) -> bool:
    return is_queue_allowed(name, (rule.pattern,) if rule.pattern else ())


def _largest(values: Mapping[str, float]) -> tuple[str, ...]:
    """Return the names with the largest values, without those that have none."""
    named = sorted((item for item in values.items() if item[1] > 0), key=lambda item: (-item[1], item[0]))
    return tuple(name for name, _ in named[:SUBJECTS_MAX])
