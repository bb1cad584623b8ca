"""New jobs of a token limited to some queues cannot be related to jobs in other queues, on any route."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.dialects.sample_jobs import ABSENT, bearer, put, running, state_of
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Job
from windlass.core.operations import Finish
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

MINE = {"queue": "mine", "name": "n"}
NEXT = "01890a5d-ac96-7000-8000-b5c1d0b7a3f3"


async def _scoped(client: httpx.AsyncClient, service: Service) -> None:
    client.headers.update(await bearer(service, "produce", "read", "work", queues=("mine", "mine-*")))


async def _victim(service: Service) -> Job:
    return await running(service, queue="victim", name="S3CRET")


def _relation(kind: str, job_id: bytes | str) -> dict[str, Any]:
    text = job_id if isinstance(job_id, str) else format_id(job_id)
    return {"parent": {"parent": text}, "held": {"parent": text, "held": True}, "after": {"after": [text]},
            "group": {"after": [text], "joins": True}, "second": {"after": [NEXT, text]}}[kind]  # fmt: skip


async def enqueue_by_route(client: httpx.AsyncClient, route: str, job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Enqueue a job by one of the routes. Returns the status, and the answer or the refusal."""
    if route == "jobs":
        answer = await client.post("/api/v1/jobs", json=job)
        return answer.status_code, answer.json()
    if route == "jobs:stream":
        headers = {"content-type": "application/x-ndjson"}
        answer = await client.post("/api/v1/jobs:stream", content=msgspec.json.encode(job), headers=headers)
        first = msgspec.json.decode(answer.text.splitlines()[0])
        return (first["error"]["status"], first["error"]) if first["error"] else (201, first)
    answer = await client.post(f"/api/v1/{route}", json={"items": [MINE, job]})
    given = answer.json()
    if answer.status_code >= 300:
        return answer.status_code, given
    outcome = given["results"][1] if "results" in given else {"ok": given["jobs"][1]}
    return (outcome["error"]["status"], outcome["error"]) if "error" in outcome else (201, outcome["ok"])


ROUTES = ("jobs", "jobs:batch", "jobs:stream", "jobs:whole")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["parent", "held", "after", "group", "second"])
async def test_a_relation_to_a_job_of_another_queue_is_refused(
    client: httpx.AsyncClient, service: Service, route: str, kind: str
) -> None:
    victim = await _victim(service)
    await put(service, queue="mine", id=parse_id(NEXT))
    await _scoped(client, service)
    status, refused = await enqueue_by_route(client, route, MINE | _relation(kind, victim.id))
    assert (status, refused["code"]) == (403, "forbidden")
    assert "victim" not in refused["detail"]
    assert "S3CRET" not in refused["detail"]
    assert (await service.stats(["mine"]))[0].waiting == 0
    await service.finish([Finish(victim.id, victim.lease_token)]).one()
    assert (await service.queue_of([victim.id]))[0] != "victim", "it ends at once: nothing of it is kept for others"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["parent", "after"])
async def test_a_relation_within_the_queues_of_the_token_is_accepted(
    client: httpx.AsyncClient, service: Service, route: str, kind: str
) -> None:
    own = await running(service, queue="mine-too")
    await _scoped(client, service)
    status, accepted = await enqueue_by_route(client, route, MINE | _relation(kind, own.id))
    assert status == 201, accepted


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("kind", "code"), [("parent", "unknown_parent"), ("after", "unknown_member")])
async def test_a_relation_to_no_job_is_refused_as_ever(
    client: httpx.AsyncClient, service: Service, route: str, kind: str, code: str
) -> None:
    asked = MINE | _relation(kind, ABSENT)
    plain = await enqueue_by_route(client, route, asked)
    await _scoped(client, service)
    scoped = await enqueue_by_route(client, route, asked)
    assert plain == scoped
    assert (scoped[0], scoped[1]["code"]) == (409, code)


