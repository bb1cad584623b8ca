"""LightJQ routes for a web page, and the LightJQ document."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.dialects.sample_jobs import bearer
from tests.support.api_client import Api
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NewJob
from windlass.core.operations import Edit, WorkerInfo
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def every_job(api: Api, query: str = "") -> list[dict[str, Any]]:
    """List all jobs, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    for _ in range(50):
        answered = await api.get(f"/lightjq/ui/jobs?most=2&cursor={cursor}&{query}")
        assert answered.status == 200, answered.body
        found += answered.body["jobs"]
        cursor = answered.body["cursor"]
        if not cursor:
            return found
    raise AssertionError("the pages do not end")


async def one_of_each(lightjq: LightJqClient, service: Service) -> dict[str, str]:
    """Make a job of each status. Return the ids by status."""
    worker = await lightjq.register(name="w1", max_jobs=9)
    found = {}
    for status in ("done", "error", "retrying", "running", "queued"):
        found[status] = await lightjq.push(f"{status}-job", {"b": 1, "s": "t"}, max_retry=3, keep_result=True)
        if status != "queued":
            await hold(service, worker)
    await lightjq.succeed(worker, found["done"], result=1)
    await lightjq.fail(worker, found["error"], should_retry=False, message="<script>", reason="timeout")
    await lightjq.fail(worker, found["retrying"], message="again")
    later = Edit(id=parse_id(found["retrying"]), run_at_ms=await service.now() + 3_600_000)  # not within this test
    await service.edit([later]).one()
    cancelled = await lightjq.push("gone")
    await lightjq("DELETE", f"/job/{cancelled}")
    await service.enqueue([NewJob(queue="other", name="n")])
    return found


async def test_jobs_by_status_and_name_page_by_page(api: Api, lightjq: LightJqClient, service: Service) -> None:
    expected = await one_of_each(lightjq, service)
    found = await every_job(api)
    assert {one["id"]: one["status"] for one in found} == {job_id: status for status, job_id in expected.items()}
    for status, job_id in expected.items():
        [row] = await every_job(api, f"status={status}")
        assert (row["id"], row["name"], row["argument"]) == (job_id, f"{status}-job", {"b": 1, "s": "t"})
        assert (row["max_retry"], row["keep_result"], row["timeout"]) == (3, True, 30)
    [failed] = await every_job(api, "name=err*")
    assert (failed["message"], failed["reason"], failed["retry_count"]) == ("<script>", "timeout", 0)
    [again] = await every_job(api, "status=retrying")
    assert (again["message"], again["reason"]) == ("again", "other")
    assert await every_job(api, "name=nothing") == []
    assert (await lightjq.status(expected["done"]))["result"] == 1  # looking has used up nothing


async def test_errors_use_the_encoding_of_the_answer(api: Api) -> None:
    for query in ("status=finished", "most=0", "most=201", "cursor=x", "cursor=queued:x", "most=x", "name=" + "*" * 17):
        answered = await api.get(f"/lightjq/ui/jobs?{query}")
        assert answered.status in (400, 413), (query, answered)
        assert set(answered.body) == {"error", "message"}
    assert (await api.get("/lightjq/ui/nothing")).body["error"] == "not_found"
    assert (await api.get("/lightjq/ui/workers?start=-1")).status == 400


