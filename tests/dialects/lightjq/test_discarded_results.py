"""LightJQ answers nil for a job with keep_result after its result was discarded, and shows when an attempt ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.dialects.sample_jobs import bearer
from windlass.background.janitor import Janitor
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import Take
from windlass.core.queue import DAY_MS
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
HOUR = 3_600_000


async def finished(lightjq: LightJqClient, service: Service, **fields: Any) -> str:
    worker = await lightjq.register()
    job_id = await lightjq.push(**fields)
    assert await hold(service, worker) is not None
    assert (await lightjq.succeed(worker, job_id, result=42)).status == 204
    return job_id


async def failed(lightjq: LightJqClient, service: Service, **fields: Any) -> str:
    worker = await lightjq.register()
    job_id = await lightjq.push(**fields)
    assert await hold(service, worker) is not None
    assert (await lightjq.fail(worker, job_id, should_retry=False)).status == 204
    return job_id


async def pass_time(service: Service, by_ms: int) -> None:
    service.store.clock_offset_ms += by_ms
    await Janitor().tick(service)


async def answers(lightjq: LightJqClient, job_id: str) -> list[tuple[int, Any]]:
    """Return the answers to GET and to polling."""
    found = [await lightjq("GET", f"/job/{job_id}{path}") for path in ("", "/polling?timeout=0")]
    return [(one.status, one.body["error"] if one.status >= 400 else one.body) for one in found]


NULL = [(200, None)] * 2
UNKNOWN = [(404, "unknown_job")] * 2


@pytest.mark.parametrize("is_read", [True, False])
async def test_null_after_a_result_was_discarded(lightjq: LightJqClient, service: Service, is_read: bool) -> None:
    job_id = await finished(lightjq, service, keep_result=True)
    if is_read:
        assert (await lightjq.status(job_id))["result"] == 42
        assert (await lightjq.status(job_id))["result"] is None
    await pass_time(service, HOUR)
    assert await answers(lightjq, job_id) == NULL
    assert (await lightjq.client.head(f"/lightjq/job/{job_id}")).status_code == 200
    await pass_time(service, 30 * DAY_MS - 1_000)
    assert await answers(lightjq, job_id) == NULL
    await pass_time(service, 1_000)
    assert await answers(lightjq, job_id) == UNKNOWN


async def test_the_body_is_nil(lightjq: LightJqClient, service: Service, client: httpx.AsyncClient) -> None:
    job_id = await finished(lightjq, service, keep_result=True)
    await pass_time(service, HOUR)
    answer = await client.get(f"/lightjq/job/{job_id}")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"\xc0", "application/msgpack")


async def test_a_failed_job_with_keep_result_is_null_in_the_end(lightjq: LightJqClient, service: Service) -> None:
    job_id = await failed(lightjq, service, keep_result=True)
    await pass_time(service, HOUR)
    assert (await lightjq.status(job_id))["status"] == "error"
    await pass_time(service, 14 * DAY_MS)
    assert await answers(lightjq, job_id) == NULL


async def test_other_jobs_stay_unknown(lightjq: LightJqClient, service: Service) -> None:
    plain, broken = await finished(lightjq, service), await failed(lightjq, service)
    cancelled = await lightjq.push(keep_result=True)
    assert (await lightjq("DELETE", f"/job/{cancelled}")).status == 204
    deleted = await finished(lightjq, service, keep_result=True)
    await service.delete([parse_id(deleted)]).one()
    assert await answers(lightjq, deleted) == UNKNOWN
    await pass_time(service, 14 * DAY_MS)
    for job_id in (plain, broken, cancelled, deleted):
        assert await answers(lightjq, job_id) == UNKNOWN


async def test_a_job_in_the_history_is_null_too(lightjq: LightJqClient, service: Service) -> None:
    await service.configure(QUEUE, {"retention_ms": 0, "history_length": 10})
    job_id, plain = await failed(lightjq, service, keep_result=True), await failed(lightjq, service)
    assert await answers(lightjq, job_id) == NULL
    assert await answers(lightjq, plain) == UNKNOWN


async def test_a_discarded_job_can_be_neither_cancelled_nor_reported(lightjq: LightJqClient, service: Service) -> None:
    job_id = await finished(lightjq, service, keep_result=True)
    await pass_time(service, HOUR)
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 404
    assert (await lightjq.succeed(await lightjq.register(), job_id)).status == 404
    assert await answers(lightjq, job_id) == NULL


@pytest.mark.parametrize(
    "server_settings", [Settings(port=0, bedrock_port=None, roles="api", lightjq_tombstone_ms=5_000)]
)
async def test_how_long_is_a_setting(lightjq: LightJqClient, service: Service) -> None:
    job_id = await finished(lightjq, service, keep_result=True)
    await pass_time(service, HOUR)
    assert await answers(lightjq, job_id) == NULL
    await pass_time(service, 5_000)
    assert await answers(lightjq, job_id) == UNKNOWN


@pytest.mark.parametrize("server_settings", [Settings(port=0, bedrock_port=None, roles="api", lightjq_tombstone_ms=0)])
async def test_no_job_is_remembered_with_a_time_of_zero(lightjq: LightJqClient, service: Service) -> None:
    job_id = await finished(lightjq, service, keep_result=True)
    await pass_time(service, HOUR)
    assert await answers(lightjq, job_id) == UNKNOWN


async def test_only_tokens_of_its_queue_get_null(lightjq: LightJqClient, service: Service) -> None:
    async def client_for(*roles: str, queues: tuple[str, ...] = ()) -> LightJqClient:
        headers = await bearer(service, *roles, queues=queues)
        return lightjq.with_token(headers["authorization"].removeprefix("Bearer "))

    admin = await client_for("admin")
    mine, other = [await client_for("read", "produce", queues=(queue,)) for queue in (QUEUE, "mail")]
    job_id = await finished(admin, service, keep_result=True)
    await pass_time(service, HOUR)
    assert await answers(mine, job_id) == NULL
    assert await answers(other, job_id) == [(403, "forbidden")] * 2


# The end of an attempt


@pytest.mark.parametrize("finished_at", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789+09:00"])
async def test_the_end_that_a_worker_gives_is_shown(lightjq: LightJqClient, service: Service, finished_at: str) -> None:
    worker = await lightjq.register()
    first, second = await lightjq.push(keep_result=True), await lightjq.push()
    await hold(service, worker)
    await hold(service, worker)
    assert (await lightjq.succeed(worker, first, result={"a": 1}, finished_at=finished_at)).status == 204
    assert (await lightjq.fail(worker, second, error=7, finished_at=finished_at)).status == 204
    ended, retrying = await lightjq.status(first), await lightjq.status(second)
    assert (ended["finished_at"], ended["result"]) == (finished_at, {"a": 1})
    assert (retrying["status"], retrying["finished_at"], retrying["error"]) == ("retrying", finished_at, 7)
    assert (await lightjq.status(first))["finished_at"] == finished_at, "it is not consumed"


async def test_the_result_stays_as_the_worker_gave_it(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(keep_result=True)
    await hold(service, worker, accept_ms=5_000)  # the report comes before the answer to the push
    await lightjq.succeed(worker, job_id, result=42, finished_at="2026-01-31T12:00:00Z")
    ending = await service.result(parse_id(job_id))
    assert ending is not None
    assert ending.result == Blob(b"\x2a", Codec.MSGPACK)


async def test_the_end_of_an_earlier_attempt_is_not_shown(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push()
    await hold(service, worker)
    await lightjq.fail(worker, job_id, finished_at="2026-01-31T12:00:00Z")
    store.clock_offset_ms += 5_000
    await service.promote()
    [job] = (await service.take(Take(queues=(QUEUE,), worker=parse_id(worker)))).jobs
    assert "finished_at" not in await lightjq.status(job_id)
    await lightjq.succeed(worker, job_id)
    shown = datetime.fromisoformat((await lightjq.status(job_id))["finished_at"])
    assert shown.timestamp() * 1000 > (job.started_at_ms or 0)


@pytest.mark.parametrize("finished_at", ["yesterday", "2026-01-31", 7, "2026-01-31T12:00:00." + "1" * 60])
async def test_a_wrong_end_is_refused(lightjq: LightJqClient, service: Service, finished_at: Any) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push()
    await hold(service, worker)
    response = await lightjq.succeed(worker, job_id, finished_at=finished_at)
    assert (response.status, response.error) == (400, "bad_input")
    assert (await lightjq.status(job_id))["status"] == "running"
