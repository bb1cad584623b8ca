"""Jobs of any queue through Jobber's routes: another queue than the type's, status and cancel by id."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, failed, finished, put, running, take
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail, Finish
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
PATH = "/jobber/queue"
TEXT = "text/plain; charset=utf-8"


def at(instant_ms: int | None) -> str | None:
    """Return an instant as the status writes it."""
    if instant_ms is None:
        return None
    return datetime.fromtimestamp(instant_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + _fraction(instant_ms) + "Z"


def _fraction(instant_ms: int) -> str:
    return f".{instant_ms % 1000:03}000" if instant_ms % 1000 else ""


async def status_of(client: httpx.AsyncClient, job_id: bytes) -> dict[str, Any]:
    answer = await client.get(f"{PATH}/{format_id(job_id)}", headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    return dict(answer.json())


async def cancel(client: httpx.AsyncClient, job_id: bytes) -> httpx.Response:
    return await client.delete(f"{PATH}/{format_id(job_id)}", headers={"accept": "text/html"})


# Another queue


async def test_a_job_goes_to_the_named_queue_under_its_type(client: httpx.AsyncClient, service: Service) -> None:
    body = {"type": "mail", "queue": "urgent", "payload": 7, "visibility_timeout": 4, "max_attempts": 3}
    answer = await client.post(PATH, json=body)
    assert answer.status_code == 201
    assert await service.queues() == ["urgent"]
    job = await take(service, "urgent")
    assert (format_id(job.id), job.name, job.payload.data) == (answer.json()["job-id"], "mail", b"7")
    assert (job.lease_ms, job.retry.tries) == (4_000, 3)


async def test_no_queue_is_the_queue_of_the_type(client: httpx.AsyncClient, service: Service) -> None:
    assert (await client.post(PATH, json={"type": "mail", "queue": None})).status_code == 201
    assert await service.queues() == ["job_queue_mail"]


@pytest.fixture
def token(service: Service) -> dict[str, str]:
    """Return the header of a token for some queues. Tokens exist before the server starts, which caches their
    absence."""
    wanted = NewToken(name="some", roles=frozenset({Role.PRODUCE}), queues=("job_queue_m*", "urgent"))
    return {"authorization": f"Bearer {service.create_token(wanted).wait().text}"}


async def test_the_token_must_allow_the_named_queue(
    token: dict[str, str], client: httpx.AsyncClient, service: Service
) -> None:
    allowed = await client.post(PATH, json={"type": "image", "queue": "urgent"}, headers=token)
    refused = await client.post(PATH, json={"type": "mail", "queue": "other"}, headers=token)
    assert (allowed.status_code, refused.status_code, refused.headers["content-type"]) == (201, 403, TEXT)
    assert await service.queues() == ["urgent"]


async def test_jobs_of_other_queues_are_neither_shown_nor_cancelled(
    token: dict[str, str], client: httpx.AsyncClient, service: Service
) -> None:
    own, other = await put(service, "urgent"), await put(service, "secret")
    for method, code in (("GET", 200), ("DELETE", 204)):
        assert (await client.request(method, f"{PATH}/{format_id(own)}", headers=token)).status_code == code
        refused = await client.request(method, f"{PATH}/{format_id(other)}", headers=token)
        assert (refused.status_code, refused.headers["content-type"]) == (403, TEXT)
        assert "secret" not in refused.text
        assert (await client.request(method, f"{PATH}/{format_id(own)}")).status_code == 401
    assert (await service.job([other]).one()).job.state is State.QUEUED


# Status


async def test_the_status_of_a_jobber_job(client: httpx.AsyncClient, service: Service) -> None:
    answer = await client.post(PATH, json={"type": "mail", "payload": {"to": "a@example.org"}, "max_attempts": 2})
    job_id = parse_id(answer.json()["job-id"])
    read = (await service.job([job_id]).one()).job
    expected = {
        "job-id": format_id(job_id),
        "type": "mail",
        "queue": "job_queue_mail",
        "state": "queued",
        "attempts": 0,
        "max-attempts": 2,
        "cancel-requested": False,
        "created-at": at(read.created_at_ms),
        "started-at": None,
        "ended-at": None,
        "visibility-deadline": None,
        "payload": {"to": "a@example.org"},
    }
    assert await status_of(client, job_id) == expected
    job = await take(service, "job_queue_mail")
    expected |= {
        "state": "running",
        "attempts": 1,
        "started-at": at(job.started_at_ms),
        "visibility-deadline": at(job.lease_deadline_at_ms),
    }
    assert await status_of(client, job_id) == expected
    failure = Fail(id=job.id, token=job.lease_token, then="retry", reason="no_relay", error=Blob(b'{"code":421}'))
    await service.fail([failure]).one()
    expected |= {"state": "queued", "visibility-deadline": None}
    expected["error"] = {"attempt": 1, "reason": "no_relay", "value": {"code": 421}}
    assert await status_of(client, job_id) == expected
    job = await take(service, "job_queue_mail")
    await service.fail([Fail(id=job.id, token=job.lease_token, reason="timeout")]).one()
    ended = (await service.job([job_id]).one()).job
    expected |= {"state": "failed", "attempts": 2, "started-at": at(job.started_at_ms)}
    expected |= {"ended-at": at(ended.ended_at_ms), "error": {"attempt": 2, "reason": "timeout"}}
    assert await status_of(client, job_id) == expected


@pytest.mark.parametrize(
    ("queue", "fields"),
    [
        ("mail", {"name": "send", "payload": Blob(b"\x81\xa1a\x01", Codec.MSGPACK), "delay_ms": 60_000}),
        ("bedrock", {"name": "www-prod/Job", "unique": "=www-prod/Job", "unique_check": "none", "lease_ms": 2**48 - 1}),
        ("lightjq", {"name": "lightjq", "tags": ("keep_result",), "result_ttl_ms": 60_000}),
        ("processor", {"name": "p", "unique": "0198c0de-0000-7000-8000-000000000002", "unique_while_kept": True}),
    ],
)
async def test_the_status_of_jobs_that_another_dialect_made(
    client: httpx.AsyncClient, service: Service, queue: str, fields: dict[str, Any]
) -> None:
    job_id = await put(service, queue, **fields)
    found = await status_of(client, job_id)
    assert (found["type"], found["queue"], found["max-attempts"]) == (fields["name"], queue, 0)
    assert found["state"] == ("scheduled" if "delay_ms" in fields else "queued")
    assert found["payload"] == ({"a": 1} if "payload" in fields else None)


async def test_a_kept_result_is_shown(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await finished(service, Blob(b'{"sent":true}'), result_ttl_ms=60_000)
    found = await status_of(client, job_id)
    assert (found["state"], found["result"]) == ("finished", {"sent": True})
    raw = await finished(service, Blob(b"\xff", Codec.RAW), result_ttl_ms=60_000)
    assert (await status_of(client, raw))["result-base64"] == "/w=="
    raw = await put(service, payload=Blob(b"\xff", Codec.RAW))
    found = await status_of(client, raw)
    assert (found["payload-base64"], "payload" in found) == ("/w==", False)


async def test_a_success_after_a_failure_shows_no_error(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service, retry=Backoff(tries=3), result_ttl_ms=60_000)
    await service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one()
    again = await take(service)
    await service.finish([Finish(again.id, again.lease_token)]).one()
    found = await status_of(client, job.id)
    assert (found["state"], found["attempts"], "error" in found, "result" in found) == ("finished", 2, False, False)


async def test_a_job_that_has_ended_and_is_not_kept(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await finished(service)
    answer = await client.get(f"{PATH}/{format_id(job_id)}")
    assert (answer.status_code, answer.headers["content-type"]) == (410, TEXT)
    assert "has ended" in answer.text


# Cancel


async def test_a_waiting_job_is_cancelled(client: httpx.AsyncClient, service: Service) -> None:
    for fields in ({}, {"delay_ms": 60_000}, {"queue": "job_queue_mail"}, {"queue": "bedrock"}):
        job_id = await put(service, **fields)  # type: ignore[arg-type]
        answer = await cancel(client, job_id)
        assert (answer.status_code, answer.content) == (204, b"")
        assert (await status_of(client, job_id))["state"] == "cancelled"


async def test_a_running_job_is_asked_to_stop(client: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    assert (await cancel(client, job.id)).status_code == 204
    found = await status_of(client, job.id)
    assert (found["state"], found["cancel-requested"]) == ("running", True)
    assert (await cancel(client, job.id)).status_code == 204
    await service.fail([Fail(id=job.id, token=job.lease_token, then="cancelled")]).one()
    found = await status_of(client, job.id)
    assert (found["state"], found["cancel-requested"]) == ("cancelled", False)


async def test_a_job_that_has_ended_is_not_cancelled(client: httpx.AsyncClient, service: Service) -> None:
    for job_id in (await finished(service, result_ttl_ms=60_000), await failed(service), await finished(service)):
        answer = await cancel(client, job_id)
        assert (answer.status_code, answer.headers["content-type"]) == (409, TEXT)
        assert "already ended" in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_unknown_and_impossible_ids(client: httpx.AsyncClient, method: str) -> None:
    unknown = await client.request(method, f"{PATH}/{ABSENT}")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, TEXT)
    assert "no job with this id" in unknown.text
    for text in HOSTILE:
        answer = await client.request(method, f"{PATH}/{text}")
        assert (answer.status_code, answer.headers["content-type"]) == (400, TEXT), text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_other_methods_of_a_job(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, f"{PATH}/{ABSENT}", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD")
