"""Native routes of streams: pages, server-sent events that resume, and writes with the lease token."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from tests.dialects.event_stream import EventStream, Heard, following
from tests.dialects.sample_jobs import ABSENT, bearer, finished, path, put, running, take, until
from tests.support.api_client import Api
from windlass.core.durable import STREAM_VALUE_MAX, StreamWrite
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Fail, Finish
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.wire import sse

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

EVENTS = {"accept": "text/event-stream"}


async def write(service: Service, job: Job, *values: bytes, sequence: int = 0) -> None:
    blobs = tuple(Blob(value) for value in values)
    await service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence)]).one()


async def finish(service: Service, job: Job) -> None:
    await service.finish([Finish(job.id, job.lease_token)]).one()


def stream_of(job_id: bytes | str) -> str:
    return path(job_id, "/stream")


async def next_of(stream: EventStream) -> Heard:
    heard = await stream.next()
    assert heard is not None
    return heard


# Pages


async def test_a_page_has_entries_after_a_position(api: Api, service: Service) -> None:
    job = await running(service)
    await write(service, job, b"1", b'{"text":"two"}', b"3")
    page = (await api.get(f"{stream_of(job.id)}?after=1&most=1")).body
    [item] = page["items"]
    assert (item["position"], item["value"], item["attempt"], item["is_new_attempt"]) == (2, {"text": "two"}, 1, False)
    assert (page["is_ended"], page["last"], page["state"]) == (False, 3, "running")
    await finish(service, job)
    page = (await api.get(f"{stream_of(job.id)}?after=2")).body
    assert ([item["value"] for item in page["items"]], page["is_ended"], page["state"]) == ([3], True, "finished")


async def test_a_job_without_a_stream_has_an_empty_page(json_api: Api, service: Service) -> None:
    page = (await json_api.get(stream_of(await put(service)))).body
    assert page == {"items": [], "is_ended": False, "last": 0, "state": "queued"}


@pytest.mark.parametrize("query", ["after=-1", "after=x", "most=0", "most=1001", "data=all", "more=1"])
async def test_bad_queries_are_refused(json_api: Api, service: Service, query: str) -> None:
    answer = await json_api.get(f"{stream_of(await put(service))}?{query}")
    assert (answer.status, answer.body["code"]) == (400, "bad_input")


async def test_absent_jobs_have_no_stream(client: httpx.AsyncClient, service: Service) -> None:
    gone = await finished(service)
    for headers in ({}, EVENTS):
        statuses = [(await client.get(stream_of(job), headers=headers)).status_code for job in (ABSENT, gone, "nope")]
        assert statuses == [404, 410, 400]


# Server-sent events


async def test_events_follow_the_job_until_its_end(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    await write(service, job, b'"a"')
    async with following(client, stream_of(job.id), **EVENTS) as stream:
        assert await stream.next() == Heard("message", "a", "1")
        await write(service, job, b'"b\\nc"', sequence=1)
        assert await stream.next() == Heard("message", "b\nc", "2")
        await service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one()
        again = await take(service)
        await write(service, again, b"null")
        assert await stream.some(2) == [Heard("attempt", {"attempt": 2}, "3"), Heard("message", None, "4")]
        await finish(service, again)
        assert await stream.rest() == [Heard("end", {"state": "finished"}, "4")]


async def test_last_event_id_resumes_and_ends(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    await write(service, job, b"1", b"2", b"3")
    async with following(client, f"{stream_of(job.id)}?after=0", **EVENTS, last_event_id="2") as stream:
        assert await stream.next() == Heard("message", 3, "3")
    async with following(client, f"{stream_of(job.id)}?after=2", **EVENTS) as stream:
        assert await stream.next() == Heard("message", 3, "3")
    await finish(service, job)
    for last_id, status in (("2", 200), ("3", 204), ("0", 200)):
        answer = await client.get(stream_of(job.id), headers={**EVENTS, "last-event-id": last_id})
        assert answer.status_code == status
    async with following(client, f"{stream_of(job.id)}?after=3", **EVENTS) as stream:  # a new client gets the end
        assert await stream.rest() == [Heard("end", {"state": "finished"}, "")]


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "0:1-1", "99999999999999999999"])
async def test_a_bad_last_event_id_is_refused(client: httpx.AsyncClient, service: Service, last_id: str) -> None:
    job = await running(service)
    answer = await client.get(stream_of(job.id), headers={**EVENTS, "last-event-id": last_id})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")


async def test_values_that_are_no_json_are_base64(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    blobs = (Blob(b"\xff", Codec.RAW), Blob(b"\x01", Codec.MSGPACK))
    await service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=0)]).one()
    await finish(service, job)
    async with following(client, stream_of(job.id), **EVENTS) as stream:
        data = [heard.data for heard in await stream.rest()]
    assert data == [{"base64": "/w==", "codec": "raw"}, 1, {"state": "finished"}]
    async with following(client, f"{stream_of(job.id)}?data=entry", **EVENTS) as stream:
        entries = [heard.data for heard in await stream.some(2)]
    assert [(entry["position"], base64.b64decode(entry["value_base64"])) for entry in entries] == [
        (at, blob.data) for at, blob in enumerate(blobs, 1)
    ]


async def test_a_silent_stream_is_kept_alive(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.05)
    job = await running(service)
    async with following(client, stream_of(job.id), **EVENTS) as stream:
        waiting = asyncio.create_task(stream.next())
        await until(lambda: stream.comments >= 3)
        await write(service, job, b"1")
        assert await waiting == Heard("message", 1, "1")


async def test_a_deleted_job_ends_its_readers(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await put(service)
    async with following(client, stream_of(job_id), **EVENTS) as stream:
        await service.delete([job_id]).one()
        assert await stream.rest() == [Heard("end", {"state": "deleted"}, "")]


async def test_readers_that_leave_are_forgotten(client: httpx.AsyncClient, running_server: Server) -> None:
    service = running_server.state.service
    job = await running(service)
    async with following(client, stream_of(job.id), **EVENTS):
        assert running_server.state.followers.count == 1
    await until(lambda: running_server.state.followers.count == 0)


@pytest.fixture
def running_server(running: Server) -> Server:
    return running


class TestLimits:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=0, roles="api", followers_max=1)

    async def test_streams_count_as_followers(self, client: httpx.AsyncClient, service: Service) -> None:
        job = await running(service)
        async with following(client, stream_of(job.id), **EVENTS):
            answer = await client.get(stream_of(job.id), headers=EVENTS)
            assert answer.status_code == 429


# Writes


async def test_a_worker_writes_with_its_lease_token(api: Api, service: Service) -> None:
    job = await running(service)
    body = {"token": job.lease_token, "values": [1, {"text": "two"}], "sequence": 0}
    for _ in range(2):  # repeated after a lost answer
        answer = await api.post(stream_of(job.id), body)
        assert (answer.status, answer.body) == (200, {"position": 2})
    encoded = {"base64": base64.b64encode(b"\xff").decode()}
    answer = await api.post(stream_of(job.id), {"token": job.lease_token, "encoded": [encoded], "sequence": 2})
    assert answer.body == {"position": 3}
    items = (await api.get(stream_of(job.id))).body["items"]
    assert [item.get("value") for item in items] == [1, {"text": "two"}, None]
    assert items[2]["value_base64"] == "/w=="


async def test_a_run_that_is_repeated_writes_values_outside_of_steps_once(api: Api, service: Service) -> None:
    job = await running(service)
    await api.post(stream_of(job.id), {"token": job.lease_token, "values": [1], "sequence": 0, "outside": 0})
    await service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one()
    again = await take(service)
    body = {"token": again.lease_token, "values": [1, 2], "sequence": 0, "outside": 0}
    assert (await api.post(stream_of(job.id), body)).status == 200
    items = (await api.get(stream_of(job.id))).body["items"]
    assert [item.get("value") for item in items] == [1, None, 2]


async def test_a_batch_of_writes_has_a_result_for_each(api: Api, service: Service) -> None:
    job = await running(service)
    one = {"values": [1], "sequence": 0}
    items = [{"id": format_id(job.id), "token": job.lease_token, **one}, {"id": ABSENT, "token": 1, **one}]
    done, unknown = (await api.post("/api/v1/jobs:write-stream", {"items": items})).body["results"]
    assert (done["ok"], unknown["error"]["code"]) == ({"position": 1}, "unknown_job")


@pytest.mark.parametrize(
    "change",
    [
        {"values": []}, {"values": 5}, {"sequence": -1}, {"sequence": None}, {"outside": -1}, {"more": 1},
        {"encoded": [{"base64": "AA=="}]}, {"values": [], "encoded": [{"base64": "?"}]},
    ],
)  # fmt: skip
async def test_bad_writes_are_refused(api: Api, service: Service, change: dict[str, Any]) -> None:
    job = await running(service)
    body = {"token": job.lease_token, "values": [1], "sequence": 0, **change}
    answer = await api.post(stream_of(job.id), body)
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert not (await service.job([job.id]).one()).job.is_durable


async def test_refused_writes(json_api: Api, service: Service) -> None:
    job = await running(service)
    body: dict[str, Any] = {"token": job.lease_token + 1, "values": [1], "sequence": 0}
    answer = await json_api.post(stream_of(job.id), body)
    assert (answer.status, answer.body["code"]) == (409, "stale_lease")
    large = {"token": job.lease_token, "values": ["x" * STREAM_VALUE_MAX], "sequence": 0}
    answer = await json_api.post(stream_of(job.id), large)
    assert (answer.status, answer.body["code"]) == (413, "too_large")
    answer = await json_api.post(stream_of(await finished(service, queue="other")), body)
    assert (answer.status, answer.body["code"]) == (409, "already_ended")


async def test_a_token_of_other_queues_reads_and_writes_nothing(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    await write(service, job, b"1")
    reader, worker = await bearer(service, "read", queues=("other",)), await bearer(service, "work", queues=("other",))
    for headers in (reader, {**reader, **EVENTS}):
        assert (await client.get(stream_of(job.id), headers=headers)).status_code == 403
    body = {"token": job.lease_token, "values": [2], "sequence": 1}
    assert (await client.post(stream_of(job.id), json=body, headers=worker)).status_code == 403
    own = await bearer(service, "work", queues=("q",))
    assert (await client.post(stream_of(job.id), json=body, headers=own)).status_code == 200


async def test_a_revoked_token_ends_its_stream(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.05)
    job = await running(service)
    await write(service, job, b"1")
    headers = await bearer(service, "read")
    await bearer(service, "work")  # another token stays: without tokens, all local clients have access
    async with following(client, stream_of(job.id), **EVENTS, **headers) as stream:
        assert await next_of(stream) == Heard("message", 1, "1")
        await service.revoke_token("read")
        assert await stream.rest() == []
