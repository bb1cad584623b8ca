"""Process with any number of takers that wait for jobs: `python -m bench.programs.taker URL async|sync|raw TAKERS`.

Each job carries the instant at which it was sent (the monotonic clock is the same in all processes of a host). A job
without an instant is the last job of its taker.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from time import monotonic_ns

import uvloop

from bench.engine import NAMESPACE, QUEUE
from windlass.core.job import Job
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store

WAIT_S = 60
REQUEST = Take(queues=(QUEUE,), wait_ms=WAIT_S * 1000)


def _latency_us(job: Job) -> float | None:
    """Return the latency of a job, or None for the last job."""
    return (monotonic_ns() - int(job.payload.data)) / 1000 if job.payload.data != b"stop" else None


async def wait_async(url: str) -> list[float]:
    latencies_us: list[float] = []
    async with Store(parse_url(url), namespace=NAMESPACE) as store:
        service = Service(store)
        while jobs := (await service.take(REQUEST)).jobs:
            latency_us = _latency_us(jobs[0])
            await service.finish([Finish(jobs[0].id, jobs[0].lease_token)])
            if latency_us is None:
                break
            latencies_us.append(latency_us)
    return latencies_us


def wait_sync(url: str) -> list[float]:
    latencies_us: list[float] = []
    store = Store(parse_url(url), namespace=NAMESPACE)
    service = Service(store)
    while jobs := service.take(REQUEST).wait().jobs:
        latency_us = _latency_us(jobs[0])
        service.finish([Finish(jobs[0].id, jobs[0].lease_token)]).wait()
        if latency_us is None:
            break
        latencies_us.append(latency_us)
    store.close_sync()
    return latencies_us


def wait_raw(url: str) -> list[float]:
    latencies_us: list[float] = []
    connection = SyncConnection.open(parse_url(url))
    while found := connection.call("BLPOP", "q", WAIT_S, timeout_s=WAIT_S + 5):
        if found[1] == b"stop":
            break
        latencies_us.append((monotonic_ns() - int(found[1])) / 1000)
    connection.close()
    return latencies_us


async def _together(url: str, takers: int) -> list[float]:
    """Run the takers concurrently, each with its own store and connections."""
    return list(chain.from_iterable(await asyncio.gather(*(wait_async(url) for _ in range(takers)))))


def _in_threads(wait: Callable[[str], list[float]], url: str, takers: int) -> list[float]:
    with ThreadPoolExecutor(takers) as threads:
        return list(chain.from_iterable(threads.map(wait, [url] * takers)))


WAYS: dict[str, Callable[[str, int], list[float]]] = {
    "async": lambda url, takers: uvloop.run(_together(url, takers)),
    "sync": lambda url, takers: _in_threads(wait_sync, url, takers),
    "raw": lambda url, takers: _in_threads(wait_raw, url, takers),
}


def main() -> None:
    url, kind, takers = sys.argv[1:]
    print("ready", flush=True)
    print(json.dumps(WAYS[kind](url, int(takers))))


if __name__ == "__main__":
    main()
