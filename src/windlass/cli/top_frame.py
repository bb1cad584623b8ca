"""A frame of `windlass top`: read with a bounded number of calls, drawn to fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.operations import Listing, Worker
from windlass.core.queue import QueueStats
from windlass.core.text.control_characters import printable
from windlass.core.text.humanize import to_datetime
from windlass.service import Service

from .commands.workers import application_workers
from .output import Column, DurationCell, as_table, format_brief, format_count
from .queue_page import compute_rates

WORKERS_MAX = 200
JOBS_PER_QUEUE = 50  # running jobs whose names are read
FIXED_LINES = 9  # title, totals, two headings with their rules, blank lines, last line
QUEUE_COLUMNS = (
    Column("queue", shrinks=16),
    Column("queued", is_right=True),
    Column("running", is_right=True),
    Column("failed", is_right=True),
    Column("oldest", is_right=True),
    Column("in/min", is_right=True),
    Column("done/min", is_right=True),
    Column("failed/min", is_right=True, rank=1),
    Column("scheduled", is_right=True, rank=2),
    Column("waiting", is_right=True, rank=3),
    Column("takers", is_right=True, rank=4),
    Column("retried/min", is_right=True, rank=5),
    Column("suspended", is_right=True, rank=3),
)
WORKER_COLUMNS = (
    Column("worker", shrinks=16),
    Column("host", rank=1, shrinks=12),
    Column("pid", is_right=True, rank=2),
    Column("busy", is_right=True),
    Column("runs", shrinks=20),
)


class TopQueue(NamedTuple):
    stats: QueueStats
    enqueued_per_minute: float
    finished_per_minute: float
    failed_per_minute: float
    retried_per_minute: float


class Frame(NamedTuple):
    now_ms: int
    engine: str
    queues: list[TopQueue]  # the busiest queues
    queue_count: int
    totals: dict[str, int]  # of all queues
    workers: list[Worker]
    has_more_workers: bool
    running: list[Job]  # some jobs of these queues


def read(service: Service, rows: int) -> Frame:
    now_ms = service.now().wait()
    survey = service.survey().wait()
    busiest = survey.busiest[:rows]
    workers = list(islice(application_workers(service), WORKERS_MAX + 1))
    found = service.store.deployment
    return Frame(
        now_ms,
        f"{found.product} {found.version}" if found else "",
        [_read_queue(service, queue, now_ms) for queue in busiest],
        survey.queue_count,
        {state: survey.totals[state] for state in ("queued", "running", "scheduled", "failed", "suspended")},
        workers[:WORKERS_MAX],
        len(workers) > WORKERS_MAX,
        [job for queue in busiest if queue.running for job in _running(service, queue.queue)],
    )


def _read_queue(service: Service, stats: QueueStats, now_ms: int) -> TopQueue:
    rate = compute_rates(service.history(stats.queue).wait(), now_ms)
    return TopQueue(stats, rate.enqueued, rate.finished, rate.failed, rate.retried)


def _running(service: Service, queue: str) -> list[Job]:
    return service.jobs(Listing(queue=queue, state="running", most=JOBS_PER_QUEUE)).wait().jobs


# Drawing


def render(frame: Frame, width: int, height: int = 0) -> RenderableType:
    """Draw the frame in at most `height` lines; 0: no limit."""
    queues, workers = _split_lines(len(frame.queues), len(frame.workers), height - FIXED_LINES if height else 0)
    return Group(
        _title_line(frame, width),
        _totals_line(frame),
        Text(),
        as_table(QUEUE_COLUMNS, [_queue_row(queue) for queue in frame.queues[:queues]], width)
        if frame.queues
        else Text("No queues.", "dim"),
        Text(_omitted(frame.queue_count - queues, "queue"), "dim"),
        as_table(WORKER_COLUMNS, list(_worker_rows(frame, workers)), width)
        if frame.workers
        else Text("No workers are registered.", "dim"),
        Text(_omitted(len(frame.workers) - workers, "worker", frame.has_more_workers), "dim"),
    )


def _split_lines(queues: int, workers: int, lines: int) -> tuple[int, int]:
    """Split the lines evenly between queues and workers. Unused lines of one part go to the other."""
    if lines <= 0:
        return queues, workers
    shown_workers = min(workers, max(lines // 2, lines - queues))
    return min(queues, lines - shown_workers), shown_workers


def _omitted(number: int, what: str, is_more: bool = False) -> str:
    return f"… and {format_count(number, what)} more" if number > 0 or is_more else ""


def _title_line(frame: Frame, width: int) -> Text:
    at = to_datetime(frame.now_ms).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = f"windlass top  {frame.engine}"
    return Text.assemble((left, "bold"), " " * max(2, width - len(left) - len(at) - 1), (at, "dim"))


def _totals_line(frame: Frame) -> Text:
    enqueued = sum(queue.enqueued_per_minute for queue in frame.queues)
    finished = sum(queue.finished_per_minute for queue in frame.queues)
    counts = " · ".join(f"{number:,} {state}" for state, number in frame.totals.items())
    return Text(f"{counts} · {enqueued:,.0f} in and {finished:,.0f} done per minute", no_wrap=True, overflow="ellipsis")


def _queue_row(line: TopQueue) -> tuple[object, ...]:
    stats = line.stats
    name = f"{stats.queue} (paused)" if stats.is_paused else stats.queue
    per_minute = (line.enqueued_per_minute, line.finished_per_minute, line.failed_per_minute)
    return (
        name,
        stats.queued,
        stats.running,
        stats.failures,
        DurationCell(stats.oldest_age_ms),
        *(round(rate) for rate in per_minute),
        stats.scheduled,
        stats.waiting,
        stats.waiting_takers,
        round(line.retried_per_minute),
        stats.suspended,
    )


def _worker_rows(frame: Frame, most: int) -> Iterator[tuple[object, ...]]:
    held: dict[bytes | None, list[Job]] = {}
    for job in sorted(frame.running, key=lambda job: job.started_at_ms or 0):
        held.setdefault(job.worker, []).append(job)
    for worker in frame.workers[:most]:
        info = worker.info
        is_silent = worker.silent_at_ms <= frame.now_ms
        name = (info.name or format_id(worker.id)) + (" (silent)" if is_silent else "")
        busy = f"{worker.running_count}/{info.slots}"
        runs = _describe_jobs(held.get(worker.id, []), worker.running_count, frame.now_ms)
        yield name, info.host, str(info.pid or ""), busy, runs


def _describe_jobs(jobs: Sequence[Job], count: int, now_ms: int) -> str:
    """List the names of running jobs, each with its number and the run time of the oldest."""
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        by_name.setdefault(printable(job.name), []).append(job)
    named = [f"{name} ×{len(same)} {_age(same[0], now_ms)}" for name, same in by_name.items()]
    more = count - len(jobs)
    return ", ".join([*named, f"{more} more"] if more > 0 and named else named).replace(" ×1 ", " ")


def _age(job: Job, now_ms: int) -> str:
    return format_brief(max(0, now_ms - (job.started_at_ms or now_ms)))
