"""Times of pages, lists and commands on a filled deployment: wall time, and processor time of server and engine."""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.engine import Engine
from bench.measurements.server_cpu import Server, _cpu_us
from windlass import dashboard
from windlass.dialects import native
from windlass.web.app.router import Router

ROUNDS = 3
TIMEOUT_S = 60.0
_STREAMS = ("/api/v1/events", "/api/v1/export")
_OTHERS = ("/login", "/static/{version}/{file}", "/live")
SEARCHES = (
    "/palette?q=ten", "/search?q=tenant", "/search?q=abcd", "/jobs?state=failed", "/jobs?state=queued",
    "/jobs?text=order", "/jobs?state=running", "/metrics", "/api/v1/jobs?state=failed", "/api/v1/jobs?state=all",
    "/api/v1/queues?most=500",
)  # fmt: skip
COMMANDS = (
    ("queues", "ls"), ("top", "--once"), ("workers", "ls"), ("schedules", "ls"), ("jobs", "ls"), ("failed", "ls"),
    ("failed", "groups"), ("limits", "ls"), ("tasks", "ls"), ("doctor",),
)  # fmt: skip


class Cost(NamedTuple):
    what: str
    status: int
    first_s: float
    median_s: float
    server_cpu_s: float  # of the first request
    engine_cpu_s: float
    size: int  # bytes of the answer


def paths() -> list[str]:
    """Return the addresses of all pages and lists that need no id."""
    routes = [*Router(dashboard.ROUTES).routes, *Router(native.ROUTES).routes]
    found = [route.path for route in routes if route.method == "GET" and "{" not in route.path]
    return [path for path in found if path not in (*_STREAMS, *_OTHERS)]


def request(port: int, path: str) -> tuple[int, int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Accept": "text/html,*/*"})
        answer = connection.getresponse()
        return answer.status, len(answer.read())
    finally:
        connection.close()


def measure(engine: Engine, server: Server, path: str, rounds: int = ROUNDS) -> Cost:
    times, status, size, cpus = [], 0, 0, (0.0, 0.0)
    for number in range(rounds):
        before = _cpu_us(server.pid), _cpu_us(engine.pid)
        begin_s = time.perf_counter()
        status, size = request(server.http_port, path)
        times.append(time.perf_counter() - begin_s)
        if number == 0:
            cpus = (_cpu_us(server.pid) - before[0]) / 1e6, (_cpu_us(engine.pid) - before[1]) / 1e6
    return Cost(path, status, times[0], sorted(times)[len(times) // 2], *cpus, size)


def run_command(engine: Engine, words: Sequence[str]) -> Cost:
    """Run a command of the CLI once, with the start of its process."""
    environment = {**os.environ, "WINDLASS_URL": engine.url}
    engine_us, begin_s, begin_cpu = _cpu_us(engine.pid), time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "windlass", *words], env=environment, capture_output=True, timeout=600, check=False
    )
    seconds, end_cpu = time.perf_counter() - begin_s, os.times()
    cpu_s = end_cpu.children_user - begin_cpu.children_user + end_cpu.children_system - begin_cpu.children_system
    spent_s = (_cpu_us(engine.pid) - engine_us) / 1e6
    return Cost(f"windlass {' '.join(words)}", done.returncode, seconds, seconds, cpu_s, spent_s, len(done.stdout))
