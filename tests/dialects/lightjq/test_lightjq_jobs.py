"""LightJQ pusher API, through a real socket."""

from __future__ import annotations

import asyncio
import math
import socket
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.dialects.sample_jobs import ABSENT, HOSTILE, until
from windlass.background.janitor import Janitor
from windlass.background.scheduler import Scheduler
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def finished(lightjq: LightJqClient, service: Service, result: Any = 42, **fields: Any) -> tuple[str, str]:
    worker = await lightjq.register()
    job_id = await lightjq.push(**fields)
    assert await hold(service, worker) is not None
    assert (await lightjq.succeed(worker, job_id, result=result)).status == 204
    return job_id, worker


async def test_a_job_has_the_attributes_of_the_page_and_their_defaults(
    lightjq: LightJqClient, service: Service
) -> None:
    job_id = await lightjq.push("send", {"to": "a"})
    assert str(uuid.UUID(job_id)) == job_id
    job = (await service.job([parse_id(job_id)]).one()).job
    assert (job.queue, job.name, job.state, job.priority) == (QUEUE, "send", State.QUEUED, 0)
    assert job.payload == Blob(msgspec.msgpack.encode({"to": "a"}), Codec.MSGPACK)
    assert (job.timeout_ms, job.result_ttl_ms) == (30_000, 3_600_000)
    assert job.retry == Backoff(tries=11, base_ms=1_000, factor=2.0, cap_ms=300_000, jitter=0.1)
    assert await lightjq.status(job_id) == {"status": "queued", "retry_count": 0}
    assert (await service.configuration(QUEUE)).name_lanes


async def test_a_job_has_the_attributes_that_it_is_given(lightjq: LightJqClient, service: Service) -> None:
    job_id = await lightjq.push("n", priority=-(2**31), max_retry=0, keep_result=True, timeout=0.5, unknown=[1])
    job = (await service.job([parse_id(job_id)]).one()).job
    assert (job.priority, job.retry.tries, job.timeout_ms) == (-(2**31), 1, 500)


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": 5}, "name"),
    ({"name": b"bytes"}, "name"),
    ({"name": None}, "name"),
    ({"name": "a\0b"}, "control"),
    ({"name": "x" * 1021}, "name"),
    ({"argument": None}, "map"),
    ({"argument": []}, "map"),
    ({"argument": "text"}, "map"),
    ({"argument": 7}, "map"),
    ({"argument": b"x"}, "map"),
    ({"priority": 2**31}, "priority"),
    ({"priority": -(2**31) - 1}, "priority"),
    ({"priority": 2**64 - 1}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"priority": "1"}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": None}, "priority"),
    ({"max_retry": -1}, "max_retry"),
    ({"max_retry": 2**32}, "max_retry"),
    ({"max_retry": 0.5}, "max_retry"),
    ({"keep_result": 1}, "keep_result"),
    ({"keep_result": "yes"}, "keep_result"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": "30"}, "timeout"),
    ({"timeout": math.inf}, "timeout"),
    ({"timeout": math.nan}, "timeout"),
    ({"timeout": 1e300}, "timeout"),
]
GOOD = msgspec.msgpack.encode({"name": "n", "argument": {}})
WRONG_BYTES: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"\xc1", "not valid MessagePack"),
    (b"\x81", "not valid MessagePack"),
    (GOOD + b"\x00", "trailing"),
    (GOOD + GOOD, "trailing"),
    (GOOD[:-1], "not valid MessagePack"),
    (b'{"name": "n", "argument": {}}', "object"),
    (b"\xc0", "object"),
    (b"\x90", "object"),
    (b"\x80", "name"),
    (b"\x81\xa4name\xa1n", "argument"),
    (b"\x81\xa8argument\x80", "name"),
    (b"\x82\xa4name\xa1\xff\xa8argument\x80", "not valid MessagePack"),
    (b"\x82\xa4name\xa1n\xa8argument\x81\xa1a\xa1\xff", "argument"),
    (b"\x82\xa4name\xa1n\xa8argument\x81\x80\x01", "argument"),
    (b"\x82\xa4name\xa1n\xa8argument\x81\xa1a\xc1", "MessagePack"),
    (b"\x82\xa4name\xa1n\xa8argument\x81\xa1a" + b"\x91" * 200 + b"\xc0", "100 levels"),
    (b"\x82\xa4name\xa1n\xa8argument\xdf\xff\xff\xff\xff", "MessagePack"),
]


