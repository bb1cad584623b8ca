"""Durability in force: the engine's settings compared with the `durability` setting."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.durability import LEVELS, DurabilityInForce, PersistenceSettings, assess_durability, find_weakest
from windlass.core.job import Durability

ALWAYS: dict[str, Any] = {"has_log": True, "fsync": "always", "save": "", "replicas": 0}
EVERY_SECOND = ALWAYS | {"fsync": "everysec"}
MEMORY = ALWAYS | {"has_log": False}


def assess(settings: dict[str, Any], wanted: Durability = "memory") -> DurabilityInForce:
    return assess_durability(PersistenceSettings(**settings), wanted)


@pytest.mark.parametrize(
    ("settings", "level", "words"),
    [
        (ALWAYS, "fsync_always", "A crash loses no accepted job."),
        (EVERY_SECOND, "fsync_every_second", "up to two seconds"),
        (ALWAYS | {"fsync": "no"}, "fsync_sometimes", "half a minute"),
        (MEMORY, "memory", "Memory only"),
        (MEMORY | {"save": "3600 1"}, "snapshots", "Snapshots only (save 3600 1)"),
        (MEMORY | {"save": None, "unknown_because": "why"}, "unknown", "whether there are snapshots is unknown: why."),
        (ALWAYS | {"fsync": "", "unknown_because": "why"}, "unknown", "flushed to disk is unknown: why."),
        (ALWAYS | {"has_log": None, "unknown_because": "why"}, "unknown", "Unknown: why."),
        (ALWAYS | {"pauses_fsync": True}, "fsync_always", "not flushed while it is rewritten"),
        (MEMORY | {"is_managed": True}, "managed", "WINDLASS_ENGINE_DURABILITY=managed"),
        (ALWAYS | {"replicas_needed": 1}, "fsync_always", "refused with fewer than 1 replicas"),
    ],
)  # fmt: skip
def test_what_the_engine_gives(settings: dict[str, Any], level: str, words: str) -> None:
    said = assess(settings)
    assert said.level == level
    assert words in str(said)
    assert said.is_reached


@pytest.mark.parametrize(
    ("settings", "asked", "is_reached", "words"),
    [
        (ALWAYS, "fsync", True, "A crash loses no accepted job."),
        (ALWAYS | {"pauses_fsync": True}, "fsync", False, "not flushed"),
        (EVERY_SECOND, "fsync", True, "wait for their own flush"),
        (EVERY_SECOND | {"confirms_writes": False}, "fsync", False, "only with `appendfsync always`"),
        (MEMORY, "fsync", False, "set `appendonly yes`"),
        (MEMORY | {"save": None}, "fsync", False, "set `appendonly yes`"),
        (ALWAYS | {"fsync": ""}, "fsync", True, "wait for their own flush"),
        (ALWAYS | {"has_log": None}, "fsync", False, "whether it is reached is unknown"),
        (ALWAYS, "replica", False, "none is connected"),
        (ALWAYS | {"replicas": None}, "replica", False, "whether one is connected is unknown"),
        (ALWAYS | {"replicas": 2}, "replica", True, "2 are connected"),
        (MEMORY | {"is_managed": True}, "fsync", True, "fsync needs no confirmation"),
        (MEMORY | {"is_managed": True}, "replica", True, "replica needs no confirmation"),
    ],
)
def test_what_the_setting_asks(settings: dict[str, Any], asked: Durability, is_reached: bool, words: str) -> None:
    said = assess(settings, asked)
    assert said.is_reached is is_reached
    assert words in str(said)


def test_the_weakest_node_counts() -> None:
    nodes = [assess(ALWAYS), assess(MEMORY), assess(EVERY_SECOND)]
    assert find_weakest(nodes).level == "memory"
    assert find_weakest([assess(ALWAYS | {"replicas": 1}, "replica"), assess(ALWAYS, "replica")]).is_reached is False
    assert [assess(settings).is_weak for settings in (ALWAYS, EVERY_SECOND, MEMORY)] == [False, False, True]
    assert not assess(MEMORY | {"is_managed": True}).is_weak
    assert LEVELS[0] == "unknown"
