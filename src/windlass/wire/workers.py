"""Shapes of worker registrations and heartbeats, and of the tasks that workers run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.operations import Worker
from windlass.core.stats.task_figures import (
    BUCKET_MAX,
    TASKS_PER_REPORT,
    TaskFigures,
    TaskPage,
    TaskStep,
    TaskSummary,
    TaskSums,
)
from windlass.core.validation.bounds import (
    DURATION_MAX,
    MEMORY_MAX,
    NAME_MAX,
    NAMES_PER_WORKER,
    PAGE_MAX,
    QUEUES_PER_TAKE,
    UINT32_MAX,
    VERSION_MAX,
)
from windlass.core.validation.queues import HISTORY_STEPS_MAX

from .failure_groups import FailureGroupShape, failure_group_shape
from .fields import Id, QueueName
from .shape import RequestShape, ResponseShape, component_name

CONNECTION_GRACE_MAX_MS = 60_000
WorkerId = Annotated[str, Meta(description="The id of a worker, a UUID that the worker generates.")]


class WorkerShape(RequestShape, frozen=True, kw_only=True):
    """A worker's description of itself."""

    host: Annotated[str, Meta(max_length=255)] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31)] = 0
    queues: Annotated[tuple[QueueName, ...], Meta(max_length=QUEUES_PER_TAKE)] = ()
    slots: Annotated[int, Meta(ge=0, le=1_000_000, description="Jobs that it runs at the same time.")] = 1
    name: Annotated[str, Meta(max_length=255)] = ""
    names: Annotated[
        tuple[Annotated[str, Meta(max_length=NAME_MAX)], ...],
        Meta(
            max_length=NAMES_PER_WORKER,
            description="Names of the jobs that it can run. Jobs with a name that no worker of their queue knows are "
            "reported. Empty: it may run jobs of any name.",
        ),
    ] = ()
    version: Annotated[str, Meta(max_length=VERSION_MAX, description="The version of its client library.")] = ""
    python: Annotated[str, Meta(max_length=VERSION_MAX, description="The version of its Python interpreter.")] = ""
    memory_bytes: Annotated[
        int, Meta(ge=0, le=MEMORY_MAX, description="The memory that its process uses now. Register again to update it.")
    ] = 0
    beat_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=DURATION_MAX,
            description="The longest time between heartbeats, in milliseconds. After it the worker counts as lost.",
        ),
    ] = 30_000


class ExpectedShape(ResponseShape, frozen=True, kw_only=True):
    now_ms: Annotated[int, Meta(description="The engine's time.")]
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost without a further heartbeat.")]


class HeldJobShape(ResponseShape, frozen=True, kw_only=True):
    id: Id
    since_ms: int


