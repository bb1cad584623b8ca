"""Upper bound of each row: the bare engine with raw commands, which only store and fetch the bytes."""

from collections.abc import Callable
from statistics import quantiles

from bench.engine import BULK, Engine, fill_raw
from bench.measurements.drain import by_processes, in_batches
from bench.measurements.enqueue import raw_from_tasks, raw_in_bulk, raw_one_by_one
from bench.measurements.waiting import latencies_us

from .measuring import bytes_per_job

BATCH = 100


def _bytes_per_job(engine: Engine, count: int) -> float:
    engine.empty()
    fill_raw(engine.control, count)
    return bytes_per_job(engine, count)


def _cost(engine: Engine, count: int) -> list[float]:
    enqueued = raw_from_tasks(engine, count)
    drained = in_batches(engine, count, BATCH, is_raw=True)
    cpu_us = enqueued.cpu_us_per_job + drained.cpu_us_per_job
    return [cpu_us, (enqueued.commands + drained.commands) / count, _bytes_per_job(engine, count)]


def _pick_up(engine: Engine, count: int) -> list[float]:
    percentiles = quantiles(latencies_us(engine, "raw", count), n=100)
    return [percentiles[49] / 1000, percentiles[98] / 1000]


def _thousands(count: int) -> int:
    return max(BULK, count // BULK * BULK)


# measurement -> the values of its rows
BARE_MEASURES: dict[str, Callable[[Engine, int], list[float]]] = {
    "enqueue_one": lambda engine, count: [raw_one_by_one(engine, count).per_s],
    "enqueue_50": lambda engine, count: [raw_from_tasks(engine, count).per_s],
    "bulk": lambda engine, count: [raw_in_bulk(engine, _thousands(count)).per_s],
    "drain_100": lambda engine, count: [by_processes(engine, count, 1, is_raw=True)],
    "drain_2": lambda engine, count: [by_processes(engine, count, 2, is_raw=True)],
    "pickup": _pick_up,
    "cost": _cost,
}