async def test_invalid_jobs_are_refused_and_nothing_is_queued(lightjq: LightJqClient, service: Service) -> None:
    for fields, words in WRONG_FIELDS:
        response = await lightjq("POST", "/job", {"name": "n", "argument": {}} | fields)
        assert (response.status, response.error) == (400, "bad_input"), (fields, response)
        assert words in response.body["message"], (fields, response)
    for content, words in WRONG_BYTES:
        response = await lightjq.raw("POST", "/job", content)
        assert (response.status, response.error) == (400, "bad_input"), (content, response)
        assert words in response.body["message"], (content, response)
    [stats] = await service.stats([QUEUE])
    assert (stats.queued, stats.scheduled, stats.bytes) == (0, 0, 0)


async def test_an_argument_that_is_too_large(lightjq: LightJqClient, service: Service) -> None:
    response = await lightjq("POST", "/job", {"name": "n", "argument": {"a": "x" * 2**20}})
    assert (response.status, response.error) == (413, "too_large")


async def test_the_content_type_of_a_request_is_ignored(lightjq: LightJqClient) -> None:
    for media in ("", "text/plain", "application/x-msgpack", "application/json"):
        assert (await lightjq.raw("POST", "/job", GOOD, {"content-type": media, "accept": "text/html"})).status == 201


async def test_jobs_that_do_not_exist_whatever_their_id_looks_like(lightjq: LightJqClient, service: Service) -> None:
    other = (await service.enqueue([NewJob(queue="other", name="n")]).one()).id
    for job_id in (ABSENT, *HOSTILE):
        for method, path in (("GET", ""), ("GET", "/polling?timeout=0"), ("DELETE", "")):
            response = await lightjq(method, f"/job/{job_id}{path}")
            assert response.status == 404 or (response.status == 400 and "%ff" in job_id), (job_id, response)
    assert (await service.job([other]).one()).job.state is State.QUEUED


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("PUT", "/job", 405), ("GET", "/job", 405), ("POST", "/nothing", 404), ("GET", "/job/", 404), ("GET", "/", 404)],
)
async def test_other_methods_and_paths(lightjq: LightJqClient, method: str, path: str, status: int) -> None:
    response = await lightjq(method, path)
    assert (response.status, bool(response.error)) == (status, True)


# Status


async def end_of(service: Service, job_id: str) -> str:
    """Return the end of the last attempt by the engine's clock."""
    timeline = await service.job([parse_id(job_id)]).one()
    ended_at_ms = timeline.job.ended_at_ms or timeline.attempts[-1].ended_at_ms
    return datetime.fromtimestamp(ended_at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ended_at_ms % 1000:03}Z"


async def test_the_status_over_the_life_of_a_job(lightjq: LightJqClient, service: Service, store: Store) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(max_retry=1, keep_result=True)
    assert await lightjq.status(job_id) == {"status": "queued", "retry_count": 0}
    await hold(service, worker, accept_ms=5_000)
    assert await lightjq.status(job_id) == {"status": "running", "worker_id": worker, "retry_count": 0}
    await lightjq.fail(worker, job_id, message="first", error={"code": 7})
    assert await lightjq.status(job_id) == {
        "status": "retrying", "worker_id": worker, "retry_count": 0, "error": {"code": 7}, "message": "first",
        "reason": "other", "finished_at": await end_of(service, job_id),
    }  # fmt: skip
    store.clock_offset_ms += 2_000
    await Scheduler().tick(service)
    assert (await lightjq.status(job_id))["status"] == "retrying"
    await hold(service, worker)
    assert await lightjq.status(job_id) == {"status": "running", "worker_id": worker, "retry_count": 1}
    await lightjq.succeed(worker, job_id, result=[1])
    assert await lightjq.status(job_id) == {
        "status": "done", "worker_id": worker, "retry_count": 1, "result": [1],
        "finished_at": await end_of(service, job_id),
    }  # fmt: skip


