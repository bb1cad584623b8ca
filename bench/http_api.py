"""The HTTP API under 64 connections: one job a request, batches, and work; beside servers that only answer."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from .engine import QUEUE, Engine, no_op_jobs
from .figures import Setting, Table, in_turns, ratio, spread

CONNECTIONS = 64
SECONDS = 2.0
WARM_S = 0.3
BATCH = 100
ROOT = Path(__file__).resolve().parent.parent
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
    raise RuntimeError("a server of the benchmark does not answer")


def bare(kind: str) -> contextlib.AbstractContextManager[int]:
    port = _free_port()
    return _process("bench.bare_http", kind, str(port), port=port)


def served(engine: Engine) -> contextlib.AbstractContextManager[int]:
    port = _free_port()
    settings = {"WINDLASS_URL": engine.url, "WINDLASS_PORT": str(port), "WINDLASS_BEDROCK_PORT": "0"}
    return _process("windlass", "serve", port=port, **settings)


def request(path: str, body: Any) -> bytes:
    content = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


class Caller(asyncio.Protocol):
    """Sends its next request when the answer to the last one is whole."""

    def __init__(self, next_request: Callable[[bytes], bytes], counts: list[int]) -> None:
        self._next = next_request
        self._counts = counts  # answers, bad ones
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


def requests_per_s(port: int, next_request: Callable[[bytes], bytes], connections: int = CONNECTIONS) -> float:
    async def main() -> float:
        counts = [0, 0]
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Caller(next_request, counts), "127.0.0.1", port)
            for _ in range(connections)
        ]
        await asyncio.sleep(WARM_S)
        before, began_at_s = counts[0], time.perf_counter()
        await asyncio.sleep(SECONDS)
        rate = (counts[0] - before) / (time.perf_counter() - began_at_s)
        for transport, _ in made:
            transport.abort()
        if counts[1]:
            raise RuntimeError(f"{counts[1]} of {counts[0]} answers were refusals")
        return rate

    return uvloop.run(main())


def singles(engine: Engine, port: int) -> float:
    engine.empty()
    one = request("/api/v1/jobs", JOB)
    return requests_per_s(port, lambda _: one)


def batches(engine: Engine, port: int) -> float:
    engine.empty()
    many = request("/api/v1/jobs:batch", {"items": [JOB] * BATCH})
    return BATCH * requests_per_s(port, lambda _: many, 8)


def work(engine: Engine, port: int, most: int) -> float:
    """Finish and take in one request; there is always enough to take."""
    engine.empty()
    with engine.service() as service:
        for _ in range(100):
            service.enqueue(no_op_jobs(1_000)).wait()

    def exchange(body: bytes) -> bytes:
        jobs = json.loads(body)["jobs"] if body else []
        finishes = [{"id": job["id"], "token": job["lease_token"]} for job in jobs]
        return request("/api/v1/exchange", {"finishes": finishes, "take": {"queues": [QUEUE], "most": most}})

    return most * requests_per_s(port, exchange)


def section(setting: Setting) -> list[Table]:
    with Engine() as engine, served(engine) as ours, bare("uvicorn") as uvicorn, bare("listener") as listener:
        nothing = request("/api/v1/jobs", JOB)
        ways: dict[str, Callable[[], float]] = {
            "bare ASGI on uvicorn, no store": partial(requests_per_s, uvicorn, lambda _: nothing),
            "our listener, no store": partial(requests_per_s, listener, lambda _: nothing),
            "POST /jobs, one job a request": partial(singles, engine, ours),
            f"POST /jobs:batch, {BATCH} jobs a request, 8 connections": partial(batches, engine, ours),
            "POST /exchange, one job": partial(work, engine, ours, 1),
            "POST /exchange, ten jobs": partial(work, engine, ours, 10),
        }
        found = in_turns(setting, "HTTP", ways)
    asgi, single = found["bare ASGI on uvicorn, no store"], found["POST /jobs, one job a request"]
    rows = [[name, spread(rates), ratio(rates, asgi), ratio(rates, single)] for name, rates in found.items()]
    note = (
        f"{CONNECTIONS} connections from one client process; client, server and engine share the machine. Jobs per "
        "second; of the servers without a store, requests."
    )
    return [Table("HTTP", ("", "per second", "to bare ASGI", "to one a request"), rows, note)]
