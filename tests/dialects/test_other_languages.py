"""Clients that are not ours: plain curl and Node's fetch enqueue, work and follow a job; and what they do is the same
job to the SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.conftest import at_work
from tests.support.threaded_server import threaded_server
from windlass import JobFailed, Windlass
from windlass.settings import Settings
from windlass.store.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples" / "http"
pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def app(store: Store) -> Iterator[Windlass]:
    app = Windlass()
    app.connect(store)
    yield app
    app.close()


@pytest.fixture
def server_url(store: Store) -> Iterator[str]:
    with threaded_server(store.clone(), Settings(port=0, bedrock_port=0, roles="api")) as url:
        yield url


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_curl_alone_enqueues_works_and_reads(server_url: str) -> None:
    said = json.loads(run("sh", str(EXAMPLES / "work.sh"), server_url))
    assert (said["state"], said["result"]) == ("finished", "sent")


def test_node_follows_what_it_works(server_url: str) -> None:
    assert run("node", str(EXAMPLES / "work.mjs"), server_url) == "snapshot running progress finished finished 42\n"


def test_a_job_of_the_sdk_is_worked_by_curl(server_url: str, app: Windlass) -> None:
    @app.task(queue="mail")
    def greet(name: str) -> str:
        raise AssertionError("somebody else does it")

    handle = greet.enqueue("ada")
    taken = json.loads(curl(f"{server_url}/api/v1/take", {"queues": ["mail"]}))["jobs"][0]
    assert (taken["id"], taken["name"], taken["payload"]) == (handle.id, "greet", {"name": "ada"})
    path = f"{server_url}/api/v1/jobs/{taken['id']}"
    curl(f"{path}/finish", {"token": taken["lease_token"], "result": "hello ada"})
    assert handle.result(timeout=20) == "hello ada"
    other = greet.enqueue("bob")
    taken = json.loads(curl(f"{server_url}/api/v1/take", {"queues": ["mail"]}))["jobs"][0]
    error = {"type": "NoSuchPerson", "message": "bob?"}
    report = {"token": taken["lease_token"], "then": "final", "error": error}
    curl(f"{server_url}/api/v1/jobs/{taken['id']}/fail", report)
    with pytest.raises(JobFailed, match="bob"):
        other.result(timeout=20)


def curl(url: str, body: object) -> str:
    return run("curl", "-sS", "--fail-with-body", "--json", json.dumps(body), url)


def test_a_job_of_curl_is_worked_by_the_sdk_and_watched_by_curl(server_url: str, app: Windlass) -> None:
    @app.task(queue="mail")
    async def greet(name: str) -> str:
        return f"hello {name}"

    given = {"queue": "mail", "name": "greet", "payload": {"name": "ada"}, "result_ttl_ms": 60_000}
    job = json.loads(curl(f"{server_url}/api/v1/jobs", given))

    async def work() -> str:
        async with at_work(app):
            return await asyncio.to_thread(
                run, "curl", "-sS", f"{server_url}/api/v1/jobs/{job['id']}/result?wait_ms=20000"
            )

    said = json.loads(asyncio.run(work()))
    assert (said["state"], said["result"]) == ("finished", "hello ada")
