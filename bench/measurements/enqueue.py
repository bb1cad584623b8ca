"""Enqueue one by one, from concurrent tasks and in bulk, compared with SET + ZADD on the bare engine."""

import asyncio
from collections.abc import Callable

import uvloop

from bench.engine import BULK, Engine, Spent, fill, fill_raw, no_op_jobs, raw_jobs
from bench.figures import Setting, Table, in_turns, middle, number, ratio, spread
from windlass.service import Service
from windlass.store.connection.connection import Connection

TASKS = 50
ONE_BY_ONE_JOBS = 3_000
TASKS_JOBS = 20_000
BULK_JOBS = 50_000
MEMORY_JOBS = 100_000
HEAD = (
    "enqueue", "jobs/s", "bare engine, jobs/s", "ratio", "calls/job", "inner commands/job", "script µs/job",
    "engine CPU µs/job", "bare CPU µs/job",
)  # fmt: skip


def ping_one_by_one(engine: Engine, count: int) -> Spent:
    with engine.metered(count) as meter:
        for _ in range(count):
            engine.control.call("PING")
    return meter.spent


def one_by_one(engine: Engine, count: int) -> Spent:
    engine.empty()
    with engine.service() as service:
        fill(service, 1)
        jobs = no_op_jobs(count)
        with engine.metered(count) as meter:
            for job in jobs:
                service.enqueue([job]).wait()
    return meter.spent


def raw_one_by_one(engine: Engine, count: int) -> Spent:
    engine.empty()
    jobs = raw_jobs(count)
    with engine.metered(count) as meter:
        for key, value in jobs:
            engine.control.pipeline([("SET", key, value), ("ZADD", "q", 0, key)])
    return meter.spent


def from_tasks(engine: Engine, count: int, tasks: int = TASKS) -> Spent:
    """Enqueue from concurrent tasks. Each task enqueues its share one by one."""

    async def main() -> Spent:
        async with engine.store() as store:
            service = Service(store)
            await service.enqueue(no_op_jobs(1))
            shares = [no_op_jobs(count // tasks) for _ in range(tasks)]

            async def work(number: int) -> None:
                for job in shares[number]:
                    await service.enqueue([job])

            with engine.metered(count // tasks * tasks) as meter:
                await asyncio.gather(*(work(number) for number in range(tasks)))
            return meter.spent

    engine.empty()
    return uvloop.run(main())


def raw_from_tasks(engine: Engine, count: int, tasks: int = TASKS) -> Spent:
    async def main() -> Spent:
        connection = await Connection.open(engine.endpoint)
        jobs = raw_jobs(count)

        async def work(number: int) -> None:
            for key, value in jobs[number::tasks]:
                connection.call("SET", key, value)
                await connection.call("ZADD", "q", 0, key)

        with engine.metered(count) as meter:
            await asyncio.gather(*(work(number) for number in range(tasks)))
        connection.close()
        await connection.wait_closed()
        return meter.spent

    engine.empty()
    return uvloop.run(main())


def in_bulk(engine: Engine, count: int) -> Spent:
    async def main() -> Spent:
        async with engine.store() as store:
            service = Service(store)
            await service.enqueue(no_op_jobs(1))
            calls = [no_op_jobs(BULK) for _ in range(count // BULK)]
            with engine.metered(BULK * len(calls)) as meter:
                for jobs in calls:
                    await service.enqueue(jobs)
            return meter.spent

    engine.empty()
    return uvloop.run(main())


def raw_in_bulk(engine: Engine, count: int) -> Spent:
    engine.empty()
    with engine.metered(count) as meter:
        fill_raw(engine.control, count)
    return meter.spent


def bytes_per_job(engine: Engine, count: int) -> tuple[float, float]:
    """Return the size of a queued no-op job, and of the bare engine's value and member."""
    engine.empty()
    with engine.service() as service:
        fill(service, 1)
        before = engine.used_memory()
        fill(service, count)
        ours = (engine.used_memory() - before) / count
    engine.empty()
    before = engine.used_memory()
    fill_raw(engine.control, count)
    return ours, (engine.used_memory() - before) / count


def _row(name: str, ours: list[Spent], bare: list[Spent]) -> list[str]:
    rates, bare_rates = [one.per_s for one in ours], [one.per_s for one in bare]
    return [
        name,
        spread(rates),
        spread(bare_rates),
        ratio(rates, bare_rates),
        middle([one.calls_per_job for one in ours]),
        middle([one.inner_per_job for one in ours]),
        middle([one.script_us_per_job for one in ours]),
        middle([one.cpu_us_per_job for one in ours]),
        middle([one.cpu_us_per_job for one in bare]),
    ]


def section(setting: Setting) -> list[Table]:
    single, shared, bulk = (setting.scaled(count) for count in (ONE_BY_ONE_JOBS, TASKS_JOBS, BULK_JOBS))
    bulk = max(BULK, bulk // BULK * BULK)
    names = "one by one, sync", f"{TASKS} concurrent tasks", f"bulk, {BULK:,} a call"
    with Engine() as engine:
        ways: dict[str, Callable[[], Spent]] = {
            "ping": lambda: ping_one_by_one(engine, single),
            names[0]: lambda: one_by_one(engine, single),
            f"raw {names[0]}": lambda: raw_one_by_one(engine, single),
            names[1]: lambda: from_tasks(engine, shared),
            f"raw {names[1]}": lambda: raw_from_tasks(engine, shared),
            names[2]: lambda: in_bulk(engine, bulk),
            f"raw {names[2]}": lambda: raw_in_bulk(engine, bulk),
        }
        found = in_turns(setting, "enqueue", ways)
        ours, bare = bytes_per_job(engine, setting.scaled(MEMORY_JOBS))
    ping = [one.per_s for one in found["ping"]]
    single_rate = [one.per_s for one in found[names[0]]]
    rows = [_row(name, found[name], found[f"raw {name}"]) for name in names]
    trip = [["PING", spread(ping), ratio(single_rate, ping)]]
    size = [["bytes per queued no-op job", number(ours), number(bare), f"{ours / bare:.2f}×"]]
    return [
        Table("Enqueue", HEAD, rows, "The bare engine stores the same bytes with SET and ZADD, pipelined."),
        Table("Round trip", ("", "calls/s", "enqueue one by one, ratio"), trip),
        Table("Memory", ("", "Windlass", "bare engine", "ratio"), size),
    ]
