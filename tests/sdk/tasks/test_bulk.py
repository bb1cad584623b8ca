"""Bulk enqueue: batches with two in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from windlass import Windlass
from windlass.core.errors import BadInput, QueueFull
from windlass.sdk.app import BATCH_SIZE
from windlass.sdk.tasks.task import AsyncTask, Call

COUNT = 2 * BATCH_SIZE + 5


def noting(app: Windlass) -> AsyncTask[[int], None]:
    @app.task
    async def note(number: int) -> None: ...

    return note


def queued(app: Windlass) -> int:
    (stats,) = app.service.stats(["default"]).wait()
    return stats.queued


def test_all_calls_of_several_steps_are_accepted_in_order(app: Windlass) -> None:
    note = noting(app)
    handles = app.enqueue_many(note.call(number) for number in range(COUNT))
    assert len({handle.id for handle in handles}) == COUNT == queued(app)
    found = app.service.job([handle.id_bytes for handle in (handles[0], handles[BATCH_SIZE], handles[-1])]).wait()
    assert (
        [timeline.job.payload.data[-2:] for timeline in found]
        == [  # type: ignore[union-attr]
            note.call(number).new_job().payload.data[-2:] for number in (0, BATCH_SIZE, COUNT - 1)
        ]
    )


@pytest.mark.anyio
async def test_the_same_with_an_event_loop(app: Windlass) -> None:
    note = noting(app)
    handles = await app.aenqueue_many(note.call(number) for number in range(COUNT))
    assert len({handle.id for handle in handles}) == COUNT
    (stats,) = await (await app.aservice()).stats(["default"])
    assert stats.queued == COUNT


def test_calls_may_be_made_while_others_are_under_way(app: Windlass) -> None:
    note = noting(app)

    def calls() -> Iterator[Call[Any]]:
        for number in range(COUNT):
            if number % BATCH_SIZE == 3:
                note.enqueue(number)
            yield note.call(number)

    assert len(app.enqueue_many(calls())) == COUNT
    assert queued(app) == COUNT + 3


def test_what_was_sent_before_a_wrong_call_is_accepted(app: Windlass) -> None:
    note = noting(app)

    def calls() -> Iterator[Call[Any]]:
        for number in range(BATCH_SIZE + 1):
            yield note.call(number)
        yield note.using(priority="high").call(1)  # type: ignore[typeddict-item]

    with pytest.raises(BadInput, match="priority"):
        app.enqueue_many(calls())
    assert queued(app) == BATCH_SIZE
    note.enqueue(1)
    assert queued(app) == BATCH_SIZE + 1


def test_a_refusal_is_raised_when_the_step_after_it_has_been_answered(app: Windlass) -> None:
    note = noting(app)
    app.service.configure("default", {"max_length": 10}).wait()
    with pytest.raises(QueueFull):
        app.enqueue_many(note.call(number) for number in range(COUNT))
    assert queued(app) == 10


@pytest.mark.anyio
async def test_calls_that_are_awaited_one_by_one_are_refused_one_by_one(app: Windlass) -> None:
    note = noting(app)
    wrong = note.using(priority="high")  # type: ignore[typeddict-item]
    calls = [wrong if number % 3 == 0 else note for number in range(9)]
    answers = await asyncio.gather(*(task.aenqueue(1) for task in calls), return_exceptions=True)
    assert [isinstance(answer, BadInput) for answer in answers] == [number % 3 == 0 for number in range(9)]
    (stats,) = await (await app.aservice()).stats(["default"])
    assert stats.queued == 6
