"""SDK compared with the bare engine: enqueuing through tasks, draining a queue with whole workers in each kind of pool,
and pick-up latency of an idle worker."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from statistics import quantiles
from typing import Any

import uvloop

from bench.engine import BULK, QUEUE, Child, Engine, Spent
from bench.figures import Setting, Table, in_turns, middle, ratio, spread
from windlass import Windlass

from .drain import by_processes
from .enqueue import TASKS, raw_from_tasks, raw_in_bulk, raw_one_by_one
from .waiting import PAUSE_S, latencies_us

ONE_BY_ONE_JOBS = 3_000
TASKS_JOBS = 20_000
BULK_JOBS = 50_000
DRAIN_JOBS = 40_000
SAMPLES = 300
# task, slots, worker processes, share of the jobs
DRAINS = {
    "async, 100 slots": ("in_loop", 100, 1, 1.0),
    "async, 10 slots": ("in_loop", 10, 1, 0.5),
    "async, 100 slots, 2 processes": ("in_loop", 100, 2, 1.0),
    "threads, 100 slots": ("in_thread", 100, 1, 1.0),
    "threads, 16 slots": ("in_thread", 16, 1, 0.5),
    "child processes, 2 slots": ("in_process", 2, 1, 0.1),
}


@contextlib.contextmanager
def _app(engine: Engine) -> Iterator[Windlass]:
    """Point the application of sdk_app.py at this engine. Its workers read the address from the environment."""
    os.environ["WINDLASS_URL"] = engine.url
    from bench.programs import sdk_app

    sdk_app.app.close()
    try:
        yield sdk_app.app
    finally:
        sdk_app.app.close()
        del os.environ["WINDLASS_URL"]


def one_by_one(engine: Engine, count: int) -> Spent:
    engine.empty()
    with _app(engine) as app:
        task = app.tasks["in_loop"]
        task.enqueue(0)
        with engine.metered(count) as meter:
            for number in range(count):
                task.enqueue(number)
    return meter.spent


def from_tasks(engine: Engine, count: int) -> Spent:
    async def main(app: Windlass) -> Spent:
        task = app.tasks["in_loop"]
        await task.aenqueue(0)

        async def work() -> None:
            for number in range(count // TASKS):
                await task.aenqueue(number)

        with engine.metered(count // TASKS * TASKS) as meter:
            await asyncio.gather(*(work() for _ in range(TASKS)))
        await app.aclose()
        return meter.spent

    engine.empty()
    with _app(engine) as app:
        return uvloop.run(main(app))


def in_bulk(engine: Engine, count: int) -> Spent:
    engine.empty()
    with _app(engine) as app:
        task = app.tasks["in_loop"]
        task.enqueue(0)
        with engine.metered(count) as meter:
            app.enqueue_many(task.call(number) for number in range(count))
    return meter.spent


def drained(engine: Engine, task: str, slots: int, processes: int, count: int) -> Spent:
    """Measure from the first worker's start to the last worker's end, with connecting and (de)registering."""
    engine.empty()
    with _app(engine) as app, contextlib.ExitStack() as stack:
        app.enqueue_many(app.tasks[task].call(number) for number in range(count))
        workers = [stack.enter_context(Child("sdk_app", "drain", str(slots))) for _ in range(processes)]
        for worker in workers:
            worker.wait_ready()
        with engine.metered(count) as meter:
            for worker in workers:
                worker.tell()
            reports = [json.loads(worker.findings()) for worker in workers]
        (stats,) = app.service.stats([QUEUE]).wait()
    _check(task, reports, count, stats.queued + stats.running + stats.failed)
    began_at_ns = min(report["began_at_ns"] for report in reports)
    ended_at_ns = max(report["ended_at_ns"] for report in reports)
    return meter.spent._replace(wall_s=(ended_at_ns - began_at_ns) / 1e9)


def _check(task: str, reports: list[dict[str, Any]], count: int, left: int) -> None:
    done = sum(report["done"] for report in reports)
    assert (done, left) == (count, 0), f"{done} of {count} jobs ran, {left} are left"
    if task != "in_process":  # its jobs record their numbers in a child process
        delivered = sorted(chain.from_iterable(report["delivered"] for report in reports))
        assert delivered == list(range(count)), "a job ran twice, or not at all"


def pick_up_us(engine: Engine, count: int) -> list[float]:
    engine.empty()
    with _app(engine) as app, Child("sdk_app", "wait", "16") as worker:
        worker.wait_ready()
        while not app.service.stats([QUEUE]).wait()[0].waiting_takers:
            time.sleep(0.01)
        timed = app.tasks["timed"]
        for _ in range(count):
            time.sleep(PAUSE_S)
            timed.enqueue(time.monotonic_ns())
        timed.enqueue(0)
        found: list[float] = json.loads(worker.findings())["latencies_us"]
    assert len(found) == count, "a job did not arrive"
    return found


def _enqueue_table(setting: Setting, engine: Engine) -> Table:
    single, shared, bulk = (setting.scaled(count) for count in (ONE_BY_ONE_JOBS, TASKS_JOBS, BULK_JOBS))
    bulk = max(BULK, bulk // BULK * BULK)
    names = "task.enqueue, one by one", f"task.aenqueue, {TASKS} concurrent tasks", "app.enqueue_many"
    ways: dict[str, Callable[[], Spent]] = {
        names[0]: lambda: one_by_one(engine, single),
        f"raw {names[0]}": lambda: raw_one_by_one(engine, single),
        names[1]: lambda: from_tasks(engine, shared),
        f"raw {names[1]}": lambda: raw_from_tasks(engine, shared),
        names[2]: lambda: in_bulk(engine, bulk),
        f"raw {names[2]}": lambda: raw_in_bulk(engine, bulk),
    }
    found = in_turns(setting, "enqueue through tasks", ways)
    rows = []
    for name in names:
        ours, bare = ([one.per_s for one in found[key]] for key in (name, f"raw {name}"))
        cpu = middle([one.cpu_us_per_job for one in found[name]])
        rows.append([name, spread(ours), spread(bare), ratio(ours, bare), cpu])
    return Table("SDK: enqueue", ("enqueue", "jobs/s", "bare engine, jobs/s", "ratio", "engine CPU µs/job"), rows)


def _drain_table(setting: Setting, engine: Engine) -> Table:
    ways: dict[str, Callable[[], Any]] = {}
    for name, (task, slots, processes, share) in DRAINS.items():
        count = setting.scaled(int(DRAIN_JOBS * share))
        ways[name] = partial(drained, engine, task, slots, processes, count)
    bare_count = max(BULK, setting.scaled(DRAIN_JOBS))
    ways["raw"] = partial(by_processes, engine, bare_count, 1, is_raw=True)
    found = in_turns(setting, "drain by workers", ways)
    rows = []
    for name in DRAINS:
        rates = [one.per_s for one in found[name]]
        calls = middle([one.calls_per_job for one in found[name]])
        cpu = middle([one.cpu_us_per_job for one in found[name]])
        rows.append([name, spread(rates), ratio(rates, found["raw"]), calls, cpu])
    note = (
        "Unmodified `windlass worker`, with heartbeats and background loops; each job ran once. The ratio is to one "
        "process that only pops and deletes."
    )
    return Table("SDK: drain", ("worker", "jobs/s", "ratio", "engine calls/job", "engine CPU µs/job"), rows, note)


def _latency_table(setting: Setting, engine: Engine) -> Table:
    count = setting.scaled(SAMPLES)
    ways = {
        "bare engine, RPUSH and BLPOP": partial(latencies_us, engine, "raw", count),
        "task.enqueue to the first line of the job, in another process": partial(pick_up_us, engine, count),
    }
    found = in_turns(setting, "pick-up by a worker", ways)
    rows = []
    for name, rounds in found.items():
        percentiles = quantiles(chain.from_iterable(rounds), n=100)
        rows.append([name, f"{percentiles[49] / 1000:.3f}", f"{percentiles[98] / 1000:.3f}"])
    return Table("SDK: pick-up latency", ("idle worker", "p50, ms", "p99, ms"), rows)


def section(setting: Setting) -> list[Table]:
    with Engine() as engine:
        return [_enqueue_table(setting, engine), _drain_table(setting, engine), _latency_table(setting, engine)]
