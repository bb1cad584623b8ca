"""Section of the report: pages as a deployment grows, memory that deleted jobs free, and followers of events."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.engine import Engine
from bench.figures import Setting, Table, number
from bench.measurements.server_cpu import PREPARED_S, served

from . import followers, memory
from .deployments import AXES, Axis
from .pages import COMMANDS, SEARCHES, Cost, measure, paths, run_command

JOBS = 1_000_000  # of which the memory is measured
FOLLOWERS = (10, 100, 1_000)
SLOW_US = 1_000  # calls of the engine that are noted
COMMANDS_SHOWN = 4


class Grown(NamedTuple):
    """Measurements of one size of a deployment."""

    size: int
    pages: Sequence[Cost]
    commands: Sequence[Cost]
    server_mb: float
    engine_mb: float
    longest_call_ms: float
    load: float  # average of the machine, before the pages

    @property
    def slowest(self) -> Cost:
        return max(self.pages, key=lambda cost: cost.first_s)


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def grow(axis: Axis, size: int, *, with_commands: bool) -> Grown:
    """Fill a deployment, start a server, and request every page and list."""
    with Engine() as engine:
        with engine.service() as service:
            axis.fill(service, size)
        engine.control.call("CONFIG", "SET", "slowlog-log-slower-than", SLOW_US)
        with served(engine) as server:
            time.sleep(PREPARED_S)
            engine.control.call("SLOWLOG", "RESET")
            load = os.getloadavg()[0]
            pages = [measure(engine, server, path) for path in [*paths(), *SEARCHES, *axis.paths]]
            longest_us = max([entry[2] for entry in engine.control.call("SLOWLOG", "GET", 128)], default=0)
            commands = [run_command(engine, words) for words in COMMANDS] if with_commands else []
            memory_mb = resident_mb(server.pid), engine.used_memory() / 1e6
        return Grown(size, pages, commands, *memory_mb, longest_us / 1e3, load)


def refused(grown: Grown) -> list[str]:
    """Return pages that were refused for another reason than missing parameters."""
    return [f"{cost.what}: {cost.status}" for cost in grown.pages if cost.status >= 500]


def _row(axis: Axis, grown: Grown) -> list[str]:
    slowest = grown.slowest
    return [
        f"{grown.size:,} {axis.what}",
        f"{1e3 * median(cost.first_s for cost in grown.pages):.0f} ms",
        f"{slowest.first_s:.2f} s, {slowest.what}",
        f"{max(cost.server_cpu_s + cost.engine_cpu_s for cost in grown.pages):.2f} s",
        f"{grown.longest_call_ms:.0f} ms",
        f"{grown.server_mb:.0f} MB",
        f"{grown.engine_mb:.0f} MB",
        ", ".join(refused(grown)) or "none",
        f"{grown.load:.0f}",
    ]


def _measure_pages(setting: Setting) -> list[Table]:
    rows, commands = [], []
    for axis in AXES.values():
        sizes = axis.sizes[:-1] if setting.is_quick else axis.sizes
        for size in sizes:
            setting.say(f"load: {size:,} {axis.what}")
            grown = grow(axis, size, with_commands=size == sizes[-1])
            rows.append(_row(axis, grown))
            commands += [_command_row(axis, size, cost) for cost in _slowest(grown.commands)]
    return page_tables(rows, commands)


def page_tables(rows: Sequence[Sequence[str]], commands: Sequence[Sequence[str]]) -> list[Table]:
    head = (
        "a deployment with", "median page", "slowest page", "most processor time", "longest engine call",
        "server's memory", "engine's memory", "answers of 500 and above", "load average",
    )  # fmt: skip
    note = (
        f"Every page of the dashboard and every list of the API that needs no id, and searches: {len(paths())} + "
        f"{len(SEARCHES)} addresses, each requested the first time since the server started. Processor time is that of "
        "server and engine together. The longest call of the engine includes time in which other programs ran."
    )
    command_note = (
        "The slowest commands at the largest size, with a direct connection to the engine. Processor time includes the "
        "start of the program, about 0.35 s. `doctor` reads everything, in bounded calls."
    )
    command_head = ("a deployment with", "command", "time", "its processor time", "the engine's")
    return [
        Table("Pages of large deployments", head, rows, note),
        Table("Commands on large deployments", command_head, commands, command_note),
    ]


def _slowest(commands: Sequence[Cost]) -> Sequence[Cost]:
    return sorted(commands, key=lambda cost: -cost.first_s)[:COMMANDS_SHOWN]


def _command_row(axis: Axis, size: int, cost: Cost) -> list[str]:
    return [
        f"{size:,} {axis.what}", f"`{cost.what}`", f"{cost.first_s:.1f} s", f"{cost.server_cpu_s:.2f} s",
        f"{cost.engine_cpu_s:.2f} s",
    ]  # fmt: skip


def memory_table(found: Sequence[memory.Memory]) -> Table:
    rows = [[one.what, f"{one.used_mb:.0f} MB", f"{one.resident_mb:.0f} MB", one.note] for one in found]
    note = (
        "Memory as the engine counts it, and of its process. Ids of ended jobs stay for ten minutes, which is what "
        "remains after all are deleted."
    )
    return Table("Memory of deleted jobs", ("state", "counted", "resident", "note"), rows, note)


def followers_table(found: Sequence[followers.Followed]) -> Table:
    rows = [
        [
            f"{one.followers:,}", f"{one.kb_each:.0f} KB", f"{one.descriptors:,}", f"{number(one.last_ms)} ms",
            f"{number(one.cpu_ms)} ms",
        ]
        for one in found
    ]  # fmt: skip
    head = ("followers", "memory of each", "descriptors", "last follower has an event after", "server's CPU per event")
    note = (
        "Clients that follow all events of one server process, over HTTP. The time begins with the request that "
        "enqueues a job. The program that follows runs on the same machine and needs more processor time than the "
        "server."
    )
    return Table("Followers of events", head, rows, note)


def section(setting: Setting) -> list[Table]:
    pages = _measure_pages(setting)
    setting.say("load: memory of deleted jobs")
    freed = memory_table(memory.measure(setting.scaled(JOBS)))
    setting.say("load: followers of events")
    return [*pages, freed, followers_table(followers.measure_all(FOLLOWERS))]
