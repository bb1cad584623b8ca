"""Task operations: how tasks ran, which workers know them, and how their jobs failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.operations import Worker
from windlass.core.stats.failure_groups import FailureGroup
from windlass.core.stats.task_figures import (
    TaskPage,
    TaskStep,
    TaskSummary,
    TaskWorker,
    roll_up,
    sum_figures,
)
from windlass.core.text.glob import escape_glob
from windlass.core.text.similar_names import suggest_name
from windlass.core.validation.bounds import NAME_MAX
from windlass.core.validation.queues import check_history_window
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_text
from windlass.service.failure_groups import FailureGroupOperations
from windlass.service.workers import WorkerOperations
from windlass.store.commands import workers
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.commands.workers import MINUTE_MS, ReportedTask
from windlass.store.operation import Operation

CACHED_MS = 5_000
WORKERS_READ = 500
HASHES_PER_CALL = 200  # hours of tasks
FAILURES_READ = 2_000
LIST_MINUTES = 60
_Patterns: TypeAlias = tuple[str, ...]
_Pair: TypeAlias = tuple[str, str]  # queue and name


class _Known(msgspec.Struct, frozen=True):
    """Summaries of all tasks, for callers that see all queues."""

    reported: list[ReportedTask]
    workers: list[Worker]  # live
    now_ms: int

    def within(self, patterns: _Patterns) -> _Known:
        """Restrict to the queues that match these patterns (none: all)."""
        if not patterns:
            return self
        workers = []
        for worker in self.workers:
            queues = tuple(queue for queue in worker.info.queues if is_queue_allowed(queue, patterns))
            if queues:
                info = msgspec.structs.replace(worker.info, queues=queues)
                workers.append(msgspec.structs.replace(worker, info=info))
        reported = [task for task in self.reported if is_queue_allowed(task.queue, patterns)]
        return _Known(reported, workers, self.now_ms)

    def workers_of(self, name: str) -> list[Worker]:
        return [worker for worker in self.workers if name in worker.info.names]

    def tasks_of(self, name: str) -> list[ReportedTask]:
        return [task for task in self.reported if task.name == name]

    def names(self) -> set[str]:
        return {task.name for task in self.reported}.union(*(worker.info.names for worker in self.workers))


class TaskOperations(FailureGroupOperations, WorkerOperations):
    def tasks(self, *, queues: _Patterns = ()) -> Operation[list[TaskSummary]]:
        """Return the tasks that workers know or have run within two days, by name, with their figures of the last hour.
        Workers of the SDK measure the figures. `queues`: patterns of the queues that the caller may see (none: all);
        figures, workers and failures of other queues are left out. This process caches what it reads for 5 seconds."""
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._tasks_flow(queues))

    def _tasks_flow(self, patterns: _Patterns) -> Flow[list[TaskSummary]]:
        known: _Known = (yield from self._known_flow()).within(patterns)
        minutes = yield from self._minutes_flow([(task.queue, task.name) for task in known.reported], LIST_MINUTES)
        failures = yield from self._cached_failures_flow("", "", FAILURES_READ, patterns)
        failed: dict[str, list[FailureGroup]] = {}
        for group in failures.groups:
            failed.setdefault(group.name, []).append(group)
        return [_summary(name, known, minutes, failed.get(name, [])) for name in sorted(known.names() | failed.keys())]

    def task(self, name: str, *, step_minutes: int = 1, steps: int = 60, queues: _Patterns = ()) -> Operation[TaskPage]:
        """Return a task: its figures over a range of time and in its steps (the last one is incomplete), the live
        workers that know it, and its failed jobs by error. `queues` and the cache are as in `tasks`. A task of which
        nothing is known is empty, with the suggestion of a similar name."""
        check_text("name", name, NAME_MAX)
        check_history_window(step_minutes, steps)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._task_flow(name, step_minutes, steps, queues))

    def _task_flow(self, name: str, step_minutes: int, steps: int, patterns: _Patterns) -> Flow[TaskPage]:
        known: _Known = (yield from self._known_flow()).within(patterns)
        reported, step_ms = known.tasks_of(name), step_minutes * MINUTE_MS
        now_ms: int = yield EngineTime()
        from_ms = (now_ms // step_ms - steps + 1) * step_ms
        back = (now_ms - from_ms) // MINUTE_MS
        minutes = yield from self._minutes_flow([(task.queue, name) for task in reported], back)
        found = roll_up((minute for own in minutes.values() for minute in own if minute.at_ms >= from_ms), step_ms)
        failures = yield from self._cached_failures_flow("", escape_glob(name), FAILURES_READ, patterns)
        serving = known.workers_of(name)
        is_known = bool(reported or serving or failures.groups)
        return TaskPage(
            name=name,
            queues=_queues_of(reported, failures.groups),
            figures=sum_figures(found),
            steps=found,
            workers=[_task_worker(worker) for worker in serving],
            failures=failures.groups,
            failures_looked_at=failures.looked_at,
            has_all_failures=failures.is_all,
            reported_at_ms=max((task.at_ms for task in reported), default=None),
            suggestion="" if is_known else suggest_name(name, known.names()),
            at_ms=now_ms,
        )

    def _known_flow(self) -> Flow[_Known]:
        return (yield from self.store.ttl_cache.read("known_tasks", CACHED_MS, self._read_known_flow))

    def _read_known_flow(self, now_ms: int) -> Flow[_Known]:
        """Read the tasks that were reported, and one page of workers."""
        reported = yield [workers.tasks(partition) for partition in range(self.store.partitions)]
        found: list[Worker] = yield workers.workers(0, WORKERS_READ, 0)
        live = [worker for worker in found if worker.silent_at_ms > now_ms]
        return _Known([task for part in reported for task in part], live, now_ms)

    def _minutes_flow(self, names: Sequence[_Pair], back: int) -> Flow[dict[_Pair, list[TaskStep]]]:
        """Read the minutes of tasks, in calls of a bounded number of hashes."""
        by_partition: dict[int, list[_Pair]] = {}
        for pair in names:
            by_partition.setdefault(self.store.partition_of_queue(pair[0]), []).append(pair)
        at_once = max(1, HASHES_PER_CALL // (back // 60 + 2))
        found: dict[_Pair, list[TaskStep]] = {}
        for partition, own in by_partition.items():
            for start in range(0, len(own), at_once):
                part = own[start : start + at_once]
                histories = yield workers.task_history(part, back, partition)
                found |= dict(zip(part, histories, strict=True))
        return found


def _summary(
    name: str, known: _Known, minutes: Mapping[_Pair, Sequence[TaskStep]], failed: Sequence[FailureGroup]
) -> TaskSummary:
    reported = known.tasks_of(name)
    figures = sum_figures(minute for task in reported for minute in minutes[task.queue, name])
    return TaskSummary(
        name=name,
        queues=_queues_of(reported, failed),
        figures=figures,
        failures=sum(group.count for group in failed),
        workers=len(known.workers_of(name)),
        reported_at_ms=max((task.at_ms for task in reported), default=None),
    )


def _queues_of(reported: Iterable[ReportedTask], failed: Iterable[FailureGroup]) -> tuple[str, ...]:
    return tuple(sorted({task.queue for task in reported} | {group.queue for group in failed}))


def _task_worker(worker: Worker) -> TaskWorker:
    info = worker.info
    return TaskWorker(id=worker.id, name=info.name, host=info.host, queues=info.queues)
