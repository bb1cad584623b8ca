"""Processor time of a request in a server process and in the engine behind it. Unlike rates, it hardly depends on other
programs on the machine."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench.engine import Engine
from bench.figures import Setting, Table, in_turns, ratio, spread

from . import bedrock, http_api

SECONDS = 2.0
PREPARED_S = 5.0  # a server still prepares its pages after it has started
READY = "Stop with"
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Microseconds per job; for a server without a store, per request."""

    server: float
    engine: float


class Server(NamedTuple):
    pid: int
    http_port: int
    bedrock_port: int = 0


@contextlib.contextmanager
def served(engine: Engine) -> Iterator[Server]:
    settings = {"WINDLASS_URL": engine.url, "WINDLASS_PORT": "0", "WINDLASS_BEDROCK_PORT": "0"}
    with _process("windlass", "serve", **settings) as process:
        assert process.stdout is not None
        said = ""
        while READY not in said:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"The server of the benchmark ended early: {said}")
            said += line
        yield Server(
            process.pid,
            int(re.findall(r"http://[^:]+:(\d+)", said)[0]),
            int(re.findall(r"bedrock +\S+:(\d+)\n", said)[0]),
        )


@contextlib.contextmanager
def bare(kind: str) -> Iterator[Server]:
    port = http_api._free_port()
    with _process("bench.programs.bare_http", kind, str(port)) as process:
        http_api._wait_for(port)
        yield Server(process.pid, port)


@contextlib.contextmanager
def _process(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=http_api.ROOT, env={**os.environ, **environment},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _cpu_us(pid: int) -> float:
    """Return the CPU time of all threads of a process, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return TICK_US * (int(fields[11]) + int(fields[12]))


def _answers(port: int, caller: Callable[..., asyncio.Protocol], request: bytes, connections: int) -> int:
    """Count the answers within a fixed time."""

    async def main() -> int:
        counts = [0, 0]
        loop = asyncio.get_running_loop()
        made: list[Any] = [
            await loop.create_connection(lambda: caller(lambda _: request, counts), "127.0.0.1", port)
            for _ in range(connections)
        ]
        await asyncio.sleep(SECONDS)
        for transport, _ in made:
            transport.abort()
        if counts[1]:
            raise RuntimeError(f"{counts[1]} of {counts[0]} answers were errors.")
        return counts[0]

    return uvloop.run(main())


def cost(engine: Engine, server: Server, ask: Callable[[], int], each: int = 1) -> Cost:
    """Measure the cost per job. `each` is the number of jobs per request."""
    engine_pid = int(engine.info("server")["process_id"])
    before = _cpu_us(server.pid), _cpu_us(engine_pid)
    jobs = each * ask()
    return Cost((_cpu_us(server.pid) - before[0]) / jobs, (_cpu_us(engine_pid) - before[1]) / jobs)


def section(setting: Setting) -> list[Table]:
    one = http_api.request("/api/v1/jobs", http_api.JOB)
    many = http_api.request("/api/v1/jobs:batch", {"items": [http_api.JOB] * http_api.BATCH})
    http = partial(_answers, caller=http_api.Caller, connections=http_api.CONNECTIONS)
    few = partial(_answers, caller=http_api.Caller, connections=8)
    tcp = partial(_answers, caller=bedrock.Caller, connections=bedrock.CONNECTIONS)
    with Engine() as engine, served(engine) as ours, bare("uvicorn") as asgi, bare("listener") as listener:
        time.sleep(PREPARED_S)
        ways: dict[str, Callable[[], Cost]] = {
            "bare ASGI on uvicorn, no store": lambda: cost(engine, asgi, lambda: http(asgi.http_port, request=one)),
            "our listener, no store": lambda: cost(engine, listener, lambda: http(listener.http_port, request=one)),
            "POST /jobs": lambda: cost(engine, ours, lambda: http(ours.http_port, request=one)),
            f"POST /jobs:batch, {http_api.BATCH} jobs a request": lambda: cost(
                engine, ours, lambda: few(ours.http_port, request=many), http_api.BATCH
            ),
            "Bedrock Ping, no store": lambda: cost(engine, ours, lambda: tcp(ours.bedrock_port, request=bedrock.PING)),
            "Bedrock CreateJob": lambda: cost(engine, ours, lambda: tcp(ours.bedrock_port, request=bedrock.CREATE)),
        }
        found = in_turns(setting, "Server", ways)
    base = [one.server for one in found["bare ASGI on uvicorn, no store"]]
    rows = []
    for name, costs in found.items():
        server = [one.server for one in costs]
        rows.append([name, spread(server), ratio(server, base), spread([one.engine for one in costs])])
    note = "Processor time per job; per request where nothing is stored."
    return [Table("Processor time of a server", ("", "server, µs", "ratio to bare ASGI", "engine, µs"), rows, note)]
