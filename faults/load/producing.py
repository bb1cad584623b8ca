"""A producer, whichever front end it speaks: it enqueues, writes down what it was told, and repeats what it was not
told where that makes no second job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..history import Seen
from .life import Life, Refused, Unanswered
from .wishes import Menu, Wish, Wishes

PAUSE_S = 0.02


class Counter(Protocol):
    """Where jobs are handed in."""

    is_repeatable: bool  # an enqueue that is repeated makes no second job

    async def enqueue(self, wishes: Sequence[Wish]) -> Sequence[Seen]:
        """For each its id and outcome, or the code of a refusal. Refused, Unanswered: of all of them."""


async def produce(life: Life, counter: Counter, menu: Menu, *, pause_s: float = PAUSE_S) -> None:
    wishes = Wishes(life, menu)
    while not life.is_over:
        some = wishes.some()
        while not await handed_in(life, counter, some) and counter.is_repeatable and not life.is_over:
            await life.pause(0.1)
        await life.pause(pause_s * 2 * life.random.random())


async def handed_in(life: Life, counter: Counter, wishes: Sequence[Wish]) -> bool:
    """False: nobody knows."""
    pending = life.recorder.begin("enqueue", [wish.seen() for wish in wishes])
    try:
        pending.ok(await counter.enqueue(wishes))
    except Refused as refused:
        pending.refused(refused.code)
    except Unanswered as trouble:
        pending.unknown(str(trouble))
        return False
    return True
