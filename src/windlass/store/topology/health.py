"""Health checks of an engine, from the replies to INFO, CONFIG, FUNCTION LIST and TIME. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from windlass.core.diagnosis import Finding, Severity
from windlass.core.durability import DurabilityInForce, PersistenceSettings, assess_durability
from windlass.core.errors import EngineNotPermitted, WindlassError
from windlass.core.job import Durability
from windlass.store.embedded.data_directory import Cut

from .permissions import explain_refusal
from .requirements import confirms_writes, info_fields, is_evicting_jobs, version_number

NEARLY_FULL = 0.8
CLOCK_TOLERANCE_MS = 2_000
SLOW_FORK_MS = 1_000
BUSY_THRESHOLD_MIN_MS = 1_000
CUT_REPORTED_MS = 7 * 86_400_000
INFO = ("INFO", "everything")
CONFIG = (
    *("CONFIG", "GET", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "min-replicas-to-write"),
    "busy-reply-threshold",
)
LIBRARIES = ("FUNCTION", "LIST", "LIBRARYNAME", "windlass_*")
TIME = ("TIME",)
EVICTED_EARLY = (
    "Jobs are safe. When memory runs short, throttle periods, rates, ids of ended jobs and logouts are forgotten early."
)
_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE


class EngineReport(NamedTuple):
    """State of one engine, as it reports it."""

    info: dict[str, str]
    config: dict[str, str] | None  # None: the provider forbids CONFIG GET
    libraries: list[str]  # of Windlass
    clock_off_ms: int  # its clock minus this machine's
    durability: Durability  # as configured
    own_library: str
    unknown_because: str = ""  # why INFO or CONFIG was refused
    is_managed: bool = False  # its operator declares that the service makes each write durable

    def number(self, name: str) -> int:
        return int(self.info.get(name, "0") or 0)

    @property
    def run_id(self) -> str:
        return self.info.get("run_id", "")

    @property
    def has_log(self) -> bool:
        return self.info.get("aof_enabled") == "1"

    @property
    def durability_in_force(self) -> DurabilityInForce:
        config = self.config or {}
        knows_log = self.info.get("aof_enabled") or {"yes": "1", "no": "0"}.get(config.get("appendonly", ""))
        found = PersistenceSettings(
            has_log=None if knows_log is None else knows_log == "1",
            fsync=config.get("appendfsync", ""),
            pauses_fsync=config.get("no-appendfsync-on-rewrite") == "yes",
            save=config.get("save"),
            replicas=self.number("connected_slaves") if self.info else None,
            replicas_needed=int(config.get("min-replicas-to-write", 0)),
            confirms_writes=confirms_writes(self.info),
            unknown_because=self.unknown_because,
            is_managed=self.is_managed,
        )
        return assess_durability(found, self.durability)

    @property
    def product(self) -> str:
        return "valkey" if "valkey_version" in self.info else "redis"

    @property
    def version(self) -> str:
        return self.info.get("valkey_version") or self.info.get("redis_version", "?")


def read_engine(
    replies: list[Any], here_ms: int, durability: Durability, own_library: str, *, is_managed: bool = False
) -> EngineReport:
    """Read the replies to INFO, CONFIG, LIBRARIES and TIME. Refusals are error values among them."""
    info, config, libraries, instant = replies
    clock_ms = int(instant[0]) * 1000 + int(instant[1]) // 1000 if isinstance(instant, list) else here_ms
    return EngineReport(
        info_fields(info.decode(errors="replace")) if isinstance(info, bytes) else {},
        _pairs(config) if isinstance(config, list) else None,
        [_pairs(entry)["library_name"] for entry in libraries] if isinstance(libraries, list) else [],
        clock_ms - here_ms,
        durability,
        own_library,
        _refusal(info, config),
        is_managed,
    )


def read_durability(info: Any, config: Any, durability: Durability, *, is_managed: bool = False) -> DurabilityInForce:
    """Read the durability from the replies to INFO and CONFIG alone."""
    return read_engine([info, config, None, None], 0, durability, "", is_managed=is_managed).durability_in_force


def _refusal(*replies: Any) -> str:
    for reply, command in zip(replies, ("INFO", "CONFIG GET"), strict=True):
        if isinstance(reply, WindlassError) and isinstance(explain_refusal(reply), EngineNotPermitted):
            return f"the engine's user may not call {command}"
        if isinstance(reply, WindlassError):
            return f"the engine refuses {command} ({reply})"
    return ""


def _pairs(flat: list[Any]) -> dict[str, str]:
    texts = [part.decode(errors="replace") if isinstance(part, bytes) else "" for part in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def check_engine(engine: EngineReport) -> list[Finding]:
    checks = (_safety, _writing, _confirming, _memory, _connections, _surroundings)
    return [finding for check in checks for finding in check(engine)]


def check_calls(scripts_because: str) -> list[Finding]:
    """Report that operations are called by scripts, and why. Empty: they are called by functions."""
    if not scripts_because:
        return []
    found = _finding(
        "calls_by_scripts", _N, f"Windlass calls its operations by scripts, because {scripts_because}.",
        "All features work; each call takes the engine longer, as it builds its code again.",
        "Let an admin run `windlass engine prepare` and grant +fcall, if the engine offers functions.",
    )  # fmt: skip
    return [found]


def check_cuts(cuts: Sequence[Cut], now_ms: int) -> list[Finding]:
    """Report bytes that were cut off the embedded engine's files in the last week."""
    recent = [cut for cut in cuts if cut.at_ms >= now_ms - CUT_REPORTED_MS]
    if not recent:
        return []
    cut_bytes = sum(cut.bytes for cut in recent)
    found = _finding(
        "data_cut", _W, f"{cut_bytes:,} unreadable bytes were cut off the engine's append-only file.",
        "After a crash this is an unacknowledged write; otherwise acknowledged jobs may be missing.",
        "Compare with a backup if there was no crash. This is reported for a week.",
        *(_describe_cut(cut) for cut in reversed(recent)),
    )  # fmt: skip
    return [found]


