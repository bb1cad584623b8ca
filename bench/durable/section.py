"""Section of the report: durable steps beside DBOS."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TypeAlias

from bench.figures import Bars, Finding, Picture, Reading, Setting, Table, in_turns, ratio, spread
from bench.peers import STEP_PEERS
from bench.peers.environment import prepare
from bench.peers.environment import version as peer_version

from . import postgres
from .measuring import Cost, Load, ran, restarted_ms, supervised_ms
from .systems import DBOS, TITLES, System, opened

WAYS = {"async": "async", "threads": "sync, in threads"}
WORKFLOWS, STEPS = 100, 20
SEQUENTIAL_STEPS = 200
WAVES = {"windlass": 5}  # a faster system gets more workflows, so that all runs take seconds
SEQUENTIAL_WAVES = {"windlass": 5}
OURS, RIVAL = "windlass", "postgres"
QUICK = ((OURS, "async"), (RIVAL, "threads"))  # the fastest ways of the full comparison
ROW = "durable_steps"

Key: TypeAlias = tuple[str, str]  # system and way
Costs: TypeAlias = Mapping[Key, Sequence[Cost]]


def _loads(name: str, setting: Setting) -> dict[str, Load]:
    return {
        "many": Load(WORKFLOWS, WAVES.get(name, 1), setting.scaled(STEPS)),
        "one": Load(1, SEQUENTIAL_WAVES.get(name, 1), setting.scaled(SEQUENTIAL_STEPS)),
    }


def _steps(setting: Setting, systems: Mapping[str, System], kind: str, keys: Sequence[Key]) -> dict[Key, list[Cost]]:
    """Measure systems in turns: `many` workflows at once, or `one` at a time."""
    ways: dict[Key, Callable[[], Cost]] = {
        (name, way): partial(ran, systems[name], way, _loads(name, setting)[kind]) for name, way in keys
    }
    return in_turns(setting, f"durable steps, {kind}", ways)


def rates(costs: Costs, key: Key) -> list[float]:
    return [cost.per_s for cost in costs[key]]


def best_way(costs: Costs, name: str) -> str:
    ways = [way for system, way in costs if system == name]
    return max(ways, key=lambda way: median(rates(costs, (name, way))))


def steps_table(found: Mapping[str, Costs], note: str) -> Table:
    rivals = {kind: rates(costs, (RIVAL, best_way(costs, RIVAL))) for kind, costs in found.items()}
    rows = []
    for name, title in TITLES.items():
        for way, said in WAYS.items():
            row = [f"{title}, {said}"]
            for kind, costs in found.items():
                mine = rates(costs, (name, way))
                row += [spread(mine), ratio(mine, rivals[kind])]
            rows.append(row)
    head = ("workflow", f"{WORKFLOWS} at once, steps/s", "ratio", "one at a time, steps/s", "ratio")
    return Table("Durable steps per second", head, rows, note)


def cost_table(costs: Costs, has_engine: Mapping[str, bool], steps: int) -> Table:
    rows = []
    for name, title in TITLES.items():
        for way, said in WAYS.items():
            engine, program, stored, written = (
                spread([cost[at] for cost in costs[name, way]]) for at in range(1, len(Cost._fields))
            )
            if not has_engine[name]:
                engine = written = "–"
            rows.append([f"{title}, {said}", engine, program, stored, written])
    note = (
        "Shares of a step in the whole run, with the start and the end of its workflow. *Engine* is the processor "
        "time of Valkey, or of all processes of PostgreSQL; SQLite works inside the program. *Stored* is what a "
        "step adds to the memory of Valkey or to the size of the database. *Log* is what it adds to the "
        "append-only file or to the write-ahead log."
    )
    head = ("workflow", "engine CPU µs", "program CPU µs", "stored bytes", "log bytes")
    return Table(f"Cost of a durable step, {WORKFLOWS} workflows of {steps} steps at once", head, rows, note)


def _resumes(setting: Setting, systems: Mapping[str, System]) -> dict[str, list[float]]:
    ways: dict[str, Callable[[], float]] = {
        "Windlass, the parent replaces the process (`--processes 1`)": partial(supervised_ms, systems[OURS], 1),
        "Windlass, another process continues (`--processes 2`)": partial(supervised_ms, systems[OURS], 2),
        "DBOS on PostgreSQL, the process is started again": partial(restarted_ms, systems["postgres"]),
        "DBOS on SQLite, the process is started again": partial(restarted_ms, systems["sqlite"]),
    }
    return in_turns(setting, "continue after kill -9", ways)


def resume_table(found: Mapping[str, Sequence[float]]) -> Table:
    note = (
        "From `kill -9` of the process that runs a step until that step runs again; no stored step ran again. "
        "Windlass: `windlass worker` with a parent process, which frees the jobs of a dead process at once; the "
        "task has `retry` with a pause of 100 ms. A worker without a parent continues when the lease expires, after "
        "30 s by default. DBOS: the same program with the same executor id, started again without a pause, as its "
        "documentation describes for one server without Conductor; it recovers its workflows at launch. Both "
        "include the start of Python."
    )
    rows = [[name, spread(values)] for name, values in found.items()]
    return Table("Continue after kill -9", ("worker", "ms"), rows, note)


def readings(costs: Costs) -> list[Reading]:
    """Compare the best ways of Windlass and of DBOS on PostgreSQL."""
    ours, other = (rates(costs, (name, best_way(costs, name))) for name in (OURS, RIVAL))
    return [Reading(ROW, ours, other)]


def picture(found: Mapping[str, Costs]) -> Picture:
    panels = []
    for kind, title in (("many", f"{WORKFLOWS} workflows at once"), ("one", "one workflow at a time")):
        costs = found[kind]
        values = {said: median(rates(costs, (name, best_way(costs, name)))) for name, said in TITLES.items()}
        panels.append(Bars(title, "steps/s", values))
    return Picture("durable-steps", "Durable steps: Windlass and DBOS", panels)


def _note() -> str:
    return (
        f"DBOS {peer_version(DBOS)}, PostgreSQL {postgres.version()}. One process runs the workflows: it starts "
        "them, runs their steps and waits for their results. A step returns a small value. All systems flush to "
        "disk before a step is acknowledged: Valkey with `appendfsync always`, PostgreSQL with `fsync` and "
        "`synchronous_commit` on, SQLite with its default `synchronous=FULL`. Engines are reached through unix "
        "sockets. DBOS has its default settings, except for 4 threads for async workflows, which were the fastest "
        "here. Ratios are to the faster way of DBOS on PostgreSQL."
    )


def quick_readings(setting: Setting) -> list[Reading]:
    """Compare only the fastest way of each system."""
    with opened([OURS, RIVAL]) as systems:
        return readings(_steps(setting, systems, "many", QUICK))


def section(setting: Setting) -> list[Finding]:
    prepare(STEP_PEERS, setting.say)
    keys = [(name, way) for way in WAYS for name in TITLES]
    with opened(list(TITLES)) as systems:
        steps = {kind: _steps(setting, systems, kind, keys) for kind in ("many", "one")}
        resumes = _resumes(setting, systems)
        has_engine = {name: system.has_engine for name, system in systems.items()}
    return [
        picture(steps),
        steps_table(steps, _note()),
        cost_table(steps["many"], has_engine, setting.scaled(STEPS)),
        resume_table(resumes),
        *readings(steps["many"]),
    ]
