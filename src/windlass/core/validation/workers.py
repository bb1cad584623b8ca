"""Checks of workers: ids, descriptions, and reports sent as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from windlass.core.callbacks.urls import URL_MAX, is_base_url
from windlass.core.errors import BadInput
from windlass.core.operations import AfterFailure, WorkerInfo, WorkerReport, WorkerReportKind
from windlass.core.stats.task_figures import BUCKET_MAX, TASKS_PER_REPORT, TaskSums

from .bounds import (
    DURATION_MAX,
    ERROR_MAX,
    HELD_MAX,
    MEMORY_MAX,
    NAME_MAX,
    NAMES_PER_WORKER,
    QUEUE_MAX,
    QUEUES_PER_TAKE,
    RESULT_MAX,
    UINT32_MAX,
    UNIQUE_MAX,
    VERSION_MAX,
)
from .values import (
    check_id,
    check_instance,
    check_integer,
    check_list,
    check_new_blob,
    check_new_name,
    check_number,
    check_text,
)

QUEUES_MAX = 1000  # per call


def check_worker_id(value: Any) -> None:
    check_id("worker", value)
    if value == bytes(16):
        raise BadInput("A worker id must not be sixteen zero bytes; that value means no worker.")


def check_held_ids(values: Any) -> None:
    check_list("held", values)
    if len(values) > HELD_MAX:
        raise BadInput(f"A worker may name {HELD_MAX} jobs in one heartbeat; send the heartbeat without jobs.")
    for value in values:
        check_id("held", value)


def check_worker_info(info: WorkerInfo) -> None:
    if type(info) is not WorkerInfo:
        raise BadInput("The description of a worker must be a WorkerInfo.")
    check_new_name("host", info.host, 255, may_be_empty=True)
    check_new_name("name", info.name, 255, may_be_empty=True)
    check_text("url", info.url, URL_MAX, may_be_empty=True)
    if info.url and not is_base_url(info.url):
        raise BadInput("url must be an http or https URL with a host and without user, query or fragment.")
    check_integer("pid", info.pid, 0, 2**31)
    check_integer("slots", info.slots, 0, 1_000_000)
    check_text("version", info.version, VERSION_MAX, may_be_empty=True)
    check_text("python", info.python, VERSION_MAX, may_be_empty=True)
    check_integer("memory_bytes", info.memory_bytes, 0, MEMORY_MAX)
    check_text("component", info.component, VERSION_MAX, may_be_empty=True)
    if type(info.queues) is not tuple or len(info.queues) > QUEUES_PER_TAKE:
        raise BadInput(f"queues must be a tuple of at most {QUEUES_PER_TAKE} names.")
    for queue in info.queues:
        check_text("queue", queue, QUEUE_MAX)
    if type(info.names) is not tuple or len(info.names) > NAMES_PER_WORKER:
        raise BadInput(
            f"names must be a tuple of at most {NAMES_PER_WORKER} names; a worker that knows more gives none."
        )
    for name in info.names:
        check_text("name", name, NAME_MAX)


def check_worker_report(request: WorkerReport) -> None:
    check_instance("A request", request, WorkerReport)
    check_text("queue", request.queue, QUEUE_MAX)
    check_worker_id(request.worker)
    check_worker_info(request.info)
    if request.kind not in get_args(WorkerReportKind):
        raise BadInput(f"kind must be one of {', '.join(get_args(WorkerReportKind))}, not {request.kind!r}.")
    check_text("unique", request.unique, UNIQUE_MAX, may_be_empty=True)
    if request.id != b"":
        check_id("id", request.id)
    check_integer("age_ms", request.age_ms, 0, DURATION_MAX)
    check_integer("idle_ms", request.idle_ms, 0, DURATION_MAX)
    check_number("progress", request.progress, 0, 1)
    if request.result is not None:
        check_new_blob("result", request.result, RESULT_MAX)
    if request.error is not None:
        check_new_blob("error", request.error, ERROR_MAX)
    if request.then not in get_args(AfterFailure):
        raise BadInput(f"then must be one of {', '.join(get_args(AfterFailure))}, not {request.then!r}.")


def check_queue_list(given: Sequence[str]) -> None:
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= QUEUES_MAX:
        raise BadInput(f"queues must be a list of 1 to {QUEUES_MAX} queues.")
    for queue in given:
        check_text("queue", queue, QUEUE_MAX)


def check_task_report(number: int, tasks: Sequence[TaskSums]) -> None:
    check_integer("number", number, 1, 2**48)
    check_list("tasks", tasks)
    if not 1 <= len(tasks) <= TASKS_PER_REPORT:
        raise BadInput(f"A report has 1 to {TASKS_PER_REPORT} tasks, not {len(tasks)}.")
    for sums in tasks:
        _check_task_sums(sums)


def _check_task_sums(sums: TaskSums) -> None:
    check_instance("A task of a report", sums, TaskSums)
    check_text("queue", sums.queue, QUEUE_MAX)
    check_text("name", sums.name, NAME_MAX)
    for counter in ("failed", "retried", "cancelled"):
        check_integer(counter, getattr(sums, counter), 0, UINT32_MAX)
    check_instance("runs", sums.runs, dict)
    for bucket, count in sums.runs.items():
        check_integer("A bucket of run times", bucket, 0, BUCKET_MAX)
        check_integer("The number of runs", count, 0, UINT32_MAX)