def _describe_cut(cut: Cut) -> str:
    at = datetime.fromtimestamp(cut.at_ms / 1000, UTC)
    by = "a repair" if cut.by == "repair" else "the engine's start"
    return f"{cut.bytes:,} bytes off {cut.file} after byte {cut.offset:,}, by {by} at {at:%Y-%m-%d %H:%M:%S} UTC"


def _finding(code: str, severity: Severity, what: str, risk: str, remedy: str, *examples: str) -> Finding:
    return Finding(
        code=code, severity=severity, what=what, risk=risk, remedy=remedy, count=max(1, len(examples)),
        examples=examples[:10],
    )  # fmt: skip


def _safety(engine: EngineReport) -> Iterator[Finding]:
    policy = engine.info.get("maxmemory_policy", "noeviction")
    if is_evicting_jobs(policy):
        yield _finding(
            "eviction", _E, f"The engine's maxmemory-policy is '{policy}'.",
            "It throws jobs away when memory runs short.", "Set maxmemory-policy to noeviction.",
        )  # fmt: skip
    elif policy != "noeviction":
        yield _finding(
            "eviction_of_temporary_keys", _N, f"The engine's maxmemory-policy is '{policy}'.", EVICTED_EARLY,
            "Set maxmemory-policy to noeviction, or give it enough memory (docs/engines.md).",
        )  # fmt: skip
    if not engine.info:
        yield _finding(
            "info_forbidden", _W, "The engine refuses INFO, so its state cannot be read.",
            "It is unknown whether jobs are safe there.", "Grant +info to its user (docs/engines.md).",
        )  # fmt: skip
    elif not engine.has_log and not engine.is_managed:
        yield _finding(
            "no_persistence", _W, "The engine keeps no append-only file.",
            "Acknowledged jobs are lost when it crashes.", "Set `appendonly yes` and `appendfsync always`.",
        )  # fmt: skip
    if engine.is_managed:
        yield _managed(engine)
    elif engine.config is None:
        yield _finding(
            "config_forbidden", _N, "The engine refuses CONFIG GET, so its configuration cannot be read.",
            "It is unknown how often it writes to disk.", "Look it up with its provider.",
        )  # fmt: skip
    elif engine.has_log:
        yield from _fsync(engine.config)


def _managed(engine: EngineReport) -> Finding:
    """Report what the engine itself says, so that a setting that is wrong for this engine is noticed."""
    shown = engine._replace(is_managed=False, durability="memory").durability_in_force.sentence
    return _finding(
        "managed_durability", _N, "Durability is declared as the service's (WINDLASS_ENGINE_DURABILITY=managed).",
        f"Jobs are as safe as the service keeps its word. The engine itself reports: {shown}",
        "If this is not such a service, remove the setting.",
    )  # fmt: skip


def _fsync(config: dict[str, str]) -> Iterator[Finding]:
    policy = config.get("appendfsync", "always")
    if policy == "no":
        yield _finding(
            "fsync_never", _W, "The engine leaves it to the operating system when to write its file (appendfsync no).",
            "A crash of the machine loses the last half minute of acknowledged jobs.", "Set `appendfsync always`.",
        )  # fmt: skip
    elif policy == "everysec":
        yield _finding(
            "fsync_every_second", _N, "The engine writes to disk once a second (appendfsync everysec).",
            "A crash of the machine loses up to two seconds of acknowledged jobs.",
            "Set `appendfsync always`.",
        )  # fmt: skip
    if policy != "no" and config.get("no-appendfsync-on-rewrite") == "yes":
        yield _finding(
            "fsync_pauses", _W, "The engine does not fsync while it rewrites its file (no-appendfsync-on-rewrite yes).",
            "A crash in that time loses acknowledged jobs.", "Set `no-appendfsync-on-rewrite no`.",
        )  # fmt: skip


