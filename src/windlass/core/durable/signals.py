"""Signals: values that a job waits for."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.job import Blob


class UnreadSignal(msgspec.Struct, frozen=True):
    """A signal that no wait has received yet."""

    name: str
    at_ms: int
    value: Blob


class ReceiveSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a holder to assign the oldest unread signal of this name to the wait of this name."""

    id: bytes
    token: int
    name: str  # of the wait
    signal: str


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A value for a job that waits for it, or will."""

    id: bytes
    name: str
    value: Blob
    request_id: bytes = b""  # 16 bytes; a repeated request with the same id has no effect
    # Only for this occurrence: the planned instant of a repeating job, 0 of another. None: any
    occurrence_at_ms: int | None = None
    is_one_time: bool = False  # the request id is remembered as long as the job; else, with the last 100


# `received`: the job waits for it and continues; `kept`: until the job asks for it; `repeated`: this request id was
# seen before, and nothing has changed.
SignalOutcome: TypeAlias = Literal["received", "kept", "repeated"]
