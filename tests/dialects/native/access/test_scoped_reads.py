"""A token limited to some queues reads nothing about jobs, workers and counts of other queues."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.dialects.sample_jobs import bearer, failed, path, put, running
from windlass.core.ids import format_id
from windlass.core.job import Blob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Take, WorkerInfo
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

QUEUES = ("mine", "mine-*", "lightjq")


@pytest.fixture
async def scoped(client: httpx.AsyncClient, service: Service) -> httpx.AsyncClient:
    """A client with a token limited to some queues."""
    client.headers.update(await bearer(service, "read", "work", queues=QUEUES))
    return client


async def _explain(client: httpx.AsyncClient, job_id: bytes) -> dict[str, Any]:
    answer = await client.get(path(job_id, "/explain"))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


# Explanations


async def test_the_state_of_a_parent_in_another_queue_is_hidden(scoped: httpx.AsyncClient, service: Service) -> None:
    parent = await running(service, queue="other")
    child = await put(service, queue="mine", parent=parent.id, held=True)
    found = await _explain(scoped, child)
    assert found["reasons"][0]["kind"] == "held_by_parent"
    assert found["reasons"][0]["parent"] == {"id": format_id(parent.id), "state": "hidden"}
    assert "running" not in str(found)


async def _failed_chain(service: Service, *queues: str) -> list[bytes]:
    """Enqueue jobs that wait for each other, one in each queue, and fail the first."""
    ids: list[bytes] = []
    for queue in queues:
        ids.append(await put(service, queue=queue, name=f"step of {queue}", after=tuple(ids[-1:])))
    (job,) = (await service.take(Take(queues=(queues[0],)))).jobs
    error = Blob(b'{"type":"CardError","message":"declined"}')
    await service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).one()
    return ids


async def test_a_cause_in_another_queue_is_hidden(scoped: httpx.AsyncClient, service: Service) -> None:
    theirs, _, own = await _failed_chain(service, "other", "mine-too", "mine")
    answer = await scoped.get(path(own, "/cause"))
    assert answer.json() == {"cause": None, "is_hidden": True}
    found = await _explain(scoped, own)
    assert found["reasons"][0]["cause"]["state"] == "hidden"
    assert "because of a job of another queue" in found["summary"]
    for secret in ("other.", "CardError", "declined", "step of other", format_id(theirs)):
        assert secret not in str(found)
    assert (await scoped.get(path(theirs, "/cause"))).status_code == 403
    groups = (await scoped.get("/api/v1/failures")).json()
    assert (groups["groups"], groups["other_consequences"]) == ([], 2)


async def test_a_cause_in_an_own_queue_is_shown(scoped: httpx.AsyncClient, service: Service) -> None:
    """The chain leads through a queue that the token may not see."""
    cause, _, own = await _failed_chain(service, "mine", "other", "mine-too")
    answer = (await scoped.get(path(own, "/cause"))).json()
    assert answer["is_hidden"] is False
    assert answer["cause"]["job"]["id"] == format_id(cause)
    assert answer["cause"]["attempts"][0]["error"] == {"type": "CardError", "message": "declined"}
    found = await _explain(scoped, own)
    assert found["reasons"][0]["cause"] == {
        "id": format_id(cause),
        "queue": "mine",
        "name": "step of mine",
        "state": "failed",
        "error": "CardError: declined",
    }
    assert (await scoped.get(path(cause, "/cause"))).json() == {"cause": None, "is_hidden": False}
    (group,) = (await scoped.get("/api/v1/failures")).json()["groups"]
    assert (group["count"], group["consequences"]) == (1, 0)


async def test_the_states_of_members_in_other_queues_are_hidden(scoped: httpx.AsyncClient, service: Service) -> None:
    theirs, own = await put(service, queue="other"), await put(service, queue="mine")
    waiting = await put(service, queue="mine", after=(theirs, own))
    (reason,) = (await _explain(scoped, waiting))["reasons"]
    assert reason["count"] == 2
    assert {item["id"]: item["state"] for item in reason["members"]} == {
        format_id(theirs): "hidden", format_id(own): "queued",
    }  # fmt: skip


async def test_holders_of_a_limit_in_other_queues_are_left_out(scoped: httpx.AsyncClient, service: Service) -> None:
    await service.limit(Limit(name="both", matches=Matcher(name="n"), running=2))
    theirs, own = await running(service, queue="other"), await running(service, queue="mine")
    held_back = await put(service, queue="mine")
    reason = (await _explain(scoped, held_back))["reasons"][0]
    assert (reason["kind"], reason["running"], reason["holders"]) == ("limit_full", 2, [format_id(own.id)])
    page = (await scoped.get(f"/jobs/{format_id(held_back)}")).text
    assert format_id(theirs.id) not in page


async def test_a_token_for_all_queues_is_told_all(client: httpx.AsyncClient, service: Service) -> None:
    theirs = await put(service, queue="other")
    waiting = await put(service, queue="mine", after=(theirs,))
    (reason,) = (await _explain(client, waiting))["reasons"]
    assert reason["members"] == [{"id": format_id(theirs), "state": "queued"}]


async def test_a_page_of_a_job_hides_its_relatives_elsewhere(scoped: httpx.AsyncClient, service: Service) -> None:
    parent = await running(service, queue="S3CRET", name="S3CRET")
    child = await put(service, queue="mine", parent=parent.id, held=True)
    answer = await scoped.get(f"/jobs/{format_id(child)}")
    assert answer.status_code == 200
    assert "S3CRET" not in answer.text


# Counts


async def test_failures_of_other_queues_are_not_counted(scoped: httpx.AsyncClient, service: Service) -> None:
    for number in range(3):
        await failed(service, queue="other", error=Blob(b'"theirs"'), name=f"n{number}")
    await failed(service, queue="mine", error=Blob(b'"ours"'))
    found = (await scoped.get("/api/v1/failures")).json()
    assert (found["looked_at"], found["is_all"]) == (1, True)
    assert [(item["queue"], item["count"]) for item in found["groups"]] == [("mine", 1)]


async def test_own_failures_are_found_behind_those_of_others(scoped: httpx.AsyncClient, service: Service) -> None:
    """Newer failures in other queues do not count towards the number of examined jobs."""
    await failed(service, queue="mine")
    for _ in range(3):
        await failed(service, queue="other")
    found = (await scoped.get("/api/v1/failures?looked_at=1")).json()
    assert [(item["queue"], item["count"]) for item in found["groups"]] == [("mine", 1)]


async def test_an_answer_about_failures_is_remembered_for_its_queues_only(
    client: httpx.AsyncClient, service: Service
) -> None:
    await failed(service, queue="other")
    await failed(service, queue="mine")
    assert len((await client.get("/api/v1/failures")).json()["groups"]) == 2
    for queues, expected in ((("mine",), ["mine"]), (("other",), ["other"]), ((), ["mine", "other"])):
        shown = await bearer(service, "read", queues=queues)
        found = (await client.get("/api/v1/failures", headers=shown)).json()
        assert sorted(item["queue"] for item in found["groups"]) == expected


async def test_the_page_of_failures_counts_own_ones(scoped: httpx.AsyncClient, service: Service) -> None:
    for _ in range(7):
        await failed(service, queue="other", name="S3CRET")
    await failed(service, queue="mine")
    page = (await scoped.get("/failures")).text
    assert "S3CRET" not in page
    assert "1 failed job<" in page


@pytest.mark.parametrize(
    "wanted",
    [
        "state=queued",
        "tag=red",
        "where=f%3D1",
        "state=all",
        "state=all&text=f",
        "tag=red&text=f",
        "state=queued&text=%22f%22",
    ],
)
async def test_a_list_of_jobs_counts_own_ones(scoped: httpx.AsyncClient, service: Service, wanted: str) -> None:
    for queue in ("other", "mine", "other", "another", "mine"):
        await put(service, queue=queue, tags=("red",), payload=Blob(b'{"f":1}'), index=("f",))
    found = (await scoped.get(f"/api/v1/jobs?{wanted}")).json()
    assert [job["queue"] for job in found["jobs"]] == ["mine", "mine"]
    assert found["looked_at"] == 2


async def test_indexed_fields_of_other_queues_are_not_told(scoped: httpx.AsyncClient, service: Service) -> None:
    await service.configure("mine", {"index": ("own",)})
    await put(service, queue="S3CRET", payload=Blob(b'{"f":1}'), index=("f",))
    answer = await scoped.get("/api/v1/jobs?where=f%3D1")
    assert answer.status_code == 400
    assert "mine: own" in answer.text
    assert "S3CRET" not in answer.text
    assert (await scoped.get("/api/v1/jobs?where=own%3D1")).json()["jobs"] == []


# Workers


async def _worker(service: Service) -> bytes:
    """Register a worker that serves two queues and runs a job of each."""
    worker = b"w" * 16
    await service.register(worker, WorkerInfo(name="both", queues=("lightjq", "S3CRET")), beat_ms=3_600_000)
    for queue in ("lightjq", "S3CRET"):
        await put(service, queue=queue)
    assert len((await service.take(Take(queues=("lightjq", "S3CRET"), most=2, worker=worker))).jobs) == 2
    return worker


async def test_a_worker_is_shown_without_what_it_does_for_others(scoped: httpx.AsyncClient, service: Service) -> None:
    await _worker(service)
    page = (await scoped.get("/workers")).text
    assert "both" in page
    assert "S3CRET" not in page
    assert "1 of 1" in page
    headers = {"accept": "application/json"}
    (listed,) = (await scoped.get("/lightjq/ui/workers", headers=headers)).json()["workers"]
    assert (listed["running_count"], len(listed["running"])) == (1, 1)
    assert (await scoped.get("/lightjq/ui/stats", headers=headers)).json()["workers"]["running"] == 1


async def test_nobody_speaks_for_a_worker_of_other_queues(scoped: httpx.AsyncClient, service: Service) -> None:
    """A client that deregisters the worker, or registers it again without heartbeats, makes jobs of other queues run
    twice."""
    worker = await _worker(service)
    key = format_id(worker)
    before = await service.worker(worker)
    own = {"queues": ["mine"], "beat_ms": 100}
    take = {"queues": ["mine"], "worker": key}
    answers = [
        await scoped.put(f"/api/v1/workers/{key}", json=own),
        await scoped.post(f"/api/v1/workers/{key}/beat"),
        await scoped.get(f"/api/v1/workers/{key}/connection"),
        await scoped.delete(f"/api/v1/workers/{key}"),
        await scoped.post("/api/v1/take", json=take),
        await scoped.post("/api/v1/exchange", json={"take": take}),
        await scoped.delete("/lightjq/worker", headers={"worker-id": key}),
        await scoped.post("/lightjq/worker/beat", headers={"worker-id": key}),
    ]
    assert [answer.status_code for answer in answers] == [403] * len(answers)
    assert not any("S3CRET" in answer.text for answer in answers)
    assert await service.worker(worker) == before


async def test_an_id_that_holds_jobs_of_other_queues_cannot_be_registered(
    scoped: httpx.AsyncClient, service: Service
) -> None:
    """The worker is not registered. If it were, its jobs would return to their queues without heartbeats."""
    worker = b"v" * 16
    await service.register(worker, WorkerInfo(), beat_ms=3_600_000)
    await put(service, queue="other")
    await service.take(Take(queues=("other",), worker=worker))
    for method in ("PUT", "DELETE"):
        body = {"queues": ["mine"]} if method == "PUT" else None
        answer = await scoped.request(method, f"/api/v1/workers/{format_id(worker)}", json=body)
        assert answer.status_code == 403


async def test_an_own_worker_lives_as_ever(scoped: httpx.AsyncClient, service: Service) -> None:
    key = format_id(b"o" * 16)
    await put(service, queue="mine")
    assert (await scoped.put(f"/api/v1/workers/{key}", json={"queues": ["mine"]})).status_code == 200
    taken = (await scoped.post("/api/v1/take", json={"queues": ["mine"], "worker": key})).json()
    assert len(taken["jobs"]) == 1
    assert (await scoped.post(f"/api/v1/workers/{key}/beat")).status_code == 200
    assert (await scoped.delete(f"/api/v1/workers/{key}")).json() == {"given_back": 1}
    assert (await scoped.post(f"/api/v1/workers/{key}/beat")).status_code == 404
