"""Finish of repeating jobs: compute the next run and send the report again with it.

The lease token guards the second call as it did the first. The revision detects an edit in between; then the next run
is computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.operations import Fail, FailOutcome, Finish, FinishedAndTaken, FinishOutcome, Take
from windlass.core.scheduling.repeat import parse
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import reports, take
from windlass.store.commands.command import BatchCommand, Flow
from windlass.store.commands.reports import FinishReport, FinishWithNextRun, NextRunNeeded
from windlass.store.store import Store
from windlass.store.waiting.take import PartitionQueues, poll_flow


def finish_flow(
    requests: Sequence[Finish], partition_of: Callable[[bytes], int]
) -> Flow[list[FinishOutcome | Refusal]]:
    """Finish jobs. Jobs that run once end with the first call; repeating jobs need a second call."""
    items: dict[int, FinishReport] = dict(enumerate(requests))
    answers: list[FinishOutcome | Refusal] = [None] * len(requests)
    while items:
        replies = yield from split_by_partition(
            list(items.values()), lambda report: partition_of(report.id), reports.finish
        )
        need: dict[int, FinishReport] = {}
        for place, reply in zip(items, replies, strict=True):
            if isinstance(reply, NextRunNeeded):
                need[place] = _with_next_run(requests[place], reply)
            else:
                answers[place] = reply
        items = need
    return answers


def finish_and_take_flow(
    store: Store, request: Take, parts: Sequence[PartitionQueues], finishes: Sequence[Finish], failures: Sequence[Fail]
) -> Flow[FinishedAndTaken]:
    """Report outcomes and take jobs, in one call if all are in one partition. Otherwise outcomes are reported in the
    partitions of their jobs first."""
    if len(parts) == 1 and _are_all_in_partition(store, parts[0].partition, finishes, failures):
        return (yield from _finish_and_take_in_one_call(request, parts[0], finishes, failures))
    finished = yield from finish_flow(finishes, store.partition_of_job)
    failed = yield from _fail_flow(store, failures)
    found = yield from poll_flow(request, parts, [take.UNREGISTERED] * len(parts), waits=True)
    return FinishedAndTaken(list(finished), list(failed), found.taken)


def _are_all_in_partition(store: Store, partition: int, finishes: Sequence[Finish], failures: Sequence[Fail]) -> bool:
    if store.partitions == 1:
        return True
    reported = [report.id for report in finishes] + [report.id for report in failures]
    return set(map(store.partition_of_job, reported)) <= {partition}


def _fail_flow(store: Store, failures: Sequence[Fail]) -> Flow[list[FailOutcome | Refusal]]:
    build: Callable[[Sequence[Fail], int], BatchCommand[Any]] = reports.fail
    return split_by_partition(failures, lambda failure: store.partition_of_job(failure.id), build)


def _finish_and_take_in_one_call(
    request: Take, part: PartitionQueues, finishes: Sequence[Finish], failures: Sequence[Fail]
) -> Flow[FinishedAndTaken]:
    """Report and take in one call. If a job repeats, the first call changes nothing and returns what the next run
    needs, so that the reports and the take remain one step."""
    items: list[FinishReport] = list(finishes)
    while True:
        reply = yield take.finish_and_take(request, part.queues, part.partition, items, failures)
        if isinstance(reply, FinishedAndTaken):
            return reply
        for place, need in enumerate(reply):
            if need is not None:
                items[place] = _with_next_run(finishes[place], need)


def _with_next_run(request: Finish, need: NextRunNeeded) -> FinishWithNextRun:
    next_at_ms = parse(need.rule).next_at_ms(need.planned_at_ms, need.started_at_ms, need.now_ms)
    return FinishWithNextRun(request, next_at_ms, need.revision)
