"""Bedrock::Jobs over TCP under 64 connections, alone and among 100,000 jobs of other names; memory of connections that
are idle or wait for a job."""

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench.engine import Child, Engine
from bench.figures import Setting, Table, in_turns, ratio, spread

CONNECTIONS = 64
SECONDS = 2.0
WARM_S = 0.5
OTHER_NAMES = 100_000
AT_HAND = 15_000  # jobs to take, besides the created ones: more than a measurement uses
BULK = 1_000
IDLE, WAITING = 10_000, 1_000
ROOT = Path(__file__).resolve().parents[2]
PING = b"Ping\n\n"
CREATE = b"CreateJob\nname: noop\n\n"


class Server:
    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    @property
    def memory(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+)", status)[0])


@contextlib.contextmanager
def served(engine: Engine) -> Iterator[Server]:
    settings = {"WINDLASS_URL": engine.url, "WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", "serve"], cwd=ROOT, env={**os.environ, **settings},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = "".join(iter(lambda: _until_ready(process), ""))
        yield Server(process.pid, int(re.findall(r"bedrock +\S+:(\d+)\n", said)[0]))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _until_ready(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    return "" if line.startswith("Stop with") else line


def _fill(server: Server, count: int, name: Callable[[int], str]) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 60) as talk, talk.makefile("rb") as replies:
        for start in range(0, count, BULK):
            jobs = json.dumps([{"name": name(number)} for number in range(start, min(start + BULK, count))])
            talk.sendall(f"CreateJobs\njobs: {jobs}\n\n".encode())
            line, length = replies.readline(), 0
            while (header := replies.readline()) != b"\r\n":
                if header.startswith(b"Content-Length: "):
                    length = int(header[16:])
            replies.read(length)
            if not line.startswith(b"200 "):
                raise RuntimeError(f"The server refused the jobs of the benchmark: {line!r}")


class Caller(asyncio.Protocol):
    """Client that sends its next request when the last reply is complete."""

    def __init__(self, next_request: Callable[[bytes], bytes], counts: list[int]) -> None:
        self._next = next_request
        self._counts = counts  # replies, errors
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._next(b""))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        marker = head.find(b"Content-Length: ")
        if marker < 0 or len(body) < int(head[marker + 16 :].partition(b"\r\n")[0]):
            return
        self._counts[0] += 1
        self._counts[1] += not head.startswith(b"200 ")
        self._received = b""
        self._transport.write(self._next(body))


def requests_per_s(port: int, next_request: Callable[[bytes], bytes], seconds: float = SECONDS) -> float:
    async def main() -> float:
        counts = [0, 0]
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Caller(next_request, counts), "127.0.0.1", port)
            for _ in range(CONNECTIONS)
        ]
        await asyncio.sleep(WARM_S)
        before, began_at_s = counts[0], time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (counts[0] - before) / (time.perf_counter() - began_at_s)
        for transport, _ in made:
            transport.abort()
        if counts[1]:
            raise RuntimeError(f"{counts[1]} of {counts[0]} replies were errors.")
        return rate

    return uvloop.run(main())


def created(server: Server, seconds: float = SECONDS) -> float:
    return requests_per_s(server.port, lambda _: CREATE, seconds)


def worked(server: Server, pattern: str) -> float:
    """Alternate GetJob and FinishJob; a pair counts as one job."""
    get = f"GetJob\nname: {pattern}\n\n".encode()

    def turn(body: bytes) -> bytes:
        return b"FinishJob\njobID: %d\n\n" % json.loads(body)["jobID"] if body else get

    _fill(server, AT_HAND, lambda _: "noop")
    return requests_per_s(server.port, turn) / 2


def held(engine: Engine) -> tuple[float, float]:
    """Return the server's bytes for an idle connection, and for a connection that waits for a job."""
    engine.empty()
    with served(engine) as server, Child("bedrock_crowd", str(server.port), str(IDLE), str(WAITING)) as crowd:
        requests_per_s(server.port, lambda _: PING)
        before = server.memory
        crowd.wait_ready()
        idle = server.memory
        crowd.tell()
        crowd.wait_ready()
        return (idle - before) / IDLE, (server.memory - idle) / WAITING


def _speed(setting: Setting, alone: Server, among: Server) -> Table:
    _fill(among, OTHER_NAMES, "other/{}".format)
    ways: dict[str, Callable[[], float]] = {"Ping": partial(requests_per_s, alone.port, lambda _: PING)}
    for server, where in ((alone, ""), (among, f", among {OTHER_NAMES:,} other names")):
        ways[f"CreateJob{where}"] = partial(created, server)
        ways[f"GetJob and FinishJob, by name{where}"] = partial(worked, server, "noop")
        ways[f"GetJob and FinishJob, by pattern{where}"] = partial(worked, server, "noo*")
    found = in_turns(setting, "Bedrock", ways)
    rows = []
    for name, rates in found.items():
        base = found[name.partition(", among")[0]]
        rows.append([name, spread(rates), ratio(rates, base) if rates is not base else ""])
    note = (
        f"{CONNECTIONS} connections from one client process; client, server and engine share the machine. A job that "
        "is taken and finished counts once."
    )
    return Table("Bedrock::Jobs", ("", "per second", "ratio to no other names"), rows, note)


def _memory(engine: Engine) -> Table:
    found = [held(engine) for _ in range(3)]
    idle, waiting = (f"{median(column) / 1024:.1f} KiB" for column in zip(*found, strict=True))
    rows = [[f"{IDLE:,} idle", idle], [f"{WAITING:,} more, waiting in GetJob", waiting]]
    note = "Memory of one server process, above its memory without connections; the client is a separate process."
    return Table("Bedrock::Jobs, memory of connections", ("connections", "each"), rows, note)


def section(setting: Setting) -> list[Table]:
    with Engine() as one, Engine() as other, served(one) as alone, served(other) as among:
        speed = _speed(setting, alone, among)
    with Engine() as engine:
        return [speed, _memory(engine)]
