"""kill -9 of a client after any of its steps: every job returns and can be finished."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.answer_log import check_invariants
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.background.recoverer import GRACE_S, Recoverer
from windlass.background.runner import all_loops, turn
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take, Taken
from windlass.service import Service
from windlass.store.store import Store

JOBS = 6

# Each step leaves another state behind. The client runs the steps up to the given one, reports, and is killed.
CLIENT = """
import sys, time
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Finish, LeaseRef, Take, Update, WorkerInfo
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

url, namespace, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
service = Service(Store(parse_url(url), namespace=namespace))
worker = bytes(range(16))
held = []

def take(**terms):
    held[:] = service.take(Take(queues=("q",), most=3, worker=worker, **terms)).wait().jobs

def leases():
    return [LeaseRef(job.id, job.lease_token) for job in held]

STEPS = [
    lambda: service.register(worker, WorkerInfo(host="h", pid=1), beat_ms=10_000).wait(),
    lambda: take(accept_ms=5_000),
    lambda: service.accept(leases()).wait(),
    lambda: service.extend(leases()).wait(),
    lambda: service.update([Update(id=held[0].id, token=held[0].lease_token, progress=0.5)]).wait(),
    lambda: service.finish([Finish(held[0].id, held[0].lease_token)]).wait(),
    lambda: service.fail([Fail(id=held[1].id, token=held[1].lease_token, then="retry", delay_ms=1_000)]).wait(),
    lambda: service.release(leases()[2:]).wait(),
    lambda: service.finish_and_take([], [], Take(queues=("q",), most=2, worker=worker)).wait(),
    lambda: (print("waiting", flush=True), service.take(Take(queues=("empty",), wait_ms=60_000)).wait()),
]
for number, step in enumerate(STEPS):
    if number > last:
        break
    step()
print("done", flush=True)
time.sleep(60)
"""
STEPS = 10


@pytest.fixture
def store_of_test(engine: EngineProcess) -> Iterator[Store]:
    store = make_store(engine)
    store._sync_connection.call("FLUSHALL")  # the invariants cover all data of the engine
    store.open_sync()
    yield store
    store.close_sync()


def _wait_for_takers(service: Service, takers: int) -> None:
    while service.stats(["empty"]).wait()[0].waiting_takers < takers:
        time.sleep(0.01)


def run_and_kill(engine: EngineProcess, store: Store, last: int) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, engine.unix_url, store.namespace, str(last)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert client.stdout is not None
    output = client.stdout.readline()
    assert output in (b"done\n", b"waiting\n")
    if output == b"waiting\n":
        _wait_for_takers(Service(store), 1)
    client.kill()
    client.wait()
    client.stdout.close()


@pytest.mark.anyio
@pytest.mark.parametrize("last", range(STEPS))
async def test_no_job_is_stranded(engine: EngineProcess, store_of_test: Store, last: int) -> None:
    service = Service(store_of_test)
    service.enqueue([NewJob(queue="q", name="n") for _ in range(JOBS)]).wait()
    run_and_kill(engine, store_of_test, last)
    check_invariants(store_of_test)
    store_of_test.clock_offset_ms += 120_000
    finished = 1 if last >= 5 else 0
    other = Store(store_of_test.endpoint, namespace=store_of_test.namespace, is_test=True)
    async with other:
        other.clock_offset_ms = store_of_test.clock_offset_ms
        now_s = 0.0
        loops = [Recoverer(lambda: now_s), *(loop for loop in all_loops() if not isinstance(loop, Recoverer))]
        await turn(Service(other), loops)
        now_s += GRACE_S  # the second look finds the worker still silent
        await turn(Service(other), loops)
    assert service.workers().wait() == []
    jobs = service.take(Take(queues=("q",), most=100)).wait().jobs
    assert len(jobs) == JOBS - finished
    assert service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait() == [None] * len(jobs)
    check_invariants(store_of_test)


@pytest.mark.anyio
async def test_a_wakeup_of_a_dead_taker_is_repeated(engine: EngineProcess, store_of_test: Store) -> None:
    service = Service(store_of_test)
    service.enqueue([NewJob(queue="q", name="n") for _ in range(JOBS)]).wait()
    run_and_kill(engine, store_of_test, STEPS - 1)
    other = Store(store_of_test.endpoint, namespace=store_of_test.namespace, is_test=True)
    async with other, asyncio.timeout(20):
        living = asyncio.ensure_future(_take(Service(other)))
        await asyncio.to_thread(_wait_for_takers, service, 2)
        service.enqueue([NewJob(queue="empty", name="n")]).one().wait()
        store_of_test.clock_offset_ms += 2_000
        service.recover().wait()
        assert len((await living).jobs) == 1


async def _take(service: Service) -> Taken:
    return await service.take(Take(queues=("empty",), wait_ms=60_000))