async def test_a_batch_with_one_such_relation_enqueues_nothing(client: httpx.AsyncClient, service: Service) -> None:
    victim = await _victim(service)
    await _scoped(client, service)
    items = [MINE, MINE | _relation("parent", victim.id)]
    assert (await client.post("/api/v1/jobs:batch", json={"items": items})).status_code == 403
    assert (await service.stats(["mine"]))[0].queued == 0


async def test_jobs_of_one_batch_may_name_each_other(client: httpx.AsyncClient, service: Service) -> None:
    """As with a token for all queues: the named job comes first."""
    await _scoped(client, service)
    first = MINE | {"id": ABSENT}
    second = MINE | {"id": NEXT} | _relation("after", ABSENT)
    third = MINE | _relation("after", NEXT)
    answer = await client.post("/api/v1/jobs:batch", json={"items": [third, first, second, third]})
    outcomes = [item.get("ok") or item["error"] for item in answer.json()["results"]]
    assert [item.get("status") for item in outcomes] == [409, "queued", "waiting", "waiting"]
    assert await state_of(service, parse_id(NEXT)) == "waiting"


async def test_an_id_of_a_batch_that_belongs_to_another_queue_is_no_relative(
    client: httpx.AsyncClient, service: Service
) -> None:
    """The job with this id is refused, but its id is in the batch. The next job must not name the stored job."""
    victim = await put(service, queue="victim")
    await _scoped(client, service)
    items = [MINE | {"id": format_id(victim)}, MINE | _relation("after", victim)]
    answer = await client.post("/api/v1/jobs:batch", json={"items": items})
    assert answer.status_code == 403
    assert (await service.stats(["mine"]))[0].waiting == 0


async def test_an_id_that_is_taken_while_a_batch_is_checked_is_no_relative(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client enqueues a job with an id of the batch, between the check and the enqueue."""
    await _scoped(client, service)
    ask = Service.queue_of

    def taken_meanwhile(self: Service, ids: list[bytes]) -> Any:
        async def answer() -> list[Any]:
            found = await ask(self, ids)
            await put(service, queue="victim", id=parse_id(ABSENT))
            return list(found)

        return answer()

    monkeypatch.setattr(Service, "queue_of", taken_meanwhile)
    items = [MINE | {"id": ABSENT}, MINE | _relation("after", ABSENT)]
    answer = await client.post("/api/v1/jobs:batch", json={"items": items})
    assert [item["error"]["code"] for item in answer.json()["results"]] == ["id_conflict", "unknown_member"]
    assert (await service.stats(["mine"]))[0].waiting == 0


async def test_a_repeated_request_is_answered_as_before(client: httpx.AsyncClient, service: Service) -> None:
    """The answer is the same if the named job no longer exists."""
    own = await put(service, queue="mine")
    await _scoped(client, service)
    job = MINE | {"id": NEXT} | _relation("after", own)
    assert (await enqueue_by_route(client, "jobs", job))[1]["status"] == "waiting"
    await service.delete([own]).one()
    service.store.clock_offset_ms += 3_600_000
    assert (await enqueue_by_route(client, "jobs", job))[1]["status"] == "existing"


async def test_other_tokens_pay_for_no_check(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens for all queues and jobs without relations cause no read."""
    own = await put(service, queue="mine")
    reads: list[int] = []
    ask = Service.queue_of

    def counted(self: Service, ids: list[bytes]) -> Any:
        reads.append(len(ids))
        return ask(self, ids)

    monkeypatch.setattr(Service, "queue_of", counted)
    related = MINE | _relation("after", own)
    for route in ROUTES:
        assert (await enqueue_by_route(client, route, related))[0] == 201
    await _scoped(client, service)
    for route in ROUTES:
        await enqueue_by_route(client, route, MINE)
    assert reads == []
    for route in ROUTES:
        await enqueue_by_route(client, route, related)
    assert reads == [1, 1, 1, 1], "one read for each request"