class RegisteredShape(ResponseShape, frozen=True, kw_only=True):
    """A registered worker and the jobs that it holds, the longest held first; of many jobs, only the first."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    name: str
    names: Annotated[tuple[str, ...], Meta(description="Names of the jobs that it can run; empty: any.")] = ()
    url: Annotated[str, Meta(description="The URL to which jobs are pushed; empty: the worker takes jobs itself.")] = ""
    version: Annotated[str, Meta(description="The version of its client library; empty: not known.")] = ""
    python: Annotated[str, Meta(description="The version of its Python interpreter; empty: not known.")] = ""
    memory_bytes: Annotated[
        int, Meta(description="The memory of its process at its last registration; 0: not known.")
    ] = 0
    component: Annotated[
        str, Meta(description="The part of a server that is listed here, such as downloads; empty: a worker.")
    ] = ""
    started_at_ms: int
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost without a further heartbeat.")]
    beat_at_ms: Annotated[int, Meta(description="The time of its last heartbeat.")] = 0
    running_count: int
    running: list[HeldJobShape]
    stopping_since_ms: Annotated[int | None, Meta(description="When it was asked to stop.")]


class BeatShape(RequestShape, frozen=True, kw_only=True):
    """A heartbeat. Without a body it only reports that the worker is alive."""

    held: Annotated[
        tuple[Id, ...] | None,
        Meta(
            description="All jobs that the worker has taken and not reported yet. The answer then lists the leases of "
            "this worker that are not among them. Use one worker id per process: jobs of another process under the "
            "same id count as not listed."
        ),
    ] = None


class UnclaimedShape(ResponseShape, frozen=True, kw_only=True):
    """A lease of the worker that its heartbeat did not list."""

    id: Id
    token: Annotated[int, Meta(description="The token of the lease.")]


@component_name("HeardShape")
class HeartbeatReplyShape(ResponseShape, frozen=True, kw_only=True, omit_defaults=True):
    is_asked_to_stop: Annotated[bool, Meta(description="Take no more jobs, finish the running jobs, and deregister.")]
    unclaimed: Annotated[
        tuple[UnclaimedShape, ...],
        Meta(
            description="Leases at least two seconds old that are not in `held`: the answer to a take was lost. "
            "Release them, and do not start them if that answer still arrives."
        ),
    ] = ()


@component_name("AskedToStopShape")
class StopRequestedShape(ResponseShape, frozen=True, kw_only=True):
    was_asked: Annotated[bool, Meta(description="Whether a stop was requested before.")]


class WorkerConnectionQuery(RequestShape, frozen=True, kw_only=True):
    grace_ms: Annotated[
        int,
        Meta(ge=0, le=CONNECTION_GRACE_MAX_MS, description="How long the worker may need to connect again."),
    ] = 1_000


class WorkerConnectedShape(ResponseShape, frozen=True, kw_only=True):
    """Data of the event `connected`. Comments follow, so that a proxy does not end a silent connection."""

    grace_ms: Annotated[int, Meta(description="How long the worker may need to connect again.")]


class WorkersShape(ResponseShape, frozen=True, kw_only=True):
    workers: list[RegisteredShape]


class ListWorkersQuery(RequestShape, frozen=True, kw_only=True):
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="How many workers to skip.")] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class GivenBackShape(ResponseShape, frozen=True, kw_only=True):
    given_back: Annotated[int, Meta(description="Jobs that other workers can take now.")]


def registered_shape(worker: Worker) -> RegisteredShape:
    info = worker.info
    return RegisteredShape(
        id=format_id(worker.id),
        host=info.host,
        pid=info.pid,
        queues=info.queues,
        slots=info.slots,
        name=info.name,
        names=info.names,
        url=info.url,
        version=info.version,
        python=info.python,
        memory_bytes=info.memory_bytes,
        component=info.component,
        started_at_ms=worker.started_at_ms,
        silent_at_ms=worker.silent_at_ms,
        beat_at_ms=worker.beat_at_ms,
        running_count=worker.running_count,
        running=[HeldJobShape(id=format_id(job.id), since_ms=job.since_ms) for job in worker.running],
        stopping_since_ms=worker.stopping_since_ms,
    )


TaskName: TypeAlias = Annotated[str, Meta(max_length=NAME_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=UINT32_MAX)]
RunTimes: TypeAlias = Annotated[
    tuple[Count, ...],
    Meta(
        max_length=BUCKET_MAX + 1,
        description="Histogram of the run times of finished attempts. Bucket 0 counts those below 1 ms, bucket "
        "1 + 4 n + q those from 2^n (1 + q/4) ms up to 2^n (1 + (q + 1)/4) ms.",
    ),
]
_ESTIMATE = Meta(description="Estimated from the buckets, to a quarter of its value; null without finished attempts.")


class TaskSumsShape(RequestShape, frozen=True, kw_only=True):
    """Attempts of one task in one queue that ended since the last report."""

    queue: QueueName
    name: TaskName
    failed: Annotated[Count, Meta(description="Attempts after which the job failed.")] = 0
    retried: Annotated[Count, Meta(description="Failed attempts after which the job is tried again.")] = 0
    cancelled: Count = 0
    runs: RunTimes = ()


class TaskReportShape(RequestShape, frozen=True, kw_only=True):
    """Figures that a worker has measured since its last report."""

    number: Annotated[
        int, Meta(ge=1, le=2**48, description="Grows with each report. The last number is not counted twice.")
    ]
    tasks: Annotated[tuple[TaskSumsShape, ...], Meta(min_length=1, max_length=TASKS_PER_REPORT)]


class TaskReportedShape(ResponseShape, frozen=True, kw_only=True):
    uncounted: Annotated[
        int, Meta(description="Tasks that were not counted, because figures of so many others are kept.")
    ]


class TaskFiguresShape(ResponseShape, frozen=True, kw_only=True):
    """Attempts that ended in a range of time, as the workers of the SDK measured them."""

    finished: int
    failed: Annotated[int, Meta(description="Attempts after which the job failed.")]
    retried: Annotated[int, Meta(description="Failed attempts after which the job was tried again.")]
    cancelled: int
    runs: RunTimes
    run_p50_ms: Annotated[int | None, _ESTIMATE]
    run_p95_ms: Annotated[int | None, _ESTIMATE]
    run_p99_ms: Annotated[int | None, _ESTIMATE]


class TaskStepShape(TaskFiguresShape, frozen=True, kw_only=True):
    at_ms: int


class TaskSummaryShape(ResponseShape, frozen=True, kw_only=True):
    """A task, and its figures of the last hour."""

    name: str
    queues: Annotated[
        tuple[str, ...], Meta(description="Queues in which it ran within two days, or which hold failed jobs of it.")
    ]
    figures: TaskFiguresShape
    failures: Annotated[int, Meta(description="Its failed jobs, among the last 2,000 of all tasks.")]
    workers: Annotated[int, Meta(description="Live workers that know it.")]
    reported_at_ms: Annotated[int | None, Meta(description="When a worker last reported how it ran.")]


class TasksShape(ResponseShape, frozen=True, kw_only=True):
    """Tasks by name. `after` is empty on the last page."""

    tasks: list[TaskSummaryShape]
    after: str


class ListTasksQuery(RequestShape, frozen=True, kw_only=True):
    after: Annotated[str, Meta(max_length=NAME_MAX, description="List the names behind this one.")] = ""
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class TaskQuery(RequestShape, frozen=True, kw_only=True):
    step_minutes: Annotated[int, Meta(ge=1, le=60, description="The length of a step; a divisor of 60.")] = 1
    steps: Annotated[int, Meta(ge=1, le=HISTORY_STEPS_MAX, description="Number of steps; at most 48 hours in all.")] = (
        60
    )


class TaskWorkerShape(ResponseShape, frozen=True, kw_only=True):
    """A live worker that knows the task."""

    id: WorkerId
    name: str
    host: str
    queues: tuple[str, ...]


class TaskShape(ResponseShape, frozen=True, kw_only=True):
    """A task: its figures over a range of time and in steps, its workers, and its failed jobs by error."""

    name: str
    queues: Annotated[
        tuple[str, ...], Meta(description="Queues in which it ran within two days, or which hold failed jobs of it.")
    ]
    figures: TaskFiguresShape
    steps: Annotated[list[TaskStepShape], Meta(description="Steps in which attempts ended, oldest first.")]
    workers: list[TaskWorkerShape]
    failures: Annotated[list[FailureGroupShape], Meta(description="Its failed jobs by error, the largest group first.")]
    failures_looked_at: Annotated[int, Meta(description="How many of the last failed jobs were examined.")]
    has_all_failures: Annotated[bool, Meta(description="All failed jobs were examined.")]
    reported_at_ms: Annotated[int | None, Meta(description="When a worker last reported how it ran.")]
    suggestion: Annotated[str, Meta(description="A known name that is similar, if nothing is known of this one.")]
    at_ms: int


def task_sums(shape: TaskSumsShape) -> TaskSums:
    return TaskSums(**msgspec.structs.asdict(shape) | {"runs": _counted(shape.runs)})


def task_sums_shape(sums: TaskSums) -> TaskSumsShape:
    return TaskSumsShape(**msgspec.structs.asdict(sums) | {"runs": _histogram(sums.runs)})


def _histogram(runs: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(runs.get(bucket, 0) for bucket in range(max(runs, default=-1) + 1))


def _counted(histogram: Sequence[int]) -> dict[int, int]:
    return {bucket: count for bucket, count in enumerate(histogram) if count}


def _figures_fields(figures: TaskFigures) -> dict[str, Any]:
    fields = {name: getattr(figures, name) for name in TaskFiguresShape.__struct_fields__}
    return fields | {"runs": _histogram(figures.runs)}


def task_figures(shape: TaskFiguresShape) -> TaskFigures:
    return TaskFigures(
        finished=shape.finished,
        failed=shape.failed,
        retried=shape.retried,
        cancelled=shape.cancelled,
        runs=_counted(shape.runs),
    )


def task_step(shape: TaskStepShape) -> TaskStep:
    return TaskStep(at_ms=shape.at_ms, **msgspec.structs.asdict(task_figures(shape)))


def task_summary_shape(task: TaskSummary) -> TaskSummaryShape:
    return TaskSummaryShape(
        name=task.name,
        queues=task.queues,
        figures=TaskFiguresShape(**_figures_fields(task.figures)),
        failures=task.failures,
        workers=task.workers,
        reported_at_ms=task.reported_at_ms,
    )


def task_shape(page: TaskPage) -> TaskShape:
    return TaskShape(
        name=page.name,
        queues=page.queues,
        figures=TaskFiguresShape(**_figures_fields(page.figures)),
        steps=[TaskStepShape(at_ms=step.at_ms, **_figures_fields(step)) for step in page.steps],
        workers=[
            TaskWorkerShape(id=format_id(worker.id), name=worker.name, host=worker.host, queues=worker.queues)
            for worker in page.workers
        ],
        failures=[failure_group_shape(group) for group in page.failures],
        failures_looked_at=page.failures_looked_at,
        has_all_failures=page.has_all_failures,
        reported_at_ms=page.reported_at_ms,
        suggestion=page.suggestion,
        at_ms=page.at_ms,
    )
