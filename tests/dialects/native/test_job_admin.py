"""Native routes that change existing jobs, one or a batch."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, bearer, failed, finished, path, put, running, state_of
from tests.support.api_client import Api
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Finish
from windlass.core.states import State
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

BIG = 2**200 + 1
# method, rest of the path for one job, name of the batch route, a valid body
VERBS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("POST", "/cancel", "cancel", {}),
    ("POST", "/retry", "retry", {}),
    ("POST", "/requeue", "requeue", {}),
    ("POST", "/wake", "wake", {}),
    ("DELETE", "", "delete", {}),
    ("PATCH", "", "edit", {"priority": 1}),
)
each_verb = pytest.mark.parametrize(("method", "rest", "many", "body"), VERBS, ids=[verb[2] for verb in VERBS])


async def read(service: Service, job_id: bytes) -> Job:
    return (await service.job([job_id]).one()).job


async def send(api: Api, method: str, where: str, body: dict[str, Any], **headers: str) -> Any:
    return await (
        api.request(method, where, **headers) if method == "DELETE" else api.request(method, where, body, **headers)
    )


# Each verb


async def test_cancel(api: Api, service: Service) -> None:
    waits = await put(service)
    runs = await running(service, queue="other")
    answer = await api.post(path(waits, "/cancel"), {"reason": "no longer wanted"})
    assert (answer.status, answer.body) == (200, {"outcome": "cancelled"})
    [attempt] = (await service.job([waits]).one()).attempts
    assert (await state_of(service, waits), attempt.reason) == ("cancelled", "no longer wanted")
    answer = await api.post(path(runs.id, "/cancel"))
    assert (answer.status, answer.body) == (200, {"outcome": "requested"})
    assert (await read(service, runs.id)).is_cancel_requested
    again = await api.post(path(waits, "/cancel"))
    assert (again.status, again.body["code"]) == (409, "already_ended")


async def test_cancel_of_what_has_failed_only_when_asked(api: Api, service: Service) -> None:
    job_id = await failed(service)
    assert (await api.post(path(job_id, "/cancel"))).status == 409
    assert await state_of(service, job_id) == "failed"
    assert (await api.post(path(job_id, "/cancel"), {"even_failed": True})).body == {"outcome": "cancelled"}
    assert await state_of(service, job_id) == "cancelled"


async def test_cancel_that_waits_for_no_waiting_children(api: Api, service: Service) -> None:
    parents = []
    for counts_waiting in (True, False):
        parent = await running(service, queue="parents")
        child = await put(service, parent=parent.id)
        await put(service, parent=parent.id, after=(await put(service, queue="before"),))
        await service.finish([Finish(parent.id, parent.lease_token)]).one()
        body = {"counts_waiting": counts_waiting}
        assert (await api.post(path(child, "/cancel"), body)).body == {"outcome": "cancelled"}
        parents.append(await state_of(service, parent.id))
    assert parents == ["waiting", "queued"]


async def test_what_runs_or_waits_for_others_is_left_alone_when_asked(api: Api, service: Service) -> None:
    runs = await running(service)
    answer = await api.post(path(runs.id, "/cancel"), {"spares_running": True})
    assert (answer.status, answer.body["code"]) == (409, "wrong_state")
    assert not (await read(service, runs.id)).is_cancel_requested
    waits = await put(service, after=(runs.id,))
    answer = await api.post("/api/v1/jobs:delete", {"items": [{"id": format_id(waits), "even_waiting": False}]})
    assert answer.body["results"][0]["error"]["code"] == "wrong_state"
    assert await state_of(service, waits) == "waiting"


async def test_retry(api: Api, service: Service) -> None:
    job_id = await failed(service)
    answer = await api.post(path(job_id, "/retry"))
    assert (answer.status, answer.body) == (200, {"outcome": "queued"})
    assert await state_of(service, job_id) == "queued"
    again = await api.post(path(job_id, "/retry"))
    assert (again.status, again.body["code"]) == (409, "wrong_state")


async def test_retry_of_one_whose_key_another_holds(api: Api, service: Service) -> None:
    job_id = await failed(service, unique="key")
    await put(service, unique="key")
    answer = await api.post(path(job_id, "/retry"))
    assert (answer.status, answer.body["code"]) == (409, "unique_conflict")


async def test_requeue(api: Api, service: Service) -> None:
    kept, given_back = await running(service), await running(service)
    assert (await api.post(path(kept.id, "/requeue"))).body == {"outcome": "queued"}
    body = {"gives_attempt_back": True}
    assert (await api.post(path(given_back.id, "/requeue"), body)).body == {"outcome": "queued"}
    jobs = [await read(service, job.id) for job in (kept, given_back)]
    assert [(job.state, job.attempt, job.lease_token) for job in jobs] == [(State.QUEUED, 1, 0), (State.QUEUED, 0, 0)]


async def test_requeue_of_a_group(api: Api, service: Service) -> None:
    group = await put(service, joins=True, after=(await put(service),))
    answer = await api.post(path(group, "/requeue"))
    assert (answer.status, answer.body["code"]) == (409, "wrong_state")


async def test_wake(api: Api, service: Service) -> None:
    first = await put(service)
    after, later = [await put(service, after=(first,), delay_ms=delay_ms) for delay_ms in (0, 60_000)]
    group = await put(service, joins=True, after=(first,))
    outcomes = [(await api.post(path(job_id, "/wake"))).body for job_id in (after, later, group)]
    assert outcomes == [{"outcome": "queued"}, {"outcome": "scheduled"}, {"outcome": "finished"}]
    assert await state_of(service, after) == "queued"
    again = await api.post(path(after, "/wake"))
    assert (again.status, again.body["code"]) == (409, "wrong_state")


async def test_delete(api: Api, service: Service) -> None:
    waits, runs = await put(service), await running(service, queue="other")
    answer = await api.delete(path(waits))
    assert (answer.status, answer.body) == (200, {"outcome": "deleted"})
    assert (await api.get(path(waits))).status in (404, 410)
    held = await api.delete(path(runs.id))
    assert (held.status, held.body["code"]) == (409, "wrong_state")
    assert (await api.delete(path(runs.id, "?even_leased=true"))).body == {"outcome": "deleted"}
    assert (await api.delete(path(runs.id))).body["code"] in ("unknown_job", "already_ended")


async def test_edit_of_everything(api: Api, service: Service) -> None:
    job_id = await put(service, repeat="HOURLY")
    at_ms = await service.now() + 3_600_000
    body = {"name": "other/ü", "priority": -3, "run_at_ms": at_ms, "payload": {"a": [1]}, "repeat": ""}
    answer = await api.patch(path(job_id), body)
    assert (answer.status, answer.body) == (200, {"revision": 2, "state": "scheduled"})
    job = await read(service, job_id)
    assert (job.name, job.priority, job.run_at_ms, job.repeat) == ("other/ü", -3, at_ms, "")
    encode = msgspec.json.encode if api.encoding == "json" else msgspec.msgpack.encode
    assert job.payload == Blob(encode({"a": [1]}), Codec[api.encoding.upper()])


async def test_edit_of_one_thing_leaves_the_others(api: Api, service: Service) -> None:
    job_id = await put(service, name="before", priority=4, payload=Blob(b'"kept"'))
    assert (await api.patch(path(job_id), {"name": "after"})).body == {"revision": 2, "state": "queued"}
    job = await read(service, job_id)
    assert (job.name, job.priority, job.payload) == ("after", 4, Blob(b'"kept"'))
    await api.patch(path(job_id), {"payload": None, "priority": 0})
    job = await read(service, job_id)
    assert (job.name, job.priority) == ("after", 0)
    assert job.payload.data == (b"null" if api.encoding == "json" else b"\xc0")


async def test_edit_with_bytes_and_with_every_digit(api: Api, service: Service) -> None:
    job_id = await put(service)
    await api.patch(path(job_id), {"payload_base64": "AP8="})
    assert (await read(service, job_id)).payload == Blob(b"\x00\xff", Codec.RAW)
    digits = base64.b64encode(b"%d" % BIG).decode()
    await api.patch(path(job_id), {"payload_base64": digits, "payload_codec": "json"})
    assert (await read(service, job_id)).payload == Blob(b"%d" % BIG)
    await api.raw("PATCH", path(job_id), b'{"payload": %d}' % (BIG + 1), {"content-type": "application/json"})
    assert (await read(service, job_id)).payload == Blob(b"%d" % (BIG + 1))


async def test_edit_of_a_job_as_it_was_read(api: Api, service: Service) -> None:
    job_id = await put(service)
    assert (await api.patch(path(job_id), {"priority": 1, "if_revision": 1})).body["revision"] == 2
    answer = await api.patch(path(job_id), {"priority": 9, "if_revision": 1})
    assert (answer.status, answer.body["code"]) == (409, "revision_conflict")
    assert (await read(service, job_id)).priority == 1


async def test_edit_of_a_job_that_runs_only_when_asked(api: Api, service: Service) -> None:
    job = await running(service)
    answer = await api.patch(path(job.id), {"priority": 9})
    assert (answer.status, answer.body["code"]) == (409, "wrong_state")
    answer = await api.patch(path(job.id), {"priority": 9, "in_any_state": True})
    assert answer.body == {"revision": 2, "state": "running"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "changes nothing"),
        ({"if_revision": 1}, "changes nothing"),
        ({"name": ""}, "name"),
        ({"name": "a\x00b"}, "control characters"),
        ({"priority": 2**31}, "priority"),
        ({"priority": None}, "priority"),
        ({"run_at_ms": -1}, "run_at_ms"),
        ({"repeat": "SOMETIMES"}, "SOMETIMES"),
        ({"payload": 1, "payload_base64": "AA=="}, "not both"),
        ({"payload_base64": "?"}, "base64"),
        ({"payload": 1, "payload_codec": "raw"}, "payload_codec"),
        ({"queue": "other"}, "queue"),
        ([], "object"),
    ],
)
async def test_edits_that_cannot_be(api: Api, service: Service, body: Any, says: str) -> None:
    job_id = await put(service)
    before = await read(service, job_id)
    answer = await api.patch(path(job_id), body)
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert says in answer.body["detail"]
    assert await read(service, job_id) == before


async def test_an_edit_too_large(api: Api, service: Service) -> None:
    job_id = await put(service)
    answer = await api.patch(path(job_id), {"payload": "x" * 1_100_000})
    assert (answer.status, answer.body["code"]) == (413, "too_large")


# All verbs


@each_verb
async def test_what_is_not_there(
    api: Api, service: Service, method: str, rest: str, many: str, body: dict[str, Any]
) -> None:
    unknown = await send(api, method, path(ABSENT, rest), body)
    assert (unknown.status, unknown.body["code"]) == (404, "unknown_job")
    gone = await send(api, method, path(await finished(service), rest), body)
    assert (gone.status, gone.body["code"]) == (409, "already_ended")


@each_verb
async def test_hostile_ids_are_refused(api: Api, method: str, rest: str, many: str, body: dict[str, Any]) -> None:
    for hostile in HOSTILE:
        answer = await send(api, method, path(hostile, rest), body)
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), hostile
    for hostile in ("nope", "a\x00b", "", "💩", f"{ABSENT}/.."):
        answer = await api.post(f"/api/v1/jobs:{many}", {"items": [{"id": hostile, **body}]})
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), hostile


@each_verb
async def test_many_are_answered_one_by_one(
    api: Api, service: Service, method: str, rest: str, many: str, body: dict[str, Any]
) -> None:
    first = await put(service)
    makes = {
        "retry": lambda: failed(service, queue="other"),
        "wake": lambda: put(service, after=(first,)),
    }.get(many, lambda: put(service))
    ids = [format_id(await makes()) for _ in range(2)]
    items = [{"id": job_id, **body} for job_id in (ids[0], ABSENT, ids[1])]
    answer = await api.post(f"/api/v1/jobs:{many}", {"items": items})
    assert answer.status == 200
    well, unknown, also_well = answer.body["results"]
    assert unknown["error"]["code"] == "unknown_job"
    expected = {"cancel": "cancelled", "delete": "deleted"}.get(many, "queued")
    done = {"revision": 2, "state": "queued"} if many == "edit" else {"outcome": expected}
    assert [well, also_well] == [{"ok": done}, {"ok": done}]


@each_verb
async def test_many_of_nothing_and_too_many(api: Api, method: str, rest: str, many: str, body: dict[str, Any]) -> None:
    assert (await api.post(f"/api/v1/jobs:{many}", {"items": []})).body == {"results": []}
    items = [{"id": ABSENT, **body}] * 1001
    for bad in ({"items": items}, {}, {"items": [ABSENT]}, {"items": [{}]}, {"items": None}):
        answer = await api.post(f"/api/v1/jobs:{many}", bad)
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), str(bad)[:50]
    assert (await api.post(f"/api/v1/jobs:{many}")).status == 400


async def test_many_with_options_of_their_own_keep_their_order(api: Api, service: Service) -> None:
    ids = [await put(service) for _ in range(3)]
    failing = await failed(service, queue="other")
    items: list[dict[str, Any]] = [{"id": format_id(job_id), "reason": f"r{job_id[-1] % 2}"} for job_id in ids]
    items.insert(1, {"id": format_id(failing), "even_failed": True})
    items.insert(2, {"id": format_id(failing)})
    answer = await api.post("/api/v1/jobs:cancel", {"items": items})
    outcomes = [item.get("ok", {}).get("outcome") or item["error"]["code"] for item in answer.body["results"]]
    assert outcomes == ["cancelled", "cancelled", "already_ended", "cancelled", "cancelled"]
    for job_id in ids:
        [attempt] = (await service.job([job_id]).one()).attempts
        assert attempt.reason == f"r{job_id[-1] % 2}"


async def test_one_bad_item_of_many_changes_nothing(api: Api, service: Service) -> None:
    jobs = [await put(service) for _ in range(2)]
    ids = [format_id(job_id) for job_id in jobs]
    before = await service.job(jobs)
    for many, good, bad in (
        ("cancel", {}, {"reason": "a\x00b"}),
        ("edit", {"priority": 1}, {"repeat": "SOMETIMES"}),
        ("edit", {"priority": 1}, {}),
        ("delete", {}, {"even_leased": "yes"}),
        ("requeue", {}, {"colour": "red"}),
    ):
        items = [{"id": ids[0], **good}, {"id": ids[1], **bad}]
        answer = await api.post(f"/api/v1/jobs:{many}", {"items": items})
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), many
    assert await service.job(jobs) == before


# Access and audit log


@each_verb
async def test_roles(json_api: Api, service: Service, method: str, rest: str, many: str, body: dict[str, Any]) -> None:
    tokens = {role: await bearer(service, role) for role in ("read", "produce", "work", "admin")}
    allowed = {"produce", "admin"} if many == "cancel" else {"admin"}
    for role, shown in tokens.items():
        answers = [
            await send(json_api, method, path(ABSENT, rest), body, **shown),
            await json_api.post(f"/api/v1/jobs:{many}", {"items": []}, **shown),
        ]
        assert [answer.status for answer in answers] == ([404, 200] if role in allowed else [403, 403]), role


async def test_a_token_for_some_queues_cancels_in_these(json_api: Api, service: Service) -> None:
    shown = await bearer(service, "produce", queues=("q",))
    jobs = [await put(service), await put(service, queue="elsewhere")]
    items = [{"id": format_id(job_id)} for job_id in jobs]
    before = await service.job(jobs)
    answers = [
        await json_api.post(path(jobs[1], "/cancel"), **shown),
        await json_api.post("/api/v1/jobs:cancel", {"items": items}, **shown),
    ]
    assert [(answer.status, answer.body["code"]) for answer in answers] == [(403, "forbidden")] * 2
    assert await service.job(jobs) == before
    assert (await json_api.post(path(jobs[0], "/cancel"), **shown)).body == {"outcome": "cancelled"}


async def test_what_admins_do_is_written_down(json_api: Api, service: Service) -> None:
    shown = await bearer(service, "admin")
    job_id = format_id(await put(service))
    await json_api.patch(path(job_id), {"priority": 1}, **shown)
    await json_api.post(path(job_id, "/retry"), **shown)
    ids = [format_id(await put(service)) for _ in range(12)]
    await json_api.post("/api/v1/jobs:delete", {"items": [{"id": job_id} for job_id in ids]}, **shown)
    entries = (await service.audits()).entries
    assert [(entry.who, entry.what, entry.target, entry.outcome) for entry in entries] == [
        ("admin", "delete_many", ", ".join(ids[:10]) + " and 2 more", "done"),
        ("admin", "retry", job_id, "wrong_state"),
        ("admin", "edit", job_id, "done"),
    ]
