"""Durability in force: the loss that an engine's settings allow in a crash, compared with the `durability` setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .job import Durability

# From the weakest to the strongest. `unknown` comes first: an unknown level cannot be relied on.
Level: TypeAlias = Literal[
    "unknown", "memory", "snapshots", "fsync_sometimes", "fsync_every_second", "fsync_always", "managed"
]
LEVELS: tuple[Level, ...] = (
    "unknown",
    "memory",
    "snapshots",
    "fsync_sometimes",
    "fsync_every_second",
    "fsync_always",
    "managed",
)
# How the durability of an engine is known: from its settings, or from its operator. Some services make writes durable
# in a way that no command shows.
EngineDurability: TypeAlias = Literal["auto", "managed"]
ENGINE_DURABILITIES: tuple[EngineDurability, ...] = ("auto", "managed")
_BY_POLICY: dict[str, Level] = {
    "always": "fsync_always",
    "everysec": "fsync_every_second",
    "no": "fsync_sometimes",
}


class PersistenceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Persistence settings of one engine, as far as the engine reveals them."""

    has_log: bool | None  # an append-only file; None: unknown
    fsync: str = ""  # appendfsync; empty: unknown
    pauses_fsync: bool = False  # no fsync while the append-only file is rewritten
    save: str | None = None  # when snapshots are written; empty: never; None: unknown
    replicas: int | None = None  # connected replicas; None: unknown
    replicas_needed: int = 0  # min-replicas-to-write
    confirms_writes: bool = True  # the engine can confirm that a single write is on disk (WAITAOF)
    unknown_because: str = ""
    is_managed: bool = False  # its operator declares that the service makes each write durable


_SHORT: dict[Level, str] = {
    "unknown": "unknown",
    "memory": "memory",
    "snapshots": "snapshots",
    "fsync_sometimes": "no fsync",
    "fsync_every_second": "fsync 1 s",
    "fsync_always": "fsync",
    "managed": "managed",
}


class DurabilityInForce(msgspec.Struct, frozen=True, kw_only=True):
    """Durability that one engine provides."""

    level: Level
    sentence: str  # the settings in force, and the loss in a crash
    setting_note: str  # effect of the `durability` setting, or why it has none; empty: no effect
    is_reached: bool  # the engine provides the durability that the setting asks for

    @property
    def short(self) -> str:
        """Label of the level."""
        return _SHORT[self.level]

    @property
    def is_weak(self) -> bool:
        """Whether a crash of the engine process alone loses accepted jobs, or the setting is not reached."""
        return self.level in ("unknown", "memory", "snapshots") or not self.is_reached

    def __str__(self) -> str:
        return " ".join(filter(None, (self.sentence, self.setting_note)))


def assess_durability(found: PersistenceSettings, wanted: Durability) -> DurabilityInForce:
    level = _find_level(found)
    note, is_reached = _compare_with_setting(found, level, wanted)
    return DurabilityInForce(
        level=level, sentence=_describe_level(found, level), setting_note=note, is_reached=is_reached
    )


def find_weakest(nodes: Sequence[DurabilityInForce]) -> DurabilityInForce:
    """Return the weakest durability of several nodes. Jobs are spread over all nodes, so the weakest one counts."""
    return min(nodes, key=lambda node: (node.is_reached, LEVELS.index(node.level)))


def _find_level(found: PersistenceSettings) -> Level:
    if found.is_managed:
        return "managed"
    if found.has_log:
        return _BY_POLICY.get(found.fsync, "unknown")
    if found.has_log is None or found.save is None:
        return "unknown"
    return "snapshots" if found.save else "memory"


def _describe_level(found: PersistenceSettings, level: Level) -> str:
    because = found.unknown_because or "the engine does not reveal it"
    if level == "unknown" and found.has_log:
        return f"Append-only file; how often it is flushed to disk is unknown: {because}."
    if level == "unknown" and found.has_log is False:
        return f"No append-only file; whether there are snapshots is unknown: {because}. A crash loses jobs."
    if level == "unknown":
        return f"Unknown: {because}."
    if level == "memory":
        return "Memory only: no append-only file and no snapshots. A restart of the engine loses every job."
    if level == "snapshots":
        return f"Snapshots only (save {found.save}). A crash loses the jobs accepted since the last snapshot."
    if level == "managed":
        return (
            "Managed: the service makes each write durable before it answers. This is declared by "
            "WINDLASS_ENGINE_DURABILITY=managed; the engine cannot show it."
        )
    sentence = {
        "fsync_sometimes": "Append-only file, flushed when the system decides (appendfsync no). "
        "A crash of the machine loses up to half a minute.",
        "fsync_every_second": "Append-only file, flushed once a second (appendfsync everysec). "
        "A crash of the machine loses up to two seconds.",
        "fsync_always": "Append-only file, flushed before every answer (appendfsync always). "
        "A crash loses no accepted job.",
    }[level]
    pause = " It is not flushed while it is rewritten (no-appendfsync-on-rewrite yes)."
    return sentence + (pause if found.pauses_fsync else "")


def _compare_with_setting(found: PersistenceSettings, level: Level, wanted: Durability) -> tuple[str, bool]:
    """Return a note about the `durability` setting, and whether the engine reaches it."""
    if level == "managed":
        return "" if wanted == "memory" else f"Durability {wanted} needs no confirmation of its own there.", True
    if wanted == "replica":
        return _compare_with_replicas(found)
    refused = ""
    if found.replicas_needed:
        refused = f"Writes are refused with fewer than {found.replicas_needed} replicas (min-replicas-to-write)."
    if wanted == "memory":
        return refused, True
    if level in ("memory", "snapshots") or found.has_log is False:
        return "The setting asks for fsync, which needs an append-only file: set `appendonly yes`.", False
    if level == "unknown" and found.has_log is None:
        return "The setting asks for fsync; whether it is reached is unknown.", False
    if level == "fsync_always":
        return refused, not found.pauses_fsync
    if not found.confirms_writes:
        return "The setting asks for fsync, which this version gives only with `appendfsync always`.", False
    return "Enqueues wait for their own flush (durability fsync).", True


def _compare_with_replicas(found: PersistenceSettings) -> tuple[str, bool]:
    if found.replicas is None:
        return "The setting asks for a replica; whether one is connected is unknown.", False
    if not found.replicas:
        return "The setting asks for a replica, but none is connected: enqueues are reported as not confirmed.", False
    count = f"{found.replicas} {'is' if found.replicas == 1 else 'are'} connected"
    return f"Enqueues wait until a replica has them ({count}).", True
