"""List of tasks; and one task with its run times, failures and workers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.stats.failure_groups import FailureGroup
from windlass.core.stats.task_figures import TaskPage, TaskStep, TaskSummary
from windlass.core.text.similar_names import describe_missing_task
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.not_found import render_missing
from windlass.dashboard.views.throughput import TIME_RANGES, TimeRange, TimeRangeName
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

TASKS_PER_PAGE = 100
STATES = ("failed", "queued", "running", "scheduled", "finished", "cancelled")


class TasksQuery(msgspec.Struct, frozen=True, kw_only=True):
    search: str = ""
    after: str = ""


class TaskRow(msgspec.Struct, frozen=True):
    task: TaskSummary
    filter: dict[str, Any]  # query of the list of its failed jobs


class TasksView(msgspec.Struct, frozen=True):
    rows: list[TaskRow]
    count: int
    search: str
    following: str  # name after which the next page starts; empty: this is the last page


@routes.page("/tasks", "tasks.html", section="tasks", query=TasksQuery)
async def tasks(page: PageContext[TasksQuery]) -> TasksView:
    """List tasks by name."""
    query = page.query
    page.now_ms, found = await asyncio.gather(page.service.now(), page.service.tasks(queues=page.principal.queues))
    wanted = [task for task in found if query.search.lower() in task.name.lower()]
    remaining = [task for task in wanted if task.name > query.after]
    shown = remaining[:TASKS_PER_PAGE]
    following = shown[-1].name if len(remaining) > len(shown) else ""
    rows = [TaskRow(task, {"state": "failed", "name": exact_name(task.name)}) for task in shown]
    return TasksView(rows, len(wanted), query.search, following)


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    span: TimeRangeName = "hour"


class GroupRow(msgspec.Struct, frozen=True):
    group: FailureGroup
    sample: str
    filter: dict[str, Any]  # query of the list of its jobs


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    task: TaskPage
    span: TimeRangeName
    range: TimeRange
    times_ms: list[int]
    finished: list[float]  # attempts per minute, oldest first
    failed: list[float]
    runs: dict[str, list[int | None]]  # by percentile
    groups: list[GroupRow]
    workers: list[tuple[str, str]]  # title and queues
    filters: dict[str, dict[str, str]]  # state -> query of the list of the task's jobs in it

    @property
    def minutes(self) -> int:
        return self.range.step_minutes * self.range.steps

    @property
    def kept_failures(self) -> int:
        return sum(row.group.count for row in self.groups)


@routes.page("/tasks/{name}", "task.html", section="tasks", query=TaskQuery)
async def task(page: PageContext[TaskQuery]) -> TaskView | Response:
    """Show a task."""
    name, chosen = page.path_values["name"], TIME_RANGES[page.query.span]
    found = await page.service.task(
        name, step_minutes=chosen.step_minutes, steps=chosen.steps, queues=page.principal.queues
    )
    page.now_ms = found.at_ms
    if not found.is_known:
        sentence = describe_missing_task("No worker has a", name, found.suggestion)
        return render_missing(page, sentence, found.suggestion)
    times_ms = chosen.times_ms(found.at_ms)
    known = {step.at_ms: step for step in found.steps}
    steps = [known.get(at_ms) for at_ms in times_ms]
    return TaskView(
        now_ms=found.at_ms,
        task=found,
        span=page.query.span,
        range=chosen,
        times_ms=times_ms,
        finished=[step.finished / chosen.step_minutes if step else 0 for step in steps],
        failed=[step.failed_attempts / chosen.step_minutes if step else 0 for step in steps],
        runs={title: _percentiles(steps, title) for title in ("p50", "p95", "p99")},
        groups=[GroupRow(group, format_id(group.sample), _filter(group)) for group in found.failures],
        workers=[
            (worker.name or worker.host or format_id(worker.id)[:8], ", ".join(worker.queues))
            for worker in found.workers
        ],
        filters={state: {"state": state, "name": exact_name(name)} for state in STATES},
    )


def _percentiles(steps: list[TaskStep | None], title: str) -> list[int | None]:
    return [None if step is None else getattr(step, f"run_{title}_ms") for step in steps]


def _filter(group: FailureGroup) -> dict[str, Any]:
    return {"state": "failed", "queue": group.queue, "name": exact_name(group.name), "shape": group.error_shape}
