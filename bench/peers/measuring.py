"""Measurements of one program: rates of enqueue and drain, pick-up latency, and cost for the engine. All programs have
the same start and end: an enqueue lasts from the first call to the last answer, a drain from the start signal to the
last job."""

import contextlib
from collections.abc import Iterator, Sequence
from statistics import quantiles
from time import monotonic, sleep
from typing import Any, NamedTuple

from bench.engine import Engine, Spent

from . import PEERS
from .delivery import Delivery, delivery
from .process import PeerFailure, PeerProcess

STALL_LIMIT_S = 8.0  # after this time without a job, missing jobs count as lost
AFTER_S = 0.1  # time for acknowledgements, and for jobs that run again
LOOK_EVERY_S = 0.01
LEAVE_LIMIT_S = 5.0


class Enqueued(NamedTuple):
    per_s: float
    jobs: int  # including warm-up jobs that open connections
    spent: Spent


class Drained(NamedTuple):
    per_s: float
    delivery: Delivery
    spent: Spent


def enqueued(engine: Engine, peer: str, way: str, count: int) -> Enqueued:
    """Measure an enqueue. The jobs stay in the queue."""
    _clear(engine)
    return _enqueued(engine, peer, way, count)


def _enqueued(engine: Engine, peer: str, way: str, count: int, others: Sequence[PeerProcess] = ()) -> Enqueued:
    """Measure an enqueue that starts when the other processes are ready, too."""
    with PeerProcess(peer, engine.url, "enqueue", way, str(count)) as program:
        for one in (*others, program):
            one.wait_ready()
        with engine.metered(count) as meter:
            program.tell()
            found = program.findings()
    seconds = (found["ended_at_ns"] - found["began_at_ns"]) / 1e9
    return Enqueued(count / seconds, count + found["warm_up"], meter.spent._replace(wall_s=seconds))


def bytes_per_job(engine: Engine, jobs: int) -> float:
    """Empty the queue and measure the freed memory. A difference between two programs would be less exact."""
    _await_no_clients(engine)
    before = engine.used_memory()
    engine.empty()
    return (before - engine.used_memory()) / jobs


def _clear(engine: Engine) -> None:
    _await_no_clients(engine)
    engine.empty()


def _await_no_clients(engine: Engine) -> None:
    """Wait until the clients of the last program are gone: their commands and buffers would falsify figures."""
    give_up_at_s = monotonic() + LEAVE_LIMIT_S
    while int(engine.info("clients")["connected_clients"]) > 1 and monotonic() < give_up_at_s:
        sleep(LOOK_EVERY_S)


def quickest(peer: str) -> str:
    """Return the fastest way to fill a queue."""
    return "bulk" if PEERS[peer].has_bulk else "tasks"


def drained(
    engine: Engine, peer: str, way: str, count: int, *, slots: int, processes: int = 1, kind: str = "loop"
) -> tuple[Enqueued, Drained]:
    """Enqueue jobs and measure how workers run them. The workers load during the enqueue."""
    _clear(engine)
    with contextlib.ExitStack() as stack:
        words = "work", str(slots), kind
        workers = [stack.enter_context(PeerProcess(peer, engine.url, *words)) for _ in range(processes)]
        queued = _enqueued(engine, peer, way, count, workers)
        with engine.metered(queued.jobs) as meter:
            told_at_ns = min([worker.tell() for worker in workers])
            _await_jobs(workers, queued.jobs)
            sleep(AFTER_S)
        reports = [_stopped(worker) for worker in workers]
    seconds = (max(report["last_at_ns"] for report in reports) - told_at_ns) / 1e9
    checked = delivery((number for report in reports for number in report["numbers"]), count)
    if checked.missing == count:
        raise PeerFailure(f"{peer} ran none of {count} jobs")
    return queued, Drained((queued.jobs - checked.missing) / seconds, checked, meter.spent)


def _stopped(worker: PeerProcess) -> dict[str, Any]:
    worker.tell()
    return worker.findings()


def _await_jobs(workers: Sequence[PeerProcess], jobs: int) -> None:
    """Wait until all jobs have run, or no more jobs arrive."""
    seen, seen_at_s = 0, monotonic()
    while (ran := sum(worker.ran for worker in workers)) < jobs:
        if ran != seen:
            seen, seen_at_s = ran, monotonic()
        if monotonic() - seen_at_s > STALL_LIMIT_S or not all(worker.is_alive for worker in workers):
            return
        sleep(LOOK_EVERY_S)


@contextlib.contextmanager
def _pair(engine: Engine, peer: str, *words: str) -> Iterator[tuple[PeerProcess, PeerProcess]]:
    """Start a waiting worker that has run its first jobs, and a sender that is ready."""
    _clear(engine)
    with (
        PeerProcess(peer, engine.url, "work", "100", "loop", "timed") as worker,
        PeerProcess(peer, engine.url, "send", *words) as sender,
    ):
        worker.wait_ready()
        worker.tell()
        sender.wait_ready()
        give_up_at_s = monotonic() + STALL_LIMIT_S
        while not worker.ran and monotonic() < give_up_at_s:
            sleep(LOOK_EVERY_S)
        yield worker, sender


def _sent(engine: Engine, peer: str, count: int, *words: str) -> tuple[list[float], float]:
    """Return latencies in ms, and jobs per second from the first call to the last job."""
    with _pair(engine, peer, *words) as (worker, sender):
        sender.tell()
        found = sender.findings()
        _await_jobs([worker], count + found["warm_up"])
        report = _stopped(worker)
    pairs = zip(report["numbers"], report["ran_at_ns"], strict=True)
    latencies_ms = [(ran_at_ns - sent_at_ns) / 1e6 for sent_at_ns, ran_at_ns in pairs]
    if len(latencies_ms) != count:
        raise PeerFailure(f"{peer} ran {len(latencies_ms)} of {count} timed jobs")
    return latencies_ms, count / ((report["last_at_ns"] - found["began_at_ns"]) / 1e9)


def picked_up_ms(engine: Engine, peer: str, count: int) -> tuple[float, float]:
    """Return p50 and p99 of the pick-up latency on an idle queue."""
    latencies_ms, _ = _sent(engine, peer, count, "idle", str(count))
    percentiles = quantiles(latencies_ms, n=100)
    return percentiles[49], percentiles[98]


def flow_per_s(engine: Engine, peer: str, count: int) -> float:
    """Return the maximum rate that one producing process and one worker sustain together."""
    return _sent(engine, peer, count, "tasks", str(count), "0")[1]


def picked_up_loaded_ms(engine: Engine, peer: str, count: int, per_s: float) -> float:
    """Return p99 of the pick-up latency while jobs arrive at this rate."""
    latencies_ms, _ = _sent(engine, peer, count, "tasks", str(count), str(per_s))
    return quantiles(latencies_ms, n=100)[98]
