"""Native routes of lease holders about steps: store, suspend, receive a signal, read; one job or a batch."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, bearer, finished, path, put, running, state_of
from tests.support.api_client import Api
from windlass.core.durable import SCHEMA_MAX, STEP_NAME_MAX, STEP_VALUE_MAX, Signal
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SLEEP = {"name": "nap", "kind": "sleep", "for_ms": 60_000}
APPROVAL = {"name": "wait", "kind": "signal", "signal": "approval"}
# rest of the path for one job, name of the batch route, a valid body without the token
REPORTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("/steps", "steps", {"name": "charge", "value": 7}),
    ("/suspend", "suspend", {"waits": [SLEEP]}),
    ("/receive-signal", "receive-signal", {"name": "wait", "signal": "approval"}),
)
each_report = pytest.mark.parametrize(("rest", "many", "body"), REPORTS, ids=[report[1] for report in REPORTS])


async def store_step(api: Api, job: Job, **more: Any) -> Any:
    return await api.post(path(job.id, "/steps"), {"token": job.lease_token, "name": "charge"} | more)


async def suspend(api: Api, job: Job, *waits: dict[str, Any]) -> Any:
    return await api.post(path(job.id, "/suspend"), {"token": job.lease_token, "waits": waits})


async def take(api: Api, **more: Any) -> list[Any]:
    answer = await api.post("/api/v1/take", {"queues": ["q"]} | more)
    assert answer.status == 200, answer
    return list(answer.body["jobs"])


# Read


async def test_a_job_without_durable_state_has_no_steps(api: Api, service: Service) -> None:
    answer = await api.get(path(await put(service), "/steps"))
    state = answer.body
    assert (answer.status, state["steps"], state["signals"], state["waits"]) == (200, [], [], [])
    assert (state["suspensions"], state["suspended_at_ms"], state["round"]) == (0, None, 0)


async def test_stored_steps_are_read_in_order(api: Api, service: Service) -> None:
    job = await running(service)
    for name in ("charge", "a step", "ship"):
        answer = await store_step(api, job, name=name, value={"step": name}, ran_ms=5)
        assert (answer.status, answer.body) == (200, {})
    steps = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert [(step["name"], step["value"]) for step in steps] == [
        ("charge", {"step": "charge"}),
        ("a step", {"step": "a step"}),
        ("ship", {"step": "ship"}),
    ]
    assert [step["number"] for step in steps] == [1, 2, 3]
    assert {(step["kind"], step["status"], step["tries"]) for step in steps} == {("step", "done", 1)}
    assert steps[0]["ended_at_ms"] - steps[0]["begun_at_ms"] == 5
    assert (await api.get(path(job.id))).body["job"]["is_durable"] is True


async def test_steps_of_a_batch_each_have_their_own_result(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, value=1)
    answer = await api.post("/api/v1/jobs:get-steps", {"items": [{"id": ABSENT}, {"id": format_id(job.id)}]})
    unknown, found = answer.body["results"]
    assert (answer.status, unknown["error"]["code"]) == (200, "unknown_job")
    assert [step["name"] for step in found["ok"]["steps"]] == ["charge"]


async def test_waits_are_read_without_other_steps(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, value=1)
    await suspend(api, job, APPROVAL, SLEEP)
    answer = await api.post("/api/v1/jobs:get-waits", {"items": [{"id": ABSENT}, {"id": format_id(job.id)}]})
    unknown, found = answer.body["results"]
    assert (answer.status, unknown["error"]["code"]) == (200, "unknown_job")
    assert [(step["name"], step["signal"]) for step in found["ok"]["steps"]] == [("wait", "approval"), ("nap", "")]


async def test_the_schema_of_a_signal_is_stored_and_listed(api: Api, service: Service) -> None:
    job, schema = await running(service), {"type": "string", "maxLength": 9}
    refused = await suspend(api, job, SLEEP | {"schema": schema})
    assert (refused.status, "Only a wait of kind signal" in refused.body["detail"]) == (400, True)
    refused = await suspend(api, job, APPROVAL | {"schema": "x" * SCHEMA_MAX})
    assert (refused.status, refused.body["code"]) == (413, "too_large")
    assert (await suspend(api, job, APPROVAL | {"schema": schema})).body == {"outcome": "suspended"}
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["status"], step["value"]) == ("waiting", schema)
    answer = await api.post("/api/v1/jobs:get-waits", {"items": [{"id": format_id(job.id)}]})
    assert [found["value"] for found in answer.body["results"][0]["ok"]["steps"]] == [schema]


async def test_an_unknown_and_a_removed_job_have_no_steps(api: Api, service: Service) -> None:
    removed = await finished(service)
    answers = [await api.get(path(job_id, "/steps")) for job_id in (ABSENT, removed)]
    assert [(answer.status, answer.body["code"]) for answer in answers] == [
        (404, "unknown_job"),
        (410, "already_ended"),
    ]


# Store


async def test_the_first_outcome_of_a_step_stays(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, value="first")
    assert (await store_step(api, job, value="second")).status == 200
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert step["value"] == "first"


async def test_a_cursor_moves_on_until_it_is_done(api: Api, service: Service) -> None:
    job = await running(service)
    for position, status in ((10, "waiting"), (20, "waiting"), (30, "done"), (40, "waiting")):
        answer = await store_step(api, job, name="rows", kind="cursor", value=position, status=status)
        assert answer.status == 200
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["kind"], step["value"], step["status"]) == ("cursor", 30, "done")


async def test_a_step_that_failed_for_good_keeps_its_error(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, status="failed", value={"message": "declined"}, tries=3)
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["status"], step["tries"], step["value"]) == ("failed", 3, {"message": "declined"})


async def test_a_step_may_have_no_value_or_bytes(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, name="none")
    await store_step(api, job, name="bytes", value_base64=base64.b64encode(b"\xff\x00").decode())
    none, raw = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert "value" not in none
    assert "value_base64" not in none
    assert (base64.b64decode(raw["value_base64"]), raw["value_codec"]) == (b"\xff\x00", "raw")


async def test_storing_a_step_extends_the_lease(api: Api, service: Service, store: Store) -> None:
    job = await running(service)
    store.clock_offset_ms += 5_000
    await api.post(path(job.id, "/steps"), {"token": job.lease_token, "name": "a", "lease_ms": 90_000})
    found = (await service.job([job.id]).one()).job
    assert found.lease_deadline_at_ms is not None
    assert job.lease_deadline_at_ms is not None
    assert found.lease_deadline_at_ms - job.lease_deadline_at_ms > 5_000


async def test_jobs_with_steps_are_given_to_takers_that_know_steps(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, value=1)
    await api.post(path(job.id, "/release"), {"token": job.lease_token})
    assert await take(api) == []
    [found] = await take(api, steps=True)
    assert (found["id"], found["is_durable"]) == (format_id(job.id), True)


async def test_jobs_with_steps_come_with_an_exchange(api: Api, service: Service) -> None:
    job = await running(service)
    await store_step(api, job, value=1)
    await api.post(path(job.id, "/release"), {"token": job.lease_token})
    body = {"finishes": [], "take": {"queues": ["q"], "steps": True}}
    assert [found["id"] for found in (await api.post("/api/v1/exchange", body)).body["jobs"]] == [format_id(job.id)]


# Suspend


async def test_a_sleeping_job_is_suspended_until_its_time(api: Api, service: Service, store: Store) -> None:
    job = await running(service)
    assert (await suspend(api, job, SLEEP)).body == {"outcome": "suspended"}
    assert (await api.get(path(job.id))).body["job"]["state"] == "suspended"
    state = (await api.get(path(job.id, "/steps"))).body
    [step] = state["steps"]
    assert (state["waits"], state["suspensions"]) == (["nap"], 1)
    assert (step["kind"], step["status"], step["wake_at_ms"] - step["begun_at_ms"]) == ("sleep", "waiting", 60_000)
    assert [found["id"] for found in (await api.get("/api/v1/jobs?state=suspended")).body["jobs"]] == [
        format_id(job.id)
    ]
    store.clock_offset_ms += 60_000
    [again] = await take(api, steps=True)
    assert (again["id"], again["attempt"]) == (format_id(job.id), job.attempt)
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["status"], step["kind"]) == ("done", "sleep")


async def test_a_condition_that_is_already_met_queues_the_job(api: Api, service: Service) -> None:
    job = await running(service)
    await service.signal([Signal(id=job.id, name="approval", value=Blob(b"1"))]).one()
    assert (await suspend(api, job, APPROVAL)).body == {"outcome": "queued"}
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["name"], step["value"], step["status"]) == ("wait", 1, "done")


async def test_a_cancelled_job_ends_when_it_suspends(api: Api, service: Service) -> None:
    job = await running(service)
    await service.cancel([job.id]).one()
    assert (await suspend(api, job, SLEEP)).body == {"outcome": "cancelled"}
    assert await state_of(service, job.id) == "cancelled"


async def test_a_job_is_suspended_on_its_children(api: Api, service: Service) -> None:
    job = await running(service)
    child = await put(service, queue="children", parent=job.id)
    wait = {"name": "gather", "kind": "children", "children": [format_id(child)], "needs_all": True}
    assert (await suspend(api, job, wait)).body == {"outcome": "suspended"}
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["kind"], step["children"]) == ("children", [format_id(child)])
    [taken] = (await service.take(Take(queues=("children",)))).jobs
    await api.post(path(taken.id, "/finish"), {"token": taken.lease_token, "result": 1})
    assert [found["id"] for found in await take(api, steps=True)] == [format_id(job.id)]


async def test_a_step_that_is_tried_again_keeps_its_last_error(api: Api, service: Service) -> None:
    job = await running(service)
    wait = {"name": "charge", "kind": "retry", "for_ms": 30_000, "tries": 2, "error": {"message": "away"}}
    assert (await suspend(api, job, wait)).body == {"outcome": "suspended"}
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["kind"], step["status"], step["tries"], step["value"]) == ("step", "waiting", 2, {"message": "away"})


# Receive a signal


async def test_a_running_job_receives_its_signals_in_order(api: Api, service: Service) -> None:
    job = await running(service)
    for value in (b'"first"', b'"second"'):
        await service.signal([Signal(id=job.id, name="approval", value=Blob(value))]).one()
    body = {"token": job.lease_token, "name": "wait", "signal": "approval"}
    for name, value in (("wait", "first"), ("wait", "first"), ("wait#2", "second")):
        answer = await api.post(path(job.id, "/receive-signal"), body | {"name": name})
        step = answer.body["step"]
        assert (answer.status, step["name"], step["signal"], step["value"]) == (200, name, "approval", value)
    answer = await api.post(path(job.id, "/receive-signal"), body | {"name": "wait#3"})
    assert (answer.status, answer.body) == (200, {"step": None})


# All reports


@each_report
async def test_a_batch_of_reports_has_a_result_for_each(
    api: Api, service: Service, rest: str, many: str, body: dict[str, Any]
) -> None:
    job = await running(service)
    items = [{"id": ABSENT, "token": 1}, {"id": format_id(job.id), "token": job.lease_token}]
    answer = await api.post(f"/api/v1/jobs:{many}", {"items": [item | body for item in items]})
    unknown, done = answer.body["results"]
    assert (answer.status, unknown["error"]["code"], "ok" in done) == (200, "unknown_job", True)


@each_report
async def test_a_report_needs_the_current_lease(
    api: Api, service: Service, rest: str, many: str, body: dict[str, Any]
) -> None:
    job = await running(service)
    stale = await api.post(path(job.id, rest), {"token": job.lease_token + 1} | body)
    queued = await api.post(path(await put(service, queue="other"), rest), {"token": 1} | body)
    unknown = await api.post(path(ABSENT, rest), {"token": 1} | body)
    gone = await api.post(path(await finished(service, queue="third"), rest), {"token": 1} | body)
    answers = (stale, queued, unknown, gone)
    assert [(answer.status, answer.body["code"]) for answer in answers] == [
        (409, "stale_lease"),
        (409, "stale_lease"),
        (404, "unknown_job"),
        (409, "already_ended"),
    ]
    assert (await api.get(path(job.id, "/steps"))).body["steps"] == []


@each_report
async def test_ids_that_are_none_are_refused(
    api: Api, service: Service, rest: str, many: str, body: dict[str, Any]
) -> None:
    for name in HOSTILE:
        answer = await api.post(path(name, rest), {"token": 1} | body)
        assert answer.status in (400, 404), (name, answer)


BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/steps", {}),
    ("/steps", {"name": ""}),
    ("/steps", {"name": "n" * (STEP_NAME_MAX + 1)}),
    ("/steps", {"name": "a", "kind": "signal"}),
    ("/steps", {"name": "a", "kind": "nonsense"}),
    ("/steps", {"name": "a", "status": "waiting"}),
    ("/steps", {"name": "a", "tries": -1}),
    ("/steps", {"name": "a", "lease_ms": -1}),
    ("/steps", {"name": "a", "value": 1, "value_base64": "AA=="}),
    ("/steps", {"name": "a", "value_base64": "?"}),
    ("/steps", {"name": "a", "more": 1}),
    ("/suspend", {}),
    ("/suspend", {"waits": []}),
    ("/suspend", {"waits": [SLEEP, SLEEP]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "sleep"}]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "sleep", "for_ms": -1}]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "nap", "for_ms": 1}]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "signal"}]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "children"}]}),
    ("/suspend", {"waits": [{"name": "a", "kind": "children", "children": ["x"]}]}),
    ("/suspend", {"waits": [SLEEP | {"name": f"n{n}"} for n in range(101)]}),
    ("/receive-signal", {"name": "a"}),
    ("/receive-signal", {"name": "a", "signal": ""}),
    ("/receive-signal", {"name": "", "signal": "s"}),
)


@pytest.mark.parametrize(("rest", "body"), BAD)
async def test_bad_reports_are_refused(api: Api, service: Service, rest: str, body: dict[str, Any]) -> None:
    job = await running(service)
    answer = await api.post(path(job.id, rest), {"token": job.lease_token} | body)
    assert (answer.status, answer.body["code"]) == (400, "bad_input"), answer
    assert (await api.get(path(job.id))).body["job"]["state"] == "running"


async def test_a_value_that_is_too_large_is_refused(json_api: Api, service: Service) -> None:
    job = await running(service)
    for body in ({"value": "x" * STEP_VALUE_MAX}, {"name": "é" * STEP_NAME_MAX}):
        answer = await store_step(json_api, job, **body)
        assert (answer.status, answer.body["code"]) == (413, "too_large")


@each_report
async def test_a_token_of_other_queues_is_refused(
    json_api: Api, service: Service, rest: str, many: str, body: dict[str, Any]
) -> None:
    theirs = await running(service, queue="theirs")
    headers = await bearer(service, "work", "read", queues=("mine",))
    report = {"token": theirs.lease_token} | body
    single = await json_api.post(path(theirs.id, rest), report, **headers)
    batch = await json_api.post(f"/api/v1/jobs:{many}", {"items": [report | {"id": format_id(theirs.id)}]}, **headers)
    read = await json_api.get(path(theirs.id, "/steps"), **headers)
    read_many = await json_api.post("/api/v1/jobs:get-steps", {"items": [{"id": format_id(theirs.id)}]}, **headers)
    waits = await json_api.post("/api/v1/jobs:get-waits", {"items": [{"id": format_id(theirs.id)}]}, **headers)
    assert {answer.status for answer in (single, batch, read, read_many, waits)} == {403}


async def test_children_of_other_queues_are_refused(json_api: Api, service: Service) -> None:
    mine, theirs = await running(service, queue="mine"), await put(service, queue="theirs")
    headers = await bearer(service, "work", queues=("mine",))
    wait = {"name": "gather", "kind": "children", "children": [format_id(theirs)]}
    answer = await json_api.post(path(mine.id, "/suspend"), {"token": mine.lease_token, "waits": [wait]}, **headers)
    assert (answer.status, await state_of(service, mine.id)) == (403, "running")