async def test_workers_and_their_running_jobs(api: Api, lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register(name="w1", max_jobs=3, url="http://127.0.0.1:9")
    await lightjq("DELETE", "/worker", worker=worker)
    worker = await lightjq.register(name="w2", max_jobs=2)
    job_id = await lightjq.push()
    await hold(service, worker)
    answered = await api.get("/lightjq/ui/workers")
    [row] = answered.body["workers"]
    assert answered.body["next_start"] is None
    assert row.pop("registered_at_ms") > 0
    assert row == {
        "worker_id": worker, "name": "w2", "max_jobs": 2, "url": None, "running_count": 1, "running": [job_id],
    }  # fmt: skip
    assert (await api.get("/lightjq/ui/workers?most=1")).body["next_start"] == 1
    assert (await api.get("/lightjq/ui/workers?start=1")).body == {"workers": [], "next_start": None}


async def test_counts_and_levels(api: Api, lightjq: LightJqClient, service: Service) -> None:
    empty = (await api.get("/lightjq/ui/stats")).body
    assert empty["jobs"] == dict.fromkeys(("queued", "retrying", "running", "error", "done"), 0)
    await one_of_each(lightjq, service)
    await lightjq.constrain(matcher={"name": "running-job"}, max_running=4)
    stats = (await api.get("/lightjq/ui/stats")).body
    assert stats["jobs"] == dict.fromkeys(("queued", "retrying", "running", "error", "done"), 1)
    assert stats["workers"] == {"count": 1, "max_jobs": 9, "running": 1}
    [constraint] = stats["constraints"]
    assert (constraint["max_running"], constraint["levels"][0]["running"]) == (4, 1)


# Who may what


@pytest.fixture
def _closed(service: Service) -> None:
    """Create a token before the server starts, so that anonymous requests are refused."""
    service.create_token(NewToken(name="first", roles=frozenset({Role.ADMIN}))).wait()


@pytest.mark.usefixtures("_closed")
async def test_a_read_only_token_does_not_consume_results(lightjq: LightJqClient, service: Service) -> None:
    def client_with(headers: dict[str, str]) -> LightJqClient:
        return lightjq.with_token(headers["authorization"].removeprefix("Bearer "))

    admin = client_with(await bearer(service, "admin"))
    reader, producer = client_with(await bearer(service, "read")), client_with(await bearer(service, "produce"))
    worker = await admin.register()
    job_id = await producer.push(keep_result=True)
    await hold(service, worker)
    await admin.succeed(worker, job_id, result=42)
    for _ in range(2):
        assert (await reader.status(job_id))["result"] == 42
        assert (await reader("GET", f"/job/{job_id}/polling")).body["result"] == 42
    assert (await producer.status(job_id))["result"] == 42
    assert (await reader.status(job_id))["result"] is None


@pytest.mark.usefixtures("_closed")
async def test_a_token_for_other_queues_is_refused(lightjq: LightJqClient, service: Service) -> None:
    headers = await bearer(service, "read", "produce", "work", queues=("mail",))
    other = lightjq.with_token(headers["authorization"].removeprefix("Bearer "))
    job = format_id((await service.enqueue([NewJob(queue=QUEUE, name="n")]).one()).id)
    worker_id = uuid.uuid4().bytes
    await service.register(worker_id, WorkerInfo(queues=("mail", QUEUE)))
    known = format_id(worker_id)
    asked: list[tuple[str, str, Any, str]] = [
        ("POST", "/job", {"name": "n", "argument": {}}, ""), ("GET", f"/job/{job}", None, ""),
        ("GET", f"/job/{job}/polling", None, ""), ("DELETE", f"/job/{job}", None, ""),
        ("POST", "/worker", {"name": "w", "max_jobs": 1}, ""), ("DELETE", "/worker", None, known),
        ("POST", "/worker", {"name": "w", "max_jobs": 1, "queues": ["mail", QUEUE]}, ""),
        ("POST", "/worker/beat", None, known), ("POST", "/job", {"name": "n", "argument": {}, "queue": "mai"}, ""),
        ("POST", "/done", {"job_id": job, "type": "success"}, job), ("POST", "/constraint", {"max_running": 1}, ""),
        ("DELETE", f"/constraint/{job}", None, ""),
    ]  # fmt: skip
    for method, path, body, worker in asked:
        response = await other(method, path, body, worker)
        assert (response.status, response.error) == (403, "forbidden"), (method, path)
    assert (await other("GET", "/constraint")).body == []
    for path in ("jobs", "workers", "stats"):
        assert (await lightjq.client.get(f"/lightjq/ui/{path}", headers=headers)).status_code == 403
        own = await lightjq.client.get(f"/lightjq/ui/{path}?queue=mail", headers=headers)
        assert own.status_code == 200
    assert [one.id for one in await service.workers()] == [worker_id]
    assert (await service.job([parse_id(job)]).one()).job.state.label == "queued"


# Its document


async def test_its_document_is_openapi_with_the_paths_of_the_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/lightjq/openapi.json")
    document = answer.json()
    schemathesis.openapi.from_dict(document).validate()
    assert document["servers"] == [{"url": "/lightjq"}]
    operations = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    assert operations == {
        "POST /job", "GET /job/{id}", "DELETE /job/{id}", "GET /job/{id}/polling", "POST /worker", "DELETE /worker",
        "POST /done", "POST /worker/beat", "POST /constraint", "GET /constraint", "DELETE /constraint/{id}",
        "GET /ui/jobs", "GET /ui/workers", "GET /ui/stats",
    }  # fmt: skip
    body = document["paths"]["/job"]["post"]["requestBody"]["content"]
    assert list(body) == ["application/msgpack"]
    [needed] = [one for one in document["paths"]["/done"]["post"]["parameters"] if one["in"] == "header"]
    assert (needed["name"], needed["required"]) == ("worker-id", True)
    statuses = document["paths"]["/job/{id}/polling"]["get"]["responses"]
    assert {"200", "404", "408"} <= set(statuses)
    assert "worker-job" in document["webhooks"]
    yaml = await client.get("/lightjq/openapi.yaml")
    assert (yaml.headers["content-type"], yaml.content) == ("application/yaml", answer.content)
    assert "/lightjq/job" not in (await client.get("/openapi.json")).json()["paths"]
    msgspec.json.decode(answer.content)
