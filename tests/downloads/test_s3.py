"""Downloads into buckets of a local S3 server."""

from __future__ import annotations

import asyncio
import builtins
import gc
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.downloads.origin import BASE, AtWork, Origin, answer, at_work, png
from windlass.core.job import Blob, NewJob
from windlass.downloads.worker import FILES_QUEUE
from windlass.downloads.worker.failures import DownloadFailure
from windlass.downloads.worker.s3 import Bucket, S3Clients
from windlass.downloads.worker.temp_file import TempFile
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("engine", ["valkey"], indirect=True),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries behind the local server
]
NAME = "abcdefghijklmn"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint)
    for bucket in ("ours", "theirs"):
        client.create_bucket(Bucket=bucket)
    yield client
    for bucket in ("ours", "theirs"):
        for one in client.list_objects_v2(Bucket=bucket).get("Contents", []):
            client.delete_object(Bucket=bucket, Key=one["Key"])
    client.close()


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def work(opened: Service, tmp_path: Path, s3: Any, endpoint: str) -> AsyncIterator[AtWork]:
    async with at_work(opened, tmp_path, s3_endpoint=endpoint) as work:
        yield work


def in_bucket(s3: Any, bucket: str, name: str = NAME) -> tuple[bytes, str, dict[str, str]]:
    found = s3.get_object(Bucket=bucket, Key=f"{name[:3]}/{name}")
    return found["Body"].read(), found["ContentType"], found["Metadata"]


async def test_a_job_may_name_its_own_bucket(work: AtWork, s3: Any) -> None:
    extra = '{"shop": "a b", "size": 7.9, "title": "Ελλάδα", "flag": true, "none": null, "list": [1]}'
    async with Origin(answer(png(3, 3))).open() as origin:
        end = await work.download(origin.url(), s3_bucket="theirs", s3_region="us-east-1", extra=extra)
    assert (end["success"], end["extra"], end["download_url"]) == (True, extra, f"{BASE}/abc/{NAME}")
    content, mime_type, metadata = in_bucket(s3, "theirs")
    assert (content, mime_type) == (png(3, 3), "image/png")
    assert metadata == {"shop": "a b", "size": "7", "title": "=?utf-8?b?zpXOu867zqzOtM6x?="}
    assert work.files() == {}


@pytest.mark.parametrize("extra", ["no json", "[1]", '"text"', "7"])
async def test_what_goes_with_it_must_be_an_object(work: AtWork, extra: str) -> None:
    async with Origin(answer(b"x")).open() as origin:
        end = await work.download(origin.url(), s3_bucket="theirs", s3_region="us-east-1", extra=extra)
        assert "extra must be a JSON object" in end["message"]
        assert (end["attempt"], origin.requests) == (1, [])


async def test_a_bucket_that_is_not_there_is_final(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        end = await work.download(origin.url(), s3_bucket="nowhere", s3_region="us-east-1")
        assert "Error while storing the file" in end["message"]
        assert "NoSuchBucket" in end["message"]
        assert (end["attempt"], work.files()) == (1, {})


@pytest.mark.parametrize(("bucket", "region"), [("../x", "us-east-1"), ("theirs", "evil.example/")])
async def test_names_that_lead_elsewhere_are_refused(work: AtWork, bucket: str, region: str) -> None:
    async with Origin(answer(b"x")).open() as origin:
        end = await work.download(origin.url(), s3_bucket=bucket, s3_region=region)
        assert "cannot be the name of a bucket and its region" in end["message"]
        assert (end["attempt"], origin.requests) == (1, [])


async def test_all_files_may_go_into_one_bucket(opened: Service, tmp_path: Path, s3: Any, endpoint: str) -> None:
    options = {"s3_bucket": "ours", "s3_region": "us-east-1", "s3_endpoint": endpoint}
    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path, **options) as work:
        assert (await work.download(origin.url(), extra="anything"))["success"]
        assert in_bucket(s3, "ours") == (b"x", "text/plain", {})
        assert work.files() == {}
        gone = NewJob(queue=FILES_QUEUE, name="d", payload=Blob(b'{"id":"%s"}' % NAME.encode()), result_ttl_ms=60_000)
        await work.end_of((await opened.enqueue([gone]).one()).id)
        assert "Contents" not in s3.list_objects_v2(Bucket="ours")


async def test_a_line_to_the_bucket_that_breaks_is_tried_again(opened: Service, tmp_path: Path, s3: Any) -> None:
    async with Origin(answer(b"x")).open() as origin:
        async with Origin({}).open() as gone:
            nobody = gone.url("")
        async with at_work(opened, tmp_path, s3_endpoint=nobody) as work:
            end = await work.download(origin.url(), s3_bucket="theirs", s3_region="us-east-1", max_retries=1)
            assert (end["attempt"], work.files()) == (2, {})
            assert "retriable: true" in end["message"]


def test_a_cancelled_upload_ends(engine: object, s3: Any, endpoint: str, tmp_path: Path) -> None:
    stop_requested = threading.Event()
    temp = TempFile(tmp_path, NAME, stop_requested)
    temp.open()
    temp.write([bytes(2**20)])
    stop_requested.set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # boto3 leaves the file to the collector
        with pytest.raises(DownloadFailure, match="no longer wanted") as raised:
            Bucket(S3Clients(endpoint), "theirs", "us-east-1").keep(temp, NAME, "text/plain", {})
        del raised
        gc.collect()
    temp.discard()
    assert "Contents" not in s3.list_objects_v2(Bucket="theirs")


async def test_without_the_extra_such_jobs_fail_and_say_what_to_do(
    work: AtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("boto3", "botocore"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    async with Origin(answer(b"x")).open() as origin:
        end = await work.download(origin.url(), s3_bucket="theirs", s3_region="us-east-1")
        assert "pip install 'windlass-queue[s3]'" in end["message"]
        assert (end["attempt"], origin.requests) == (1, [])
        assert (await work.download(origin.url(), "other"))["success"]
