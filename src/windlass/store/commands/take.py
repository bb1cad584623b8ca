"""take, and reports that travel with it (exchange)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import PartitionStopped, Refusal
from windlass.core.operations import ANYTHING, Exchanged, Fail, Filter, Take, Taken
from windlass.store.records.leased_record import unpack_held
from windlass.store.records.record import NOBODY

from .command import Argument, Call, answer, packed_words
from .reports import Repeats, Report, asked_as, fail_item, failed_as, finish_item, finished_as, packed_finishes


def filter_text(wants: Filter) -> str:
    """The filter as the scripts read it (lua/lib/workers/filter.lua)."""
    if wants == ANYTHING:
        return ""
    priority = ("h" if wants.hidden else "") + ("" if wants.priority is None else str(wants.priority))
    if wants.glob:
        return f"{priority}\1glob\1{wants.glob}"
    kind = "only" if wants.only else "except" if wants.all_but else ""
    return "\1".join((priority, kind, "\0".join(wants.only or wants.all_but)))


class Registration:
    """Under which bell a taker waits when there is nothing for it."""

    __slots__ = ("bell", "by_hand", "for_ms", "others_wait")

    def __init__(self, bell: str = "", for_ms: int = 0, others_wait: bool = False, by_hand: bool = False) -> None:
        self.bell = bell
        self.for_ms = for_ms
        self.others_wait = others_wait
        self.by_hand = by_hand  # its worker may be handed a job with the ring

    @property
    def kind(self) -> int:
        """As the scripts read it: a hand is offered by who waits alone."""
        return 1 if self.others_wait else 2 if self.by_hand else 0


UNREGISTERED = Registration()


class Partial:
    """What one call of take found; `resume` is where a long walk over lanes goes on."""

    __slots__ = ("now_ms", "resume", "taken")

    def __init__(self, taken: Taken, now_ms: int, resume: int) -> None:
        self.taken = taken
        self.now_ms = now_ms
        self.resume = resume


def _head(request: Take, registration: Registration, resume: int) -> list[Argument]:
    return [
        filter_text(request.wants),
        request.most,
        request.worker or NOBODY,
        request.lease_ms,
        request.accept_ms,
        registration.bell,
        registration.for_ms,
        registration.kind,
        resume,
    ]


def _read(reply: Any) -> Partial:
    now_ms, next_due, resume, entries, before, used_up = reply
    started_before = dict(zip(before[::2], before[1::2], strict=True)) if before else {}
    taken = Taken([unpack_held(entry) for entry in entries], next_due or None, started_before, used_up)
    return Partial(taken, now_ms, resume)


def take(
    request: Take,
    queues: Sequence[str],
    partition: int,
    registration: Registration = UNREGISTERED,
    resume: int = 0,
) -> Call[Partial | Refusal]:
    args = [*_head(request, registration, resume), *queues]
    return Call("take", args, lambda reply: answer(reply, _read), partition=partition)


def finish_and_take(
    request: Take,
    queues: Sequence[str],
    partition: int,
    finishes: Sequence[Report],
    failures: Sequence[Fail],
) -> Call[Exchanged | list[Repeats | None]]:
    """Answers questions alone when some of the finished jobs repeat; see `reports.Repeats`."""
    return _Exchange(_head(request, UNREGISTERED, 0), queues, partition, finishes, failures)


class _Exchange(Call[Exchanged | list[Repeats | None]]):
    """Where nothing failed, its arguments are not made one by one: a worker with many slots reports many."""

    __slots__ = ("_failures", "_finishes", "_head", "_queues")

    def __init__(
        self,
        head: list[Argument],
        queues: Sequence[str],
        partition: int,
        finishes: Sequence[Report],
        failures: Sequence[Fail],
    ) -> None:
        super().__init__("finish_and_take", (), _read_exchange, partition=partition)
        self._head = (*head, len(finishes), len(failures))
        self._queues = queues
        self._finishes = finishes
        self._failures = failures

    @property
    def args(self) -> Sequence[Argument]:
        args = list(self._head)
        for finish in self._finishes:
            args += finish_item(finish)
        for fail in self._failures:
            args += fail_item(fail)
        return [*args, *self._queues]

    def packed(self, beginning: tuple[Argument, ...]) -> bytes:
        finishes = None if self._failures else packed_finishes(self._finishes)
        if finishes is None:
            return super().packed(beginning)
        start = (*beginning, *self._head)
        size = b"*%d\r\n" % (len(start) + len(self._finishes) + len(self._queues))
        return b"".join((size, packed_words(start), *finishes, packed_words(tuple(self._queues))))


def _read_exchange(reply: Any) -> Exchanged | list[Repeats | None]:
    finished, failed, partial = reply
    if partial is None:
        return [asked_as(one) for one in finished]
    found = answer(partial, _read)
    if isinstance(found, PartitionStopped):  # the outcomes are reported all the same
        found = Partial(Taken([], None), 0, 0)
    if isinstance(found, Refusal):
        raise found
    return Exchanged(
        [None] * finished if type(finished) is int else [answer(one, finished_as) for one in finished],
        [answer(one, failed_as) for one in failed],
        found.taken,
    )
