"""GET /jobs?alias=: jobs by any name, and what tokens of some queues see of them."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.dialects.sample_jobs import bearer, finished, put
from tests.support.api_client import Api
from windlass.core.ids import download_id_of_number, format_id
from windlass.core.job import Blob, FlowRef, NewJob
from windlass.service import Service
from windlass.service.aliases import lookup

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

UUID = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"


async def find(api: Api, alias: str, headers: dict[str, str] | None = None, **more: str) -> list[str]:
    answer = await api.get(f"/api/v1/jobs?{urlencode({'alias': alias} | more)}", **(headers or {}))
    assert answer.status == 200, answer
    body = answer.body
    assert set(body) == {"jobs", "cursor", "looked_at", "last_attempts", "is_complete"}
    assert (body["cursor"], body["last_attempts"], body["is_complete"]) == ("", {}, True)
    assert body["looked_at"] == len(body["jobs"])
    return [job["id"] for job in body["jobs"]]


async def test_every_name_finds_its_job(api: Api, service: Service) -> None:
    payload = Blob(b'{"uuid": "%s", "data": "%s"}' % (UUID.encode(), b"x" * 3_000))
    added = await put(service, unique=UUID, unique_while_kept=True, payload=payload)
    ordered = await put(service, queue="downloads")
    number = await service.number([ordered]).one()
    for alias, job_id in [
        (format_id(added), added),
        (UUID, added),
        (str(number), ordered),
        (download_id_of_number(number), ordered),
    ]:
        assert await find(api, alias) == [format_id(job_id)]
    (job,) = (await api.get(f"/api/v1/jobs?alias={UUID}")).body["jobs"]
    assert job["payload_is_whole"]
    assert job["payload"]["uuid"] == UUID
    assert await find(api, "unknown & strange ?") == []


async def test_a_key_of_several_queues(json_api: Api, service: Service) -> None:
    ids = [format_id(await put(service, queue=queue, unique="key 1")) for queue in ("a", "b")]
    assert sorted(await find(json_api, "key 1")) == sorted(ids)
    assert await find(json_api, "key 1", queue="b") == ids[1:]
    assert await find(json_api, ids[0], queue="b") == []


async def test_an_ended_job_is_found(json_api: Api, service: Service) -> None:
    job_id = await finished(service, Blob(b"7"), result_ttl_ms=60_000, unique="u", unique_while_kept=True)
    assert await find(json_api, "u") == [format_id(job_id)]


@pytest.mark.parametrize(
    "more",
    ["state=queued", "tag=t", "name=n", "created_from_ms=1", "error=e", "with_errors=true", "newest_first=true",
     "most=10", "cursor=x", "queue=q&state=queued"],
)  # fmt: skip
async def test_other_conditions_are_refused(json_api: Api, more: str) -> None:
    answer = await json_api.get(f"/api/v1/jobs?alias=a&{more}")
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert answer.body["detail"].startswith("alias names jobs, and can be combined with queue only.")


@pytest.mark.parametrize("alias", ["x" * 513, "a%00b", "ä" * 300])
async def test_an_alias_that_no_job_can_have_is_refused(json_api: Api, alias: str) -> None:
    assert (await json_api.get(f"/api/v1/jobs?alias={alias}")).status in (400, 413)


async def test_pages_without_an_alias_are_as_before(json_api: Api, service: Service) -> None:
    await put(service)
    body = (await json_api.get("/api/v1/jobs?queue=q&state=queued")).body
    assert set(body) == {"jobs", "cursor", "looked_at", "last_attempts"}


async def test_bounds_are_reported(json_api: Api, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for queue in ("a", "b", "c"):
        await put(service, queue=queue, unique="key")
    monkeypatch.setattr(lookup, "QUEUES_SEARCHED_MAX", 2)
    body = (await json_api.get("/api/v1/jobs?alias=key")).body
    assert (len(body["jobs"]), body["is_complete"]) == (2, False)


async def test_a_token_for_some_queues_finds_jobs_of_these(json_api: Api, service: Service) -> None:
    shown = await bearer(service, "read", queues=("mine",))
    own = await put(service, queue="mine", unique="key")
    other = await put(service, queue="S3CRET", unique="key")
    number = await service.number([other]).one()
    assert await find(json_api, "key", shown) == [format_id(own)]
    assert await find(json_api, "key", shown, queue="mine") == [format_id(own)]
    for alias in (format_id(other), str(number), download_id_of_number(number)):
        assert await find(json_api, alias, shown) == []
    answer = await json_api.get("/api/v1/jobs?alias=key&queue=S3CRET", **shown)
    assert (answer.status, answer.body["code"]) == (403, "forbidden")


async def test_roles(json_api: Api, service: Service) -> None:
    for role, status in (("read", 200), ("work", 403), ("produce", 403)):
        assert (await json_api.get("/api/v1/jobs?alias=a", **await bearer(service, role))).status == status
    assert (await json_api.get("/api/v1/jobs?alias=a")).status == 401


async def test_a_part_of_an_id(json_api: Api, service: Service) -> None:
    ids = [format_id(await put(service, queue=queue)) for queue in ("a", "a", "b")]
    for alias in (ids[0][-6:], f"…{ids[0][-6:]}", ids[0][:34]):
        body = (await json_api.get(f"/api/v1/jobs?{urlencode({'alias': alias})}")).body
        assert ([job["id"] for job in body["jobs"]], body["looked_at"], body["is_complete"]) == ([ids[0]], 3, True)
    body = (await json_api.get(f"/api/v1/jobs?alias={ids[0][:6]}&queue=b")).body
    assert ([job["id"] for job in body["jobs"]], body["looked_at"]) == ([ids[2]], 1)
    body = (await json_api.get("/api/v1/jobs?alias=0123456789")).body
    assert (body["jobs"], body["looked_at"], body["is_complete"]) == ([], 3, True)


async def test_a_token_for_some_queues_finds_no_part_of_a_foreign_id(json_api: Api, service: Service) -> None:
    shown = await bearer(service, "read", queues=("mine",))
    own, other = await put(service, queue="mine"), format_id(await put(service, queue="S3CRET"))
    for alias in (other[-6:], other[-20:], f"…{other}"):
        answer = await json_api.get(f"/api/v1/jobs?{urlencode({'alias': alias})}", **shown)
        assert (answer.status, answer.body["jobs"]) == (200, [])
        assert answer.body["looked_at"] <= 1, "jobs of other queues are not counted"
    assert (await json_api.get(f"/api/v1/jobs?alias={other[:6]}", **shown)).body["jobs"][0]["id"] == format_id(own)
    answer = await json_api.get(f"/api/v1/jobs?alias={other[-6:]}&queue=S3CRET", **shown)
    assert (answer.status, answer.body["code"]) == (403, "forbidden")


async def test_flows_by_a_part_of_their_id(json_api: Api, service: Service) -> None:
    flows = [FlowRef(id=bytes(range(at, at + 16))) for at in (16, 64)]
    for queue, flow in zip(("mine", "S3CRET"), flows, strict=True):
        await service.enqueue([NewJob(queue=queue, name="n", flow=flow)], whole=True)
    keys = [format_id(flow.id) for flow in flows]
    for alias in (keys[0][-6:], f"…{keys[0][-6:]}", keys[0][:12], keys[0]):
        found = (await json_api.get(f"/api/v1/flows?{urlencode({'alias': alias})}")).body["flows"]
        assert [flow["id"] for flow in found] == [keys[0]]
    shown = await bearer(service, "read", queues=("mine",))
    assert (await json_api.get(f"/api/v1/flows?alias={keys[1][-6:]}", **shown)).body["flows"] == []
    answer = await json_api.get("/api/v1/flows?alias=xyz", **shown)
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
