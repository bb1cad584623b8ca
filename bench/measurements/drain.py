"""Take and finish with exchange in batches, and from one and two processes, compared with ZPOPMIN + GET + DEL.

Each run checks that every enqueued job was delivered exactly once.
"""

import contextlib
import json
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain

import uvloop

from bench.engine import BULK, Child, Engine, Spent, fill, fill_raw
from bench.figures import Setting, Table, in_turns, middle, ratio, spread
from bench.programs.drainer import drain, drain_raw

BATCHES = {1: 3_000, 10: 20_000, 100: 50_000}  # batch -> jobs
PROCESS_BATCH = 100
PROCESS_JOBS = 60_000
BATCH_HEAD = (
    "exchange", "jobs/s", "bare engine, jobs/s", "ratio", "calls/job", "inner commands/job", "script µs/job",
    "engine CPU µs/job", "bare CPU µs/job",
)  # fmt: skip


def check_delivery(delivered: Collection[bytes], expected: set[bytes]) -> None:
    assert len(delivered) == len(expected), f"{len(delivered)} deliveries of {len(expected)} jobs"
    assert set(delivered) == expected, "a job is missing"


def _filled(engine: Engine, count: int, is_raw: bool) -> set[bytes]:
    engine.empty()
    if is_raw:
        return fill_raw(engine.control, count)
    with engine.service() as service:
        return fill(service, count)


def in_batches(engine: Engine, count: int, batch: int, *, is_raw: bool) -> Spent:
    expected = _filled(engine, count, is_raw)

    async def main() -> Spent:
        with engine.metered(count) as meter:
            _, _, delivered = await (drain_raw if is_raw else drain)(engine.url, batch)
        check_delivery(delivered, expected)
        return meter.spent

    return uvloop.run(main())


def by_processes(engine: Engine, count: int, processes: int, *, is_raw: bool) -> float:
    """Return jobs per second, from the start of the first process to the end of the last."""
    expected = _filled(engine, count, is_raw)
    kind = "raw" if is_raw else "windlass"
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(Child("drainer", engine.url, kind, str(PROCESS_BATCH))) for _ in range(processes)
        ]
        for child in children:
            child.wait_ready()
        for child in children:
            child.tell()
        reports = [json.loads(child.findings()) for child in children]
    delivered = [bytes.fromhex(text) for text in chain.from_iterable(report["delivered"] for report in reports)]
    check_delivery(delivered, expected)
    began_at_ns: int = min(report["began_at_ns"] for report in reports)
    ended_at_ns: int = max(report["ended_at_ns"] for report in reports)
    return count / ((ended_at_ns - began_at_ns) / 1e9)


def _batch_table(setting: Setting, engine: Engine) -> Table:
    ways: dict[str, Callable[[], Spent]] = {}
    for batch, jobs in BATCHES.items():
        count = setting.scaled(jobs)
        for is_raw in (False, True):
            ways[f"{batch} {is_raw}"] = partial(in_batches, engine, count, batch, is_raw=is_raw)
    found = in_turns(setting, "take and finish in batches", ways)
    rows = []
    for batch in BATCHES:
        ours, bare = found[f"{batch} False"], found[f"{batch} True"]
        rates, bare_rates = [one.per_s for one in ours], [one.per_s for one in bare]
        rows.append([
            f"batches of {batch}",
            spread(rates),
            spread(bare_rates),
            ratio(rates, bare_rates),
            middle([one.calls_per_job for one in ours]),
            middle([one.inner_per_job for one in ours]),
            middle([one.script_us_per_job for one in ours]),
            middle([one.cpu_us_per_job for one in ours]),
            middle([one.cpu_us_per_job for one in bare]),
        ])  # fmt: skip
    note = (
        "An exchange reports the last batch and takes the next. The bare engine: ZPOPMIN, then GET and DEL pipelined."
    )
    return Table("Take and finish", BATCH_HEAD, rows, note)


def _process_table(setting: Setting, engine: Engine) -> Table:
    count = max(BULK, setting.scaled(PROCESS_JOBS))
    ways: dict[str, Callable[[], float]] = {}
    for processes in (1, 2):
        for is_raw in (False, True):
            ways[f"{processes} {is_raw}"] = partial(by_processes, engine, count, processes, is_raw=is_raw)
    found = in_turns(setting, "drain by processes", ways)
    rows = []
    for processes in (1, 2):
        ours, bare = found[f"{processes} False"], found[f"{processes} True"]
        name = f"{processes} process{'es' if processes > 1 else ''}"
        rows.append([name, spread(ours), spread(bare), ratio(ours, bare), ratio(ours, found["1 False"])])
    head = ("drain", "jobs/s", "bare engine, jobs/s", "ratio", "against 1 process")
    note = f"Batches of {PROCESS_BATCH}; processes and engine share the cores. Each run checked exact delivery."
    return Table("Drain", head, rows, note)


def section(setting: Setting) -> list[Table]:
    with Engine() as engine:
        return [_batch_table(setting, engine), _process_table(setting, engine)]
