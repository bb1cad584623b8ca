"""A worker, whichever front end it speaks: it takes jobs, keeps them a little, and reports in one of many ways,
some of them too late. It writes down every lease and every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from ..history import CallName, Seen
from .life import Life, Refused, Unanswered

Manner: TypeAlias = Literal["finish", "extend", "retry", "give_up", "release", "sleep", "abandon"]


class Conduct(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker behaves."""

    queues: tuple[str, ...] = ("plain",)
    slots: int = 2
    most: int = 2  # jobs at once
    lease_ms: int = 2_000
    work_ms: int = 20  # at most
    wait_ms: int = 500
    manners: tuple[Manner, ...] = ("finish",)


STEADY: tuple[Manner, ...] = ("finish",)
ROUGH: tuple[Manner, ...] = (
    *("finish",) * 12,
    *("extend",) * 2,
    *("retry",) * 2,
    "give_up",
    "release",
    "sleep",
    "abandon",
)


class Bench(Protocol):
    """Where jobs are taken, and where those who hold them report. Each answers for each job an outcome or the code of a
    refusal. Refused, Unanswered: of all of them."""

    manners: frozenset[Manner]  # what the front end has words for

    @property
    def link(self) -> str:
        """The connection that leases are bound to; empty: to none."""

    async def ready(self) -> None:
        """Whatever must be there before a call, such as a connection."""

    async def take(self, conduct: Conduct) -> Sequence[Seen]: ...
    async def finish(self, held: Seen) -> Seen: ...
    async def fail(self, held: Seen, *, final: bool, delay_ms: int) -> Seen: ...
    async def release(self, held: Seen) -> Seen: ...
    async def extend(self, held: Seen, lease_ms: int) -> Seen: ...


async def work(life: Life, benches: Sequence[Bench], conduct: Conduct) -> None:
    """A slot at each bench: side by side, each with one lot at a time."""
    await asyncio.gather(*(_slot(life, bench, conduct) for bench in benches))


async def _slot(life: Life, bench: Bench, conduct: Conduct) -> None:
    manners = [one for one in conduct.manners if one in bench.manners]
    while not life.is_over:
        async with life.surviving():
            for held in await taken(life, bench, conduct):
                await _deal_with(life, bench, conduct, held, life.random.choice(manners))


async def taken(life: Life, bench: Bench, conduct: Conduct) -> Sequence[Seen]:
    await bench.ready()
    pending = life.recorder.begin("take", link=bench.link)
    try:
        jobs = await bench.take(conduct)
    except Refused as refused:
        pending.refused(refused.code)
        raise
    except Unanswered as trouble:
        pending.unknown(str(trouble))
        raise
    pending.ok(jobs)
    return jobs


async def _deal_with(life: Life, bench: Bench, conduct: Conduct, held: Seen, manner: Manner) -> None:
    await life.pause(life.random.random() * conduct.work_ms / 1000)
    if manner == "abandon":
        return
    if manner == "sleep":
        await life.pause(conduct.lease_ms * 1.5 / 1000)
    if manner == "extend":
        await _beat(life, bench, held, conduct.lease_ms)
    if manner in ("retry", "give_up"):
        await _fail(life, bench, held, is_final=manner == "give_up" or held.attempt == held.tries > 0)
    elif manner == "release":
        await told(life, bench, "release", held, lambda: bench.release(held))
    else:
        await told(life, bench, "finish", held, lambda: bench.finish(held))


async def _beat(life: Life, bench: Bench, held: Seen, lease_ms: int) -> None:
    """Works longer than its first lease."""
    for _ in range(2):
        await life.pause(lease_ms * 0.7 / 1000)
        await told(life, bench, "extend", held, lambda: bench.extend(held, lease_ms))


async def _fail(life: Life, bench: Bench, held: Seen, *, is_final: bool) -> None:
    delay_ms = 0 if is_final else life.random.randrange(100)
    asked = msgspec.structs.replace(held, outcome="failed" if is_final else "retried")
    await told(life, bench, "fail", asked, lambda: bench.fail(held, final=is_final, delay_ms=delay_ms))


async def told(life: Life, bench: Bench, call: CallName, held: Seen, ask: Callable[[], Awaitable[Seen]]) -> Seen | None:
    """Asks, and writes down what the answer is; None when there is none."""
    await bench.ready()
    about = Seen(key=held.key, id=held.id, token=held.token, outcome=held.outcome if call == "fail" else "")
    pending = life.recorder.begin(call, [about], link=bench.link)
    try:
        answer = await ask()
    except Refused as refused:
        pending.refused(refused.code)
        return None
    except Unanswered as trouble:
        pending.unknown(str(trouble))
        return None
    pending.ok([answer])
    return answer
