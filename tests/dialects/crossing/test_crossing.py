"""Every pair of creator and worker, with every outcome, looked at by every watcher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from windlass.core.ids import parse_id
from windlass.store.store import Store

from .creators import CANCELS, CANCELS_OF_RUNNING, CREATORS, cancel_by_native
from .crossing_table import CROSSINGS, DIALECTS, OUTCOMES, WORKS, Dialect, Outcome, queue_of
from .deployment import Deployment, open_deployment, until
from .watchers import Watched, assert_all_see, names_of, watch_by_native
from .workers import WORKERS, WorkerSide

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
PAIRS = [(creator, worker) for creator in DIALECTS for worker in DIALECTS if CROSSINGS[creator][worker] == WORKS]


@pytest.fixture
async def deployment(store: Store, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(store, tmp_path) as deployment:
        yield deployment


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize(("creator", "worker"), PAIRS)
async def test_crossing(deployment: Deployment, creator: Dialect, worker: Dialect, outcome: Outcome) -> None:
    queue = queue_of(creator, worker, outcome)
    job = await _create(deployment, creator, queue)
    await assert_all_see(deployment, job, "queued")
    if outcome == "cancel":
        await _cancel(deployment, creator, job)
        job = await _create(deployment, creator, queue)  # the worker gets this one, and it is cancelled while it runs
    async with WORKERS[worker](deployment, queue) as side:
        await _work(deployment, side, job, creator, outcome)


async def _work(deployment: Deployment, side: WorkerSide, job: Watched, creator: Dialect, outcome: Outcome) -> None:
    run = await side.take()
    assert deployment.order["url"] in run.payload
    assert "seven" in run.payload
    await assert_all_see(deployment, job, "running")
    if outcome == "cancel":
        await CANCELS_OF_RUNNING.get(creator, cancel_by_native)(deployment, job.queue, job.key)
        await run.stop()
        await _until_state(deployment, job, "cancelled")
        await assert_all_see(deployment, job, "cancelled")
        return
    if outcome == "failure":
        await run.fail()
        await _until_state(deployment, job, "failed")
        await assert_all_see(deployment, job, "failed")
        return
    if outcome == "retry":
        first_token = await _lease_token(deployment, job)
        await run.retry()
        run = await side.take()
        assert await _lease_token(deployment, job) > first_token
        await assert_all_see(deployment, job, "running")
    await run.finish()
    await _until_state(deployment, job, "finished", "gone")
    await assert_all_see(deployment, job, "finished", "removed")


async def _create(deployment: Deployment, creator: Dialect, queue: str) -> Watched:
    """Create a job. Find its other names by the name that its creator was given."""
    own_id = await CREATORS[creator](deployment, queue)
    answered = await deployment.api.get(f"/api/v1/jobs?alias={own_id}")
    (found,) = answered.body["jobs"]
    assert found["queue"] == queue
    query = f"select jobID, name from jobs where queue = '{queue}';"  # noqa: S608
    rows = await deployment.bedrock.call("Query", query=query)
    number = await _number(deployment, found["id"])
    assert [number, found["name"]] in rows.json
    job = names_of(found["id"], queue, number, creator, own_id)
    for alias in (job.key, job.uuid, job.number, *([job.download_id] if queue == "downloads" else [])):
        (same,) = (await deployment.api.get(f"/api/v1/jobs?alias={alias}")).body["jobs"]
        assert same["id"] == job.key, alias
    return job


async def _number(deployment: Deployment, key: str) -> int:
    (number,) = await deployment.service.number([parse_id(key)])
    assert isinstance(number, int)
    return number


async def _cancel(deployment: Deployment, creator: Dialect, job: Watched) -> None:
    own_id = {"bedrock": str(job.number), "processor": job.uuid}.get(creator, job.key)
    await CANCELS.get(creator, cancel_by_native)(deployment, job.queue, own_id)
    await assert_all_see(deployment, job, "cancelled", "removed")


async def _until_state(deployment: Deployment, job: Watched, *states: str) -> None:
    async def is_so() -> bool:
        return await watch_by_native(deployment, job) in states

    await until(is_so)


async def _lease_token(deployment: Deployment, job: Watched) -> int:
    return int((await deployment.api.get(f"/api/v1/jobs/{job.key}")).body["job"]["lease_token"])
