"""One frame of windlass top: read in a bounded number of calls, drawn to fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.operations import Listing, Worker
from windlass.core.queue import QueueStats
from windlass.service import Service

from .commands.workers import everyone
from .output import Column, Span, as_table, brief, counted, printable
from .queue_page import rates

WORKERS_MOST = 200
JOBS_PER_QUEUE = 50  # of those that run, whose names are looked up
FIXED_LINES = 9  # title, sums, two headings with their lines, space between, last line
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
)
WORKER_COLUMNS = (
    Column("worker", shrinks=16),
    Column("host", rank=1, shrinks=12),
    Column("pid", is_right=True, rank=2),
    Column("busy", is_right=True),
    Column("runs", shrinks=20),
)


class QueueLine(NamedTuple):
    stats: QueueStats
    enqueued_per_minute: float
    finished_per_minute: float
    failed_per_minute: float
    retried_per_minute: float


class Frame(NamedTuple):
    now_ms: int
    engine: str
    queues: list[QueueLine]  # the busiest
    queue_count: int
    totals: dict[str, int]  # of all queues
    workers: list[Worker]
    has_more_workers: bool
    running: list[Job]  # some, of the queues shown


def read(service: Service, rows: int) -> Frame:
    now_ms = service.now().wait()
    stats = service.stats(service.queues().wait()).wait()
    busiest = sorted(stats, key=lambda one: (-(one.queued + one.running), -one.failed, one.queue))[:rows]
    workers = list(islice(everyone(service), WORKERS_MOST + 1))
    found = service.store.deployment
    return Frame(
        now_ms,
        f"{found.product} {found.version}" if found else "",
        [_line(service, one, now_ms) for one in busiest],
        len(stats),
        {what: sum(getattr(one, what) for one in stats) for what in ("queued", "running", "scheduled", "failed")},
        workers[:WORKERS_MOST],
        len(workers) > WORKERS_MOST,
        [job for one in busiest if one.running for job in _running(service, one.queue)],
    )


def _line(service: Service, stats: QueueStats, now_ms: int) -> QueueLine:
    rate = rates(service.history(stats.queue).wait(), now_ms)
    return QueueLine(stats, rate.enqueued, rate.finished, rate.failed, rate.retried)


def _running(service: Service, queue: str) -> list[Job]:
    return service.jobs(Listing(queue=queue, state="running", most=JOBS_PER_QUEUE)).wait().jobs


# Drawing


def drawn(frame: Frame, width: int, height: int = 0) -> RenderableType:
    """Of so many lines at most; 0: as many as it takes."""
    queues, workers = _parts(len(frame.queues), len(frame.workers), height - FIXED_LINES if height else 0)
    return Group(
        _title(frame, width),
        _sums(frame),
        Text(),
        as_table(QUEUE_COLUMNS, [_queue_row(one) for one in frame.queues[:queues]], width)
        if frame.queues
        else Text("No queues.", "dim"),
        Text(_left_out(frame.queue_count - queues, "queue"), "dim"),
        as_table(WORKER_COLUMNS, list(_worker_rows(frame, workers)), width)
        if frame.workers
        else Text("No workers are registered.", "dim"),
        Text(_left_out(len(frame.workers) - workers, "worker", frame.has_more_workers), "dim"),
    )


def _parts(queues: int, workers: int, lines: int) -> tuple[int, int]:
    """Both get half; what one does not need goes to the other."""
    if lines <= 0:
        return queues, workers
    shown_workers = min(workers, max(lines // 2, lines - queues))
    return min(queues, lines - shown_workers), shown_workers


def _left_out(number: int, what: str, is_more: bool = False) -> str:
    return f"… and {counted(number, what)} more" if number > 0 or is_more else ""


def _title(frame: Frame, width: int) -> Text:
    at = datetime.fromtimestamp(frame.now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = f"windlass top  {frame.engine}"
    return Text.assemble((left, "bold"), " " * max(2, width - len(left) - len(at) - 1), (at, "dim"))


def _sums(frame: Frame) -> Text:
    coming = sum(one.enqueued_per_minute for one in frame.queues)
    done = sum(one.finished_per_minute for one in frame.queues)
    counts = " · ".join(f"{number:,} {what}" for what, number in frame.totals.items())
    return Text(f"{counts} · {coming:,.0f} in and {done:,.0f} done per minute", no_wrap=True, overflow="ellipsis")


def _queue_row(line: QueueLine) -> tuple[object, ...]:
    stats = line.stats
    name = f"{stats.queue} (paused)" if stats.is_paused else stats.queue
    per_minute = (line.enqueued_per_minute, line.finished_per_minute, line.failed_per_minute)
    return (
        name,
        stats.queued,
        stats.running,
        stats.failed,
        Span(stats.oldest_age_ms),
        *(round(one) for one in per_minute),
        stats.scheduled,
        stats.waiting,
        stats.waiting_takers,
        round(line.retried_per_minute),
    )


def _worker_rows(frame: Frame, most: int) -> Iterator[tuple[object, ...]]:
    held: dict[bytes | None, list[Job]] = {}
    for job in sorted(frame.running, key=lambda one: one.started_at_ms or 0):
        held.setdefault(job.worker, []).append(job)
    for worker in frame.workers[:most]:
        info = worker.info
        is_silent = worker.silent_at_ms <= frame.now_ms
        name = (info.name or format_id(worker.id)) + (" (silent)" if is_silent else "")
        busy = f"{worker.running_count}/{info.slots}"
        runs = _runs(held.get(worker.id, []), worker.running_count, frame.now_ms)
        yield name, info.host, str(info.pid or ""), busy, runs


def _runs(jobs: Sequence[Job], count: int, now_ms: int) -> str:
    """Names with how many of each, and how long the first of them has been running."""
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        by_name.setdefault(printable(job.name), []).append(job)
    named = [f"{name} ×{len(same)} {_age(same[0], now_ms)}" for name, same in by_name.items()]
    more = count - len(jobs)
    return ", ".join([*named, f"{more} more"] if more > 0 and named else named).replace(" ×1 ", " ")


def _age(job: Job, now_ms: int) -> str:
    return brief(max(0, now_ms - (job.started_at_ms or now_ms)))
