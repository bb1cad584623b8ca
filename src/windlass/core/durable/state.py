"""Durable state of a job, read at one instant."""

from __future__ import annotations

import msgspec

from .signals import UnreadSignal
from .steps import Step


class DurableState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored for the durable calls of a job, read at one instant."""

    now_ms: int  # time of the engine
    steps: tuple[Step, ...] = ()  # in their order
    signals: tuple[UnreadSignal, ...] = ()  # unread, oldest first
    suspensions: int = 0
    suspended_at_ms: int | None = None  # since when it is suspended
    waits: tuple[str, ...] = ()  # names of the steps for which it is suspended
    round: int = 0  # how often a person has retried or rewound the job
    has_yielded: bool = False  # it has finished a run while children had not ended
    stream_writes: int = 0  # values written to its stream outside of steps
    stream_length: int = 0  # entries of its stream
    bytes: int = 0


class OpenWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Waits of a suspended job, without values. A job that is not suspended has none."""

    now_ms: int  # time of the engine
    suspended_at_ms: int | None = None
    steps: tuple[Step, ...] = ()
