"""HTTP API under 64 connections: single jobs, batches and exchanges, compared with servers that store nothing."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import uvloop

from bench.engine import QUEUE, Engine, no_op_jobs
from bench.figures import Bars, Finding, Picture, Reading, Setting, Table, in_turns, ratio, spread

from . import bedrock

CONNECTIONS = 64
SECONDS = 2.0
WARM_S = 0.3
BATCH = 100
ROOT = Path(__file__).resolve().parents[2]
JOB = {"queue": QUEUE, "name": "no_op"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@contextlib.contextmanager
def _process(*command: str, port: int, **environment: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int) -> None:
    give_up_at_s = time.monotonic() + 30
    while time.monotonic() < give_up_at_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("A server of the benchmark did not start within 30 s.")


def bare(kind: str) -> contextlib.AbstractContextManager[int]:
    port = _free_port()
    return _process("bench.programs.bare_http", kind, str(port), port=port)


def served(engine: Engine) -> contextlib.AbstractContextManager[int]:
    port = _free_port()
    settings = {"WINDLASS_URL": engine.url, "WINDLASS_PORT": str(port), "WINDLASS_BEDROCK_PORT": "0"}
    return _process("windlass", "serve", port=port, **settings)


def request(path: str, body: Any) -> bytes:
    content = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


class Caller(asyncio.Protocol):
    """Client that sends its next request when the last answer is complete."""

    def __init__(self, next_request: Callable[[bytes], bytes], counts: list[int]) -> None:
        self._next = next_request
        self._counts = counts  # answers, errors
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._next(b""))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        marker = head.lower().find(b"content-length: ")
        if marker < 0 or len(body) < int(head[marker + 16 :].partition(b"\r\n")[0]):
            return
        self._counts[0] += 1
        self._counts[1] += not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201"))
        self._received = b""
        self._transport.write(self._next(body))


def requests_per_s(
    port: int, next_request: Callable[[bytes], bytes], connections: int = CONNECTIONS, seconds: float = SECONDS
) -> float:
    async def main() -> float:
        counts = [0, 0]
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Caller(next_request, counts), "127.0.0.1", port)
            for _ in range(connections)
        ]
        await asyncio.sleep(WARM_S)
        before, began_at_s = counts[0], time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (counts[0] - before) / (time.perf_counter() - began_at_s)
        for transport, _ in made:
            transport.abort()
        if counts[1]:
            raise RuntimeError(f"{counts[1]} of {counts[0]} answers were errors.")
        return rate

    return uvloop.run(main())


def nothing_stored(port: int, seconds: float = SECONDS) -> float:
    one = request("/api/v1/jobs", JOB)
    return requests_per_s(port, lambda _: one, seconds=seconds)


def singles(engine: Engine, port: int, seconds: float = SECONDS) -> float:
    engine.empty()
    return nothing_stored(port, seconds)


def batches(engine: Engine, port: int, seconds: float = SECONDS) -> float:
    engine.empty()
    many = request("/api/v1/jobs:batch", {"items": [JOB] * BATCH})
    return BATCH * requests_per_s(port, lambda _: many, 8, seconds)


def work(engine: Engine, port: int, most: int, seconds: float = SECONDS) -> float:
    """Finish and take in one request. The queue always has enough jobs."""
    engine.empty()
    with engine.service() as service:
        for _ in range(100):
            service.enqueue(no_op_jobs(1_000)).wait()

    def exchange(body: bytes) -> bytes:
        jobs = json.loads(body)["jobs"] if body else []
        finishes = [{"id": job["id"], "token": job["lease_token"]} for job in jobs]
        return request("/api/v1/exchange", {"finishes": finishes, "take": {"queues": [QUEUE], "most": most}})

    return most * requests_per_s(port, exchange, seconds=seconds)


Measure: TypeAlias = Callable[[float], float]  # seconds -> jobs (or requests) per second
Rates: TypeAlias = dict[str, list[float]]


@contextlib.contextmanager
def _ways() -> Iterator[dict[str, Measure]]:
    """Run all servers at the same time. Servers without requests are idle."""
    with (
        Engine() as engine, Engine() as other, served(engine) as ours, bedrock.served(other) as jobs_server,
        bare("uvicorn") as uvicorn, bare("listener") as listener,
    ):  # fmt: skip
        yield {
            "asgi": partial(nothing_stored, uvicorn),
            "listener": partial(nothing_stored, listener),
            "single": partial(singles, engine, ours),
            "batch": partial(batches, engine, ours),
            "exchange 1": lambda seconds: work(engine, ours, 1, seconds),
            "exchange 10": lambda seconds: work(engine, ours, 10, seconds),
            "bedrock": partial(bedrock.created, jobs_server),
        }


NAMES = {
    "asgi": "bare ASGI on uvicorn, no store",
    "listener": "our listener, no store",
    "single": "POST /jobs, one job a request",
    "batch": f"POST /jobs:batch, {BATCH} jobs a request, 8 connections",
    "exchange 1": "POST /exchange, one job",
    "exchange 10": "POST /exchange, ten jobs",
    "bedrock": "Bedrock TCP, CreateJob",
}


def measured(setting: Setting, names: Collection[str], seconds: float = SECONDS) -> Rates:
    with _ways() as ways:
        return in_turns(setting, "HTTP", {name: partial(ways[name], seconds) for name in names})


def readings(found: Rates) -> list[Reading]:
    return [
        Reading("http_single", found["single"], found["asgi"]),
        Reading("http_batch", found["batch"], found["single"]),
        Reading("bedrock_create", found["bedrock"], found["single"]),
    ]


def section(setting: Setting) -> list[Finding]:
    found = measured(setting, NAMES)
    rows = [
        [NAMES[name], spread(rates), ratio(rates, found["asgi"]), ratio(rates, found["single"])]
        for name, rates in found.items()
    ]
    note = (
        f"{CONNECTIONS} connections from one client process; client, server and engine share the machine. Jobs per "
        "second; for the servers without a store, requests per second."
    )
    bars = Bars("One server process", "per second", {NAMES[name]: median(rates) for name, rates in found.items()})
    return [
        Table("HTTP", ("", "per second", "ratio to bare ASGI", "ratio to one job a request"), rows, note),
        Picture("http", "HTTP and Bedrock compared with servers that store nothing", [bars]),
        *readings(found),
    ]
