"""Take command, and take with reports of finished and failed jobs (finish_and_take)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import PartitionStopped, Refusal
from windlass.core.operations import ANY_JOB, ANY_JOB_WITH_STEPS, Fail, Filter, FinishedAndTaken, Take, Taken
from windlass.store.records.holder_ids import NO_ID
from windlass.store.records.leased_record import unpack_leased

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

_ANY_WITH_STEPS = "s\1\1"


def filter_text(wants: Filter) -> str:
    """Return the filter in the form that scripts read (lua/lib/workers/taker_filter.lua)."""
    if wants is ANY_JOB_WITH_STEPS:
        return _ANY_WITH_STEPS
    if wants == ANY_JOB:
        return ""
    priority = (
        ("h" if wants.hidden else "")
        + ("s" if wants.steps else "")
        + ("" if wants.priority is None else str(wants.priority))
    )
    if wants.glob:
        return f"{priority}\1glob\1{wants.glob}"
    kind = "only" if wants.only else "except" if wants.all_but else ""
    return "\1".join((priority, kind, "\0".join(wants.only or wants.all_but)))


class WaitRegistration:
    """Registration of a taker for a wakeup if there is no job for it."""

    __slots__ = ("direct_handoff", "for_ms", "others_wait", "wakeup_list")

    def __init__(
        self, wakeup_list: str = "", for_ms: int = 0, others_wait: bool = False, direct_handoff: bool = False
    ) -> None:
        self.wakeup_list = wakeup_list
        self.for_ms = for_ms
        self.others_wait = others_wait
        self.direct_handoff = direct_handoff  # a job may be handed to its worker with the wakeup

    @property
    def kind(self) -> int:
        """Code for the scripts. Only a taker that waits alone can receive a direct handoff."""
        return 1 if self.others_wait else 2 if self.direct_handoff else 0


UNREGISTERED = WaitRegistration()


class TakeResult:
    """Result of one take command. `resume` is where a long scan over lanes continues."""

    __slots__ = ("now_ms", "resume", "taken")

    def __init__(self, taken: Taken, now_ms: int, resume: int) -> None:
        self.taken = taken
        self.now_ms = now_ms
        self.resume = resume

    @property
    def due_in_s(self) -> float | None:
        return seconds_until(self.taken.next_due_at_ms, self.now_ms)


def seconds_until(due_at_ms: int | None, now_ms: int) -> float | None:
    """Return the seconds until an instant, by the engine's clock; None if there is no instant."""
    return None if due_at_ms is None else max(0, due_at_ms - now_ms) / 1000


def _head(request: Take, registration: WaitRegistration, resume: int) -> list[Argument]:
    return [
        filter_text(request.wants),
        request.most,
        request.worker or NO_ID,
        request.lease_ms or -request.fallback_lease_ms,
        request.accept_ms,
        registration.wakeup_list,
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
    """Report and take. If some finished jobs repeat, the reply only asks for their next runs (`NextRunNeeded`)."""
    return _FinishAndTake(_head(request, UNREGISTERED, 0), queues, partition, finishes, failures)


class _FinishAndTake(Command[FinishedAndTaken | list[NextRunNeeded | None]]):
    """Finish-and-take command. Without failures it encodes all finishes at once, because busy workers report many."""

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

    def encode(self, prefix: tuple[Argument, ...]) -> bytes:
        finishes = None if self._failures else encode_finishes(self._finishes)
        if finishes is None:
            return super().encode(prefix)
        words = (*prefix, *self._head)
        size = b"*%d\r\n" % (len(words) + len(self._finishes) + len(self._queues))
        return b"".join((size, encode_words(words), *finishes, encode_words(tuple(self._queues))))


def _read_finished_and_taken(reply: Any) -> FinishedAndTaken | list[NextRunNeeded | None]:
    finished, failed, partial = reply
    if partial is None:
        return [read_next_run_needed(answer) for answer in finished]
    found = parse_reply(partial, _read)
    if isinstance(found, PartitionStopped):  # the outcomes were reported nevertheless
        found = TakeResult(Taken([], None), 0, 0)
    if isinstance(found, Refusal):
        raise found
    return FinishedAndTaken(
        [None] * finished if type(finished) is int else [parse_reply(answer, read_finished) for answer in finished],
        [parse_reply(answer, read_failed) for answer in failed],
        found.taken,
    )
