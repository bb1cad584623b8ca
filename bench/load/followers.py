"""Many clients that follow all events of one server process: memory and descriptors of each, and the time until all of
them have an event. A child process follows, so that its own time and descriptors do not count as the server's."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

from bench.engine import Engine
from bench.measurements import http_api
from bench.measurements.server_cpu import Server, _cpu_us, served

EVENTS = 20
JOB = {"queue": "bench", "name": "noop"}


class Followed(NamedTuple):
    followers: int
    kb_each: float  # of the server's resident memory
    descriptors: int  # of the server
    last_ms: float  # from the request that enqueues a job until the last follower has its event, median
    cpu_ms: float  # of the server, for one event to all


def _resident_kb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e3


async def _follow(port: int, count: int) -> None:
    """Follow, and print a line when all followers have read another event."""
    arrived = asyncio.Semaphore(0)

    async def read() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"id: ")
        arrived.release()
        while True:
            if b"event: queued\n" in await reader.readuntil(b"\n\n"):
                arrived.release()

    readers = [asyncio.create_task(read()) for _ in range(count)]
    while readers:
        for _ in range(count):
            await arrived.acquire()
        print("all", flush=True)


@contextmanager
def _following(server: Server, count: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.load.followers", "follow", str(server.http_port), str(count)]
    with subprocess.Popen(command, cwd=http_api.ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            _expect_all(process)
            yield process
        finally:
            process.kill()


def _expect_all(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "all\n":
        raise RuntimeError("The followers ended early.")


def _enqueue(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", "/api/v1/jobs", json.dumps(JOB), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 201:
        raise RuntimeError(f"A job was refused with {answer.status}.")


def measure(server: Server, count: int) -> Followed:
    before_kb = _resident_kb(server.pid)
    with _following(server, count) as process:
        kb_each = (_resident_kb(server.pid) - before_kb) / count
        descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
        times, cpu_us = [], _cpu_us(server.pid)
        for _ in range(EVENTS):
            begin_s = time.perf_counter()
            _enqueue(connection)
            _expect_all(process)
            times.append(1e3 * (time.perf_counter() - begin_s))
        connection.close()
        cpu_ms = (_cpu_us(server.pid) - cpu_us) / 1e3 / EVENTS
    return Followed(count, kb_each, descriptors, median(times), cpu_ms)


def measure_all(counts: tuple[int, ...]) -> list[Followed]:
    os.environ |= {"WINDLASS_TOKEN_FOLLOWERS_MAX": str(max(counts)), "WINDLASS_FOLLOWERS_MAX": str(max(counts))}
    found = []
    for count in counts:
        with Engine() as engine, served(engine) as server:
            measure(server, 1)  # memory of the first events does not count
            found.append(measure(server, count))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["follow"]:
        uvloop.run(_follow(int(sys.argv[2]), int(sys.argv[3])))
    else:
        for followed in measure_all((10, 100, 1_000)):
            print(followed)
