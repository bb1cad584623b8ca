"""Flows over HTTP: list, read, resume, cancel, run again; and the flow of a job."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, bearer, path, take, wait_for_end
from tests.support.api_client import Api
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob
from windlass.core.operations import Fail, Finish
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ERROR = Blob(b'{"type":"ValueError","message":"card declined"}')
CHAIN: dict[str, tuple[str, ...]] = {"order": (), "pay": ("order",), "ship": ("pay",), "mail": ("ship",)}
ACTIONS = ("resume", "cancel", "rerun")


class EnqueuedFlow(NamedTuple):
    """A flow that was enqueued over HTTP."""

    id: str
    jobs: dict[str, str]  # ids by step

    @property
    def path(self) -> str:
        return f"/api/v1/flows/{self.id}"


def _items(flow: EnqueuedFlow, graph: dict[str, tuple[str, ...]], name: str, queues: dict[str, str]) -> list[Any]:
    return [
        {
            "queue": queues.get(step, "q"),
            "name": f"do_{step}",
            "id": flow.jobs[step],
            "after": [flow.jobs[other] for other in after],
            "result_ttl_ms": 60_000,
            "flow": {"id": flow.id, "name": name, "step": step},
        }
        for step, after in graph.items()
    ]


async def _put_flow(
    api: Api, service: Service, graph: dict[str, tuple[str, ...]] = CHAIN, *, name: str = "shop", **queues: str
) -> EnqueuedFlow:
    """Enqueue a flow. Queues are given by step."""
    flow_id, *ids = map(format_id, service.store.new_ids(["q"] * (len(graph) + 1)))
    flow = EnqueuedFlow(flow_id, dict(zip(graph, ids, strict=True)))
    answer = await api.post("/api/v1/jobs:whole", {"items": _items(flow, graph, name, queues)})
    assert answer.status == 200, answer.body
    return flow


async def _finish(service: Service, queue: str = "q") -> None:
    job = await take(service, queue)
    await service.finish([Finish(job.id, job.lease_token)]).one()


async def _fail(service: Service, queue: str = "q") -> None:
    job = await take(service, queue)
    await service.fail([Fail(id=job.id, token=job.lease_token, error=ERROR)]).one()


async def _states(api: Api, flow: EnqueuedFlow) -> dict[str, str]:
    answer = await api.get(flow.path)
    assert answer.status == 200, answer.body
    return {step["step"]: step["state"] for step in answer.body["steps"]}


async def test_read_a_flow(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    await _finish(service)
    await _fail(service)
    found = (await api.get(flow.path)).body
    summary = found["summary"]
    assert (summary["id"], summary["name"], summary["state"], summary["queues"]) == (flow.id, "shop", "failed", ["q"])
    counts = {name: summary[name] for name in ("total", "finished", "failed", "cancelled", "consequences", "deleted")}
    assert counts == {"total": 4, "finished": 1, "failed": 1, "cancelled": 0, "consequences": 2, "deleted": 0}
    assert summary["created_at_ms"] <= summary["ended_at_ms"] <= found["now_ms"]
    steps = {step["step"]: step for step in found["steps"]}
    assert [step["job_id"] for step in found["steps"]] == list(flow.jobs.values())
    assert [step["after"] for step in found["steps"]][:2] == [[], [flow.jobs["order"]]]
    assert (steps["pay"]["state"], steps["pay"]["is_consequence"], steps["pay"]["cause"]) == ("failed", False, None)
    assert {steps[name]["cause"] for name in ("ship", "mail")} == {flow.jobs["pay"]}
    assert all(steps[name]["is_consequence"] for name in ("ship", "mail"))


async def test_a_job_shows_its_flow(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    await _fail(service)
    ship = (await api.get(path(flow.jobs["ship"]))).body["job"]
    assert ship["flow"] == {"id": flow.id, "name": "shop", "step": "ship"}
    assert ship["is_consequence"]
    plain = (await api.post("/api/v1/jobs", {"queue": "q", "name": "n"})).body["id"]
    job = (await api.get(path(plain))).body["job"]
    assert (job["flow"], job["is_consequence"]) == (None, False)


# Repair


@pytest.mark.parametrize("way", ["resume", "retry", "jobs:retry", "actions"])
async def test_a_chain_whose_first_step_failed_is_repaired(api: Api, service: Service, way: str) -> None:
    flow = await _put_flow(api, service)
    await _fail(service)
    assert set((await _states(api, flow)).values()) == {"failed"}
    if way == "resume":
        answer = await api.post(f"{flow.path}/resume")
        assert answer.body == {"retried": [flow.jobs["order"]], "refused": {}}
    elif way == "retry":
        answer = await api.post(path(flow.jobs["order"], "/retry"))
        assert answer.body == {"outcome": "queued"}
    elif way == "jobs:retry":
        # The last step first: the order of the ids does not matter.
        items = [{"id": flow.jobs[step]} for step in ("ship", "order")]
        answer = await api.post("/api/v1/jobs:retry", {"items": items})
    else:
        answer = await api.post("/api/v1/actions", {"verb": "retry", "matches": {"queue": "q", "state": "failed"}})
        done = await wait_for_end(api, answer.body["id"])
        assert (done["done"], done["skipped"], done["refused"]) == (1, 3, 0)
    assert answer.status == 200, answer.body
    assert await _states(api, flow) == {"order": "queued", "pay": "waiting", "ship": "waiting", "mail": "waiting"}
    for _ in CHAIN:
        await _finish(service)
    assert (await api.get(flow.path)).body["summary"]["state"] == "finished"


async def test_a_consequence_is_not_retried(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    await _fail(service)
    refused = await api.post(path(flow.jobs["mail"], "/retry"))
    assert (refused.status, refused.body["code"]) == (409, "member_failed")
    assert set((await _states(api, flow)).values()) == {"failed"}


async def test_resume_a_flow_that_needs_no_resume(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    assert (await api.post(f"{flow.path}/resume")).body == {"retried": [], "refused": {}}


async def test_a_resume_is_audited(json_api: Api, service: Service) -> None:
    flow = await _put_flow(json_api, service)
    await json_api.post(f"{flow.path}/resume")
    (entry,) = (await service.audits()).entries
    assert (entry.what, entry.target, entry.outcome) == ("resume_flow", flow.id, "done")


# Cancel and run again


async def test_cancel_a_flow(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    assert (await api.post(f"{flow.path}/cancel")).body == {"outcome": "cancelled"}
    assert set((await _states(api, flow)).values()) == {"cancelled"}
    again = await api.post(f"{flow.path}/cancel")
    assert (again.status, again.body["code"]) == (409, "already_ended")


async def test_cancel_a_flow_with_a_running_step(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    job = await take(service)
    assert (await api.post(f"{flow.path}/cancel")).body == {"outcome": "requested"}
    assert (await service.job([job.id]).one()).job.is_cancel_requested
    assert await _states(api, flow) == {
        "order": "running", "pay": "cancelled", "ship": "cancelled", "mail": "cancelled",
    }  # fmt: skip


async def test_run_a_flow_again(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    for _ in CHAIN:
        await _finish(service)
    answer = await api.post(f"{flow.path}/rerun")
    assert (answer.status, answer.headers["location"]) == (201, f"/api/v1/flows/{answer.body['id']}")
    assert answer.body["id"] != flow.id
    copy = EnqueuedFlow(answer.body["id"], {})
    assert await _states(api, copy) == {"order": "queued", "pay": "waiting", "ship": "waiting", "mail": "waiting"}
    assert set((await _states(api, flow)).values()) == {"finished"}


async def test_a_flow_without_all_of_its_records_cannot_run_again(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    for _ in CHAIN:
        await _finish(service)
    await service.delete([parse_id(flow.jobs["ship"])]).one()
    refused = await api.post(f"{flow.path}/rerun")
    assert (refused.status, refused.body["code"]) == (409, "flow_incomplete")
    assert "ship" in refused.body["detail"]


# Lists


async def _names(api: Api, query: str = "") -> list[str]:
    answer = await api.get(f"/api/v1/flows{query}")
    assert answer.status == 200, answer.body
    return [flow["name"] for flow in answer.body["flows"]]


async def test_list_flows(api: Api, service: Service) -> None:
    one = {"only": ()}
    for number, name in enumerate(("shop", "mail", "shop-2")):
        service.store.clock_offset_ms = number * 1_000
        await _put_flow(api, service, one, name=name)
    await _finish(service)
    assert await _names(api) == ["shop-2", "mail", "shop"]
    assert await _names(api, "?name=shop*") == ["shop-2", "shop"]
    assert await _names(api, "?state=finished") == ["shop"]
    assert await _names(api, "?state=running&name=m*") == ["mail"]
    first = (await api.get("/api/v1/flows?limit=2")).body
    assert [flow["name"] for flow in first["flows"]] == ["shop-2", "mail"]
    assert await _names(api, f"?limit=2&cursor={first['cursor']}") == ["shop"]


@pytest.mark.parametrize("query", ["state=odd", "limit=0", "limit=501", "cursor=odd", "odd=1"])
async def test_a_wrong_query_is_refused(json_api: Api, query: str) -> None:
    answer = await json_api.get(f"/api/v1/flows?{query}")
    assert (answer.status, answer.body["code"]) == (400, "bad_input")


@pytest.mark.parametrize("action", ["", *(f"/{action}" for action in ACTIONS)])
async def test_unknown_flows(json_api: Api, action: str) -> None:
    send = json_api.post if action else json_api.get
    answer = await send(f"/api/v1/flows/{ABSENT}{action}")
    assert (answer.status, answer.body["code"]) == (404, "unknown_flow")
    for hostile in HOSTILE:
        assert (await send(f"/api/v1/flows/{hostile}{action}")).status in (400, 404), hostile


# New flows


@pytest.mark.parametrize("route", ["jobs", "jobs:batch", "jobs:stream"])
async def test_jobs_of_a_flow_are_enqueued_together(json_api: Api, service: Service, route: str) -> None:
    flow = EnqueuedFlow(format_id(service.store.new_id("q")), {"a": format_id(service.store.new_id("q"))})
    (job,) = _items(flow, {"a": ()}, "shop", {})
    body = {"items": [job]} if route == "jobs:batch" else job
    media = "application/x-ndjson" if route == "jobs:stream" else "application/json"
    answer = await json_api.client.post(
        f"/api/v1/{route}", content=msgspec.json.encode(body), headers={"content-type": media}
    )
    refusal = msgspec.json.decode(answer.text.splitlines()[0])
    refusal = refusal["error"] if route == "jobs:stream" else refusal
    assert (refusal["status"], refusal["code"]) == (400, "bad_input")
    assert "enqueued together" in refusal["detail"]
    assert (await service.stats(["q"]))[0].queued == 0


async def test_a_flow_that_exists_is_refused(api: Api, service: Service) -> None:
    flow = await _put_flow(api, service)
    for count in (1, 2):
        ids = map(format_id, service.store.new_ids(["q"] * count))
        graph: dict[str, tuple[str, ...]] = {f"late {number}": () for number in range(count)}
        late = EnqueuedFlow(flow.id, dict(zip(graph, ids, strict=True)))
        answer = await api.post("/api/v1/jobs:whole", {"items": _items(late, graph, "shop", {})})
        assert (answer.status, answer.body["code"]) == (409, "flow_exists")
    again = await api.post("/api/v1/jobs:whole", {"items": _items(flow, CHAIN, "shop", {})})
    assert {job["status"] for job in again.body["jobs"]} == {"existing"}
    assert list(await _states(api, flow)) == list(CHAIN)


@pytest.mark.parametrize("flow", [{}, {"id": "x"}, {"id": ABSENT, "odd": 1}, {"id": ABSENT, "name": "n" * 256}, "x"])
async def test_a_wrong_flow_is_refused(json_api: Api, flow: Any) -> None:
    answer = await json_api.post("/api/v1/jobs:whole", {"items": [{"queue": "q", "name": "n", "flow": flow}]})
    assert answer.status in (400, 413), answer.body


async def test_the_job_of_a_schedule_has_no_flow(json_api: Api) -> None:
    job = {"queue": "q", "name": "n", "flow": {"id": ABSENT}}
    answer = await json_api.put("/api/v1/schedules/s", {"job": job, "every_ms": 60_000})
    assert (answer.status, answer.body["code"]) == (400, "bad_input")


# Tokens of some queues


async def test_a_token_needs_all_queues_of_a_flow(json_api: Api, service: Service) -> None:
    own = await _put_flow(json_api, service, name="own", **dict.fromkeys(CHAIN, "mine"))
    mixed = await _put_flow(json_api, service, name="mixed", **dict.fromkeys(CHAIN, "mine") | {"mail": "S3CRET"})
    json_api.client.headers.update(await bearer(service, "read", "produce", queues=("mine",)))
    assert await _names(json_api) == ["own"]
    assert list(await _states(json_api, own)) == list(CHAIN)
    for action in ("", "/cancel", "/rerun"):
        send = json_api.post if action else json_api.get
        refused = await send(f"{mixed.path}{action}")
        assert (refused.status, refused.body["code"]) == (403, "forbidden")
        assert "S3CRET" not in refused.body["detail"]
    assert (await json_api.post(f"{own.path}/rerun")).status == 201
    assert (await json_api.post(f"{own.path}/cancel")).status == 200
    assert len((await service.flows()).flows) == 3
    assert (await service.flow(parse_id(mixed.id))).summary.state == "running"
