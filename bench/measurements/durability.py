"""Cost of the append-only file: none, fsync every second, fsync before each reply."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from bench.engine import BULK, Engine, Spent
from bench.figures import Finding, Reading, Setting, Table, in_turns, ratio, spread

from .enqueue import from_tasks, in_bulk, raw_from_tasks, raw_in_bulk

TASKS = 64
TASKS_JOBS = 16_000
BULK_JOBS = 30_000
LEVELS = {
    "none": (),
    "everysec": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "always": ("--appendonly", "yes", "--appendfsync", "always"),
}
OURS = ("tasks", "bulk")
HEAD = ("appendfsync", "jobs/s", "against none", "bare engine, jobs/s", "bare against none", "ratio to bare")

Rates: TypeAlias = dict[tuple[str, str], list[float]]  # kind and level -> jobs per second, round by round


def measured(setting: Setting, kinds: Sequence[str], levels: Sequence[str]) -> Rates:
    shared = setting.scaled(TASKS_JOBS)
    bulk = max(BULK, setting.scaled(BULK_JOBS) // BULK * BULK)
    measures: dict[str, Callable[[Engine], Spent]] = {
        "tasks": lambda engine: from_tasks(engine, shared, TASKS),
        "raw tasks": lambda engine: raw_from_tasks(engine, shared, TASKS),
        "bulk": lambda engine: in_bulk(engine, bulk),
        "raw bulk": lambda engine: raw_in_bulk(engine, bulk),
    }
    with contextlib.ExitStack() as stack:
        engines = {level: stack.enter_context(Engine(LEVELS[level])) for level in levels}
        ways = {(kind, level): partial(measures[kind], engine) for kind in kinds for level, engine in engines.items()}
        spent = in_turns(setting, "durability", ways)
    return {way: [one.per_s for one in samples] for way, samples in spent.items()}


def readings(found: Rates) -> list[Reading]:
    rows = {"always_64": "tasks", "always_bulk": "bulk"}
    return [Reading(row, found[kind, "always"], found[kind, "none"]) for row, kind in rows.items()]


def section(setting: Setting) -> list[Finding]:
    found = measured(setting, [*OURS, *(f"raw {kind}" for kind in OURS)], list(LEVELS))

    def rows(kind: str) -> list[list[str]]:
        return [
            [
                level,
                spread(found[kind, level]),
                ratio(found[kind, level], found[kind, "none"]),
                spread(found[f"raw {kind}", level]),
                ratio(found[f"raw {kind}", level], found[f"raw {kind}", "none"]),
                ratio(found[kind, level], found[f"raw {kind}", level]),
            ]
            for level in LEVELS
        ]

    note = "With `always`, acknowledged jobs are on disk; `everysec` can lose about a second, `none` everything."
    return [
        Table(f"Durability, {TASKS} concurrent tasks enqueue", HEAD, rows("tasks"), note),
        Table(f"Durability, bulk of {BULK:,}", HEAD, rows("bulk")),
        *readings(found),
    ]
