"""Native routes that read jobs answer what the service answers, in both encodings."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, bearer, failed, finished, path, put, running, take, until
from tests.support.api_client import Api
from tests.support.namespace import list_keys
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, Codec, Job
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish
from windlass.core.retry import Backoff
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

BIG = 2**200 + 1
BINARY = msgspec.msgpack.encode({"picture": b"\x00\xff"})
BY_ID = ("", "/result", "/explain", "/logs", "/members", "/events", "/steps")


# `tombstone_ms` is LightJQ's, `awaits_event` Bedrock's; the others are for the engine.
_NOT_SHOWN = ("tombstone_ms", "awaits_event", "needs_steps", "sequence", "limits")


def expected_fields(job: Job) -> dict[str, Any]:
    """Return the fields of a job as the API shows them, without the payload."""
    ids = {"id", "parent", "worker"}
    written = {
        field: getattr(job, field)
        for field in job.__struct_fields__
        if field not in {*ids, *_NOT_SHOWN, "payload", "state", "retry", "callback", "tags", "index", "indexed"}
    }
    for field in ids:
        value = getattr(job, field)
        written[field] = None if value is None else format_id(value)
    callback = job.callback
    return written | {
        "state": job.state.label,
        "retry": msgspec.structs.asdict(job.retry),
        "tags": list(job.tags),
        "index": list(job.index),
        "indexed": list(job.indexed),
        "callback": callback
        and {"url": callback.url, "events": list(callback.events), "headers": dict(callback.headers)},
    }


async def test_a_job_with_all_its_fields(api: Api, service: Service) -> None:
    job = await running(
        service,
        name="résumé/ü",
        payload=Blob(b'{"to":"you"}'),
        priority=-7,
        expires_in_ms=3_600_000,
        lane="tenant",
        unique="key",
        retry=Backoff(tries=5, base_ms=10, factor=3.0, cap_ms=1_000, jitter=0.5),
        lease_ms=50_000,
        timeout_ms=40_000,
        result_ttl_ms=30_000,
        tags=("red", "green"),
        trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        callback=Callback(url="http://127.0.0.1/x", events=("failed",), headers=(("A", "b"),)),
    )
    answer = await api.get(path(job.id))
    assert answer.status == 200
    found = answer.body["job"]
    payload = {field: found.pop(field) for field in ("payload", "payload_codec")}
    assert payload == {"payload": {"to": "you"}, "payload_codec": "json"}
    now = (await service.job([job.id]).one()).job
    # JSON may omit a field that has its default.
    assert {"callback": None} | found | {
        "retry": msgspec.structs.asdict(now.retry) | found["retry"]
    } == expected_fields(now)
    assert answer.body["attempts"] == []


async def test_a_child_names_its_parent_and_its_attempts(api: Api, service: Service) -> None:
    parent = await running(service, queue="parents")
    child = await failed(service, "broken", Blob(b'"why"'), parent=parent.id)
    found = (await api.get(path(child))).body
    assert found["job"]["parent"] == format_id(parent.id)
    [attempt] = (await service.job([child]).one()).attempts
    assert found["attempts"] == [
        {
            "attempt": 1,
            "started_at_ms": attempt.started_at_ms,
            "ended_at_ms": attempt.ended_at_ms,
            "worker": None,
            "reason": "broken",
            "error": "why",
            "error_codec": "json",
        }
    ]


@pytest.mark.parametrize(
    ("blob", "as_json", "as_msgpack"),
    [
        (Blob(b"%d" % BIG), {"payload": BIG}, {"payload_base64": str(BIG)}),
        (Blob(b"[1.50, 1E2]"), {"payload": [1.5, 100.0]}, {"payload": [1.5, 100.0]}),
        (Blob(BINARY, Codec.MSGPACK), {"payload": {"picture": "AP8="}}, {"payload": {"picture": b"\x00\xff"}}),
        (Blob(b"\x00\xfe", Codec.RAW), {"payload_base64": b"\x00\xfe"}, {"payload_base64": b"\x00\xfe"}),
        (Blob(b"{broken"), {"payload_base64": "{broken"}, {"payload_base64": "{broken"}),
    ],
)
async def test_payloads_lose_nothing(
    api: Api, service: Service, blob: Blob, as_json: dict[str, Any], as_msgpack: dict[str, Any]
) -> None:
    found = (await api.get(path(await put(service, payload=blob)))).body["job"]
    shown = {field: found[field] for field in ("payload", "payload_base64") if field in found}
    if "payload_base64" in shown:
        shown["payload_base64"] = base64.b64decode(shown["payload_base64"])
    expected = {
        field: value.encode() if field == "payload_base64" and isinstance(value, str) else value
        for field, value in (as_json if api.encoding == "json" else as_msgpack).items()
    }
    assert shown == expected
    assert found["payload_codec"] == blob.codec.name.lower()


@pytest.mark.parametrize("rest", BY_ID)
async def test_what_is_not_there(api: Api, service: Service, rest: str) -> None:
    unknown = await api.get(path(ABSENT, rest))
    assert (unknown.status, unknown.body["code"]) == (404, "unknown_job")
    gone = await api.get(path(await finished(service), rest))
    assert (gone.status, gone.body["code"]) == (410, "already_ended")
    assert "result_ttl_ms" in gone.body["detail"]


@pytest.mark.parametrize("rest", BY_ID)
async def test_hostile_ids_are_refused(api: Api, rest: str) -> None:
    for hostile in HOSTILE:
        answer = await api.get(path(hostile, rest))
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), hostile
    assert (await api.get(path("", rest))).status == 404


# result


async def test_a_result_when_it_has_ended(api: Api, service: Service) -> None:
    job = await running(service, result_ttl_ms=60_000)
    early = await api.get(path(job.id, "/result"))
    assert (early.status, early.body) == (202, {"state": "running"})
    await service.finish([Finish(job.id, job.lease_token, Blob(BINARY, Codec.MSGPACK))]).one()
    answer = await api.get(path(job.id, "/result"))
    picture = "AP8=" if api.encoding == "json" else b"\x00\xff"
    assert (answer.status, answer.body) == (
        200,
        {"state": "finished", "result": {"picture": picture}, "result_codec": "msgpack", "last_attempt": None},
    )


async def test_a_bad_end_has_its_last_attempt(api: Api, service: Service) -> None:
    job_id = await failed(service, "too hot", Blob(b"\x01", Codec.RAW))
    answer = await api.get(path(job_id, "/result"))
    assert (answer.status, answer.body["state"]) == (200, "failed")
    last = answer.body["last_attempt"]
    assert (last["reason"], last["error_base64"], last["error_codec"]) == ("too hot", "AQ==", "raw")


async def test_a_result_is_consumed_once_and_only_when_asked(api: Api, service: Service) -> None:
    job_id = await finished(service, Blob(b"7"), result_ttl_ms=60_000)
    where = path(job_id, "/result?consume=true")
    assert (await api.get(path(job_id, "/result"))).body["result"] == 7
    assert (await api.request("HEAD", where)).status == 200
    assert (await api.get(where)).body["result"] == 7
    again = await api.get(where)
    assert (again.status, again.body["state"], again.body.get("result")) == (200, "finished", None)


async def wait_until_awaited(store: Store, job_id: bytes) -> None:
    await until(lambda: b"e:" + job_id in list_keys(store))


async def test_whoever_waits_is_told_the_moment_it_ends(api: Api, service: Service, store: Store) -> None:
    job = await running(service)  # the result is not kept: a request after the end gets none
    waiting = asyncio.create_task(api.get(path(job.id, "/result?wait_ms=60000")))
    await wait_until_awaited(store, job.id)
    await service.finish([Finish(job.id, job.lease_token)]).one()
    answer = await waiting
    assert (answer.status, answer.body) == (200, {"state": "finished", "last_attempt": None})


async def test_whoever_waits_in_vain_is_told_the_state(api: Api, service: Service) -> None:
    answer = await api.get(path(await put(service, delay_ms=60_000), "/result?wait_ms=1"))
    assert (answer.status, answer.body) == (202, {"state": "scheduled"})


async def test_a_server_that_stops_answers_those_who_wait(store: Store, service: Service) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        async with open_server(store, Settings(port=0, bedrock_port=0, roles="api")) as server:
            job_id = await put(service)
            waiting = asyncio.create_task(client.get(f"{server.url}{path(job_id, '/result?wait_ms=60000')}"))
            await wait_until_awaited(store, job_id)
        answer = await waiting
        assert (answer.status_code, answer.json()) == (202, {"state": "queued"})


@pytest.mark.parametrize("query", ["wait_ms=60001", "wait_ms=-1", "wait_ms=soon", "consume=perhaps", "wait=1"])
async def test_what_a_result_cannot_be_asked(api: Api, service: Service, query: str) -> None:
    answer = await api.get(path(await put(service), f"/result?{query}"))
    assert (answer.status, answer.body["code"]) == (400, "bad_input")


# explain, logs, members


async def test_why_it_does_not_run(api: Api, service: Service) -> None:
    job_id = await put(service)
    await service.pause("q", reason="flood in the cellar")
    answer = await api.get(path(job_id, "/explain"))
    told = msgspec.to_builtins(await service.explain(job_id))
    assert answer.status == 200
    found = answer.body
    assert found.pop("at_ms") <= told.pop("at_ms")
    assert [reason["kind"] for reason in found["reasons"]] == [reason["kind"] for reason in told["reasons"]]
    assert found["reasons"][0] | {"sentence": ""} == told["reasons"][0] | {"sentence": ""}
    assert found["reasons"][0]["reason"] == "flood in the cellar"
    assert "flood in the cellar" in found["summary"]
    assert {field: found[field] for field in ("id", "queue", "name", "state")} == {
        "id": format_id(job_id), "queue": "q", "name": "n", "state": "queued",
    }  # fmt: skip


async def test_what_its_code_has_said(api: Api, service: Service) -> None:
    job = await running(service)
    lines = [LogLine(5, "info", "begun\n  well"), LogLine(6, "error", "\u2028é")]
    await service.log([Log(job.id, job.lease_token, lines)]).one()
    assert (await api.get(path(job.id, "/logs"))).body == {
        "lines": [
            {"attempt": 1, "at_ms": 5, "level": "info", "text": "begun\n  well"},
            {"attempt": 1, "at_ms": 6, "level": "error", "text": "\u2028é"},
        ],
        "dropped": 0,
    }


async def parent_with_children(service: Service) -> tuple[bytes, list[bytes]]:
    """Enqueue a parent with three children: finished, failed, and waiting in another queue."""
    parent = await running(service, queue="parents")
    children = [await put(service, name=f"child {number}", parent=parent.id) for number in range(2)]
    children.append(await put(service, queue="elsewhere", parent=parent.id))
    first, second = await take(service), await take(service)
    await service.finish([Finish(first.id, first.lease_token, Blob(b"%d" % BIG))]).one()
    await service.fail([Fail(id=second.id, token=second.lease_token, reason="tired")]).one()
    return parent.id, children


async def test_members_with_their_outcomes_page_by_page(api: Api, service: Service) -> None:
    parent, children = await parent_with_children(service)
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await api.get(path(parent, f"/members?most=1&cursor={quote(cursor)}"))
        assert page.status == 200
        assert len(page.body["members"]) <= 1
        found += page.body["members"]
        cursor = page.body["cursor"]
        if not cursor:
            break
    by_id = {member["job"]["id"]: member for member in found}
    assert len(found) == 3
    first, second, third = (by_id[format_id(child)] for child in children)
    assert (first["job"]["state"], first["job"]["name"], first["result_codec"]) == ("finished", "child 0", "json")
    if api.encoding == "json":
        assert first["result"] == BIG
    else:
        assert base64.b64decode(first["result_base64"]) == b"%d" % BIG
    assert (second["job"]["state"], second["last_attempt"]["reason"]) == ("failed", "tired")
    assert (third["job"]["state"], third["last_attempt"], "result" in third) == ("queued", None, False)


async def test_members_by_state(api: Api, service: Service) -> None:
    parent, children = await parent_with_children(service)
    found = (await api.get(path(parent, "/members?state=failed&state=queued"))).body["members"]
    assert {member["job"]["id"] for member in found} == {format_id(child) for child in children[1:]}
    for query in ("state=odd", "most=0", "most=100000", "cursor=x"):
        answer = await api.get(path(parent, f"/members?{query}"))
        assert (answer.status, answer.body["code"]) == (400, "bad_input"), query


# pages


async def list_ids(api: Api, query: str) -> list[str]:
    """Return the ids of all pages, in order."""
    found: list[str] = []
    cursor = ""
    while True:
        page = await api.get(f"/api/v1/jobs?{query}&cursor={quote(cursor)}")
        assert page.status == 200, page.body
        found += [job["id"] for job in page.body["jobs"]]
        cursor = page.body["cursor"]
        if not cursor:
            return found


async def test_pages_by_queue_and_state(api: Api, service: Service) -> None:
    ids = [format_id(await put(service, name=f"n{number}", priority=number)) for number in range(7)]
    await put(service, queue="other")
    await put(service, delay_ms=60_000)
    assert await list_ids(api, "queue=q&state=queued&most=2") == ids
    assert await list_ids(api, "queue=q&state=queued&most=3&newest_first=true") == ids[::-1]
    assert await list_ids(api, "queue=q&state=queued&name=n%5B12%5D") == ids[1:3]
    created = [(await service.job([bytes.fromhex(item.replace("-", ""))]).one()).job.created_at_ms for item in ids]
    later = [item for item, at_ms in zip(ids, created, strict=True) if at_ms >= created[3]]
    assert await list_ids(api, f"queue=q&state=queued&created_from_ms={created[3]}") == later
    assert await list_ids(api, f"queue=q&state=queued&created_before_ms={created[0]}") == []


async def test_a_page_has_whole_jobs(api: Api, service: Service) -> None:
    job_id = await put(service, payload=Blob(b'{"a":1}'), tags=("red",))
    [found] = (await api.get("/api/v1/jobs?queue=q&state=queued")).body["jobs"]
    assert found == (await api.get(path(job_id))).body["job"]


async def test_the_beginning_of_a_long_payload_is_no_value(api: Api, service: Service) -> None:
    """A truncated number would be another number."""
    await put(service, payload=Blob(b"7" * 3_000))
    [found] = (await api.get("/api/v1/jobs?queue=q&state=queued")).body["jobs"]
    assert (found["payload_is_whole"], "payload" in found) == (False, False)
    beginning = base64.b64decode(found["payload_base64"])
    assert 0 < len(beginning) < 3_000
    assert set(beginning) == set(b"7")


async def test_pages_by_payload_field(api: Api, service: Service) -> None:
    payload = Blob(b'{"order_id":4711,"shop":"a&b"}')
    more = {"payload": payload, "index": ("order_id", "shop")}
    first, second = [format_id(await put(service, queue=queue, **more)) for queue in ("a", "b")]
    assert set(await list_ids(api, "where=order_id%3D4711")) == {first, second}
    assert await list_ids(api, "where=order_id%3D4711&queue=b") == [second]
    assert set(await list_ids(api, "where=order_id%3D4711&where=shop%3Da%26b&state=queued")) == {first, second}
    assert await list_ids(api, "where=order_id%3D4711&where=shop%3Dc") == []
    answer = await api.get("/api/v1/jobs?where=order%3D4711")
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert "a: order_id, shop" in answer.body["detail"]


async def test_a_job_is_indexed_over_http(api: Api, service: Service) -> None:
    body = {"queue": "q", "name": "n", "payload": {"order_id": 4711}, "index": ["order_id"]}
    made = (await api.post("/api/v1/jobs", body)).body["id"]
    assert await list_ids(api, "where=order_id%3D4711") == [made]
    answer = await api.post("/api/v1/jobs", body | {"index": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]})
    assert answer.status == 400
    assert (await api.patch(path(made), {"payload": {"order_id": 4712}})).status == 200
    assert await list_ids(api, "where=order_id%3D4711") == []
    assert await list_ids(api, "where=order_id%3D4712") == [made]


async def test_pages_by_tag(api: Api, service: Service) -> None:
    ids = {format_id(await put(service, queue=queue, tags=("red", queue))) for queue in ("a", "b")}
    waits = format_id(await put(service, queue="b", tags=("red",), delay_ms=60_000))
    assert set(await list_ids(api, "tag=red")) == {*ids, waits}
    assert await list_ids(api, "tag=red&state=scheduled") == [waits]
    assert len(await list_ids(api, "tag=red&queue=a")) == 1


async def test_pages_of_all_states(api: Api, service: Service) -> None:
    ids = []
    for queue, delay_ms in (("a", 0), ("b", 60_000), ("a", 0), ("c", 0)):
        ids.append(format_id(await put(service, queue=queue, delay_ms=delay_ms)))
        service.store.clock_offset_ms += 1_000
    assert await list_ids(api, "state=all&newest_first=true") == ids[::-1]
    assert await list_ids(api, "state=all") == ids
    assert sorted(await list_ids(api, "state=all&most=1")) == sorted(ids)
    assert await list_ids(api, "state=all&queue=b") == [ids[1]]


async def test_jobs_by_a_text_in_their_payload(api: Api, service: Service) -> None:
    athens = format_id(await put(service, payload=Blob(b'{"city": "Athens"}'), tags=("red",)))
    rome = format_id(await put(service, queue="b", payload=Blob(b'["%s", "Rome"]' % (b"x" * 5_000))))
    for query, found in (
        ("state=all&text=ATHENS", [athens]), ("state=queued&text=rome", [rome]), ("tag=red&text=athens", [athens]),
        ("tag=red&text=rome", []), ("queue=b&state=all&text=athens", []), ("state=failed&text=athens", []),
        ("state=all&text=" + quote('"city":"athens'), [athens]),
    ):  # fmt: skip
        assert await list_ids(api, query) == found, query
    page = (await api.get("/api/v1/jobs?state=all&text=nothing")).body
    assert (page["jobs"], page["looked_at"], page["cursor"]) == ([], 2, "")
    assert "is_complete" not in page


async def test_queues_that_a_list_leaves_out_are_reported(
    api: Api, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in "abc":
        await put(service, queue=queue)
    monkeypatch.setattr("windlass.service.jobs.MERGED_MAX", 2)
    for state in ("all", "queued"):
        assert (await api.get(f"/api/v1/jobs?state={state}")).body["is_complete"] is False


@pytest.mark.parametrize("queue", ["a/b", "ü €", "100%", "a&state=failed", "..", "{tag}x", "+"])
async def test_names_of_queues_may_be_anything(api: Api, service: Service, queue: str) -> None:
    job_id = await put(service, queue=queue)
    assert await list_ids(api, f"queue={quote(queue, safe='')}&state=queued") == [format_id(job_id)]


async def test_failed_jobs_are_sought_by_their_error_and_grouped(api: Api, service: Service) -> None:
    for queue, text in (("a", "order 1 is gone"), ("b", "order 2 is gone"), ("b", "no room")):
        job = await running(service, queue=queue)
        error = Blob(msgspec.json.encode({"message": text}))
        await service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).one()
    answer = await api.get("/api/v1/jobs?queue=b&state=failed&with_errors=true&error=gone&newest_first=true&most=1")
    [first] = answer.body["jobs"]
    assert answer.body["last_attempts"][first["id"]]["error"] == {"message": "order 2 is gone"}
    assert len(await list_ids(api, "state=failed&error=gone")) == 2
    assert len(await list_ids(api, "queue=b&state=failed&ended_from_ms=1")) == 2
    groups = (await api.get("/api/v1/failures")).body["groups"]
    assert sorted((item["queue"], item["error_shape"], item["count"]) for item in groups) == [
        ("a", "order <n> is gone", 1),
        ("b", "no room", 1),
        ("b", "order <n> is gone", 1),
    ]
    assert len((await api.get("/api/v1/failures?queue=a")).body["groups"]) == 1


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "needs a state or a tag"),
        ("queue=q", "needs a state or a tag"),
        ("queue=q&state=dispatched", "state must be one of"),
        ("tag=red&state=history", "state must be one of"),
        ("where=order_id", "field=value"),
        ("where=a%3D1&where=a%3D1&where=a%3D1&where=a%3D1&where=a%3D1", "where"),
        ("queue=q&state=odd", "state"),
        ("tag=red&state=all", "state must be one of"),
        ("text=x", "needs a state or a tag"),
        ("state=all&text=a%00", "control characters"),
        ("state=all&cursor=x", "cursor"),
        ("queue=q&state=queued&most=0", "most"),
        ("queue=q&state=queued&most=1000000", "most"),
        ("queue=q&state=queued&cursor=x", "cursor"),
        ("queue=q&state=failed&cursor=x", "cursor"),
        ("queue=q%00&state=queued", "control characters"),
        ("queue=%ff&state=queued", "query"),
        ("queue=q&queue=r&state=queued", "twice"),
        ("queue=q&state=queued&colour=red", "colour"),
        ("queue=q&state=queued&newest_first=maybe", "newest_first"),
    ],
)
async def test_lists_that_cannot_be(api: Api, query: str, says: str) -> None:
    answer = await api.get(f"/api/v1/jobs?{query}")
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert says in answer.body["detail"]


async def test_too_many_stars_are_too_much(api: Api) -> None:
    answer = await api.get(f"/api/v1/jobs?queue=q&state=queued&name={'*a' * 40}")
    assert (answer.status, answer.body["code"]) == (413, "too_large")


# Access


async def test_roles(json_api: Api, service: Service) -> None:
    job_id = await finished(service, Blob(b"7"), result_ttl_ms=60_000)
    for role, may_list, may_consume in (("read", 200, 403), ("work", 403, 403), ("produce", 403, 200)):
        shown = await bearer(service, role)
        for rest in BY_ID:
            assert (await json_api.get(path(job_id, rest), **shown)).status == 200
        assert (await json_api.get("/api/v1/jobs?queue=q&state=finished", **shown)).status == may_list
        assert (await json_api.get(path(job_id, "/result?consume=true"), **shown)).status == may_consume
    assert (await json_api.get(path(job_id))).status == 401


async def test_a_token_for_some_queues_sees_these(json_api: Api, service: Service) -> None:
    shown = await bearer(service, "read", "produce", queues=("q", "parents"))
    parent, children = await parent_with_children(service)
    elsewhere = await put(service, queue="elsewhere", tags=("red",))
    own = await put(service, tags=("red",))
    for rest in (*BY_ID, "/result?consume=true"):
        answer = await json_api.get(path(elsewhere, rest), **shown)
        assert (answer.status, answer.body["code"]) == (403, "forbidden"), rest
    answer = await json_api.get("/api/v1/jobs?queue=elsewhere&state=queued", **shown)
    assert (answer.status, answer.body["code"]) == (403, "forbidden")
    found = (await json_api.get("/api/v1/jobs?tag=red", **shown)).body["jobs"]
    assert [job["id"] for job in found] == [format_id(own)]
    members = (await json_api.get(path(parent, "/members"), **shown)).body["members"]
    assert {member["job"]["id"] for member in members} == {format_id(child) for child in children[:2]}
