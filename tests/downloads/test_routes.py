"""Other routes of the downloader: heartbeat, statistics, aggregations, retries of callbacks, files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis

from tests.dialects.sample_jobs import bearer
from windlass.core.access.tokens import Role
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import download_id_of_number
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
ORDER: dict[str, Any] = {
    "url": "http://example.com/a.jpg", "aggr_id": "store", "aggr_limit": 3, "callback_url": "http://receiver/done",
}  # fmt: skip
ID = "abcdefghij-_12"
FILE = f"/downloader/files/{ID[:3]}/{ID}"


@pytest.fixture
def server_settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "files" / ID[:3]
    folder.mkdir(parents=True)
    (folder / ID).write_bytes(bytes(range(256)) * 4)
    return Settings(
        port=0, bedrock_port=None, roles="api", download_dir=str(tmp_path / "files"),
        heartbeat_file=str(tmp_path / "out-of-service"),
    )  # fmt: skip


async def ordered(client: httpx.AsyncClient, **changes: Any) -> str:
    return str((await client.post("/downloader/download", json=ORDER | changes)).json()["id"])


async def test_the_heartbeat(client: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await client.get("/downloader/hb")
    assert (answer.status_code, answer.text) == (200, "OK")
    (tmp_path / "out-of-service").touch()
    assert (await client.get("/downloader/hb")).status_code == 503
    (tmp_path / "out-of-service").unlink()
    assert (await client.get("/downloader/hb")).status_code == 200


async def test_statistics_of_all_instances(client: httpx.AsyncClient, service: Service) -> None:
    assert (await client.get("/downloader/stats/processor")).status_code == 404
    await service.publish_stats("processor", "a", {"alive": 1, "workers": 2, "download.response.200": 5})
    await service.publish_stats("processor", "b", {"alive": 1, "workers": 3})
    answer = await client.get("/downloader/stats/processor")
    assert answer.json() == {"alive": 1, "workers": 5, "download.response.200": 5}
    assert answer.headers["access-control-allow-origin"] == "*"
    for nobody in ("x" * 100, "%00", "%0A"):
        assert (await client.get(f"/downloader/stats/{nobody}")).status_code == 404


async def test_aggregations_with_jobs_that_wait(client: httpx.AsyncClient, service: Service) -> None:
    assert (await client.get("/downloader/dashboard/aggregations")).json() == []
    for aggregation in ("a", "b", "b", "ü /"):
        await ordered(client, aggr_id=aggregation, aggr_limit=1)
    (first,) = (await service.take(Take(queues=("downloads",)))).jobs
    shown = await client.get("/downloader/dashboard/aggregations")
    assert shown.headers["access-control-allow-origin"] == "*"
    assert shown.json() == [{"name": "jobs:b", "size": 2}, {"name": "jobs:ü /", "size": 1}]
    await service.fail([Fail(id=first.id, token=first.lease_token, then="retry", delay_ms=60_000)])
    shown = await client.get("/downloader/dashboard/aggregations")
    assert {"name": "jobs:a", "size": 1} in shown.json()  # waits for its next attempt


async def test_more_aggregations_than_a_page_has(client: httpx.AsyncClient, service: Service) -> None:
    await ordered(client)
    keys = [Blob(b'{"aggr_id": "%d"}' % number) for number in range(600)]
    await service.enqueue([NewJob(queue="downloads", name="download", payload=one) for one in keys])
    assert len((await client.get("/downloader/dashboard/aggregations")).json()) == 601


async def _given_up(service: Service) -> None:
    callbacks = (await service.take_callbacks(most=10)).callbacks
    assert callbacks
    await service.retry_callbacks([FailedDelivery(id=one.id, token=one.token, give_up=True) for one in callbacks])


@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_callback_that_was_given_up_is_tried_again(
    client: httpx.AsyncClient, service: Service, ends_well: bool
) -> None:
    download_id = await ordered(client)
    path = f"/downloader/retry/{download_id}"
    assert (await client.post(path)).status_code == 400  # it has not ended
    (job,) = (await service.take(Take(queues=("downloads",)))).jobs
    if ends_well:
        await service.finish([Finish(job.id, job.lease_token)])
    else:
        await service.fail([Fail(id=job.id, token=job.lease_token)])
    assert (await client.post(path)).status_code == 400  # it is still pending
    await _given_up(service)
    answer = await client.post(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await client.post(path)).status_code == 400
    (pending,) = (await service.take_callbacks(most=10)).callbacks
    assert pending.attempt == 1
    await _given_up_again(service, pending.id, pending.token)
    assert (await client.post(path)).status_code == 204


async def _given_up_again(service: Service, pending: bytes, token: int) -> None:
    await service.retry_callbacks([FailedDelivery(id=pending, token=token, give_up=True)])


@pytest.mark.parametrize("nobody", ["", "abcdefghijklmn", "%00", "x" * 600, "%2e%2e%2fx"])
async def test_nothing_to_try_again(client: httpx.AsyncClient, nobody: str) -> None:
    answer = await client.post(f"/downloader/retry/{nobody}")
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")


# Files


async def test_a_file(client: httpx.AsyncClient) -> None:
    answer = await client.get(FILE)
    assert (answer.status_code, answer.content) == (200, bytes(range(256)) * 4)
    assert answer.headers["content-length"] == "1024"
    assert answer.headers["content-type"] == "application/octet-stream"
    for name, value in {
        "content-disposition": "attachment", "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
    }.items():  # fmt: skip
        assert answer.headers[name] == value
    head = await client.head(FILE)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "1024", b"")


async def test_the_file_of_a_job_from_elsewhere_needs_a_token(
    client: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    """Its id is made from a number, so it can be guessed."""
    name = download_id_of_number(7)
    (tmp_path / "files" / name[:3]).mkdir()
    (tmp_path / "files" / name[:3] / name).write_bytes(b"content")
    path = f"/downloader/files/{name[:3]}/{name}"
    assert (await client.get(path)).content == b"content"  # no token exists
    headers = await bearer(service, Role.READ, queues=("downloads",))
    other = await bearer(service, Role.READ, queues=("other",))
    assert [(await client.get(path, headers=one)).status_code for one in (headers, other, {})] == [200, 401, 401]
    assert (await client.get(FILE)).status_code == 200


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("0-0", 0, 0),
        ("10-19", 10, 19),
        ("1000-", 1000, 1023),
        ("-24", 1000, 1023),
        ("0-9999", 0, 1023),
        ("-9999", 0, 1023),
    ],
)
async def test_a_part_of_a_file(client: httpx.AsyncClient, asked: str, first: int, last: int) -> None:
    answer = await client.get(FILE, headers={"range": f"bytes={asked}"})
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {first}-{last}/1024"
    assert answer.content == (bytes(range(256)) * 4)[first : last + 1]


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=9999-10000", "bytes=-0"])
async def test_a_part_that_is_not_there(client: httpx.AsyncClient, asked: str) -> None:
    answer = await client.get(FILE, headers={"range": asked})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */1024")


@pytest.mark.parametrize(
    "asked", ["bytes=5-1", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "", "bytes=" + "9" * 30 + "-"]
)
async def test_an_invalid_range_is_ignored(client: httpx.AsyncClient, asked: str) -> None:
    answer = await client.get(FILE, headers={"range": asked})
    assert (answer.status_code, len(answer.content)) == (200, 1024)


@pytest.mark.parametrize(
    "path",
    [
        "/files/abc/abcdefghij-_13", "/files/abd/abcdefghij-_12", "/files/abc/..%2fabc%2fabcdefghij-_12",
        "/files/abc/%00",
        "/files/..%2f..%2fetc/passwd", "/files/%2e%2e/%2e%2e", "/files/abc/abcdefghij-_12%00.jpg", "/files/abc/abc",
        "/files/abc", "/files/", "/files/abc/abcdefghij-_12/x", "/files/lnk/lnkdefghij-_12",
        "/files/dir/dirdefghij-_12",
        "/files/fif/fifdefghij-_12",
    ],
)  # fmt: skip
async def test_no_way_to_other_files(client: httpx.AsyncClient, tmp_path: Path, path: str) -> None:
    for name in ("lnk", "dir", "fif"):
        (tmp_path / "files" / name).mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "files" / "lnk" / "lnkdefghij-_12").symlink_to(tmp_path / "secret")
    (tmp_path / "files" / "dir" / "dirdefghij-_12").mkdir()
    os.mkfifo(tmp_path / "files" / "fif" / "fifdefghij-_12")
    answer = await client.get(f"/downloader{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (b"", "application/octet-stream"),
        (b"<html><script>alert(1)</script>", "text/html"),
        (b"%PDF-1.4 x", "application/pdf"),
    ],
)
async def test_the_type_is_that_of_the_content(
    client: httpx.AsyncClient, tmp_path: Path, content: bytes, media: str
) -> None:
    (tmp_path / "files" / ID[:3] / ID).write_bytes(content)
    answer = await client.get(FILE)
    assert (answer.content, answer.headers["content-type"]) == (content, media)
    assert answer.headers["content-disposition"] == "attachment"


async def test_a_file_that_shrinks_during_the_answer_ends_the_connection(running: Server, tmp_path: Path) -> None:
    """The length was sent before."""
    file = tmp_path / "files" / ID[:3] / ID
    with file.open("wb") as large:
        large.truncate(64 * 2**20)
    async with httpx.AsyncClient(base_url=running.url) as client, client.stream("GET", FILE) as answer:
        assert answer.headers["content-length"] == str(64 * 2**20)
        os.truncate(file, 1)
        with pytest.raises(httpx.RemoteProtocolError):
            [chunk async for chunk in answer.aiter_bytes()]


# Its document


async def test_its_document_is_openapi_with_the_paths_of_its_clients(client: httpx.AsyncClient) -> None:
    answer = await client.get("/downloader/openapi.json")
    document = answer.json()
    schemathesis.openapi.from_dict(document).validate()
    assert document["servers"] == [{"url": "/downloader"}]
    operations = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    assert operations == {
        "POST /download", "GET /download/{name}", "PUT /aggregations/{name}",
        "POST /retry/{name}", "GET /hb", "GET /stats/{name}", "GET /dashboard/aggregations",
        "GET /files/{folder}/{name}",
    }  # fmt: skip
    order = document["components"]["schemas"]["OrderForm"]
    assert order["required"] == ["url", "aggr_id", "aggr_limit"]
    assert order["properties"]["aggr_limit"]["type"] == "number"
    assert set(ORDER) <= set(order["properties"])
    yaml = await client.get("/downloader/openapi.yaml")
    assert (yaml.headers["content-type"], yaml.content) == ("application/yaml", answer.content)


async def test_its_operations_stay_in_the_main_document(client: httpx.AsyncClient) -> None:
    """Clients made of that one have them."""
    main, own = [(await client.get(path)).json()["paths"] for path in ("/openapi.json", "/downloader/openapi.json")]
    for path, operations in own.items():
        ids = {method: operation["operationId"] for method, operation in operations.items()}
        assert ids == {method: one["operationId"] for method, one in main[f"/downloader{path}"].items()}


@pytest.mark.parametrize("field", ["url", "aggr_id", "aggr_limit"])
async def test_a_field_that_the_document_requires_is_required(client: httpx.AsyncClient, field: str) -> None:
    order = {name: value for name, value in ORDER.items() if name != field}
    answer = await client.post("/downloader/download", json=order)
    assert (answer.status_code, answer.text) == (400, f"{field} is missing.\n")
