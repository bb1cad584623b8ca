"""Cost of clients that follow events over HTTP: 5,000 jobs with and without followers of all events, in turns within
one run. Run with `python -m bench.measurements.followers`."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import uvloop

from bench.engine import Engine

from . import http_api
from .server_cpu import PREPARED_S, Server, _cpu_us, served

JOBS = 5_000
CONNECTIONS = 16
FOLLOWERS = (0, 20, 100)
ROUNDS = 3


class Cost(NamedTuple):
    enqueued_s: float  # until the last job was accepted
    told_s: float  # until the last follower has read the last event
    server_cpu_s: float


async def _enqueue(port: int, jobs: int) -> None:
    request = http_api.request("/api/v1/jobs", http_api.JOB)
    left = iter(range(jobs))

    async def produce() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(head.decode())
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*(produce() for _ in range(CONNECTIONS)))


async def _follow(port: int, events: int) -> None:
    """Follow events in a child process, so that the client's time does not count as the server's."""
    count = int(sys.argv[3])

    async def read() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"id: ")
        seen.release()
        left = events
        while left > 0:
            data = await reader.readuntil(b"\n\n")
            left -= b"event: queued\n" in data
        writer.close()

    seen = asyncio.Semaphore(0)
    readers = [asyncio.create_task(read()) for _ in range(count)]
    for _ in range(count):
        await seen.acquire()
    print("following", flush=True)
    await asyncio.gather(*readers)
    print("told", flush=True)


@contextlib.contextmanager
def _following(server: Server, count: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.measurements.followers", "follow", str(server.http_port), str(count)]
    with subprocess.Popen(command, cwd=http_api.ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            _expect(process, "following")
            yield process
        finally:
            process.kill()


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    if process.stdout.readline().strip() != word:
        raise RuntimeError(f"The followers did not print {word!r}.")


def measure(server: Server, followers: int) -> Cost:
    with _following(server, followers) if followers else contextlib.nullcontext() as process:
        began_s, cpu_us = time.perf_counter(), _cpu_us(server.pid)
        uvloop.run(_enqueue(server.http_port, JOBS))
        enqueued_s = time.perf_counter() - began_s
        if process is not None:
            _expect(process, "told")
        told_s = time.perf_counter() - began_s
        return Cost(enqueued_s, told_s, (_cpu_us(server.pid) - cpu_us) / 1e6)


def main() -> None:
    with Engine() as engine, served(engine) as server:
        time.sleep(PREPARED_S)
        measure(server, 0)
        rounds = [[measure(server, count) for count in FOLLOWERS] for _ in range(ROUNDS)]
    print(f"{JOBS} jobs, median of {ROUNDS} rounds; in brackets the ratio to no follower, round by round")
    for at, count in enumerate(FOLLOWERS):
        figures = []
        for field in Cost._fields:
            values = [getattr(costs[at], field) for costs in rounds]
            ratios = [getattr(costs[at], field) / getattr(costs[0], field) for costs in rounds]
            figures.append(f"{field} {median(values):.2f} ({median(ratios):.1f})")
        print(f"{count:4} followers: {', '.join(figures)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["follow"]:
        uvloop.run(_follow(int(sys.argv[2]), JOBS))
    else:
        main()
