"""Connections of workers over HTTP: when one drops, the jobs of its worker run again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

LIMIT_S = 20.0
A, B, MARKER = b"a" * 16, b"b" * 16, b"m" * 16


@pytest.fixture
def served(store: Store) -> Iterator[str]:
    store.open_sync()
    with threaded_server(store.clone(), Settings(port=0, bedrock_port=0, roles="api", callback_concurrency=0)) as url:
        yield url


def hold(service: Service, worker: bytes, queue: str = "mail") -> bytes:
    """Register a worker that has taken a job."""
    service.register(worker, WorkerInfo(queues=(queue,))).wait()
    service.enqueue([NewJob(queue=queue, name="n", lease_ms=600_000)]).wait()
    (job,) = service.take(Take(queues=(queue,), worker=worker)).wait().jobs
    return job.id


@contextlib.contextmanager
def connected(url: str, worker: bytes, grace_ms: int | None = None, token: str = "") -> Iterator[httpx.Response]:
    """Open the connection of a worker. It drops with the block."""
    query = "" if grace_ms is None else f"?grace_ms={grace_ms}"
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=LIMIT_S) as client,
        client.stream("GET", f"/api/v1/workers/{format_id(worker)}/connection{query}") as answer,
    ):
        if answer.status_code == 200:
            lines = answer.iter_lines()
            assert next(lines) == "event: connected"
        yield answer


def state_of(service: Service, job: bytes) -> str:
    return service.job([job]).one().wait().job.state.label


def wait_until_freed(service: Service, job: bytes) -> None:
    give_up_at_s = time.monotonic() + LIMIT_S
    while state_of(service, job) == "running":
        assert time.monotonic() < give_up_at_s, "the job was not freed"
        time.sleep(0.01)


def let_drops_pass(url: str, service: Service, grace_ms: int) -> None:
    """Wait until the server has dealt with a connection that drops now, and so with those that dropped before."""
    job = hold(service, MARKER, "marker")
    with connected(url, MARKER, grace_ms):
        pass
    wait_until_freed(service, job)


def test_a_dropped_connection_frees_the_jobs_and_spends_an_attempt(served: str, service: Service) -> None:
    job, other = hold(service, A), hold(service, B)
    with connected(served, A) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert state_of(service, job) == "running"
    wait_until_freed(service, job)
    (again,) = service.take(Take(queues=("mail",))).wait().jobs
    assert (again.id, again.attempt) == (job, 2)
    assert state_of(service, other) == "running"
    assert [worker.id for worker in service.workers().wait()] == [B]


def test_a_worker_that_connects_again_in_time_keeps_its_jobs(served: str, service: Service) -> None:
    job = hold(service, A)
    with connected(served, A, 300):
        pass
    with connected(served, A, 300):
        let_drops_pass(served, service, 300)
        assert state_of(service, job) == "running"
    wait_until_freed(service, job)


def test_a_worker_that_deregisters_returns_its_jobs_unspent(served: str, service: Service) -> None:
    job = hold(service, A)
    with connected(served, A, 0):
        service.forget(A).wait()
    let_drops_pass(served, service, 0)
    (again,) = service.take(Take(queues=("mail",))).wait().jobs
    assert (again.id, again.attempt) == (job, 1)


def test_a_server_that_stops_frees_nothing(store: Store, service: Service) -> None:
    store.open_sync()
    settings = Settings(port=0, bedrock_port=0, roles="api", callback_concurrency=0)
    with contextlib.ExitStack() as clients:
        with threaded_server(store.clone(), settings) as url:
            job = hold(service, A)
            clients.enter_context(connected(url, A, 0))
        assert state_of(service, job) == "running"


def test_unknown_workers_and_wrong_times_are_refused(served: str, service: Service) -> None:
    with connected(served, A) as answer:
        assert answer.status_code == 404
        answer.read()
        assert answer.json()["code"] == "unknown_worker"
    service.register(A, WorkerInfo()).wait()
    for grace_ms in (-1, 60_001):
        with connected(served, A, grace_ms) as answer:
            assert answer.status_code == 400


@pytest.fixture
def token_for(service: Service) -> Callable[..., str]:
    def make(*queues: str) -> str:
        made = service.create_token(NewToken(name="-".join(queues), roles=frozenset({Role.WORK}), queues=queues))
        text: Any = made.wait().text
        return str(text)

    return make


def test_a_token_of_other_queues_cannot_free_jobs(served: str, service: Service, token_for: Callable[..., str]) -> None:
    """Not even by a connection that it opened before the worker had jobs."""
    own, foreign = token_for("mail", "marker"), token_for("theirs")
    service.register(A, WorkerInfo()).wait()
    with connected(served, A, 0, foreign) as answer:
        assert answer.status_code == 200
        job = hold(service, A)
    marker = hold(service, MARKER, "marker")
    with connected(served, MARKER, 0, foreign) as answer:
        assert answer.status_code == 403
    with connected(served, MARKER, 0, own):
        pass
    wait_until_freed(service, marker)
    assert state_of(service, job) == "running"
    with connected(served, A, 0, own):
        pass
    wait_until_freed(service, job)
