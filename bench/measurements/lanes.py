"""Cost of taking by GLOB from a queue with lanes by name. It depends on the number of names, not of jobs."""

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import TypeAlias

from bench.engine import BULK, Engine
from bench.figures import Setting, Table, in_turns, middle, ratio
from windlass.core.job import NewJob
from windlass.core.operations import Filter, LeaseRef, Take
from windlass.service import Service

NAMES = (10, 1_000, 10_000)
JOBS_PER_NAME = 10
FEW_NAMES = 100
FEW, MANY = 10, 1_000  # jobs per name
TAKES = 50
TAKES_LIMIT_S = 0.5  # time limit for a pattern that scans many lanes

Costs: TypeAlias = dict[str, float]  # pattern -> script microseconds per take


def _queue(names: int, jobs_per_name: int) -> str:
    return f"{names}x{jobs_per_name}"


def patterns(names: int) -> dict[str, str]:
    last = names - 1
    return {
        "prefix, one name: `task-00003*`": "task-00003*",
        "prefix, every name: `task-*`": "task-*",
        "no prefix, every tenth: `*3`": "*3",
        "no prefix, only the last name: `*-<last>`": f"*-{last:05}",
        "no prefix, no name: `*none`": "*none",
    }


def _fill(service: Service, names: int, jobs_per_name: int) -> None:
    queue = _queue(names, jobs_per_name)
    service.configure(queue, {"name_lanes": True}).wait()
    jobs = [NewJob(queue=queue, name=f"task-{name:05}") for _ in range(jobs_per_name) for name in range(names)]
    for start in range(0, len(jobs), BULK):
        service.enqueue(jobs[start : start + BULK]).wait()


def _cost(engine: Engine, service: Service, queue: str, pattern: str) -> float:
    """Take one by one, and release all jobs afterwards."""
    request = Take(queues=(queue,), wants=Filter(glob=pattern))
    taken, takes = [], 0
    stop_at_s = perf_counter() + TAKES_LIMIT_S
    with engine.metered(1) as meter:
        while takes < TAKES and perf_counter() < stop_at_s:
            taken += service.take(request).wait().jobs
            takes += 1
    if taken:
        service.release([LeaseRef(job.id, job.lease_token) for job in taken]).wait()
    return meter.spent.script_us / takes


def _costs(engine: Engine, service: Service, names: int, jobs_per_name: int) -> Costs:
    queue = _queue(names, jobs_per_name)
    return {label: _cost(engine, service, queue, pattern) for label, pattern in patterns(names).items()}


def _rows(found: Mapping[str, list[Costs]]) -> list[list[str]]:
    first = next(iter(found.values()))
    rows = []
    for label in first[0]:
        base = [costs[label] for costs in first]
        row = [label]
        for samples in found.values():
            values = [costs[label] for costs in samples]
            row.append(middle(values) if samples is first else f"{middle(values)} ({ratio(values, base)})")
        rows.append(row)
    return rows


def section(setting: Setting) -> list[Table]:
    by_names = [(names, JOBS_PER_NAME) for names in NAMES]
    by_jobs = [(FEW_NAMES, FEW), (FEW_NAMES, MANY)]
    with Engine() as engine, engine.service() as service:
        for shape in (*by_names, *by_jobs):
            setting.say("taking by GLOB: {:,} names with {:,} jobs each".format(*shape))
            _fill(service, *shape)
        ways = {_queue(*shape): partial(_costs, engine, service, *shape) for shape in (*by_names, *by_jobs)}
        found = in_turns(setting, "taking by GLOB", ways)
    names_head = ("script µs per take of 1", *(f"{names:,} names" for names in NAMES))
    jobs_head = ("script µs per take of 1", f"{FEW:,} jobs a name", f"{MANY:,} jobs a name")
    note = "A long scan over lanes takes several calls; all of them count. Brackets hold the ratio to the first column."
    return [
        Table(
            f"Taking by GLOB, {JOBS_PER_NAME} jobs a name", names_head,
            _rows({key: found[key] for key in (_queue(*shape) for shape in by_names)}), note,
        ),
        Table(
            f"Taking by GLOB, {FEW_NAMES} names", jobs_head,
            _rows({key: found[key] for key in (_queue(*shape) for shape in by_jobs)}),
        ),
    ]  # fmt: skip
