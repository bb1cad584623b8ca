"""A task, and a client that enqueues it on a server which is starting."""

from __future__ import annotations

import time

import httpx

READY_LIMIT_S = 120.0
TASKS = """
from windlass import Windlass

app = Windlass()


@app.task
def add(a: int, b: int) -> int:
    return a + b
"""


def wait_until_ready(client: httpx.Client) -> None:
    """Wait for the server of a container or a system that boots."""
    give_up_at_s = time.monotonic() + READY_LIMIT_S
    while not _is_ready(client):
        assert time.monotonic() < give_up_at_s, f"the server is not ready after {READY_LIMIT_S:g} s"
        time.sleep(0.1)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def enqueue_addition(client: httpx.Client) -> str:
    """Enqueue 2 + 3 and return the id of the job."""
    call = {"queue": "default", "name": "add", "payload": {"a": 2, "b": 3}, "result_ttl_ms": 600_000}
    answer = client.post("/api/v1/jobs", json=call)
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id
