"""Loads whose instructions are counted in a Python process that uses the SDK."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from windlass.engine_api import Blob, NewJob, Service, Settings, build_store

from .callgrind import CountedProcess
from .engine import quick_engine

QUEUE = "bench"
LIMIT_S = 120.0
CHECK_EVERY_S = 0.02
WARM_UP = 100  # calls before the count
# Python's cache of attributes depends on where its objects lie in memory. Two that use the same place of the cache add
# thousands of instructions, so each row is counted with several seeds, and the smallest count is kept.
SEEDS = (1, 2, 3)
PAYLOAD = b'{"number":1}'


@contextlib.contextmanager
def _client(url: str, kind: str, seed: int) -> Iterator[CountedProcess]:
    command = [sys.executable, "-m", "bench.programs.counted_client", url, kind]
    with CountedProcess(command, {"PYTHONHASHSEED": str(seed)}, starts_counting=False) as client:
        client.wait_for("ready")
        yield client


def enqueue(kind: str, count: int, seed: int) -> float:
    with quick_engine() as url, _client(url, kind, seed) as client:
        _call(client, WARM_UP)
        with client.counted() as found:
            _call(client, count)
    return found.instructions / count


def _call(client: CountedProcess, count: int) -> None:
    client.say(str(count))
    client.wait_for("done")


def hand_off(count: int, seed: int) -> float:
    """Run a worker that is handed each job while it waits: accept, run, finish, wait again."""
    with _worker(1, seed) as (client, service):
        for _ in range(10):
            _hand_over(service)
        with client.counted() as found:
            for _ in range(count):
                _hand_over(service)
    return found.instructions / count


def drain(slots: int, count: int, seed: int) -> float:
    with _worker(slots, seed) as (client, service):
        _drain(service, WARM_UP)
        with client.counted() as found:
            _drain(service, count)
    return found.instructions / count


@contextlib.contextmanager
def _worker(slots: int, seed: int) -> Iterator[tuple[CountedProcess, Service]]:
    with quick_engine() as url, _client(url, "work", seed) as client:
        store = build_store(Settings(url=url))
        try:
            client.say(str(slots))
            service = Service(store)
            _wait_idle(service)
            yield client, service
        finally:
            store.close_sync()


def _jobs(count: int) -> list[NewJob]:
    return [NewJob(queue=QUEUE, name="noop", payload=Blob(PAYLOAD))] * count


def _hand_over(service: Service) -> None:
    service.enqueue(_jobs(1)).wait()
    _wait_idle(service)


def _drain(service: Service, count: int) -> None:
    """Enqueue jobs while the queue is paused, so that none is handed over, and wait for their end."""
    service.pause(QUEUE).wait()
    for start in range(0, count, 1_000):
        service.enqueue(_jobs(min(1_000, count - start))).wait()
    service.resume(QUEUE).wait()
    _wait_idle(service)


def _wait_idle(service: Service) -> None:
    """Wait until there is no job, and the worker waits for the next."""
    give_up_at_s = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up_at_s:
        stats = service.stats([QUEUE]).wait()[0]
        if stats.waiting_takers == 1 and not stats.queued and not stats.running:
            return
        time.sleep(CHECK_EVERY_S)
    raise RuntimeError("the worker does not become idle")


def _least(count: Callable[[int], float]) -> float:
    return min(count(seed) for seed in SEEDS)


def client_rows() -> Iterator[tuple[str, Callable[[], float]]]:
    yield "client: enqueue", lambda: _least(partial(enqueue, "sync", 1_000))
    yield "client: aenqueue, one at a time", lambda: _least(partial(enqueue, "one", 1_000))
    yield "client: aenqueue, 50 tasks", lambda: _least(partial(enqueue, "tasks", 2_000))
    yield "worker: job handed over", lambda: _least(partial(hand_off, 100))
    yield "worker: drain, 10 slots", lambda: _least(partial(drain, 10, 2_000))
    yield "worker: drain, 100 slots", lambda: _least(partial(drain, 100, 2_000))
