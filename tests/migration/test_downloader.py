"""Downloads of skroutz's Redis: the document's keys and the code's, due times, callbacks, and jobs in no queue."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.migration.source_redis import SourceRedis, drain, migrate
from windlass.core.job import Job
from windlass.downloads.worker.order import AGGREGATIONS, QUEUE, read_order
from windlass.downloads.worker.report import callback_body
from windlass.migration.downloader import DownloaderReader
from windlass.migration.report import MigrationReport
from windlass.service import Service
from windlass.store.job_source import JobSource

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

BASE = "https://files.example.org/dl"


def move(service: Service, old: SourceRedis, *, dry: bool = False) -> MigrationReport:
    with JobSource(old.url, "downloader") as source:
        return migrate(service, source, DownloaderReader(source, BASE), dry=dry)


def job_of(service: Service, download_id: str) -> Job:
    job_id = service.holder(QUEUE, download_id).wait()
    assert job_id is not None
    return service.job([job_id]).one().wait().job


def test_the_commands_of_the_document(service: Service, migrated: Service, old: SourceRedis) -> None:
    """Its jobs have no address for a callback, so they come without one."""
    old.run("""
        HSET aggr:msystems id msystems
        HMSET job:1323 id 1323 aggr_id msystems url http://foo.bar/a.jpg
        ZADD jobs:msystems 1700000000 1323
    """)
    assert move(migrated, old).moved == 1
    job = job_of(service, "1323")
    assert (job.lane, job.callback, read_order(job.payload).url) == ("msystems", None, "http://foo.bar/a.jpg")
    assert service.aggregation(AGGREGATIONS, "msystems").wait().cap == 4
    assert [found.unique for found in drain(service, QUEUE)] == ["1323"]


GO_JOB = {
    "ID": "Uk9bZl8xR2Fvbn", "URL": "http://foo.bar/b.jpg", "AggrID": "beststore", "DownloadState": "Pending",
    "DownloadCount": "1", "DownloadMeta": "", "CallbackURL": "", "CallbackType": "http",
    "CallbackDst": "http://foo.bar/done", "CallbackState": "", "CallbackMeta": "", "CallbackCount": "0",
    "Extra": "anything", "ResponseCode": "0", "MimeType": "image/*", "MaxRetries": "5", "ExtractImageSize": "1",
    "ImageSize": "", "DownloadTimeout": "30", "RequestHeaders": '{"Accept":"image/png"}',
    "S3Bucket": "", "S3Region": "",
}  # fmt: skip


def save(old: SourceRedis, **fields: str) -> str:
    stored = GO_JOB | fields
    old.call("HSET", f"job:{stored['ID']}", *(part for pair in stored.items() for part in pair))
    return stored["ID"]


def test_a_job_of_the_code_keeps_all_its_fields(service: Service, migrated: Service, old: SourceRedis) -> None:
    old.call("HSET", "aggr:beststore", "ID", "beststore", "Limit", "7", "Proxy", "http://proxy:3128", "ExpiresAt", "1")
    old.call("ZADD", "jobs:beststore", 1_700_000_000, save(old))
    report = move(migrated, old)
    assert (report.moved, report.is_complete) == (1, True)
    job = job_of(service, GO_JOB["ID"])
    order = read_order(job.payload)
    assert (order.url, order.extra, order.mime_type, order.max_retries) == (
        "http://foo.bar/b.jpg",
        "anything",
        "image/*",
        5,
    )
    assert (order.extract_image_size, order.download_timeout, order.request_headers) == (
        True, 30, {"Accept": "image/png"},
    )  # fmt: skip
    assert job.callback is not None
    assert job.callback.url == "http://foo.bar/done"
    found = service.aggregation(AGGREGATIONS, "beststore").wait()
    assert (found.cap, found.note) == (7, "http://proxy:3128")


def test_due_times_and_order(service: Service, migrated: Service, old: SourceRedis) -> None:
    now_s = service.now().wait() // 1000
    for number, due in enumerate((now_s + 3600, now_s - 5, now_s - 50)):
        old.call("ZADD", "jobs:beststore", due, save(old, ID=f"job-{number}"))
    move(migrated, old)
    assert [job.unique for job in drain(service, QUEUE)] == ["job-2", "job-1"]
    assert job_of(service, "job-0").run_at_ms == (now_s + 3600) * 1000


def test_queues_may_be_lists(service: Service, migrated: Service, old: SourceRedis) -> None:
    for number in (1, 2):
        old.call("LPUSH", "jobs:beststore", save(old, ID=f"job-{number}"))
    assert move(migrated, old).moved == 2
    assert [job.unique for job in drain(service, QUEUE)] == ["job-1", "job-2"]


def pending(service: Service, *, given_up: bool = False) -> list[Any]:
    async def bodies() -> list[bytes]:
        async with service.store.clone() as store:
            opened = Service(store)
            page = await opened.callbacks(given_up=given_up)
            return [await callback_body(opened, found) for found in page.callbacks]

    return [json.loads(body) for body in asyncio.run(bodies())]


@pytest.mark.parametrize("key", ["callbackQueue", "CallbackQueue"])
def test_pending_callbacks_have_the_body_of_the_source(
    service: Service, migrated: Service, old: SourceRedis, key: str
) -> None:
    done = save(old, ID="done-1", DownloadState="Success", CallbackState="Pending", ResponseCode="200", ImageSize="9x9")
    lost = save(
        old, ID="lost-1", DownloadState="Failed", CallbackState="Pending", ResponseCode="404",
        DownloadMeta="Received status code 404 Not Found",
    )  # fmt: skip
    old.call("ZADD", key, 1_700_000_000, done, 1_700_000_001, lost)
    report = move(migrated, old)
    assert (report.moved, report.callbacks, report.is_complete) == (2, 2, True)
    first, second = sorted(pending(service), key=lambda body: body["job_id"])
    assert first == {
        "success": True, "error": "", "extra": "anything", "image_size": "9x9", "resource_url": "http://foo.bar/b.jpg",
        "download_url": f"{BASE}/don/done-1", "job_id": "done-1", "response_code": 200, "delivered": True,
        "delivery_error": "",
    }  # fmt: skip
    assert second == {
        "success": False, "error": "Received status code 404 Not Found", "extra": "anything", "image_size": "",
        "resource_url": "http://foo.bar/b.jpg", "download_url": "", "job_id": "lost-1", "response_code": 404,
        "delivered": True, "delivery_error": "",
    }  # fmt: skip
    assert drain(service, QUEUE) == []
    assert (job_of(service, "done-1").state.label, job_of(service, "lost-1").state.label) == ("finished", "failed")
    assert {finding.code for finding in service.doctor().wait().findings} <= {"no_persistence"}


def test_jobs_in_no_queue(service: Service, migrated: Service, old: SourceRedis) -> None:
    save(old, ID="running-1", DownloadState="InProgress")
    save(old, ID="calling-1", DownloadState="Success", CallbackState="InProgress")
    save(old, ID="given-up-1", DownloadState="Success", CallbackState="Failed")
    save(old, ID="stored-1", DownloadState="Success", CallbackState="", CallbackDst="", S3Bucket="b", S3Region="r")
    old.call("ZADD", "JobDeletionQueue", 1_700_000_000, "gone-1")
    report = move(migrated, old)
    assert (report.moved, report.in_flight, report.callbacks, report.done, report.files) == (3, 1, 2, 1, 1)
    assert [body["job_id"] for body in pending(service)] == ["calling-1"]
    assert [body["job_id"] for body in pending(service, given_up=True)] == ["given-up-1"]
    assert [job.unique for job in drain(service, QUEUE)] == ["running-1"]
    given_up = job_of(service, "given-up-1")
    assert service.redeliver([given_up.id]).one().wait() == "owed"  # as POST /retry does
    again = move(migrated, old)
    assert (again.moved, again.done, len(pending(service))) == (0, 1, 3)  # with that of running-1


def test_what_is_not_a_download_stays(service: Service, migrated: Service, old: SourceRedis) -> None:
    for number, fields in enumerate(
        ({"URL": "ftp://x"}, {"URL": ""}, {"CallbackDst": "http://["}, {"RequestHeaders": "{"}, {"MimeType": "[]a]"})
    ):
        old.call("ZADD", "jobs:beststore", number, save(old, ID=f"wrong-{number}", **fields))
    old.call("ZADD", "jobs:beststore", 50, "missing")
    old.call("ZADD", "jobs:beststore", 60, save(old, ID="no"))
    old.call("SET", "job:text", "x")
    old.call("SET", "jobs:text", "x")
    old.call("ZADD", "callbackQueue", 1, save(old, ID="early-1", DownloadState="Pending"))
    old.call("ZADD", "callbackQueue", 1, save(old, ID="silent-1", DownloadState="Success", CallbackDst=""))
    old.call("ZADD", "jobs:beststore", 99, save(old, ID="right-1"))
    before = old.call("ZCARD", "jobs:beststore")
    report = move(migrated, old)
    assert (report.moved, report.problems) == (1, 11), report.reasons
    assert old.call("ZCARD", "jobs:beststore") == before - 1
    assert [job.unique for job in drain(service, QUEUE)] == ["right-1"]


def test_a_dry_run_changes_nothing(service: Service, migrated: Service, old: SourceRedis) -> None:
    old.call("ZADD", "jobs:beststore", 5, save(old, ID="job-1"))
    old.call("ZADD", "callbackQueue", 5, save(old, ID="done-1", DownloadState="Success", CallbackState="Pending"))
    save(old, ID="running-1", DownloadState="InProgress")
    before = old.dump()
    report = move(migrated, old, dry=True)
    assert (report.moved, report.callbacks, report.in_flight) == (3, 1, 1)
    assert old.dump() == before
    assert service.queues().wait() == []
