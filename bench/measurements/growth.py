"""Growth of the cost of a call with the number of queued jobs, lanes, limits and waiting workers, one decade at a time.
Raw commands whose data grow alike are measured for comparison. Each size has its own engine; sizes take turns."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from typing import NamedTuple, TypeAlias

from bench.engine import QUEUE, Engine, fill, fill_raw
from bench.figures import Finding, Lines, Picture, Reading, Setting, Table, in_turns, middle, ratio
from windlass.core.job import NewJob
from windlass.service import Service

from .flatness import CALLER, Costs, costs
from .limits import cost_of_takes, many_limits, put
from .waiting import SAMPLES, costs_of_waiting

JOBS = 10_000  # queued in the axes of lanes and limits
FEWEST, MOST = 1_000, 1_000_000
TAKE = "take of 1"

Measure: TypeAlias = Callable[[], Costs]
Grown: TypeAlias = dict[int, list[Costs]]  # size -> costs of calls, round by round


class Axis(NamedTuple):
    what: str
    sizes: Sequence[int]
    prepared: Callable[[Setting, int], AbstractContextManager[Measure]]
    note: str = ""


@contextlib.contextmanager
def _ready(setting: Setting, what: str) -> Iterator[tuple[Engine, Service]]:
    setting.say(f"growth: {what}")
    with Engine() as engine, engine.service() as service:
        yield engine, service


@contextlib.contextmanager
def _queued(setting: Setting, size: int) -> Iterator[Measure]:
    with _ready(setting, f"queueing {size:,} jobs") as (engine, service):
        fill(service, size)
        fill_raw(engine.control, size)
        yield partial(costs, engine, service)


@contextlib.contextmanager
def _in_lanes(setting: Setting, size: int) -> Iterator[Measure]:
    with _ready(setting, f"{JOBS:,} jobs in {size:,} lanes") as (engine, service):
        put(service, [NewJob(queue=QUEUE, name="noop", lane=f"{at % size}") for at in range(JOBS)])
        names = [f"q{at}" for at in range(size)]
        fill_raw(engine.control, JOBS, names)
        yield partial(costs, engine, service, raw_lanes=names)


@contextlib.contextmanager
def _limited(setting: Setting, size: int) -> Iterator[Measure]:
    with _ready(setting, f"{JOBS:,} jobs under {size:,} limits") as (engine, service):
        many_limits(service, size, JOBS)
        names = [f"q{at}" for at in range(size)]
        fill_raw(engine.control, JOBS, names)
        yield partial(costs, engine, service, "many", names)


@contextlib.contextmanager
def _awaited(setting: Setting, size: int) -> Iterator[Measure]:
    with Engine() as engine:
        yield partial(costs_of_waiting, engine, setting.scaled(SAMPLES), size)


AXES = {
    "queued": Axis("queued jobs", (FEWEST, 10_000, 100_000, MOST), _queued),
    "lanes": Axis(
        "lanes", (1, 10, 100, 1_000, 10_000), _in_lanes, f"{JOBS:,} jobs in total; bare: as many sorted sets.",
    ),
    "limits": Axis(
        "limits", (1, 10, 100, 1_000), _limited,
        f"{JOBS:,} jobs in total, each under one limit by its name; callers match, the engine counts.",
    ),
    "waiting": Axis(
        "waiting workers", (1, 10, 100), _awaited,
        "Jobs are sent one at a time to a queue at which all workers wait, each with its own connections. Measured "
        "from before the enqueue until a worker has the job. Bare: RPUSH and as many connections in BLPOP.",
    ),
}  # fmt: skip
QUICK_MOST = 100_000


def measured(setting: Setting, axis: Axis, sizes: Sequence[int]) -> Grown:
    with contextlib.ExitStack() as stack:
        ways = {size: stack.enter_context(axis.prepared(setting, size)) for size in sizes}
        return in_turns(setting, f"growth by {axis.what}", ways)


@contextlib.contextmanager
def _only_taken(setting: Setting, size: int) -> Iterator[Measure]:
    with _ready(setting, f"queueing {size:,} jobs") as (engine, service):
        fill(service, size)
        yield lambda: {TAKE: cost_of_takes(engine, service, QUEUE)}


def takes_among(setting: Setting, most: int) -> list[Reading]:
    """Measure only the row that has a floor."""
    return readings(measured(setting, Axis("queued jobs", (), _only_taken), (FEWEST, most)))


def readings(grown: Grown) -> list[Reading]:
    """Return the reading of queued jobs, the only axis with a floor."""
    least, most = min(grown), max(grown)
    note = "" if most == MOST else f"here {most:,}"
    takes = {size: [costs[TAKE] for costs in grown[size]] for size in (least, most)}
    return [Reading("take_queued", takes[most], takes[least], note=note)]


def _table(axis: Axis, grown: Mapping[int, list[Costs]]) -> Table:
    least = min(grown)
    rows = []
    for kind in grown[least][0]:
        base = [costs[kind] for costs in grown[least]]
        row = [kind]
        for size, rounds in grown.items():
            values = [costs[kind] for costs in rounds]
            row.append(middle(values) if size == least else f"{middle(values)} ({ratio(values, base)})")
        rows.append(row)
    note = (
        "Calls one by one. Unless stated otherwise, a figure is the engine's time within a call: the median of groups "
        "of 20 calls. Brackets hold the ratio to the first column. Growth that the bare engine shows too comes from "
        "memory that no longer fits into the processor's caches."
    )
    head = ("µs", *(f"{size:,}" for size in grown))
    return Table(f"Growth by {axis.what}", head, rows, f"{note} {axis.note}".strip())


def _lines(axis: Axis, grown: Mapping[int, list[Costs]]) -> Lines:
    kinds = [kind for kind in next(iter(grown.values()))[0] if kind != CALLER or axis is AXES["limits"]]
    series = {
        kind: [(float(size), median(costs[kind] for costs in rounds)) for size, rounds in grown.items()]
        for kind in kinds
    }
    bare = [kind for kind in kinds if kind.startswith("bare")]
    return Lines(f"by {axis.what}", axis.what, "µs", series, bare)


def section(setting: Setting) -> list[Finding]:
    tables, panels, found = [], [], []
    for name, axis in AXES.items():
        sizes = [size for size in axis.sizes if not setting.is_quick or size <= QUICK_MOST]
        grown = measured(setting, axis, sizes)
        tables.append(_table(axis, grown))
        panels.append(_lines(axis, grown))
        found += readings(grown) if name == "queued" else []
    return [Picture("growth", "Cost of a call as the data grows", panels), *tables, *found]
