"""Requirements for an engine, checked on connect before the first write: version, eviction, persistence."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import BadSetting, EngineUnsuitable
from windlass.core.job import Durability
from windlass.core.namespace.format import FIRST, NamespaceFormat

from . import permissions
from .permissions import CallsBy

log = logging.getLogger("windlass.store")

_OLDEST_REDIS = (7, 0)
# Redis 7.4, and every Valkey up to 9.1, which calls itself Redis 7.2, answers WAITAOF before the sync (redis#13793).
_OLDEST_TRUE_WAITAOF = (8, 0)
QUERIES: tuple[tuple[str, ...], ...] = (
    ("INFO", "everything"),
    ("CONFIG", "GET", "appendfsync"),
)


class Deployment(NamedTuple):
    """Properties of the engine that the check found."""

    product: str  # redis or valkey
    version: str
    confirms_writes: bool  # an answer of WAITAOF means that the write is on disk
    is_fsynced: bool  # every reply follows its fsync: durability `fsync` needs nothing more
    is_persistent: bool
    partitions: int
    user: str = ""  # of the engine; empty: unknown
    lacking: tuple[permissions.Permission, ...] = ()  # missing permissions that are not required
    memory_max: int = 0  # bytes; 0: limited by the machine only
    calls_by: CallsBy = "functions"
    scripts_because: str = ""  # why operations are called by scripts
    is_managed: bool = False  # the service makes each write durable, as its operator declares
    format: NamespaceFormat = NamespaceFormat(FIRST)  # of the namespace when it was opened

    def command_for(self, durability: Durability, wait_ms: int) -> tuple[str, ...] | None:
        """Return the command that must follow a write on its connection to reach a durability, or None."""
        if durability == "memory" or self.is_managed or (durability == "fsync" and self.is_fsynced):
            return None
        if durability == "replica":
            self._check_permission("wait")
            return ("WAIT", "1", str(wait_ms))
        if not self.is_persistent:
            raise BadSetting("Durability 'fsync' needs an append-only file: set `appendonly yes`, or use 'memory'.")
        if not self.confirms_writes:
            raise BadSetting(
                f"Durability 'fsync' on {self.product} {self.version} needs `appendfsync always`, and a user that may "
                "see it (CONFIG GET): this version cannot confirm that a single write is on disk. Or use 'memory'."
            )
        self._check_permission("waitaof")
        return ("WAITAOF", "1", "0", str(wait_ms))

    @property
    def may_load_functions(self) -> bool:
        """Tell it before a refused load: the library is large, and every call of a busy process would send it."""
        return not any(permission.name == "function|load" for permission in self.lacking)

    def check_may_call_scripts(self, cause: Exception | None = None) -> None:
        """Raise if functions cannot be used and the user may not call scripts either."""
        if any(permission.name == "evalsha" for permission in self.lacking):
            raise permissions.functions_missing_error(self.user) from cause

    def _check_permission(self, name: str) -> None:
        """Raise before the write: a refusal after it would leave a job that its producer thinks is lost."""
        if lacking := [permission for permission in self.lacking if permission.name == name]:
            raise permissions.missing_error(self.user, lacking)


def reason_for_scripts(restrictions: permissions.Restrictions, has_functions: Callable[[], bool]) -> str:
    """Return why operations cannot be called as functions, or an empty text. `has_functions` asks the engine whether it
    has our functions, if the user may not load them."""
    if refusal := restrictions.refusal_of("fcall"):
        return refusal
    refusal = restrictions.refusal_of("function|load")
    return f"{refusal}, and the functions are not loaded" if refusal and not has_functions() else ""


def scripts_notice(reason: str) -> str:
    return (
        f"Windlass calls its operations by scripts (EVALSHA), because {reason}. All features work; each call takes the "
        "engine longer than a function (docs/engines.md)."
    )


def info_fields(info: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def confirms_writes(info: dict[str, str]) -> bool:
    """Tell whether the engine can confirm that a single write is on disk (WAITAOF)."""
    return version_number(info.get("redis_version", "0.0")) >= _OLDEST_TRUE_WAITAOF


def combine_nodes(found: Sequence[Deployment], partitions: int, *, is_test: bool = False) -> Deployment:
    """Return the properties that hold on every node. Log risks, unless the deployment is a test."""
    is_managed = all(node.is_managed for node in found)
    if not is_test and not is_managed and not all(node.is_persistent for node in found):
        log.warning(
            "The engine has no append-only file: acknowledged jobs are lost when it crashes. Set `appendonly yes`."
        )
    lacking = tuple(dict.fromkeys(permission for node in found for permission in node.lacking))
    if not is_managed and any(permission.name == "config|get" for permission in lacking):
        log.info(
            "The engine's user may not call CONFIG GET, so it is unknown how often the engine writes to disk. Windlass "
            "continues without this check; grant +config|get to enable it."
        )
    by_scripts = next((node for node in found if node.calls_by == "scripts"), None)
    if by_scripts is not None:
        log.info("%s", scripts_notice(by_scripts.scripts_because))
    return (by_scripts or found[0])._replace(
        confirms_writes=all(node.confirms_writes for node in found),
        is_fsynced=all(node.is_fsynced for node in found),
        is_persistent=all(node.is_persistent for node in found),
        partitions=partitions,
        lacking=lacking,
    )


def check_requirements(
    replies: Sequence[Any], *, allow_eviction: bool, is_cluster_expected: bool = False, is_managed: bool = False
) -> Deployment:
    """Read the replies to QUERIES. Raise if the engine is too old, of another kind, or may evict jobs."""
    info, fsync = replies
    fields = info_fields(info.decode(errors="replace"))
    product = "valkey" if "valkey_version" in fields else "redis"
    compatible = fields.get("redis_version", "0.0")
    version = fields.get("valkey_version", compatible)
    if version_number(compatible) < _OLDEST_REDIS:
        raise EngineUnsuitable(f"{product} {version} is too old: Windlass needs Redis 7.0 or Valkey 7.2 at least.")
    if fields.get("cluster_enabled") == "1" and not is_cluster_expected:
        raise EngineUnsuitable(
            "The engine is a node of a cluster: write its URL with redis+cluster:// or rediss+cluster://, "
            "optionally with more of its nodes."
        )
    _check_eviction(fields, allow_eviction)
    is_persistent = fields.get("aof_enabled") == "1"
    # A provider may forbid CONFIG; then nothing is assumed.
    appendfsync = fsync[1].decode() if isinstance(fsync, list) and len(fsync) == 2 else ""
    return Deployment(
        product,
        version,
        confirms_writes(fields),
        is_persistent and appendfsync == "always",
        is_persistent,
        partitions=1,
        memory_max=int(fields.get("maxmemory", "0")),
        is_managed=is_managed,
    )


def is_evicting_jobs(policy: str) -> bool:
    """Tell whether the engine evicts jobs when memory runs short. Policies `volatile-*` evict keys with a time to live
    only, and no key of a job has one."""
    return policy != "noeviction" and not policy.startswith("volatile-")


def _check_eviction(fields: dict[str, str], allow_eviction: bool) -> None:
    policy = fields.get("maxmemory_policy", "noeviction")
    if is_evicting_jobs(policy) and not allow_eviction:
        raise EngineUnsuitable(
            f"The engine's maxmemory-policy is '{policy}': it may evict jobs. Set it to 'noeviction' or "
            "'volatile-lru', or allow it with WINDLASS_ALLOW_EVICTION=1 if you accept losing jobs."
        )
