"""Workers that speak by messages: hear, assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass.core.errors import Refusal
from windlass.core.operations import Heard, Held, Said
from windlass.store.records.record import pack_blob

from .command import Argument, Call, ItemsCall, answer, answering, text
from .push import Found, read_found
from .take import UNREGISTERED, Registration

_encode = msgspec.msgpack.Encoder().encode


def _item(one: Said, says: str) -> tuple[Argument, ...]:
    return (
        one.queue,
        one.worker,
        _encode(one.info),
        says,
        one.unique,
        one.id,
        one.age_ms,
        one.idle_ms,
        round(one.progress * 1_000_000),
        pack_blob(one.result),
    )


def _heard(reply: Any) -> Heard | Held:
    """Held: the finished job repeats, and is to be finished with its next run."""
    return Held(*reply) if isinstance(reply, list) else cast(Heard, text(reply))


def report_worker(ones: Sequence[Said], silent_ms: int, partition: int) -> ItemsCall[Any]:
    items = [_item(one, one.says) for one in ones]
    return ItemsCall("report_worker", (silent_ms,), items, answering(_heard), partition=partition)


def hear_of(ones: Sequence[Said], silent_ms: int, partition: int) -> ItemsCall[Any]:
    """Only that these workers are there."""
    items = [_item(one, "heard") for one in ones]
    return ItemsCall("report_worker", (silent_ms,), items, answering(_heard), partition=partition)


def assign(
    queues: Sequence[str],
    most: int,
    accept_ms: int,
    spends_attempt: bool,
    partition: int,
    registration: Registration = UNREGISTERED,
) -> Call[Found | Refusal]:
    args: list[Argument] = [most, accept_ms, int(spends_attempt), registration.bell, registration.for_ms, *queues]
    return Call("assign", args, lambda reply: answer(reply, read_found), partition=partition)
