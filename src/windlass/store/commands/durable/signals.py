"""Commands about signals to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from windlass.core.durable import (
    ReceiveSignal,
    Signal,
    SignalOutcome,
    Step,
)
from windlass.core.errors import Refusal
from windlass.store.commands.command import (
    Argument,
    BatchCommand,
    decode_text,
    reply_parser,
)
from windlass.store.records.attempt import pack_blob
from windlass.store.records.durable_state import unpack_step


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
