"""Commands about steps and suspensions of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from windlass.core.durable import (
    DurableState,
    OpenWaits,
    Rewind,
    StoreStep,
    Suspend,
    SuspendOutcome,
)
from windlass.core.errors import Refusal
from windlass.store.commands.command import (
    Argument,
    BatchCommand,
    decode_text,
    ignore_reply,
    parse_read_reply,
    reply_parser,
)
from windlass.store.records.attempt import pack_blob
from windlass.store.records.durable_state import pack_wait, unpack_durable_state, unpack_step


def _step_item(request: StoreStep) -> tuple[Argument, ...]:
    return (
        request.id,
        request.token,
        request.name.encode(),
        int(request.kind),
        int(request.status),
        request.tries,
        request.ran_ms,
        request.lease_ms,
        pack_blob(request.value),
    )


def store_steps(requests: Sequence[StoreStep], partition: int) -> BatchCommand[Refusal | None]:
    items = [_step_item(request) for request in requests]
    return BatchCommand("store_steps", (), items, reply_parser(ignore_reply), partition=partition)


def suspend(requests: Sequence[Suspend], partition: int) -> BatchCommand[SuspendOutcome | Refusal]:
    items = [(request.id, request.token, b"".join(map(pack_wait, request.waits))) for request in requests]
    read = reply_parser(lambda reply: cast(SuspendOutcome, decode_text(reply)))
    return BatchCommand("suspend", (), items, read, partition=partition)


def durable_states(ids: Sequence[bytes], partition: int) -> BatchCommand[DurableState | Refusal]:
    return BatchCommand(
        "durable_states",
        (),
        [(job_id,) for job_id in ids],
        lambda reply: parse_read_reply(reply, lambda parts: unpack_durable_state(*parts)),
        partition=partition,
    )


def open_waits(ids: Sequence[bytes], partition: int) -> BatchCommand[OpenWaits | Refusal]:
    def read(parts: Any) -> OpenWaits:
        now_ms, suspended_at_ms, found = parts
        steps = tuple(unpack_step(str(found[at], "utf-8"), found[at + 1]) for at in range(0, len(found), 2))
        return OpenWaits(now_ms=now_ms, suspended_at_ms=suspended_at_ms or None, steps=steps)

    items = [(job_id,) for job_id in ids]
    return BatchCommand("open_waits", (), items, lambda reply: parse_read_reply(reply, read), partition=partition)


def rewind(requests: Sequence[Rewind], partition: int) -> BatchCommand[int | Refusal]:
    items = [(request.id, request.step.encode()) for request in requests]
    return BatchCommand("rewind", (), items, reply_parser(int), partition=partition)
