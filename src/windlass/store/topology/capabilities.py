"""Capabilities of an engine: what it can and cannot do for Windlass, and what follows. No I/O."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from windlass.core.diagnosis import Severity
from windlass.core.durability import DurabilityInForce
from windlass.core.errors import EngineNotPermitted, EngineUnsuitable, WindlassError
from windlass.core.job import Durability
from windlass.core.namespace.format import KNOWN, read_format
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.replies import is_command_unknown
from windlass.store.scripts import library

from . import permissions
from .health import CLOCK_TOLERANCE_MS, EVICTED_EARLY, NEARLY_FULL, EngineReport, check_engine, read_engine
from .permissions import Restrictions
from .probe import ProbeReplies
from .requirements import check_requirements, confirms_writes, is_evicting_jobs, reason_for_scripts, scripts_notice

# From the best to the worst: blocking means that Windlass does not start there.
Verdict: TypeAlias = Literal["ok", "limited", "blocking"]
VERDICTS: tuple[Verdict, ...] = ("ok", "limited", "blocking")
SLOW_ROUND_TRIP_US = 5_000
# Products that answer as Redis does. Their field in INFO names them.
OTHER_PRODUCTS = ("dragonfly", "keydb", "kvrocks", "garnet", "redict", "upstash")
# Findings about an engine that a row below states already.
_COVERED = {
    "eviction", "eviction_of_temporary_keys", "info_forbidden", "no_persistence", "config_forbidden", "fsync_never",
    "fsync_every_second", "managed_durability", "is_replica", "no_replica", "memory_nearly_full",
    "connections_nearly_used_up", "clock_differs",
}  # fmt: skip


class Capability(NamedTuple):
    """A capability: what was found, and what follows from it."""

    name: str
    verdict: Verdict
    found: str
    effect: str


class ProbeOptions(NamedTuple):
    """Settings that the engine is compared with."""

    durability: Durability = "memory"
    is_managed: bool = False
    allow_eviction: bool = False
    is_cluster: bool = False
    topology: str = "one node"


class ProbedNode:
    """Replies of one node, read."""

    def __init__(self, probed: ProbeReplies, options: ProbeOptions) -> None:
        self.options = options
        self.replies = probed.replies
        self.root = probed.root
        self.round_trips_us = probed.round_trips_us
        self.user = probed.node.username or "default"
        names = ("info", "config", "libraries", "time")
        self.engine: EngineReport = read_engine(
            [probed.replies[name] for name in names],
            probed.here_ms,
            options.durability,
            library().name,
            is_managed=options.is_managed,
        )

    def refusal(self, name: str) -> str:
        """Return why the engine refused a query, or an empty text."""
        reply = self.replies[name]
        if not isinstance(reply, WindlassError):
            return ""
        if isinstance(permissions.explain_refusal(reply), EngineNotPermitted):
            return "The user lacks a permission; the lines below grant it."
        return f"The engine answers: {reply}"

    @property
    def restrictions(self) -> Restrictions | None:
        """Permissions and commands that are missing; None: the check itself was refused."""
        reply = self.replies["permissions"]
        if isinstance(reply, WindlassError):
            return None
        return permissions.read_restrictions(reply, permissions.required_permissions(self.options.is_cluster))


def find_capabilities(nodes: Sequence[ProbeReplies], options: ProbeOptions) -> list[Capability]:
    """Return what all nodes can do. Where they differ, the weakest node counts, and is named."""
    found = [_capabilities_of(ProbedNode(probed, options)) for probed in nodes]
    names = dict.fromkeys(row.name for rows in found for row in rows)
    return [_weakest(name, [probed.node for probed in nodes], found) for name in names]


def is_suitable(rows: Sequence[Capability]) -> bool:
    return not any(row.verdict == "blocking" for row in rows)


def _weakest(name: str, nodes: Sequence[Any], found: Sequence[Sequence[Capability]]) -> Capability:
    rows = [(row, node) for rows, node in zip(found, nodes, strict=True) for row in rows if row.name == name]
    worst, node = max(rows, key=lambda pair: VERDICTS.index(pair[0].verdict))
    is_same = len(rows) == len(nodes) and len({(row.verdict, row.effect) for row, _ in rows}) == 1
    return worst if is_same else worst._replace(found=f"{node}: {worst.found}")


def _capabilities_of(node: ProbedNode) -> list[Capability]:
    return [*(row(node) for row in _ROWS), *_findings(node)]


def _engine(node: ProbedNode) -> Capability:
    info = node.engine.info
    if not info:
        return Capability("engine", "blocking", "unknown", node.refusal("info") or "INFO has no content.")
    product = next((name for name in OTHER_PRODUCTS if _is_product(info, name)), "")
    version = info.get(f"{product}_version", "") if product else ""
    found = f"{product} {version} (as redis {info.get('redis_version', '?')})" if product else _product(node.engine)
    try:
        check_requirements([_info_of(node), None], allow_eviction=True, is_cluster_expected=True)
    except EngineUnsuitable as error:
        return Capability("engine", "blocking", found, str(error))
    if product:
        return Capability(
            "engine", "limited", found, "Not a Redis or Valkey: docs/engines.md says what is known of it."
        )
    return Capability("engine", "ok", found, "A supported version.")


def _is_product(info: dict[str, str], name: str) -> bool:
    return f"{name}_version" in info or name in info.get("executable", "").rpartition("/")[2]


def _product(engine: EngineReport) -> str:
    return f"{engine.product} {engine.version}"


def _info_of(node: ProbedNode) -> bytes:
    reply: bytes = node.replies["info"]
    return reply


def _topology(node: ProbedNode) -> Capability:
    info, found = node.engine.info, node.options.topology
    if info.get("role") == "slave":
        effect = "A replica accepts no writes: give the URL of its primary, or of its sentinels."
        return Capability("topology", "blocking", "a replica", effect)
    if info.get("cluster_enabled") == "1" and not node.options.is_cluster:
        effect = "Write the URL with redis+cluster:// or rediss+cluster://."
        return Capability("topology", "blocking", "a node of a cluster", effect)
    spread = "Partitions are spread over the primaries." if node.options.is_cluster else "All partitions are on it."
    return Capability("topology", "ok", found, spread)


def _permissions(node: ProbedNode) -> Capability:
    user, restrictions = f"user {node.user!r}", node.restrictions
    if restrictions is None:
        return Capability("permissions", "blocking", f"{user} may not call EVAL", node.refusal("permissions"))
    try:
        permissions.check(node.user, node.root, restrictions.denied)
    except WindlassError as error:
        return Capability("permissions", "blocking", f"{user} lacks some", str(error))
    if not restrictions.denied:
        return Capability("permissions", "ok", f"{user} may call every command", "Nothing is missing.")
    lacking = ", ".join(permission.display_name for permission in restrictions.denied)
    return Capability("permissions", "limited", f"{user} may not call {lacking}", "Windlass works without; see below.")


def _calls(node: ProbedNode) -> Capability:
    restrictions = node.restrictions
    if restrictions is None:
        return Capability("operations", "blocking", "neither functions nor scripts", node.refusal("permissions"))
    reply = node.replies["function"]
    has_functions = not isinstance(reply, WindlassError)
    is_unknown = isinstance(reply, EngineReplyError) and is_command_unknown(reply, "FCALL")
    reason = "the engine has no FCALL" if is_unknown else reason_for_scripts(restrictions, lambda: has_functions)
    if not reason:
        state = "loaded" if has_functions else "Windlass loads them when it starts"
        return Capability("operations", "ok", "by functions (FCALL)", f"The fast way; {state}.")
    is_refused = isinstance(node.replies["script"], EngineReplyError) and node.replies["script"].kind != "NOSCRIPT"
    if is_refused:
        is_unprepared = not (is_unknown or restrictions.refusal_of("fcall"))
        effect = str(permissions.functions_missing_error(node.user)) if is_unprepared else node.refusal("script")
        return Capability("operations", "blocking", "neither functions nor scripts", effect)
    return Capability("operations", "limited", "by scripts (EVALSHA)", scripts_notice(reason))


def _writes(node: ProbedNode) -> Capability:
    reply = node.replies["write"]
    if not isinstance(reply, EngineReplyError):
        return Capability("writes", "ok", "accepted", "A key was written and removed.")
    if reply.kind == "OOM":
        return Capability("writes", "blocking", "refused: the memory is full", "Free memory, or raise maxmemory.")
    return Capability("writes", "blocking", "refused", node.refusal("write"))


def _waits(node: ProbedNode) -> Capability:
    refused = [node.refusal(name) for name in ("pop", "read") if node.refusal(name)]
    if refused:
        return Capability("waiting", "blocking", "refused", refused[0])
    return Capability("waiting", "ok", "BLPOP, XREAD", "Workers and followers wait without polling.")


def _eviction(node: ProbedNode) -> Capability:
    policy = node.engine.info.get("maxmemory_policy", "")
    if not policy:
        return Capability("eviction", "limited", "unknown", "Look it up: with allkeys-* jobs would be lost.")
    if not is_evicting_jobs(policy):
        effect = "Nothing is evicted." if policy == "noeviction" else EVICTED_EARLY
        return Capability("eviction", "ok" if policy == "noeviction" else "limited", policy, effect)
    effect = "It evicts jobs when memory runs short: set maxmemory-policy to noeviction or volatile-lru."
    return Capability("eviction", "limited" if node.options.allow_eviction else "blocking", policy, effect)


_REMEDY = "Set `appendonly yes` and `appendfsync always`."
_ASK = "Grant +info and +config|get, or ask the provider."
_ANSWER_CONFIRMS = "The service's answer is the confirmation, as declared."
_MANAGED = "If the service makes each write durable by itself, set WINDLASS_ENGINE_DURABILITY=managed."


def _durability(node: ProbedNode) -> Capability:
    found: DurabilityInForce = node.engine._replace(durability="memory").durability_in_force
    if not found.is_weak:
        return Capability("persistence", "ok", found.short, str(found))
    remedy = _ASK if found.level == "unknown" else _REMEDY
    return Capability("persistence", "limited", found.short, f"{found} {remedy} {_MANAGED}")


def _fsync(node: ProbedNode) -> Capability:
    found = node.engine._replace(durability="fsync").durability_in_force
    if node.options.is_managed:
        return Capability("durability fsync", "ok", "every write", _ANSWER_CONFIRMS)
    if found.level == "fsync_always" and found.is_reached:
        return Capability("durability fsync", "ok", "every write", "Each answer follows its write to disk.")
    if not confirms_writes(node.engine.info):
        reason = "This version cannot confirm that a single write is on disk: set `appendfsync always`."
        return Capability("durability fsync", "limited", "not possible", reason)
    if refusal := node.refusal("waitaof"):
        return Capability("durability fsync", "limited", "not possible", refusal)
    if not found.is_reached:
        return Capability("durability fsync", "limited", "not possible", "It needs an append-only file and its fsync.")
    return Capability("durability fsync", "ok", "on request (WAITAOF)", "An enqueue can wait for its own flush.")


def _replicas(node: ProbedNode) -> Capability:
    connected = node.engine.number("connected_slaves")
    count = f"{connected} connected" if node.engine.info else "unknown"
    if node.options.is_managed:
        return Capability("durability replica", "ok", "every write", _ANSWER_CONFIRMS)
    if node.refusal("wait"):
        return Capability("durability replica", "limited", count, node.refusal("wait"))
    if not connected:
        return Capability("durability replica", "limited", count, "Such an enqueue is reported as not confirmed.")
    return Capability("durability replica", "ok", f"{count} (WAIT)", "An enqueue can wait until a replica has it.")


def _is_unknown(node: ProbedNode, name: str) -> bool:
    return "unknown command" in str(node.replies[name])


def _config(node: ProbedNode) -> Capability:
    if node.engine.config is not None:
        return Capability("CONFIG GET", "ok", "allowed", "Windlass sees how often the engine writes to disk.")
    reason = "unknown command" if _is_unknown(node, "config") else "refused"
    return Capability("CONFIG GET", "limited", reason, "How often the engine writes to disk stays unknown.")


def _memory(node: ProbedNode) -> Capability:
    used, limit = node.engine.number("used_memory"), node.engine.number("maxmemory")
    if not node.engine.info:
        return Capability("memory", "limited", "unknown", "INFO is refused.")
    if not limit:
        effect = "Set maxmemory: a full engine refuses new jobs, and the system kills one that outgrows its machine."
        return Capability("memory", "limited", f"{_megabytes(used)} used, no limit", effect)
    is_nearly_full = used >= NEARLY_FULL * limit
    effect = "Nearly full: soon no job is accepted." if is_nearly_full else "When it is full, new jobs are refused."
    found = f"{_megabytes(used)} of {_megabytes(limit)} used"
    return Capability("memory", "limited" if is_nearly_full else "ok", found, effect)


def _megabytes(number: int) -> str:
    return f"{number / 1_000_000:,.1f} MB"


def _connections(node: ProbedNode) -> Capability:
    connected, most = node.engine.number("connected_clients"), node.engine.number("maxclients")
    if not most:
        return Capability("connections", "limited", "unknown", "The engine does not tell its limit.")
    is_nearly_full = connected >= NEARLY_FULL * most
    effect = "Nearly used up: raise maxclients." if is_nearly_full else "Each process of Windlass uses a few."
    found = f"{connected:,} of {most:,}"
    return Capability("connections", "limited" if is_nearly_full else "ok", found, effect)


def _round_trip(node: ProbedNode) -> Capability:
    median_us = statistics.median(node.round_trips_us)
    found = f"{median_us / 1000:.2f} ms (longest {max(node.round_trips_us) / 1000:.2f} ms)"
    if median_us < SLOW_ROUND_TRIP_US:
        return Capability("round trip", "ok", found, "Near enough.")
    effect = "Every take and every report waits that long: run workers near the engine."
    return Capability("round trip", "limited", found, effect)


def _clock(node: ProbedNode) -> Capability:
    if node.refusal("time"):
        return Capability("clock", "limited", "unknown", node.refusal("time"))
    off_ms = node.engine.clock_off_ms
    is_near = abs(off_ms) <= CLOCK_TOLERANCE_MS
    effect = "Clocks agree." if is_near else "Instants that clients compute are off by as much: synchronize both (NTP)."
    return Capability("clock", "ok" if is_near else "limited", f"{off_ms:+,} ms from this machine's", effect)


def _namespace(node: ProbedNode) -> Capability:
    if node.refusal("marks"):
        return Capability("namespace", "blocking", "cannot be read", node.refusal("marks"))
    layout, needs_version, partitions = node.replies["marks"]
    if layout is None:
        return Capability("namespace", "ok", "not in use", "The first start creates it.")
    count = f"{int(partitions or 1)} partition{'' if int(partitions or 1) == 1 else 's'}"
    found = read_format(layout, needs_version)
    if not found.is_known:
        return Capability("namespace", "blocking", f"format {found}", f"This version reads formats up to {KNOWN}.")
    return Capability("namespace", "ok", f"in use, {count}, format {found}", "Its jobs can be read by this version.")


def _findings(node: ProbedNode) -> Iterator[Capability]:
    """Return other risks that `windlass doctor` reports for an engine."""
    for finding in check_engine(node.engine):
        if finding.code not in _COVERED:
            verdict: Verdict = "blocking" if finding.severity is Severity.ERROR else "limited"
            yield Capability(finding.code, verdict, finding.what, f"{finding.risk} {finding.remedy}")


_ROWS: tuple[Callable[[ProbedNode], Capability], ...] = (
    _engine, _topology, _permissions, _calls, _writes, _waits, _eviction, _durability, _fsync, _replicas, _config,
    _memory, _connections, _round_trip, _clock, _namespace,
)  # fmt: skip
