"""Does the cost of a call grow with the queue? One engine per size, measured in turns."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

from windlass.core.requests import Finish, Take
from windlass.service import Service

from .engine import QUEUE, Engine, fill, fill_raw, no_op_jobs
from .figures import Setting, Table, in_turns, middle, ratio

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = SIZES[:3]
CALLS = 400

Costs: TypeAlias = dict[str, float]  # kind of call -> microseconds of the engine per call


@contextlib.contextmanager
def _filled(setting: Setting, size: int) -> Iterator[tuple[Engine, Service]]:
    with Engine() as engine, engine.service() as service:
        setting.say(f"flatness: queueing {size:,} jobs")
        fill(service, size)
        fill_raw(engine.control, size)
        yield engine, service


def _costs(engine: Engine, service: Service) -> Costs:
    return {**_our_costs(engine, service), **_raw_costs(engine)}


def _raw_costs(engine: Engine) -> Costs:
    """As often as a job is taken one is added: the set stays as long as it was."""
    costs: Costs = {}
    taken = []
    with engine.metered(CALLS) as meter:
        for _ in range(CALLS):
            key = engine.control.call("ZPOPMIN", "q")[0]
            value, _ = engine.control.pipeline([("GET", key), ("DEL", key)])
            taken.append((key, value))
    costs["bare engine: ZPOPMIN, GET, DEL"] = meter.spent.script_us_per_job
    with engine.metered(CALLS) as meter:
        for key, value in taken:
            engine.control.pipeline([("SET", key, value), ("ZADD", "q", 0, key)])
    costs["bare engine: SET, ZADD"] = meter.spent.script_us_per_job
    return costs


def _our_costs(engine: Engine, service: Service) -> Costs:
    """All four leave the queue as long as it was."""
    costs: Costs = {}
    taken = []
    for most in (1, 10):
        request = Take(queues=(QUEUE,), most=most)
        calls = CALLS // most
        with engine.metered(calls) as meter:
            for _ in range(calls):
                taken += service.take(request).wait().jobs
        costs[f"take of {most}"] = meter.spent.script_us_per_job
    finishes = [Finish(job.id, job.lease_token) for job in taken]
    with engine.metered(len(finishes)) as meter:
        for finish in finishes:
            service.finish([finish]).wait()
    costs["finish"] = meter.spent.script_us_per_job
    with engine.metered(len(finishes)) as meter:
        for job in no_op_jobs(len(finishes)):
            service.enqueue([job]).wait()
    costs["enqueue"] = meter.spent.script_us_per_job
    return costs


def section(setting: Setting) -> list[Table]:
    sizes = QUICK_SIZES if setting.is_quick else SIZES
    with contextlib.ExitStack() as stack:
        filled = {size: stack.enter_context(_filled(setting, size)) for size in sizes}
        ways = {str(size): partial(_costs, *pair) for size, pair in filled.items()}
        found = in_turns(setting, "flatness", ways)
    rows = []
    for kind in found[str(sizes[0])][0]:
        base = [costs[kind] for costs in found[str(sizes[0])]]
        row = [kind]
        for size in sizes:
            values = [costs[kind] for costs in found[str(size)]]
            row.append(middle(values) if size == sizes[0] else f"{middle(values)} ({ratio(values, base)})")
        rows.append(row)
    head = ("engine µs per call", *(f"{size:,} queued" for size in sizes))
    note = (
        "Sync calls one by one, the engine's time within them; in brackets the ratio to the shortest queue. What grows "
        "also on the bare engine is memory that is no longer in the processor's caches."
    )
    return [Table("Flatness", head, rows, note)]
