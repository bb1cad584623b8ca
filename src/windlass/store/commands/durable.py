"""Commands about durable state: steps, suspensions, signals, streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from windlass.core.durable import (
    DurableState,
    OpenWaits,
    ReceiveSignal,
    Rewind,
    Signal,
    SignalOutcome,
    Step,
    StoreStep,
    StreamPage,
    StreamWrite,
    Suspend,
    SuspendOutcome,
)
from windlass.core.errors import Refusal
from windlass.core.states import State
from windlass.store.records.attempt import pack_blob
from windlass.store.records.durable_state import pack_wait, unpack_durable_state, unpack_step, unpack_stream_item

from .command import Argument, BatchCommand, Command, decode_text, ignore_reply, parse_read_reply, reply_parser


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


def receive_signals(requests: Sequence[ReceiveSignal], partition: int) -> BatchCommand[Step | Refusal | None]:
    items = [(request.id, request.token, request.name.encode(), request.signal.encode()) for request in requests]

    def read(reply: Any) -> Step | None:
        return unpack_step(str(reply[0], "utf-8"), reply[1]) if reply else None

    return BatchCommand("receive_signals", (), items, reply_parser(read), partition=partition)


def _signal_item(request: Signal) -> tuple[Argument, ...]:
    occurrence = "" if request.occurrence_at_ms is None else request.occurrence_at_ms
    value, name = pack_blob(request.value), request.name.encode()
    return request.id, name, request.request_id, value, occurrence, int(request.is_one_time)


def signal(requests: Sequence[Signal], partition: int) -> BatchCommand[SignalOutcome | Refusal]:
    items = [_signal_item(request) for request in requests]
    read = reply_parser(lambda reply: cast(SignalOutcome, decode_text(reply)))
    return BatchCommand("signal", (), items, read, partition=partition)


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


def _stream_item(request: StreamWrite) -> tuple[Argument, ...]:
    packed = [pack_blob(value) for value in request.values]
    values = b"".join(part for value in packed for part in (len(value).to_bytes(4, "big"), value))
    return request.id, request.token, request.sequence, "" if request.outside is None else request.outside, values


def write_stream(requests: Sequence[StreamWrite], partition: int) -> BatchCommand[int | Refusal]:
    items = [_stream_item(request) for request in requests]
    return BatchCommand("write_stream", (), items, reply_parser(int), partition=partition)


def _read_stream_page(reply: Any, after: int) -> StreamPage:
    code, last, found = reply
    state = State(code)
    items = [unpack_stream_item(found[at], found[at + 1]) for at in range(0, len(found), 2)]
    position = items[-1].position if items else after
    return StreamPage(items, state.is_ended and position >= last, last, state)


def read_stream(job_id: bytes, after: int, most: int, partition: int) -> Command[StreamPage | Refusal]:
    def read(reply: Any) -> StreamPage | Refusal:
        return parse_read_reply(reply, lambda parts: _read_stream_page(parts, after))

    return Command("read_stream", (job_id, after, most), read, partition=partition)
