"""State of one engine node, for people."""

from __future__ import annotations

import msgspec

from .diagnosis import Finding
from .durability import DurabilityInForce


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one node. A node may serve several partitions."""

    product: str  # redis or valkey
    version: str
    partitions: tuple[int, ...]
    round_trip_us: int  # of one command, measured by this process
    uptime_ms: int
    memory: int  # bytes
    memory_peak: int
    memory_max: int  # 0: bounded by the machine only
    memory_system: int  # of the machine; 0: unknown
    log_bytes: int  # size of the append-only file; 0: there is none
    has_log: bool
    durability: DurabilityInForce
    fsync: str  # always, everysec, no; empty: unknown
    is_rewriting: bool  # the append-only file is being rewritten
    saved_at_ms: int  # time of the last snapshot
    connections: int
    connections_max: int
    waiting: int  # connections that are blocked in a waiting command
    commands_per_second: int
    replicas: int
    clock_off_ms: int  # difference to this machine's clock
    findings: tuple[Finding, ...]  # risks in its settings