async def test_a_failed_job_shows_its_last_failure(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(max_retry=0)
    await hold(service, worker)
    await lightjq.fail(worker, job_id, reason="timeout", message="too slow", error=[None, b"\xff"])
    expected = {
        "status": "error", "worker_id": worker, "retry_count": 0, "error": [None, b"\xff"], "message": "too slow",
        "reason": "timeout", "finished_at": await end_of(service, job_id),
    }  # fmt: skip
    assert await lightjq.status(job_id) == expected
    assert (await lightjq("GET", f"/job/{job_id}/polling")).body == expected


async def test_failures_of_other_dialects_are_shown(lightjq: LightJqClient, service: Service) -> None:
    cases: list[tuple[Blob | None, str, Any]] = [
        (Blob(b'{"type": "ValueError", "message": "bad"}'), "bad", {"type": "ValueError", "message": "bad"}),
        (Blob(b"\xff\xfe", Codec.RAW), "The attempt failed: lease expired.", b"\xff\xfe"),
        (None, "The attempt failed: lease expired.", None),
        (Blob(msgspec.msgpack.encode("text"), Codec.MSGPACK), "The attempt failed: lease expired.", "text"),
    ]
    for error, message, value in cases:
        job_id = await lightjq.push()
        [job] = (await service.take(Take(queues=(QUEUE,)))).jobs
        await service.fail([Fail(id=job.id, token=job.lease_token, reason="lease_expired", error=error)]).one()
        found = await lightjq.status(job_id)
        assert (found["status"], found["reason"], found["message"]) == ("error", "other", message)
        assert found["error"] == value


# Results are read once


async def test_a_result_is_read_once_and_is_nil_afterwards(lightjq: LightJqClient, service: Service) -> None:
    job_id, _ = await finished(lightjq, service, keep_result=True)
    assert (await lightjq.status(job_id))["result"] == 42
    for path in ("", "/polling"):
        response = await lightjq("GET", f"/job/{job_id}{path}")
        assert (response.status, response.body["status"], response.body["result"]) == (200, "done", None)


async def test_only_one_of_many_readers_gets_the_result(lightjq: LightJqClient, service: Service) -> None:
    for path in ("", "/polling?timeout=5"):
        job_id, _ = await finished(lightjq, service, keep_result=True)
        found = await asyncio.gather(*(lightjq("GET", f"/job/{job_id}{path}") for _ in range(8)))
        assert sorted(str(one.body["result"]) for one in found) == ["42", *["None"] * 7]


async def test_only_one_of_many_polls_gets_the_result(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(keep_result=True)
    await hold(service, worker)
    waiting = [asyncio.create_task(lightjq("GET", f"/job/{job_id}/polling?timeout=20")) for _ in range(5)]
    await asyncio.sleep(0)
    assert (await lightjq.status(job_id))["status"] == "running"
    await lightjq.succeed(worker, job_id, result=42)
    found = [await one for one in waiting]
    assert {one.status for one in found} == {200}
    assert sorted(str(one.body["result"]) for one in found) == ["42", *["None"] * 4]


async def test_head_and_early_reads_do_not_consume_the_result(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(keep_result=True)
    await lightjq.status(job_id)
    await hold(service, worker)
    await lightjq.status(job_id)
    await lightjq("GET", f"/job/{job_id}/polling?timeout=0")
    await lightjq.succeed(worker, job_id, result=42)
    assert (await lightjq.client.head(f"/lightjq/job/{job_id}")).status_code == 200
    assert (await service.result(parse_id(job_id))) is not None
    assert (await lightjq.status(job_id))["result"] == 42


async def test_a_result_without_keep_result_is_not_kept(lightjq: LightJqClient, service: Service) -> None:
    job_id, _ = await finished(lightjq, service)
    assert (await lightjq.status(job_id))["result"] is None
    ending = await service.result(parse_id(job_id))
    assert ending is not None
    assert ending.result is None
    other = await lightjq.push()
    [job] = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(job.id, job.lease_token, Blob(b"7"))]).one()  # by a worker that knows no LightJQ
    assert (await lightjq.status(other))["result"] is None


async def test_a_disconnected_poll_does_not_consume_the_result(
    lightjq: LightJqClient, service: Service, running: Server
) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(keep_result=True)
    await hold(service, worker)
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as gone:
        gone.sendall(f"GET /lightjq/job/{job_id}/polling?timeout=60 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        await until(lambda: running.state._waiting)
    await until(lambda: not running.state._waiting)
    await lightjq.succeed(worker, job_id, result=42)
    assert (await lightjq.status(job_id))["result"] == 42


async def test_finished_jobs_are_forgotten_after_an_hour(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    job_id, _ = await finished(lightjq, service)
    store.clock_offset_ms += 3_599_000
    await Janitor().tick(service)
    assert (await lightjq.status(job_id))["status"] == "done"
    store.clock_offset_ms += 2_000
    await Janitor().tick(service)
    for path in ("", "/polling"):
        assert (await lightjq("GET", f"/job/{job_id}{path}")).status == 404


@pytest.mark.parametrize("server_settings", [Settings(port=0, bedrock_port=None, roles="api", lightjq_keep_ms=5_000)])
async def test_the_retention_of_finished_jobs_is_a_setting(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    job_id, _ = await finished(lightjq, service)
    assert (await lightjq.status(job_id))["status"] == "done"
    store.clock_offset_ms += 6_000
    await Janitor().tick(service)
    assert (await lightjq("GET", f"/job/{job_id}")).status == 404


async def test_jobs_kept_as_history_are_unknown(lightjq: LightJqClient, service: Service) -> None:
    await service.configure(QUEUE, {"history_length": 10})
    job = (await service.enqueue([NewJob(queue=QUEUE, name="n")]).one()).id
    [taken] = (await service.take(Take(queues=(QUEUE,)))).jobs
    await service.finish([Finish(taken.id, taken.lease_token)]).one()
    assert (await service.job([job]).one()).job.is_history
    assert (await lightjq("GET", f"/job/{uuid.UUID(bytes=job)}")).status == 404


# Long polling


async def test_polling_ends_with_408(lightjq: LightJqClient, service: Service) -> None:
    job_id = await lightjq.push()
    response = await lightjq("GET", f"/job/{job_id}/polling?timeout=0")
    assert (response.status, response.error) == (408, "not_ended")
    await hold(service, await lightjq.register())
    assert (await lightjq("GET", f"/job/{job_id}/polling?timeout=1")).status == 408


async def test_polling_wants_whole_seconds(lightjq: LightJqClient) -> None:
    job_id = await lightjq.push()
    for timeout in ("-1", "1.5", "x", "", "601", "1&timeout=2", "9" * 30):
        response = await lightjq("GET", f"/job/{job_id}/polling?timeout={timeout}")
        assert (response.status, response.error) == (400, "bad_input"), timeout


async def test_polling_waits_until_no_retry_is_left(lightjq: LightJqClient, service: Service, store: Store) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(max_retry=1)
    await hold(service, worker)
    waiting = asyncio.create_task(lightjq("GET", f"/job/{job_id}/polling?timeout=20"))
    await lightjq.fail(worker, job_id, message="first")
    assert (await lightjq("GET", f"/job/{job_id}/polling?timeout=0")).status == 408
    store.clock_offset_ms += 2_000
    await Scheduler().tick(service)
    await hold(service, worker)
    await lightjq.fail(worker, job_id, message="second")
    response = await waiting
    assert (response.status, response.body["status"], response.body["message"], response.body["retry_count"]) == (
        200, "error", "second", 1,
    )  # fmt: skip


async def test_polling_a_job_that_is_cancelled_ends_with_404(lightjq: LightJqClient, running: Server) -> None:
    job_id = await lightjq.push()
    waiting = asyncio.create_task(lightjq("GET", f"/job/{job_id}/polling?timeout=20"))
    await until(lambda: running.state._waiting)
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 204
    assert (await waiting).status == 404


# Cancelling


async def test_a_cancelled_job_is_gone(lightjq: LightJqClient, service: Service) -> None:
    job_id = await lightjq.push()
    response = await lightjq("DELETE", f"/job/{job_id}")
    assert (response.status, response.body) == (204, None)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/polling")):
        assert (await lightjq(method, f"/job/{job_id}{path}")).status == 404
    assert (await service.take(Take(queues=(QUEUE,)))).jobs == []


async def test_a_retrying_job_can_be_cancelled(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push()
    await hold(service, worker)
    await lightjq.fail(worker, job_id)
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 204


@pytest.mark.parametrize("accept_ms", [0, 5_000])
async def test_a_running_job_cannot_be_cancelled(lightjq: LightJqClient, service: Service, accept_ms: int) -> None:
    worker = await lightjq.register()
    job_id = await lightjq.push(keep_result=True)
    await hold(service, worker, accept_ms=accept_ms)
    response = await lightjq("DELETE", f"/job/{job_id}")
    assert (response.status, response.error) == (409, "not_cancelable")
    assert not (await service.job([parse_id(job_id)]).one()).job.is_cancel_requested
    assert (await lightjq.succeed(worker, job_id, result=1)).status == 204
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 409
    assert (await lightjq.status(job_id))["result"] == 1
    failed = await lightjq.push(max_retry=0)
    await hold(service, worker)
    await lightjq.fail(worker, failed)
    assert (await lightjq("DELETE", f"/job/{failed}")).status == 409


async def test_either_a_cancel_or_a_concurrent_start_wins(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    for _ in range(10):
        job_id = await lightjq.push()
        cancelled, held = await asyncio.gather(lightjq("DELETE", f"/job/{job_id}"), hold(service, worker))
        assert (cancelled.status, held is None) in ((204, True), (409, False))
        if held is not None:
            assert (await lightjq.succeed(worker, job_id)).status == 204
