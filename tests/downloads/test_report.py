"""Callback body of an ended download, and the work after its delivery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.downloads.origin import BASE, AtWork, Origin, answer, at_work
from windlass.core.callbacks.callback import LeasedCallback, PendingCallback
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Callback, Codec, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.core.retry import Backoff
from windlass.downloads.worker import FILES_QUEUE, QUEUE, callback_body, on_delivered
from windlass.downloads.worker.report import INVALID_RESULT
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
NAME = "abcdefghijklmn"
FIELDS = [
    "success", "error", "extra", "image_size", "resource_url", "download_url", "job_id", "response_code", "delivered",
    "delivery_error",
]  # fmt: skip


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def work(opened: Service, tmp_path: Path) -> AsyncIterator[AtWork]:
    async with at_work(opened, tmp_path) as work:
        yield work


async def owe(service: Service, url: str, *, retry: Backoff = Backoff(tries=0), **fields: Any) -> bytes:  # noqa: B008
    payload = {"id": NAME, "url": url, "aggr_id": "shop", "extra": "mine", "max_retries": 0} | fields
    job = NewJob(
        queue=QUEUE,
        name="download",
        payload=Blob(msgspec.json.encode(payload)),
        unique=NAME,
        retry=retry,
        callback=Callback(url="http://receiver.example/"),
        result_ttl_ms=60_000,
    )
    return (await service.enqueue([job]).one()).id


async def pending_callback_of(service: Service) -> PendingCallback:
    (pending,) = (await service.take_callbacks(wait_ms=20_000)).callbacks
    return pending


async def body_of(service: Service) -> dict[str, Any]:
    pending = await pending_callback_of(service)
    body = await callback_body(service, pending)
    assert await callback_body(service, pending) == body
    decoded: dict[str, Any] = msgspec.json.decode(body)
    assert list(decoded) == FIELDS
    return decoded


async def test_of_a_success(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        await owe(work.service, origin.url())
        assert await body_of(work.service) == {
            "success": True,
            "error": "",
            "extra": "mine",
            "image_size": "",
            "resource_url": origin.url(),
            "download_url": f"{BASE}/abc/{NAME}",
            "job_id": NAME,
            "response_code": 200,
            "delivered": True,
            "delivery_error": "",
        }


async def test_of_a_failure(work: AtWork) -> None:
    async with Origin({}).open() as origin:
        await owe(work.service, origin.url())
        assert await body_of(work.service) == {
            "success": False,
            "error": "Error while downloading, Received status code 404 Not Found, retriable: false, internal: false",
            "extra": "mine",
            "image_size": "",
            "resource_url": origin.url(),
            "download_url": "",
            "job_id": NAME,
            "response_code": 404,
            "delivered": True,
            "delivery_error": "",
        }


async def test_of_a_download_that_was_cancelled(opened: Service) -> None:
    job_id = await owe(opened, "http://x.example/")
    await opened.cancel([job_id])
    body = await body_of(opened)
    assert (body["success"], body["error"], body["job_id"]) == (False, "The download was cancelled.", NAME)


async def test_of_a_download_that_killed_its_processors(opened: Service, store: Store) -> None:
    await owe(opened, "http://x.example/", retry=Backoff(tries=1))
    await opened.take(Take(queues=(QUEUE,), lease_ms=1000))
    store.clock_offset_ms += 2000
    await opened.recover()
    body = await body_of(opened)
    assert (body["success"], body["response_code"], body["extra"]) == (False, 0, "mine")
    assert body["error"] == "The download was begun several times and never ended."


async def test_a_failure_with_a_foreign_error(opened: Service) -> None:
    await owe(opened, "http://x.example/")
    (job,) = (await opened.take(Take(queues=(QUEUE,)))).jobs
    await opened.fail([Fail(id=job.id, token=job.lease_token, reason="other", error=Blob(b'["?"]'))])
    assert (await body_of(opened))["error"] == "other"


async def test_of_a_report_that_was_too_large_to_be_kept(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        await owe(work.service, origin.url(), extra="e" * 70_000)
        body = await body_of(work.service)
        assert (body["success"], body["job_id"], body["download_url"]) == (True, NAME, f"{BASE}/abc/{NAME}")


VALID: dict[str, Any] = {
    "success": True, "error": "", "extra": "mine", "image_size": "1x2", "resource_url": "http://x.example/",
    "download_url": f"http://other.example/f/abc/{NAME}", "job_id": NAME, "response_code": 200, "delivered": True,
    "delivery_error": "",
}  # fmt: skip


async def _reported(service: Service, result: Blob | None) -> dict[str, Any]:
    """The callback body after another worker has finished the job with a result."""
    await owe(service, "http://x.example/")
    (job,) = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(job.id, job.lease_token, result)])
    return await body_of(service)


@pytest.mark.parametrize("more", [{}, {"unknown": 1, "<b>": "dropped"}], ids=str)
async def test_a_valid_report_of_another_worker_is_sent(opened: Service, more: dict[str, Any]) -> None:
    assert await _reported(opened, Blob(msgspec.json.encode(VALID | more))) == VALID


INVALID: list[Blob | None] = [
    None,
    Blob(b"null"),
    Blob(b"[1]"),
    Blob(b'{"success": true'),
    Blob(b"\xff", Codec.RAW),
    Blob(msgspec.msgpack.encode(VALID), Codec.MSGPACK),
    *(
        Blob(msgspec.json.encode(VALID | changed))
        for changed in (
            {"success": False}, {"success": 1}, {"success": "true"}, {"error": "x"}, {"error": None},
            {"extra": "theirs"}, {"extra": 7}, {"image_size": "big"}, {"image_size": "1x2<b>"},
            {"resource_url": "http://y.example/"}, {"download_url": ""}, {"download_url": "http://x/abc/other"},
            {"download_url": f"\n/abc/{NAME}"}, {"download_url": "h" * 5_000 + f"/abc/{NAME}"}, {"job_id": "other"},
            {"job_id": ""}, {"response_code": -1}, {"response_code": 1000}, {"response_code": "200"},
            {"delivered": False}, {"delivery_error": "x"}, {"extra": "x" * 70_000},
        )
    ),
]  # fmt: skip


async def test_any_other_result_is_reported_as_a_failure(opened: Service) -> None:
    for result in INVALID:
        body = await _reported(opened, result)
        assert body == {
            "success": False, "error": INVALID_RESULT, "extra": "mine", "image_size": "",
            "resource_url": "http://x.example/", "download_url": "", "job_id": NAME, "response_code": 0,
            "delivered": True, "delivery_error": "",
        }, result  # fmt: skip


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (Blob(b'{"message": "no luck", "response_code": 404}'), "no luck", 404),
        (Blob(b'{"message": "no luck", "response_code": -7, "job_id": "theirs"}'), "no luck", 0),
        (Blob(msgspec.msgpack.encode({"message": "no luck", "error": {"a": 1}}), Codec.MSGPACK), "no luck", 0),
        (Blob(msgspec.json.encode({"message": "x" * 9_000})), "x" * 2_000, 0),
        (Blob(b"\xff", Codec.RAW), "other", 0),
    ],
    ids=lambda given: repr(given)[:40],
)
async def test_the_error_of_another_worker_is_cut_and_checked(
    opened: Service, error: Blob, said: str, code: int
) -> None:
    await owe(opened, "http://x.example/")
    (job,) = (await opened.take(Take(queues=(QUEUE,)))).jobs
    await opened.fail([Fail(id=job.id, token=job.lease_token, reason="other", error=error)])
    body = await body_of(opened)
    assert (body["error"], body["response_code"], body["job_id"]) == (said, code, NAME)


async def test_the_file_of_such_a_one_leaves_too(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        await owe(work.service, origin.url(), extra="e" * 70_000)
        await on_delivered(work.service, await pending_callback_of(work.service), keep_ms=0)
        while work.files():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_when_it_has_arrived_the_job_goes_at_once_and_the_file_later(
    opened: Service, store: Store, tmp_path: Path
) -> None:
    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path) as work:
        job_id = await owe(opened, origin.url())
        pending = await pending_callback_of(opened)
        for _ in range(2):  # the answer of the first call may have been lost
            await on_delivered(opened, pending, keep_ms=3_600_000)
        await opened.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one()
        with pytest.raises((UnknownJob, AlreadyEnded)):
            await opened.job([job_id]).one()
        assert work.files() == {f"abc/{NAME}": b"x"}
        (stats,) = await opened.stats([FILES_QUEUE])
        assert (stats.scheduled, stats.queued) == (1, 0)
    store.clock_offset_ms += 3_600_000
    async with at_work(opened, tmp_path) as work:
        while work.files():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_failure_leaves_no_file_to_delete(work: AtWork, opened: Service) -> None:
    async with Origin({}).open() as origin:
        job_id = await owe(opened, origin.url())
        await on_delivered(opened, await pending_callback_of(opened), keep_ms=1)
        with pytest.raises((UnknownJob, AlreadyEnded)):
            await opened.job([job_id]).one()
        (stats,) = await opened.stats([FILES_QUEUE])
        assert (stats.scheduled, stats.queued) == (0, 0)
