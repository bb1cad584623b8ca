"""Jobber API through a real socket, and its jobs in other dialects."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.api_client import Api
from tests.support.engine_process import EngineProcess
from windlass import Windlass, Worker
from windlass.background.recoverer import Recoverer
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import parse_id
from windlass.core.job import Timeline
from windlass.core.operations import Fail, Finish, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
PATH = "/jobber/queue"


async def queue(client: httpx.AsyncClient, **fields: Any) -> str:
    answer = await client.post(PATH, json=fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job-id"])


async def test_a_job_is_queued(client: httpx.AsyncClient, service: Service) -> None:
    answer = await client.post(PATH, json={"type": "mail", "payload": {"to": "a@example.org"}})
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["job-id"]
    job_id = answer.json()["job-id"]
    assert str(uuid.UUID(job_id)) == job_id
    (timeline,) = await service.job([parse_id(job_id)])
    assert isinstance(timeline, Timeline)
    job = timeline.job
    assert (job.queue, job.name, job.state) == ("job_queue_mail", "mail", State.QUEUED)
    assert msgspec.json.decode(job.payload.data) == {"to": "a@example.org"}
    assert job.retry.tries == 0


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/msgpack"]
)
async def test_the_content_type_of_the_request_is_ignored(client: httpx.AsyncClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await client.post(PATH, content=b'{"type": "t"}', headers=headers | {"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")


@pytest.mark.parametrize("payload", [{}, {"a": {"b": []}}, [1, "two", None], 7, 1.5, "text", True, None])
async def test_any_json_value_is_a_payload(client: httpx.AsyncClient, service: Service, payload: Any) -> None:
    await queue(client, type="t", payload=payload)
    (job,) = (await service.take(Take(queues=("job_queue_t",)))).jobs
    assert msgspec.json.decode(job.payload.data) == payload


async def test_a_missing_payload_is_null_and_unknown_fields_are_ignored(
    client: httpx.AsyncClient, service: Service
) -> None:
    await queue(client, type="t", jobType="other", whatever=1)
    (job,) = (await service.take(Take(queues=("job_queue_t",)))).jobs
    assert job.payload.data == b"null"


SEED_SAMPLE = b'{\n    "type": "job-type"\n    "payload": { \n        /* free-form json payload */\n    }\n}'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "not valid JSON"),
        (b"nonsense", "not valid JSON"),
        (SEED_SAMPLE, "not valid JSON"),
        (b"[]", "got `array`"),
        (b'"text"', "got `str`"),
        (b"null", "got `null`"),
        (b"{}", "missing required field `type`"),
        (b'{"payload": 1}', "missing required field `type`"),
        (b'{"type": ""}', "length >= 1 - at `$.type`"),
        (b'{"type": 7}', "got `int` - at `$.type`"),
        (b'{"type": null}', "got `null` - at `$.type`"),
        (b'{"type": "' + b"x" * 246 + b'"}', "length <= 245"),
        (b'{"type": "a\\u0000b"}', "control characters"),
        (b'{"type": "t", "queue": ""}', "length >= 1 - at `$.queue`"),
        (b'{"type": "t", "queue": 7}', "got `int` - at `$.queue`"),
        (b'{"type": "t", "queue": "' + b"x" * 256 + b'"}', "length <= 255 - at `$.queue`"),
        (b'{"type": "t", "queue": "a\\u0000b"}', "control characters"),
        (b'{"queue": "q"}', "missing required field `type`"),
        (b'{"type": "t", "visibility_timeout": 0}', "$.visibility_timeout"),
        (b'{"type": "t", "visibility_timeout": -1}', "$.visibility_timeout"),
        (b'{"type": "t", "visibility_timeout": "30"}', "$.visibility_timeout"),
        (b'{"type": "t", "max_attempts": -1}', "$.max_attempts"),
        (b'{"type": "t", "max_attempts": 1.5}', "$.max_attempts"),
        (b'{"type": "t", "payload": ' + b"[" * 200 + b"]" * 200 + b"}", "nested"),
        (b'{"type": "t", "payload": "\xff"}', "not valid JSON"),
    ],
)
async def test_errors_are_plain_text_and_nothing_is_queued(
    client: httpx.AsyncClient, service: Service, body: bytes, words: str
) -> None:
    answer = await client.post(PATH, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert words in answer.text
    assert await service.queues() == []


async def test_a_payload_that_is_too_large(client: httpx.AsyncClient, service: Service) -> None:
    answer = await client.post(PATH, json={"type": "t", "payload": "x" * 2**20})
    assert (answer.status_code, answer.headers["content-type"]) == (413, "text/plain; charset=utf-8")
    assert await service.queues() == []


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_other_methods(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, PATH)
    assert (answer.status_code, answer.headers["allow"], answer.text) == (405, "POST", "This path knows POST only.\n")


@pytest.mark.parametrize(
    "path", ["/jobber", "/jobber/", "/jobber/queue/", "/jobber/queue/x/y", "/jobber/jobs", "/queue"]
)
async def test_other_paths(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.post(path, json={"type": "t"})).status_code == 404


async def test_each_type_has_its_queue_first_in_first_out(client: httpx.AsyncClient, service: Service) -> None:
    mails = [await queue(client, type="mail", payload=number) for number in range(5)]
    images = [await queue(client, type="image", payload=number) for number in range(3)]
    assert await service.queues() == ["job_queue_image", "job_queue_mail"]
    for queue_name, expected in (("job_queue_mail", mails), ("job_queue_image", images)):
        taken = (await service.take(Take(queues=(queue_name,), most=10))).jobs
        assert [str(uuid.UUID(bytes=job.id)) for job in taken] == expected


async def test_a_job_that_is_not_finished_in_time_is_taken_again(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    job_id = await queue(client, type="t", visibility_timeout=2.5)
    first = (await service.take(Take(queues=("job_queue_t",)))).jobs[0]
    assert first.lease_ms == 2_500
    store.clock_offset_ms += 2_400
    assert (await service.take(Take(queues=("job_queue_t",)))).jobs == []
    store.clock_offset_ms += 200
    await Recoverer().tick(service)
    (again,) = (await service.take(Take(queues=("job_queue_t",)))).jobs
    assert (again.id, again.attempt) == (parse_id(job_id), 2)
    (late,) = await service.finish([Finish(first.id, first.lease_token)])
    assert isinstance(late, Exception)
    assert not isinstance((await service.finish([Finish(again.id, again.lease_token)]))[0], Exception)


async def test_a_recovered_job_is_the_next_of_its_type(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    ids = [await queue(client, type="t") for _ in range(3)]
    await service.take(Take(queues=("job_queue_t",)))
    store.clock_offset_ms += 31_000
    await Recoverer().tick(service)
    taken = (await service.take(Take(queues=("job_queue_t",), most=3))).jobs
    assert [str(uuid.UUID(bytes=job.id)) for job in taken] == ids


async def test_the_visibility_timeout_of_a_type_is_its_queues(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    await service.configure("job_queue_slow", {"lease_ms": 120_000})
    await queue(client, type="slow")
    await queue(client, type="usual")
    taken = (await service.take(Take(queues=("job_queue_slow", "job_queue_usual"), most=2))).jobs
    now_ms = await service.now()
    left = {job.name: (job.lease_deadline_at_ms or 0) - now_ms for job in taken}
    assert 110_000 < left["slow"] <= 120_000
    assert 20_000 < left["usual"] <= 30_000


async def test_recoveries_are_unlimited_unless_attempts_are(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    endless = await queue(client, type="t")
    limited = await queue(client, type="t", max_attempts=2)
    for _ in range(4):
        await service.take(Take(queues=("job_queue_t",), most=2))
        store.clock_offset_ms += 31_000
        await Recoverer().tick(service)
    states = [one.job.state for one in await service.job([parse_id(endless), parse_id(limited)])]  # type: ignore[union-attr]
    assert states == [State.QUEUED, State.FAILED]


async def test_the_last_attempt_that_fails_ends_the_job(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await queue(client, type="t", max_attempts=1)
    (job,) = (await service.take(Take(queues=("job_queue_t",)))).jobs
    assert not job.retry.wants_retry(job.attempt)
    await service.fail([Fail(id=job.id, token=job.lease_token)])
    assert (await service.job([parse_id(job_id)]).one()).job.state is State.FAILED


@pytest.fixture
def tokens(service: Service) -> tuple[str, str]:
    """Create tokens before the server starts: a server caches the absence of tokens for a second."""
    mailer = NewToken(name="mailer", roles=frozenset({Role.PRODUCE}), queues=("job_queue_m*",))
    reader = NewToken(name="reader", roles=frozenset({Role.READ}))
    return service.create_token(mailer).wait().text, service.create_token(reader).wait().text


async def test_unauthorized_requests_are_answered_in_plain_text(
    tokens: tuple[str, str], client: httpx.AsyncClient
) -> None:
    mailer, reader = tokens

    async def status(kind: str, token: str) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = await client.post(PATH, json={"type": kind}, headers=headers)
        if answer.status_code != 201:
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        return answer.status_code, answer.text

    assert (await status("mail", mailer))[0] == 201
    code, words = await status("image", mailer)
    assert (code, "job_queue_image" in words) == (403, True)
    code, words = await status("mail", reader)
    assert (code, "produce" in words) == (403, True)
    code, words = await status("mail", "")
    assert (code, "Bearer" in words) == (401, True)


# In the hands of workers


@pytest.fixture
async def app(engine: EngineProcess, store: Store) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(Store(parse_url(engine.unix_url), namespace=store.namespace, is_test=True))
    yield app
    await app.aclose()


async def test_a_jobber_job_is_run_by_the_sdk_and_shown_by_the_native_api(
    app: Windlass, json_api: Api, service: Service
) -> None:
    await service.configure("job_queue_mail", {"history_length": 10})
    begun, go_on = asyncio.Event(), asyncio.Event()
    seen: list[Any] = []

    @app.task(name="mail", queue="job_queue_mail")
    async def mail(to: str, copies: int) -> None:
        seen.append((to, copies))
        begun.set()
        await go_on.wait()

    job_id = await queue(json_api.client, type="mail", payload={"to": "a@example.org", "copies": 2})
    assert await _state(json_api, job_id) == "queued"
    worker = Worker(app, queues=["job_queue_mail"], grace=5)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        await begun.wait()
        assert await _state(json_api, job_id) == "running"
        go_on.set()
        worker.stop()
        await working
    assert seen == [("a@example.org", 2)]
    assert await _state(json_api, job_id) == "finished"


async def test_a_jobber_job_is_run_by_an_http_client(api: Api) -> None:
    job_id = await queue(api.client, type="mail", payload={"to": "a@example.org"})
    taken = await api.post("/api/v1/take", {"queues": ["job_queue_mail"]})
    (job,) = taken.body["jobs"]
    assert (job["id"], job["name"], job["payload"]) == (job_id, "mail", {"to": "a@example.org"})
    done = await api.post(f"/api/v1/jobs/{job_id}/finish", {"token": job["lease_token"]})
    assert done.status == 200, done.body


async def _state(api: Api, job_id: str) -> str:
    return str((await api.get(f"/api/v1/jobs/{job_id}")).body["job"]["state"])
