"""GET /download: the state of a download and of its callback, from the order to the end."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from tests.dialects.sample_jobs import bearer
from windlass.core.access.tokens import Role
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback
from windlass.core.ids import download_id_of_number
from windlass.core.job import Blob, Callback, NewJob
from windlass.core.operations import Fail, Finish, Take, Update
from windlass.downloads.worker.report import INVALID_RESULT
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
ORDER: dict[str, Any] = {
    "url": "http://example.com/a.jpg", "aggr_id": "store", "aggr_limit": 3, "callback_url": "http://receiver/done",
}  # fmt: skip
QUEUE = "downloads"


@pytest.fixture
def server_settings() -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api")


async def ordered(client: httpx.AsyncClient, **changes: Any) -> str:
    return str((await client.post("/downloader/download", json=ORDER | changes)).json()["id"])


async def status(client: httpx.AsyncClient, download_id: str) -> dict[str, Any]:
    answer = await client.get(f"/downloader/download/{download_id}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    found: dict[str, Any] = answer.json()
    return found


def report_of(download_id: str, **changes: Any) -> Blob:
    report = {
        "success": True, "resource_url": ORDER["url"], "job_id": download_id, "response_code": 200,
        "image_size": "3x4", "download_url": f"http://files/{download_id[:3]}/{download_id}",
    }  # fmt: skip
    return Blob(msgspec.json.encode(report | changes))


def states(found: dict[str, Any]) -> tuple[str, str | None]:
    return found["download_state"], found["callback_state"]


async def test_from_the_order_to_the_delivery(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client)
    found = await status(client, download_id)
    assert found == {
        "id": download_id, "url": ORDER["url"], "aggr_id": "store", "download_state": "PENDING", "callback_state": None,
        "response_code": 0, "error": "", "download_url": "", "image_size": "", "attempts": 0, "progress": 0.0,
        "note": "", "callback_attempts": 0, "callback_error": "", "created_at_ms": found["created_at_ms"],
        "started_at_ms": None, "ended_at_ms": None, "next_attempt_at_ms": None,
    }  # fmt: skip
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="5 of 10 bytes")])
    found = await status(client, download_id)
    assert (*states(found), found["progress"], found["note"], found["attempts"]) == (
        "IN_PROGRESS", None, 0.5, "5 of 10 bytes", 1,
    )  # fmt: skip
    await service.finish([Finish(job.id, job.lease_token, report_of(download_id))])
    found = await status(client, download_id)
    assert states(found) == ("SUCCESS", "PENDING")
    assert (found["response_code"], found["image_size"], found["error"]) == (200, "3x4", "")
    assert found["download_url"] == f"http://files/{download_id[:3]}/{download_id}"
    assert found["ended_at_ms"] >= found["started_at_ms"] >= found["created_at_ms"]
    (pending,) = (await service.take_callbacks()).callbacks
    assert states(await status(client, download_id)) == ("SUCCESS", "IN_PROGRESS")
    await service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token, error="away")])
    found = await status(client, download_id)
    assert (*states(found), found["callback_attempts"], found["callback_error"]) == ("SUCCESS", "PENDING", 1, "away")
    (pending,) = (await service.take_callbacks()).callbacks
    await service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token, error="no", give_up=True)])
    found = await status(client, download_id)
    assert (*states(found), found["callback_attempts"], found["callback_error"]) == ("SUCCESS", "FAILED", 2, "no")
    assert (await client.post(f"/downloader/retry/{download_id}")).status_code == 204
    (pending,) = (await service.take_callbacks()).callbacks
    await service.settle_callbacks([LeasedCallback(pending.id, pending.token)])
    assert states(await status(client, download_id)) == ("SUCCESS", "DELIVERED")
    await service.delete([job.id])  # as the notifier does after a delivery
    assert (await client.get(f"/downloader/download/{download_id}")).status_code == 404


async def test_a_delivery_whose_process_died_is_pending_again(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    download_id = await ordered(client)
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(job.id, job.lease_token, report_of(download_id))])
    await service.take_callbacks(lease_ms=1)
    while states(await status(client, download_id)) != ("SUCCESS", "PENDING"):
        pass


async def test_a_retry_and_a_failure(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client)
    error = Blob(b'{"message": "Received status code 503", "response_code": 503}')
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=60_000, error=error)])
    found = await status(client, download_id)
    assert (*states(found), found["response_code"], found["error"]) == (
        "PENDING", None, 503, "Received status code 503",
    )  # fmt: skip
    assert found["next_attempt_at_ms"] > found["started_at_ms"]
    await service.requeue([job.id])
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token, error=error)])
    found = await status(client, download_id)
    assert (*states(found), found["error"]) == ("FAILED", "PENDING", "Received status code 503")
    assert (found["download_url"], found["next_attempt_at_ms"]) == ("", None)


async def test_a_cancelled_download_has_failed(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client)
    job_id = await service.holder(QUEUE, download_id)
    assert job_id is not None
    await service.cancel([job_id])
    found = await status(client, download_id)
    assert (*states(found), found["error"]) == ("FAILED", "PENDING", "The download was cancelled.")


async def test_a_result_that_is_no_report_is_no_success(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client)
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(job.id, job.lease_token, Blob(b'{"any": "thing"}'))])
    found = await status(client, download_id)
    assert (found["download_state"], found["error"]) == ("FAILED", INVALID_RESULT)


async def foreign(service: Service, payload: Any, **terms: Any) -> tuple[bytes, str]:
    job = NewJob(queue=terms.pop("queue", QUEUE), name="n", payload=Blob(json.dumps(payload).encode()), **terms)
    job_id = (await service.enqueue([job]).one()).id
    return job_id, download_id_of_number(await service.number([job_id]).one())


async def test_a_job_from_elsewhere_by_its_download_id(client: httpx.AsyncClient, service: Service) -> None:
    _, name = await foreign(service, {"url": "http://x/", "aggr_id": "a"}, result_ttl_ms=60_000)
    found = await status(client, name)
    assert (found["id"], found["url"], found["aggr_id"], *states(found)) == (name, "http://x/", "a", "PENDING", None)
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(job.id, job.lease_token, report_of(name, resource_url="http://x/"))])
    found = await status(client, name)
    assert (*states(found), found["image_size"]) == ("SUCCESS", None, "3x4")


async def test_a_job_that_is_no_order(client: httpx.AsyncClient, service: Service) -> None:
    job_id, name = await foreign(service, [1])
    await service.cancel([job_id])
    found = await status(client, name)
    assert (found["url"], found["download_state"]) == ("", "FAILED")


async def test_the_callback_of_a_job_from_elsewhere_is_tried_again(client: httpx.AsyncClient, service: Service) -> None:
    callback = Callback(url="http://receiver/", events=("failed",))
    _, name = await foreign(service, {"url": "http://x/"}, callback=callback)
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token)])
    (pending,) = (await service.take_callbacks()).callbacks
    await service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token, give_up=True)])
    assert states(await status(client, name)) == ("FAILED", "FAILED")
    assert (await client.post(f"/downloader/retry/{name}")).status_code == 204


async def test_an_end_that_sends_no_callback(client: httpx.AsyncClient, service: Service) -> None:
    callback = Callback(url="http://receiver/", events=("failed",))
    job_id, name = await foreign(service, {"url": "http://x/"}, callback=callback)
    await service.cancel([job_id])
    assert states(await status(client, name)) == ("FAILED", None)


async def test_unknown_ids(client: httpx.AsyncClient, service: Service) -> None:
    _, elsewhere = await foreign(service, {"url": "http://x/"}, queue="other")
    _, renamed = await foreign(service, {"url": "http://x/", "id": "mine-mine"}, unique="mine-mine")
    await foreign(service, {"url": "http://x/"}, unique="customer-7")
    unknown = ["abcdefghijklmn", "%00", "x" * 300, "%2e%2e%2fx", download_id_of_number(999), elsewhere, renamed]
    for name in unknown:
        answer = await client.get(f"/downloader/download/{name}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8"), name
        assert answer.text.startswith("There is no download of this id")
        assert (await client.post(f"/downloader/retry/{name}")).status_code == 400
    assert (await status(client, "mine-mine"))["download_state"] == "PENDING"
    by_unique_key = await client.get("/downloader/download/customer-7")
    assert by_unique_key.status_code == 404, "its download id is made from its number"


async def test_the_token_must_be_for_the_queue(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client)
    _, name = await foreign(service, {"url": "http://x/"})
    for queue, expected in (("downloads", 200), ("other", 403)):
        for role in (Role.READ, Role.PRODUCE, Role.WORK):
            headers = await bearer(service, role, queues=(queue,))
            for one in (download_id, name):
                answer = await client.get(f"/downloader/download/{one}", headers=headers)
                assert answer.status_code == expected, (queue, role)
    assert (await client.get(f"/downloader/download/{download_id}")).status_code == 401
