"""Durability in force: what a crash of the engine loses, by the engine's own settings, beside what the setting asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .job import Durability

# From the weakest to the strongest. `unknown` comes first: what is not known cannot be relied on.
Level: TypeAlias = Literal["unknown", "memory", "snapshots", "fsync_sometimes", "fsync_every_second", "fsync_always"]
LEVELS: tuple[Level, ...] = (
    "unknown",
    "memory",
    "snapshots",
    "fsync_sometimes",
    "fsync_every_second",
    "fsync_always",
)
_BY_POLICY: dict[str, Level] = {
    "always": "fsync_always",
    "everysec": "fsync_every_second",
    "no": "fsync_sometimes",
}


class PersistenceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one engine that decide what survives a crash, as far as it tells them."""

    has_log: bool | None  # an append-only file; None: unknown
    fsync: str = ""  # appendfsync; empty: unknown
    pauses_fsync: bool = False  # while it rewrites its file
    save: str | None = None  # when it writes snapshots; empty: never; None: unknown
    replicas: int | None = None  # that are connected; None: unknown
    replicas_needed: int = 0  # min-replicas-to-write
    confirms_writes: bool = True  # it can say when a single write is on disk (WAITAOF)
    unknown_because: str = ""


_SHORT: dict[Level, str] = {
    "unknown": "unknown",
    "memory": "memory",
    "snapshots": "snapshots",
    "fsync_sometimes": "no fsync",
    "fsync_every_second": "fsync 1 s",
    "fsync_always": "fsync",
}


class DurabilityInForce(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's answer."""

    level: Level
    sentence: str  # what is in force, and what a crash loses
    asked: str  # what the setting adds to it, or why it cannot; empty: nothing
    is_reached: bool  # what the setting asks

    @property
    def short(self) -> str:
        """For a label."""
        return _SHORT[self.level]

    @property
    def is_weak(self) -> bool:
        """Whether a crash of the engine process alone loses accepted jobs, or less is given than the setting asks."""
        return self.level in ("unknown", "memory", "snapshots") or not self.is_reached

    def __str__(self) -> str:
        return " ".join(filter(None, (self.sentence, self.asked)))


def assess_durability(found: PersistenceSettings, asked: Durability) -> DurabilityInForce:
    level = _level(found)
    said, is_reached = _asked(found, level, asked)
    return DurabilityInForce(level=level, sentence=_sentence(found, level), asked=said, is_reached=is_reached)


def find_weakest(found: Sequence[DurabilityInForce]) -> DurabilityInForce:
    """Of several nodes: jobs lie on all of them."""
    return min(found, key=lambda one: (one.is_reached, LEVELS.index(one.level)))


def _level(found: PersistenceSettings) -> Level:
    if found.has_log:
        return _BY_POLICY.get(found.fsync, "unknown")
    if found.has_log is None or found.save is None:
        return "unknown"
    return "snapshots" if found.save else "memory"


def _sentence(found: PersistenceSettings, level: Level) -> str:
    because = found.unknown_because or "the engine does not say"
    if level == "unknown" and found.has_log:
        return f"Append-only file; how often it is flushed to disk is unknown: {because}."
    if level == "unknown" and found.has_log is False:
        return f"No append-only file; whether there are snapshots is unknown: {because}. A crash loses jobs."
    if level == "unknown":
        return f"Unknown: {because}."
    if level == "memory":
        return "Memory only: no append-only file and no snapshots. A restart of the engine loses every job."
    if level == "snapshots":
        return f"Snapshots only (save {found.save}). A crash loses what was accepted since the last one."
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


def _asked(found: PersistenceSettings, level: Level, asked: Durability) -> tuple[str, bool]:
    if asked == "replica":
        return _asked_of_replicas(found)
    refused = ""
    if found.replicas_needed:
        refused = f"Writes are refused with fewer than {found.replicas_needed} replicas (min-replicas-to-write)."
    if asked == "memory":
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


def _asked_of_replicas(found: PersistenceSettings) -> tuple[str, bool]:
    if found.replicas is None:
        return "The setting asks for a replica; whether one is connected is unknown.", False
    if not found.replicas:
        return "The setting asks for a replica, and none is connected: enqueues are answered as not confirmed.", False
    count = f"{found.replicas} {'is' if found.replicas == 1 else 'are'} connected"
    return f"Enqueues wait until a replica has them too ({count}).", True
