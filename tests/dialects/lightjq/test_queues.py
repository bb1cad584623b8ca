"""LightJQ jobs and workers of any queue, with jobs of other dialects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.background.worker_server import WorkerServer
from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient
from tests.dialects.sample_jobs import bearer
from tests.support.api_client import Api
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard, make_store
from windlass import Windlass, Worker
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
MAIL = "mail"


@pytest.fixture
async def app(engine: EngineProcess, store: Store) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(Store(parse_url(engine.unix_url), namespace=store.namespace, is_test=True))
    yield app
    await app.aclose()


async def hold(service: Service, worker: str, queue: str = MAIL) -> Job:
    """Lease the next job of a queue to a worker, as the dispatcher does."""
    (job,) = (await service.take(Take(queues=(queue,), worker=parse_id(worker)))).jobs
    return job


async def put(service: Service, **fields: Any) -> str:
    enqueued = await service.enqueue([NewJob(**{"queue": MAIL, "name": "n"} | fields)]).one()
    return format_id(enqueued.id)


def knowing(*names: str) -> Callable[[dict[str, Any]], Awaitable[int]]:
    """Return the answer of a worker that knows only these names."""

    async def answer(message: dict[str, Any]) -> int:
        return 202 if message["name"] in names else 404

    return answer


# Jobs


async def test_a_job_goes_to_the_queue_that_it_names(lightjq: LightJqClient, service: Service) -> None:
    job_id = await lightjq.push("send", {"to": "a"}, queue=MAIL, priority=3, keep_result=True)
    job = (await service.job([parse_id(job_id)]).one()).job
    assert (job.queue, job.name, job.priority, job.tags) == (MAIL, "send", 3, ("keep_result",))
    assert not (await service.configuration(MAIL)).name_lanes, "naming a queue does not configure it"
    assert await lightjq.status(job_id) == {"status": "queued", "retry_count": 0}
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 204
    assert (await lightjq("GET", f"/job/{job_id}")).status == 404


@pytest.mark.parametrize("queue", ["", "a\0b", "q" * 256, 5, None, {}])
async def test_wrong_queues_are_refused(lightjq: LightJqClient, service: Service, queue: Any) -> None:
    given = await lightjq("POST", "/job", {"name": "n", "argument": {}, "queue": queue})
    assert (given.status, given.error) == (400, "bad_input")
    for queues in ([queue], queue):
        registered = await lightjq("POST", "/worker", {"name": "w", "max_jobs": 1, "queues": queues})
        assert (registered.status, registered.error) == (400, "bad_input")
    assert await service.workers() == []


@pytest.mark.parametrize("queues", [[], [f"q{n}" for n in range(101)]])
async def test_the_queues_of_a_worker_are_bounded(lightjq: LightJqClient, queues: list[str]) -> None:
    registered = await lightjq("POST", "/worker", {"name": "w", "max_jobs": 1, "queues": queues})
    assert (registered.status, registered.error) == (400, "bad_input")


async def test_a_worker_serves_the_queues_that_it_names(lightjq: LightJqClient, service: Service) -> None:
    await lightjq.register(queues=[MAIL, "other", MAIL])
    (worker,) = await service.workers()
    assert worker.info.queues == (MAIL, "other")


async def test_jobs_of_other_dialects_are_shown_and_cancelled(lightjq: LightJqClient, service: Service) -> None:
    first, second = await put(service), await put(service)
    worker = await lightjq.register(queues=[MAIL])
    await hold(service, worker)
    assert await lightjq.status(first) == {"status": "running", "worker_id": worker, "retry_count": 0}
    assert (await lightjq("DELETE", f"/job/{first}")).status == 409
    assert (await lightjq("GET", f"/job/{second}/polling?timeout=0")).status == 408
    assert (await lightjq("DELETE", f"/job/{second}")).status == 204
    assert (await service.job([parse_id(second)]).one()).job.state is State.CANCELLED
    assert (await lightjq("GET", f"/job/{second}")).status == 404


async def test_a_result_of_another_producer_is_kept_by_its_own_time(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register(queues=[MAIL])
    kept, dropped = await put(service, result_ttl_ms=60_000), await put(service)
    for job_id in (kept, dropped):
        await hold(service, worker)
        assert (await lightjq.succeed(worker, job_id, result={"a": b"\0"})).status == 204
    for _ in range(2):
        assert (await lightjq.status(kept))["result"] == {"a": b"\0"}
    ending = await service.result(parse_id(kept))
    assert ending is not None
    assert ending.result == Blob(b"\x81\xa1a\xc4\x01\0", Codec.MSGPACK)
    assert (await lightjq("GET", f"/job/{dropped}")).status == 404


async def test_a_failure_without_a_policy_is_retried_as_often_as_here(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    worker = await lightjq.register(queues=[MAIL])
    job_id = await put(service)
    for attempt in range(1, 12):
        store.clock_offset_ms += 400_000
        await service.promote()
        assert (await hold(service, worker)).attempt == attempt
        await lightjq.fail(worker, job_id)
        job = (await service.job([parse_id(job_id)]).one()).job
        assert job.state is (State.SCHEDULED if attempt < 11 else State.FAILED)
        if attempt < 11:
            pause_ms = job.run_at_ms - await service.now()
            expected_ms = min(1_000 * 2 ** (attempt - 1), 300_000)
            assert 0.85 * expected_ms - 100 <= pause_ms <= 1.1 * expected_ms
    assert (await lightjq.status(job_id))["retry_count"] == 10


async def test_a_policy_of_its_producer_decides(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register(queues=[MAIL])
    job_id = await put(service, retry=Backoff(tries=2, base_ms=50_000, jitter=0))
    await hold(service, worker)
    await lightjq.fail(worker, job_id)
    job = (await service.job([parse_id(job_id)]).one()).job
    assert 40_000 < job.run_at_ms - await service.now() <= 50_000


# Pushes


async def test_jobs_of_every_dialect_are_pushed(
    lightjq: LightJqClient, client: httpx.AsyncClient, json_api: Api, service: Service
) -> None:
    async with WorkerServer(slots=10).open() as server, asyncio.timeout(30):
        worker = await lightjq.register(url=server.url, queues=[QUEUE, MAIL, "job_queue_resize"])
        here = await lightjq.push("send", {"n": 1})
        there = await lightjq.push("send", {"n": 2}, queue=MAIL)
        native = await json_api.post(
            "/api/v1/jobs", {"queue": MAIL, "name": "send", "payload": {"n": 3}, "result_ttl_ms": 60_000}
        )
        jobber = await client.post(
            "/jobber/queue", json={"type": "resize", "payload": {"n": 4}, "visibility_timeout": 12}
        )
        got = [await server.got.get() for _ in range(4)]
        ids = {1: here, 2: there, 3: native.body["id"], 4: jobber.json()["job-id"]}
        assert {message["argument"]["n"]: message["job_id"] for message in got} == ids
        assert {message["argument"]["n"]: message["timeout"] for message in got} == {1: 30, 2: 30, 3: 30, 4: 12}
        for job_id in ids.values():
            assert (await lightjq.succeed(worker, job_id, result=[job_id])).status == 204
        read = await json_api.get(f"/api/v1/jobs/{native.body['id']}/result")
        assert read.body["result"] == [native.body["id"]]
        assert (await lightjq.status(native.body["id"]))["status"] == "done"


async def test_a_handle_of_the_sdk_reads_the_result_of_a_push(
    app: Windlass, lightjq: LightJqClient, service: Service
) -> None:
    @app.task(name="square", queue=MAIL, keep_result=60)
    async def square(value: int) -> dict[str, int]:
        raise AssertionError("it is not run here")

    async with WorkerServer().open() as server, asyncio.timeout(30):
        worker = await lightjq.register(url=server.url, queues=[MAIL])
        handle = await square.aenqueue(7)
        message = await server.got.get()
        assert message["name"] == "square"
        await lightjq.succeed(worker, message["job_id"], result={"square": 49})
        assert await handle.aresult(timeout=10) == {"square": 49}


async def test_a_job_from_here_is_worked_by_the_sdk(app: Windlass, lightjq: LightJqClient) -> None:
    @app.task(name="add", queue=MAIL)
    async def add(left: int, right: int) -> dict[str, int]:
        return {"sum": left + right}

    job_id = await lightjq.push("add", {"left": 2, "right": 3}, queue=MAIL, keep_result=True)
    worker = Worker(app, queues=[MAIL], grace=5)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        ended = (await lightjq("GET", f"/job/{job_id}/polling?timeout=20")).body
        worker.stop()
        await working
    assert (ended["status"], ended["result"]) == ("done", {"sum": 5})
    assert (await lightjq.status(job_id))["result"] is None


async def test_a_name_that_a_worker_does_not_know_blocks_no_other(lightjq: LightJqClient, service: Service) -> None:
    """The worker with most room knows only one of the names. Other jobs reach the worker that knows them."""
    async with (
        WorkerServer(knowing("common")).open() as roomy,
        WorkerServer(knowing("rare")).open() as small,
        asyncio.timeout(30),
    ):
        await lightjq.register(name="roomy", max_jobs=100, url=roomy.url, queues=[MAIL])
        await lightjq.register(name="small", max_jobs=10, url=small.url, queues=[MAIL])
        rare = [await put(service, name="rare") for _ in range(5)]
        common = [await put(service, name="common") for _ in range(5)]
        await until_running(service, [*rare, *common])
        assert Counter(await workers_of(service, common)) == {"roomy": 5}
        assert Counter(await workers_of(service, rare)) == {"small": 5}
        asked = len(roomy.jobs)
        late = [await put(service, name="rare") for _ in range(5)]
        await until_running(service, late)
        assert len(roomy.jobs) == asked, "it is not asked again"
    jobs = [(await service.job([parse_id(job_id)]).one()).job for job_id in (*rare, *common, *late)]
    assert {job.attempt for job in jobs} == {1}, "a refused push spends no attempt"
    assert (await service.configuration(MAIL)).name_lanes


async def until_running(service: Service, ids: list[str]) -> None:
    for job_id in ids:
        while (await service.job([parse_id(job_id)]).one()).job.state is not State.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def workers_of(service: Service, ids: list[str]) -> list[str]:
    names = {worker.id: worker.info.name for worker in await service.workers()}
    return [names[(await service.job([parse_id(job_id)]).one()).job.worker or b""] for job_id in ids]


async def test_a_queue_without_unknown_names_is_left_as_it_is(lightjq: LightJqClient, service: Service) -> None:
    async with WorkerServer().open() as server, asyncio.timeout(30):
        await lightjq.register(url=server.url, queues=[MAIL])
        await until_running(service, [await put(service)])
    assert not (await service.configuration(MAIL)).name_lanes


async def test_more_urgent_jobs_are_pushed_first(lightjq: LightJqClient, service: Service) -> None:
    async with WorkerServer(slots=1).open() as server, asyncio.timeout(30):
        late, soon = await put(service, priority=5), await put(service, priority=-5)
        worker = await lightjq.register(max_jobs=1, url=server.url, queues=[MAIL])
        first = (await server.got.get())["job_id"]
        assert (await lightjq.succeed(worker, first)).status == 204
        assert [first, (await server.got.get())["job_id"]] == [soon, late]


# Access, pages, partitions


async def test_a_token_for_its_own_queue_needs_no_other(lightjq: LightJqClient, service: Service) -> None:
    headers = await bearer(service, "read", "produce", "work", queues=(MAIL,))
    mine = lightjq.with_token(headers["authorization"].removeprefix("Bearer "))
    worker = await mine.register(queues=[MAIL])
    job_id, foreign = await mine.push(queue=MAIL, keep_result=True), await put(service, queue="other")
    await hold(service, worker)
    assert (await mine("POST", "/worker/beat", worker=worker)).status == 204
    assert (await mine.succeed(worker, job_id, result=1)).status == 204
    assert (await mine.status(job_id))["result"] == 1
    for method, path in (("GET", ""), ("GET", "/polling?timeout=0"), ("DELETE", "")):
        assert (await mine(method, f"/job/{foreign}{path}")).error == "forbidden"
    assert (await mine.fail(worker, foreign)).error == "forbidden"
    assert (await mine("DELETE", "/worker", worker=worker)).status == 204


async def listed(api: Api, query: str = "") -> list[str]:
    """Return the ids of all jobs that the page shows."""
    found: list[str] = []
    cursor = ""
    while True:
        page = (await api.get(f"/lightjq/ui/jobs?cursor={cursor}{query}")).body
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            return found


async def test_the_page_shows_one_queue(lightjq: LightJqClient, json_api: Api, service: Service) -> None:
    here, there = await lightjq.push(), await put(service)
    await lightjq.register(queues=[MAIL])
    assert await listed(json_api) == [here]
    assert await listed(json_api, "&queue=mail") == [there]
    for path, count in (("", 0), ("?queue=mail", 1)):
        assert len((await json_api.get(f"/lightjq/ui/workers{path}")).body["workers"]) == count
        stats = (await json_api.get(f"/lightjq/ui/stats{path}")).body
        assert (stats["jobs"]["queued"], stats["workers"]["count"]) == (1, count)
    assert (await json_api.get("/lightjq/ui/jobs?queue=")).status == 400


async def test_queues_of_several_partitions(engine: EngineProcess) -> None:
    store = make_store(engine, partitions=4)
    settings = Settings(port=0, bedrock_port=None, roles="api")
    async with open_server(store, settings) as running, httpx.AsyncClient(base_url=running.url) as client:
        lightjq, service = LightJqClient(client), Service(store)
        queues: dict[int, str] = {}
        for name in map("q{}".format, range(100)):
            queues.setdefault(store.partition_of_queue(name), name)
        refused = await lightjq(
            "POST", "/worker", {"name": "w", "max_jobs": 3, "url": "http://127.0.0.1:9", "queues": [*queues.values()]}
        )
        assert (refused.status, refused.error) == (400, "bad_input")
        assert "4 partitions" in refused.body["message"]
        async with WorkerServer().open() as server, asyncio.timeout(30):
            await lightjq.register(max_jobs=5, url=server.url, queues=[*queues.values()])
            ids = [await put(service, queue=queue) for queue in queues.values() for _ in range(3)]
            got = [(await server.got.get())["job_id"] for _ in range(5)]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(server.got.get(), 0.3)
        found = await service.queue_of([parse_id(job_id) for job_id in got])
        assert set(found) == set(queues.values()), "every partition pushes"
        assert len(ids) == 12
    discard(store)
