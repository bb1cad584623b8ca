"""Jobs that wait for a signal, found by a bounded search through the suspended jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.durable import OpenWaits, Step, StepKind, StepStatus
from windlass.core.job import Job
from windlass.core.operations import Listing
from windlass.core.text.humanize import pluralize
from windlass.dashboard.page_context import PageContext

ROWS_MAX = 100
READ_AT_ONCE = 500  # jobs
SCANNED_MAX = 10_000  # jobs, for one page
READS_MAX = 40
TIME_MAX_S = 0.7


class SignalWait(NamedTuple):
    """A suspended job, and one signal that it waits for."""

    job: Job
    step: Step


class SignalWaits(msgspec.Struct, frozen=True):
    rows: list[SignalWait]  # the longest wait first
    cursor: str  # empty: there are no more suspended jobs
    looked_at: int


async def find_signal_waits(page: PageContext[Any], queue: str, signal: str, cursor: str) -> SignalWaits:
    """Search the queues that the principal may use. The search begins with the jobs that would wake last by themselves,
    or never: most of them wait for a signal, while jobs that sleep wake first."""
    listing = Listing(queue=queue, state="suspended", newest_first=True, most=READ_AT_ONCE, cursor=cursor)
    rows: list[SignalWait] = []
    looked_at, reads, until_s = 0, 0, time.monotonic() + TIME_MAX_S
    while True:
        batch = await page.service.jobs_within(listing, page.principal.queues)
        rows += [wait for wait in await _waits_of(page, batch.jobs) if signal in ("", wait.step.signal)]
        looked_at, reads = looked_at + len(batch.jobs), reads + 1
        is_enough = len(rows) >= ROWS_MAX or looked_at >= SCANNED_MAX or reads >= READS_MAX
        if not batch.cursor or is_enough or time.monotonic() > until_s:
            rows.sort(key=lambda wait: (wait.step.begun_at_ms, wait.job.id))
            return SignalWaits(rows, batch.cursor, looked_at)
        listing = msgspec.structs.replace(listing, cursor=batch.cursor)


async def read_open_waits(page: PageContext[Any], jobs: Sequence[Job]) -> dict[bytes, tuple[Step, ...]]:
    """Return the waits of suspended jobs by id, without jobs that are gone."""
    ids = [job.id for job in jobs]
    answers = await page.service.open_waits(ids) if ids else []
    return {job_id: answer.steps for job_id, answer in zip(ids, answers, strict=True) if isinstance(answer, OpenWaits)}


async def _waits_of(page: PageContext[Any], jobs: Sequence[Job]) -> list[SignalWait]:
    found = await read_open_waits(page, jobs)
    return [SignalWait(job, step) for job in jobs for step in found.get(job.id, ()) if _is_signal_wait(step)]


def _is_signal_wait(step: Step) -> bool:
    return step.kind is StepKind.SIGNAL and step.status is StepStatus.WAITING


def describe_waits(steps: Sequence[Step]) -> str:
    """Describe the waits of a job in a few words, for a row of a list."""
    return ", ".join(dict.fromkeys(_words(step) for step in steps))


def _words(step: Step) -> str:
    if step.kind is StepKind.SIGNAL:
        return f"waits for signal {step.signal}"
    if step.kind is StepKind.CHILDREN:
        return f"waits for {pluralize(len(step.children), 'child job')}"
    return "sleeps" if step.kind is StepKind.SLEEP else f"tries {step.name} again"
