"""State of each engine node, from a few commands that read no jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from windlass.core.diagnosis import Finding
from windlass.core.engine_state import EngineState
from windlass.core.job import Durability
from windlass.store.commands.command import Flow, NodeCommand
from windlass.store.embedded.data_directory import Cut
from windlass.store.scripts import library

from .health import CONFIG, INFO, LIBRARIES, TIME, EngineReport, check_calls, check_cuts, check_engine, read_engine
from .requirements import info_fields

SERVER = ("INFO", "server")


def engines_flow(
    homes: Sequence[int],
    durability: Durability,
    cuts: Sequence[Cut] = (),
    *,
    is_managed: bool = False,
    scripts_because: str = "",
) -> Flow[list[EngineState]]:
    nodes = yield from _nodes(homes)
    found = []
    for partitions in nodes:
        started_s = time.perf_counter()
        yield NodeCommand(TIME, partitions[0])
        round_trip_us = round((time.perf_counter() - started_s) * 1_000_000)
        replies = yield [NodeCommand(command, partitions[0]) for command in (INFO, CONFIG, LIBRARIES, TIME)]
        now_ms = int(time.time() * 1000)
        engine = read_engine(replies, now_ms, durability, library().name, is_managed=is_managed)
        findings = [*check_engine(engine), *check_cuts(cuts, now_ms), *check_calls(scripts_because)]
        found.append(_state(engine, partitions, round_trip_us, findings))
    return found


def _nodes(homes: Sequence[int]) -> Flow[list[tuple[int, ...]]]:
    """Group the partitions by the node that serves them."""
    by_node: dict[str, list[int]] = {}
    replies = yield [NodeCommand(SERVER, home) for home in homes]
    for home, reply in zip(homes, replies, strict=True):
        fields = info_fields(reply.decode(errors="replace")) if isinstance(reply, bytes) else {}
        by_node.setdefault(fields.get("run_id", ""), []).append(home)
    return [tuple(partitions) for partitions in by_node.values()]


def _state(
    engine: EngineReport, partitions: tuple[int, ...], round_trip_us: int, findings: Sequence[Finding]
) -> EngineState:
    return EngineState(
        product=engine.product,
        version=engine.version,
        partitions=partitions,
        round_trip_us=round_trip_us,
        uptime_ms=engine.number("uptime_in_seconds") * 1000,
        memory=engine.number("used_memory"),
        memory_peak=engine.number("used_memory_peak"),
        memory_max=engine.number("maxmemory"),
        memory_system=engine.number("total_system_memory"),
        log_bytes=engine.number("aof_current_size"),
        has_log=engine.has_log,
        durability=engine.durability_in_force,
        fsync=(engine.config or {}).get("appendfsync", ""),
        is_rewriting=engine.number("aof_rewrite_in_progress") > 0,
        saved_at_ms=engine.number("rdb_last_save_time") * 1000,
        connections=engine.number("connected_clients"),
        connections_max=engine.number("maxclients"),
        waiting=engine.number("blocked_clients"),
        commands_per_second=engine.number("instantaneous_ops_per_sec"),
        replicas=engine.number("connected_slaves"),
        clock_off_ms=engine.clock_off_ms,
        findings=tuple(sorted(findings, key=lambda finding: (finding.severity, finding.code))),
    )
