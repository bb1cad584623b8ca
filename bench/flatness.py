"""What single calls cost the engine on a queue as it stands: take, finish, enqueue, beside raw commands that do the
least of the same. Each leaves the queue as long as it was, so that it can be measured again."""

from collections.abc import Sequence
from itertools import cycle
from time import process_time
from typing import TypeAlias

from windlass.core.job import Job, NewJob
from windlass.core.requests import Finish, Take
from windlass.service import Service

from .engine import QUEUE, Engine

CALLS = 400
BARE_TAKE, BARE_ENQUEUE = "bare engine: ZPOPMIN, GET, DEL", "bare engine: SET, ZADD"
CALLER = "enqueue, the caller's CPU"

Costs: TypeAlias = dict[str, float]  # kind of call -> microseconds of the engine per call


def costs(engine: Engine, service: Service, queue: str = QUEUE, raw_lanes: Sequence[str] = ("q",)) -> Costs:
    return {**_our_costs(engine, service, queue), **_raw_costs(engine, raw_lanes)}


def _our_costs(engine: Engine, service: Service, queue: str) -> Costs:
    found: Costs = {}
    taken: list[Job] = []
    for most in (1, 10):
        request = Take(queues=(queue,), most=most)
        calls = CALLS // most
        with engine.metered(calls) as meter:
            for _ in range(calls):
                taken += service.take(request).wait().jobs
        found[f"take of {most}"] = meter.spent.script_us_per_job
    with engine.metered(len(taken)) as meter:
        for job in taken:
            service.finish([Finish(job.id, job.lease_token)]).wait()
    found["finish"] = meter.spent.script_us_per_job
    jobs = [NewJob(queue=queue, name=job.name, lane=job.lane, payload=job.payload) for job in taken]
    began_at_s = process_time()
    with engine.metered(len(jobs)) as meter:
        for one in jobs:
            service.enqueue([one]).wait()
    found["enqueue"] = meter.spent.script_us_per_job
    found[CALLER] = 1e6 * (process_time() - began_at_s) / len(jobs)
    return found


def _raw_costs(engine: Engine, lanes: Sequence[str]) -> Costs:
    found: Costs = {}
    taken = []
    with engine.metered(CALLS) as meter:
        for lane, _ in zip(cycle(lanes), range(CALLS), strict=False):
            key = engine.control.call("ZPOPMIN", lane)[0]
            value, _ = engine.control.pipeline([("GET", key), ("DEL", key)])
            taken.append((lane, key, value))
    found[BARE_TAKE] = meter.spent.script_us_per_job
    with engine.metered(CALLS) as meter:
        for lane, key, value in taken:
            engine.control.pipeline([("SET", key, value), ("ZADD", lane, 0, key)])
    found[BARE_ENQUEUE] = meter.spent.script_us_per_job
    return found
