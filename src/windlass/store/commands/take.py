"""take, and reports that travel with it (exchange)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import PartitionStopped, Refusal
from windlass.core.operations import ANY_JOB, Fail, Filter, FinishedAndTaken, Take, Taken
from windlass.store.records.leased_record import unpack_leased
from windlass.store.records.record import NOBODY

from .command import Argument, Command, encode_words, parse_reply
from .reports import (
    FinishReport,
    NextRunNeeded,
    encode_finishes,
    fail_item,
    finish_item,
    read_failed,
    read_finished,
    read_next_run_needed,
)


def filter_text(wants: Filter) -> str:
    """The filter as the scripts read it (lua/lib/workers/filter.lua)."""
    if wants == ANY_JOB:
        return ""
    priority = ("h" if wants.hidden else "") + ("" if wants.priority is None else str(wants.priority))
    if wants.glob:
        return f"{priority}\1glob\1{wants.glob}"
    kind = "only" if wants.only else "except" if wants.all_but else ""
    return "\1".join((priority, kind, "\0".join(wants.only or wants.all_but)))


class WaitRegistration:
    """Under which bell a taker waits when there is nothing for it."""

    __slots__ = ("bell", "direct_handoff", "for_ms", "others_wait")

    def __init__(self, bell: str = "", for_ms: int = 0, others_wait: bool = False, direct_handoff: bool = False) -> None:
        self.bell = bell
        self.for_ms = for_ms
        self.others_wait = others_wait
        self.direct_handoff = direct_handoff  # its worker may be handed a job with the ring

    @property
    def kind(self) -> int:
        """As the scripts read it: a hand is offered by who waits alone."""
        return 1 if self.others_wait else 2 if self.direct_handoff else 0


UNREGISTERED = WaitRegistration()


class TakeResult:
    """What one call of take found; `resume` is where a long walk over lanes goes on."""

    __slots__ = ("now_ms", "resume", "taken")

    def __init__(self, taken: Taken, now_ms: int, resume: int) -> None:
        self.taken = taken
        self.now_ms = now_ms
        self.resume = resume


def _head(request: Take, registration: WaitRegistration, resume: int) -> list[Argument]:
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


def _read(reply: Any) -> TakeResult:
    now_ms, next_due, resume, entries, before, used_up = reply
    started_before = dict(zip(before[::2], before[1::2], strict=True)) if before else {}
    taken = Taken([unpack_leased(entry) for entry in entries], next_due or None, started_before, used_up)
    return TakeResult(taken, now_ms, resume)


def take(
    request: Take,
    queues: Sequence[str],
    partition: int,
    registration: WaitRegistration = UNREGISTERED,
    resume: int = 0,
) -> Command[TakeResult | Refusal]:
    args = [*_head(request, registration, resume), *queues]
    return Command("take", args, lambda reply: parse_reply(reply, _read), partition=partition)


def finish_and_take(
    request: Take,
    queues: Sequence[str],
    partition: int,
    finishes: Sequence[FinishReport],
    failures: Sequence[Fail],
) -> Command[FinishedAndTaken | list[NextRunNeeded | None]]:
    """Answers questions alone when some of the finished jobs repeat; see `reports.Repeats`."""
    return _FinishAndTake(_head(request, UNREGISTERED, 0), queues, partition, finishes, failures)


class _FinishAndTake(Command[FinishedAndTaken | list[NextRunNeeded | None]]):
    """Where nothing failed, its arguments are not made one by one: a worker with many slots reports many."""

    __slots__ = ("_failures", "_finishes", "_head", "_queues")

    def __init__(
        self,
        head: list[Argument],
        queues: Sequence[str],
        partition: int,
        finishes: Sequence[FinishReport],
        failures: Sequence[Fail],
    ) -> None:
        super().__init__("finish_and_take", (), _read_finished_and_taken, partition=partition)
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
        finishes = None if self._failures else encode_finishes(self._finishes)
        if finishes is None:
            return super().packed(beginning)
        start = (*beginning, *self._head)
        size = b"*%d\r\n" % (len(start) + len(self._finishes) + len(self._queues))
        return b"".join((size, encode_words(start), *finishes, encode_words(tuple(self._queues))))


def _read_finished_and_taken(reply: Any) -> FinishedAndTaken | list[NextRunNeeded | None]:
    finished, failed, partial = reply
    if partial is None:
        return [read_next_run_needed(one) for one in finished]
    found = parse_reply(partial, _read)
    if isinstance(found, PartitionStopped):  # the outcomes are reported all the same
        found = TakeResult(Taken([], None), 0, 0)
    if isinstance(found, Refusal):
        raise found
    return FinishedAndTaken(
        [None] * finished if type(finished) is int else [parse_reply(one, read_finished) for one in finished],
        [parse_reply(one, read_failed) for one in failed],
        found.taken,
    )