def _writing(engine: EngineReport) -> Iterator[Finding]:
    if engine.has_log and engine.info.get("aof_last_write_status", "ok") != "ok":
        yield _finding(
            "write_failed", _E, "The engine's last write to its append-only file failed.",
            "It refuses jobs, or loses them in a crash.", "Check its disk (full? broken?) and its log.",
        )  # fmt: skip
    for field, name in (("aof_last_bgrewrite_status", "rewrite of its file"), ("rdb_last_bgsave_status", "snapshot")):
        if engine.info.get(field, "ok") != "ok":
            yield _finding(
                "background_save_failed", _W, f"The engine's last {name} failed.",
                "Its file grows without end, or there is no snapshot.", "Check its disk, its memory and its log.",
            )  # fmt: skip
    fork_ms = engine.number("latest_fork_usec") // 1000
    if fork_ms >= SLOW_FORK_MS:
        yield _finding(
            "slow_fork", _N, f"The engine stopped for {fork_ms} ms when it last forked.",
            "All clients wait that long at each rewrite or snapshot.", "Disable transparent huge pages, or split it.",
        )  # fmt: skip


def _confirming(engine: EngineReport) -> Iterator[Finding]:
    compatible = version_number(engine.info.get("redis_version", "0"))
    if engine.info.get("role") == "slave":
        yield _finding(
            "is_replica", _E, "This engine is a replica.", "It accepts no writes, or they are lost.",
            "Connect to its primary, or through Sentinel.",
        )  # fmt: skip
    if engine.durability == "replica" and not engine.is_managed and engine.number("connected_slaves") == 0:
        yield _finding(
            "no_replica", _E, "Durability 'replica' is configured, but no replica is connected.",
            "Every enqueue waits and then reports 'durability not reached'.",
            "Connect a replica, or use 'fsync'.",
        )  # fmt: skip
    if engine.product == "redis" and compatible < (7, 2) and engine.has_log:
        yield _finding(
            "half_transactions", _W, f"Redis {engine.version} may restore half a transaction after two crashes.",
            "A job is then in only one of its two indexes, or a queue counts its bytes wrongly.",
            "After a crash run `redis-check-aof --fix` before starting it, or use a newer engine (docs/engines.md).",
        )  # fmt: skip


def _memory(engine: EngineReport) -> Iterator[Finding]:
    used, most = engine.number("used_memory"), engine.number("maxmemory")
    bound = most or engine.number("total_system_memory")
    if bound and used >= NEARLY_FULL * bound:
        yield _finding(
            "memory_nearly_full", _W, f"The engine uses {used * 100 // bound} % of its memory.",
            "When it is full no job is accepted." if most else "The operating system may kill it.",
            "Let queues drain, shorten retention, or give it more memory.",
        )  # fmt: skip


def _connections(engine: EngineReport) -> Iterator[Finding]:
    connected, most = engine.number("connected_clients"), engine.number("maxclients")
    if most and connected >= NEARLY_FULL * most:
        yield _finding(
            "connections_nearly_used_up", _W, f"{connected} of {most} connections are in use.",
            "New clients and workers will be refused.", "Raise maxclients, or close idle connections.",
        )  # fmt: skip
    if rejected := engine.number("rejected_connections"):
        yield _finding(
            "connections_rejected", _W, f"The engine has refused {rejected} connections since its start.",
            "Clients could not enqueue or take.", "Raise maxclients (and the limit of open files).",
        )  # fmt: skip


def _surroundings(engine: EngineReport) -> Iterator[Finding]:
    if abs(engine.clock_off_ms) > CLOCK_TOLERANCE_MS:
        yield _finding(
            "clock_differs", _W, f"The engine's clock is {engine.clock_off_ms / 1000:+.1f} s off this machine's.",
            "Instants that clients compute, such as run_at, are off by as much.", "Synchronize both clocks (NTP).",
        )  # fmt: skip
    busy_after_ms = int((engine.config or {}).get("busy-reply-threshold", BUSY_THRESHOLD_MIN_MS))
    if 0 < busy_after_ms < BUSY_THRESHOLD_MIN_MS:
        yield _finding(
            "short_patience", _N, f"The engine reports itself busy after {busy_after_ms} ms (busy-reply-threshold).",
            "On a slow machine clients may receive BUSY errors.", "Set it back to 5000.",
        )  # fmt: skip
    old = [name for name in engine.libraries if not name.startswith(engine.own_library)]
    if old:
        yield _finding(
            "old_libraries", _N, "Function libraries of other versions of Windlass are loaded.",
            "They use a little memory; processes of those versions may still need them.",
            "When no such process runs any more: FUNCTION DELETE <library>.", *sorted(old),
        )  # fmt: skip
