"""A finished job that repeats: its next run is computed here, and the report is sent again with it. The lease's token
guards the second call as it did the first; an edit in between is noticed by the revision, and computed anew."""

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
from windlass.store.waiting.take import Part, look_flow


def finish_flow(
    requests: Sequence[Finish], partition_of: Callable[[bytes], int]
) -> Flow[list[FinishOutcome | Refusal]]:
    """Jobs that run once end with the first call, those that repeat go on with the second."""
    items: dict[int, FinishReport] = dict(enumerate(requests))
    answers: list[FinishOutcome | Refusal] = [None] * len(requests)
    while items:
        replies = yield from split_by_partition(list(items.values()), lambda one: partition_of(one.id), reports.finish)
        asked: dict[int, FinishReport] = {}
        for place, reply in zip(items, replies, strict=True):
            if isinstance(reply, NextRunNeeded):
                asked[place] = _with_next_run(requests[place], reply)
            else:
                answers[place] = reply
        items = asked
    return answers


def finish_and_take_flow(
    store: Store, request: Take, parts: Sequence[Part], finishes: Sequence[Finish], failures: Sequence[Fail]
) -> Flow[FinishedAndTaken]:
    """One call when all is in one partition. Otherwise outcomes are reported where their jobs are, and then taken."""
    if len(parts) == 1 and _are_all_in_partition(store, parts[0].partition, finishes, failures):
        return (yield from _finish_and_take_in_one_call(request, parts[0], finishes, failures))
    finished = yield from finish_flow(finishes, store.partition_of_job)
    failed = yield from _fail_flow(store, failures)
    found = yield from look_flow(request, parts, [take.UNREGISTERED] * len(parts), waits=True)
    return FinishedAndTaken(list(finished), list(failed), found.taken)


def _are_all_in_partition(store: Store, home: int, finishes: Sequence[Finish], failures: Sequence[Fail]) -> bool:
    if store.partitions == 1:
        return True
    reported = [one.id for one in finishes] + [one.id for one in failures]
    return set(map(store.partition_of_job, reported)) <= {home}


def _fail_flow(store: Store, failures: Sequence[Fail]) -> Flow[list[FailOutcome | Refusal]]:
    build: Callable[[Sequence[Fail], int], BatchCommand[Any]] = reports.fail
    return split_by_partition(failures, lambda one: store.partition_of_job(one.id), build)


def _finish_and_take_in_one_call(
    request: Take, part: Part, finishes: Sequence[Finish], failures: Sequence[Fail]
) -> Flow[FinishedAndTaken]:
    """With a job that repeats the first call only asks: the reports still come before the take, in one step."""
    items: list[FinishReport] = list(finishes)
    while True:
        reply = yield take.finish_and_take(request, part.queues, part.partition, items, failures)
        if isinstance(reply, FinishedAndTaken):
            return reply
        for place, asked in enumerate(reply):
            if asked is not None:
                items[place] = _with_next_run(finishes[place], asked)


def _with_next_run(request: Finish, asked: NextRunNeeded) -> FinishWithNextRun:
    next_at_ms = parse(asked.rule).next_at_ms(asked.planned_at_ms, asked.started_at_ms, asked.now_ms)
    return FinishWithNextRun(request, next_at_ms, asked.revision)
