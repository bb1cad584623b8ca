"""What one node of the engine says of itself, as far as people want to know it."""

from __future__ import annotations

import msgspec

from .diagnosis import Finding
from .durability import DurabilityInForce


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node, whatever number of partitions it serves."""

    product: str  # redis or valkey
    version: str
    partitions: tuple[int, ...]
    round_trip_us: int  # of one question, measured from here
    uptime_ms: int
    memory: int  # bytes
    memory_peak: int
    memory_max: int  # 0: no bound but the machine's
    memory_system: int  # of the machine; 0: it does not say
    log_bytes: int  # of the append-only file; 0: there is none
    has_log: bool
    durability: DurabilityInForce  # what a crash loses
    fsync: str  # always, everysec, no; empty: it does not say
    is_rewriting: bool  # its file
    saved_at_ms: int  # its last snapshot
    connections: int
    connections_max: int
    waiting: int  # of them: blocked until something happens
    commands_per_second: int
    replicas: int
    clock_off_ms: int  # against this machine's
    findings: tuple[Finding, ...]  # what is at risk in its settings
