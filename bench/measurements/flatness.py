"""Costs of single calls for the engine: take, finish and enqueue, compared with the fewest raw commands for the same
work. Each measurement leaves the queue as long as it was, so that it can be repeated."""

from collections.abc import Sequence
from functools import partial
from statistics import median
from time import process_time
from typing import TypeAlias

from bench.engine import QUEUE, Engine
from windlass.core.job import Job, NewJob
from windlass.core.operations import Finish, Take
from windlass.service import Service

CALLS = 400
BARE_TAKE, BARE_ENQUEUE = "bare engine: ZPOPMIN, GET, DEL", "bare engine: SET, ZADD"
CALLER = "enqueue, the caller's CPU"

Costs: TypeAlias = dict[str, float]  # kind of call -> microseconds of the engine per call


def costs(engine: Engine, service: Service, queue: str = QUEUE, raw_lanes: Sequence[str] = ("q",)) -> Costs:
    return {**_our_costs(engine, service, queue), **_raw_costs(engine, raw_lanes)}


def _our_costs(engine: Engine, service: Service, queue: str) -> Costs:
    found: Costs = {}
    taken: list[Job] = []

    def take(most: int) -> None:
        taken.extend(service.take(Take(queues=(queue,), most=most)).wait().jobs)

    for most in (1, 10):
        found[f"take of {most}"] = engine.usual_us([partial(take, most)] * (CALLS // most))
    finishes = [partial(_finish, service, job) for job in taken]
    found["finish"] = engine.usual_us(finishes)
    jobs = [NewJob(queue=queue, name=job.name, lane=job.lane, payload=job.payload) for job in taken]
    spent_s: list[float] = []
    found["enqueue"] = engine.usual_us([partial(_enqueue, service, job, spent_s) for job in jobs])
    found[CALLER] = 1e6 * median(spent_s)
    return found


def _finish(service: Service, job: Job) -> None:
    service.finish([Finish(job.id, job.lease_token)]).wait()


def _enqueue(service: Service, job: NewJob, spent_s: list[float]) -> None:
    began_at_s = process_time()
    service.enqueue([job]).wait()
    spent_s.append(process_time() - began_at_s)


def _raw_costs(engine: Engine, lanes: Sequence[str]) -> Costs:
    taken: list[tuple[str, bytes, bytes]] = []

    def take(lane: str) -> None:
        key = engine.control.call("ZPOPMIN", lane)[0]
        value, _ = engine.control.pipeline([("GET", key), ("DEL", key)])
        taken.append((lane, key, value))

    def put(at: int) -> None:
        lane, key, value = taken[at]
        engine.control.pipeline([("SET", key, value), ("ZADD", lane, 0, key)])

    return {
        BARE_TAKE: engine.usual_us([partial(take, lanes[at % len(lanes)]) for at in range(CALLS)]),
        BARE_ENQUEUE: engine.usual_us([partial(put, at) for at in range(CALLS)]),
    }
