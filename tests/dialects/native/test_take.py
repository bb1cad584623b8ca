"""Native routes that take jobs and report on them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from tests.support.api_client import Api
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Take
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

NO_ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
HOUR_MS = 3_600_000


async def enqueue(service: Service, *payloads: bytes, queue: str = "q", **more: Any) -> list[str]:
    jobs = [NewJob(queue=queue, name=more.pop("name", "n"), payload=Blob(item), **more) for item in payloads or (b"1",)]
    return [format_id(item.id) for item in await service.enqueue(jobs)]  # type: ignore[union-attr]


async def read(service: Service, job_id: str) -> Job:
    return (await service.job([parse_id(job_id)]).one()).job


async def take(api: Api, **more: Any) -> list[dict[str, Any]]:
    answer = await api.post("/api/v1/take", {"queues": ["q"]} | more)
    assert answer.status == 200, answer.body
    jobs: list[dict[str, Any]] = answer.body["jobs"]
    return jobs


async def take_one(api: Api, service: Service, **more: Any) -> dict[str, Any]:
    await enqueue(service, **more)
    [job] = await take(api)
    return job


async def report(api: Api, job: dict[str, Any], verb: str, **more: Any) -> Any:
    return await api.post(f"/api/v1/jobs/{job['id']}/{verb}", {"token": job["lease_token"]} | more)


# Takes


async def test_what_is_taken_is_leased_in_order(api: Api, service: Service) -> None:
    ids = await enqueue(service, b'{"a":1}', b"[2]", b"3")
    jobs = await take(api, most=2, lease_ms=7_000)
    assert [job["id"] for job in jobs] == ids[:2]
    assert [job["payload"] for job in jobs] == [{"a": 1}, [2]]
    assert [(job["state"], job["attempt"], job["payload_codec"]) for job in jobs] == [("running", 1, "json")] * 2
    stored = await read(service, ids[0])
    assert stored.lease_token == jobs[0]["lease_token"] > 0
    assert stored.lease_deadline_at_ms == jobs[0]["lease_deadline_at_ms"]
    assert (await service.stats(["q"]))[0].running == 2


async def test_an_empty_queue_has_nothing_at_once(api: Api) -> None:
    answer = await api.post("/api/v1/take", {"queues": ["q", "r"]})
    assert (answer.status, answer.body) == (200, {"jobs": [], "next_due_at_ms": None})


async def test_one_who_waits_gets_the_job_as_it_comes(api: Api, service: Service) -> None:
    async with asyncio.timeout(20):
        waiting = asyncio.create_task(take(api, wait_ms=30_000))
        await wait_for_takers(service)
        [job_id] = await enqueue(service)
        assert [job["id"] for job in await waiting] == [job_id]


async def wait_for_takers(service: Service, takers: int = 1) -> None:
    async with asyncio.timeout(20):
        while (await service.stats(["q"]))[0].waiting_takers != takers:  # noqa: ASYNC110 (only the engine knows)
            await asyncio.sleep(0.01)


async def test_a_long_poll_whose_client_has_gone_consumes_nothing(
    server_url: str, running: Server, service: Service
) -> None:
    host, port = server_url.removeprefix("http://").split(":")
    body = b'{"queues": ["q"], "wait_ms": 60000}'
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /api/v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await wait_for_takers(service)
    writer.close()
    await writer.wait_closed()
    await wait_for_takers(service, 0)
    [job_id] = await enqueue(service)
    assert (await service.stats(["q"]))[0].queued == 1
    [job] = (await service.take(Take(queues=("q",)))).jobs
    assert (format_id(job.id), job.attempt) == (job_id, 1)


async def test_a_server_that_stops_answers_those_who_wait(service: Service, store: Store) -> None:
    async with store, httpx.AsyncClient() as client:
        async with open_server(store.clone(), Settings(port=0, bedrock_port=0, roles="api")) as server:
            body = {"queues": ["q"], "wait_ms": 60_000}
            waiting = asyncio.create_task(client.post(f"{server.url}/api/v1/take", json=body))
            await wait_for_takers(service)
        answer = await waiting
    assert (answer.status_code, answer.json()["jobs"], answer.headers["connection"]) == (200, [], "close")


async def test_names_priorities_and_weights(api: Api, service: Service) -> None:
    await service.configure("q", {"name_lanes": True})
    await enqueue(service, name="a.one")
    await enqueue(service, name="b.one", priority=5)
    await enqueue(service, queue="r")
    assert [job["name"] for job in await take(api, glob="b.*")] == ["b.one"]
    assert await take(api, all_but=["a.one"]) == []
    assert [job["name"] for job in await take(api, only=["x", "a.one"], priority=0)] == ["a.one"]
    assert [job["queue"] for job in await take(api, queues=["q", "r"], weights=[1, 9])] == ["r"]


async def test_a_registered_worker_is_named(api: Api, service: Service) -> None:
    await enqueue(service)
    [job] = await take(api, worker=NO_ID)
    assert job["worker"] == NO_ID


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "bad_input"),
        ({"queues": []}, "bad_input"),
        ({"queues": ["q", "q"]}, "bad_input"),
        ({"queues": "q"}, "bad_input"),
        ({"queues": ["q"], "most": 0}, "bad_input"),
        ({"queues": ["q"], "most": 1001}, "bad_input"),
        ({"queues": ["q"], "wait_ms": 60_001}, "bad_input"),
        ({"queues": ["q"], "wait_ms": -1}, "bad_input"),
        ({"queues": ["q"], "worker": "me"}, "bad_input"),
        ({"queues": ["q"], "weights": [1, 2]}, "bad_input"),
        ({"queues": ["q"], "only": ["n"], "glob": "*"}, "bad_input"),
        ({"queues": ["q"], "lease": 5}, "bad_input"),
        ({"queues": ["q"], "only": ["n"]}, "names_need_lanes"),
    ],
)
async def test_a_take_that_is_none_takes_nothing(api: Api, service: Service, body: Any, code: str) -> None:
    await enqueue(service)
    answer = await api.post("/api/v1/take", body)
    assert (answer.status, answer.body["code"]) == (409 if code == "names_need_lanes" else 400, code)
    assert (await service.stats(["q"]))[0].queued == 1


# Reports


async def test_a_finished_job_has_its_result(api: Api, service: Service) -> None:
    job = await take_one(api, service, result_ttl_ms=HOUR_MS)
    answer = await report(api, job, "finish", result={"sum": 7})
    assert (answer.status, answer.body) == (200, {"outcome": "finished"})
    ending = await service.result(parse_id(job["id"]))
    assert ending is not None
    assert ending.result is not None
    assert ending.result.codec is (Codec.JSON if api.encoding == "json" else Codec.MSGPACK)
    again = await report(api, job, "finish", result=8)
    assert (again.status, again.body["code"]) == (409, "already_ended")
    assert (await service.result(parse_id(job["id"]))) == ending


async def test_raw_results_are_given_as_base64(api: Api, service: Service) -> None:
    job = await take_one(api, service, result_ttl_ms=HOUR_MS)
    await report(api, job, "finish", result_base64=base64.b64encode(b"\xff\x00").decode())
    ending = await service.result(parse_id(job["id"]))
    assert ending is not None
    assert ending.result == Blob(b"\xff\x00", Codec.RAW)


async def test_a_failure_goes_by_the_jobs_own_policy(api: Api, service: Service, store: Store) -> None:
    job = await take_one(api, service, retry=Backoff(tries=2, base_ms=HOUR_MS, jitter=0, cap_ms=HOUR_MS))
    answer = await report(api, job, "fail", reason="broken", error={"message": "no such order"})
    assert answer.body == {"outcome": "retried"}
    waiting = await read(service, job["id"])
    assert waiting.state is State.SCHEDULED
    assert await take(api) == []
    store.clock_offset_ms += HOUR_MS + 1_000
    [again] = await take(api)
    assert (again["id"], again["attempt"]) == (job["id"], 2)
    answer = await report(api, again, "fail")
    assert answer.body == {"outcome": "failed"}
    timeline = await service.job([parse_id(job["id"])]).one()
    assert [(item.attempt, item.reason) for item in timeline.attempts] == [(1, "broken"), (2, "error")]


@pytest.mark.parametrize(
    ("then", "outcome", "state"),
    [
        ("retry", "retried", State.QUEUED),
        ("final", "failed", State.FAILED),
        ("cancelled", "cancelled", State.CANCELLED),
    ],
)
async def test_a_failure_that_knows_what_follows(
    api: Api, service: Service, then: str, outcome: str, state: State
) -> None:
    job = await take_one(api, service, retry=Backoff(tries=9))
    assert (await report(api, job, "fail", then=then)).body == {"outcome": outcome}
    assert (await read(service, job["id"])).state is state


async def test_leases_are_extended_and_told_of_cancels(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    answer = await report(api, job, "extend", lease_ms=HOUR_MS)
    assert answer.body["deadline_at_ms"] > job["lease_deadline_at_ms"]
    assert answer.body["is_cancel_requested"] is False
    await service.cancel([parse_id(job["id"])])
    assert (await report(api, job, "extend")).body["is_cancel_requested"] is True
    assert (await report(api, job, "extend", lease_ms=FOREVER_MS)).body["deadline_at_ms"] is None


async def test_a_fixed_lease_is_not_extended_and_its_rest_is_answered(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    assert "fixed_for_ms" not in (await report(api, job, "extend")).body
    await service.configure(job["queue"], {"lease_renewal": False})
    before = (await report(api, job, "extend")).body["deadline_at_ms"]
    answer = (await report(api, job, "extend", lease_ms=HOUR_MS)).body
    assert (answer["deadline_at_ms"], answer["is_cancel_requested"]) == (before, False)
    assert 0 < answer["fixed_for_ms"] <= 30_000


async def test_progress_notes_and_payloads(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    answer = await report(api, job, "progress", progress=0.25, note="half of it", payload={"at": 9})
    assert answer.body == {"revision": job["revision"] + 1, "is_cancel_requested": False}
    stored = await read(service, job["id"])
    assert (stored.progress, stored.note) == (0.25, "half of it")
    assert stored.payload.data == (b'{"at":9}' if api.encoding == "json" else b"\x81\xa2at\x09")


async def test_what_is_dispatched_is_accepted_or_goes_back(api: Api, service: Service, store: Store) -> None:
    await enqueue(service, b"1", b"2")
    first, second = await take(api, most=2, accept_ms=5_000)
    assert first["state"] == "dispatched"
    assert (await report(api, first, "accept", lease_ms=HOUR_MS)).body["deadline_at_ms"] > 0
    store.clock_offset_ms += 6_000
    [again] = await take(api)
    assert again["id"] == second["id"]
    late = await report(api, second, "accept")
    assert (late.status, late.body["code"]) == (409, "stale_lease")


async def test_what_is_given_back_costs_no_attempt(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    assert (await report(api, job, "release")).body == {"state": "queued"}
    assert (await read(service, job["id"])).attempt == 0


async def test_lines_and_values_of_running_code(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    assert (await report(api, job, "log", lines=[{"at_ms": 5, "text": "a"}, {"at_ms": 6, "level": "error", "text": "b"}])).status == 200  # fmt: skip # noqa: E501
    logs = await service.logs(parse_id(job["id"]))
    assert [(line.at_ms, line.level, line.text) for line in logs.lines] == [(5, "info", "a"), (6, "error", "b")]
    async with asyncio.timeout(20), service.follow(job=parse_id(job["id"])) as events:
        assert (await report(api, job, "emit", value=[1, 2])).status == 200
        event = await events.next()
    assert event.value is not None
    assert event.value.data == (b"[1,2]" if api.encoding == "json" else b"\x92\x01\x02")


VERBS: dict[str, dict[str, Any]] = {
    "accept": {}, "extend": {}, "progress": {"progress": 0.5}, "finish": {}, "fail": {}, "release": {},
    "log": {"lines": [{"at_ms": 1, "text": "x"}]}, "emit": {"value": 1},
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
async def test_reports_without_a_lease_change_nothing(api: Api, service: Service, verb: str) -> None:
    job = await take_one(api, service)
    before = await read(service, job["id"])
    stale = {"token": job["lease_token"] + 7} | VERBS[verb]
    answer = await api.post(f"/api/v1/jobs/{job['id']}/{verb}", stale)
    assert (answer.status, answer.body["code"]) == (409, "stale_lease")
    answer = await api.post(f"/api/v1/jobs/{NO_ID}/{verb}", stale)
    assert (answer.status, answer.body["code"]) == (404, "unknown_job")
    for path, body in ((job["id"], {}), (job["id"], stale | {"more": 1}), ("7", stale), (job["id"], {"token": "x"})):
        answer = await api.post(f"/api/v1/jobs/{path}/{verb}", body)
        assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert await read(service, job["id"]) == before


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "accept"])
async def test_many_are_reported_at_once_each_for_itself(api: Api, service: Service, verb: str) -> None:
    await enqueue(service, b"1", b"2")
    jobs = await take(api, most=2)
    items = [{"id": job["id"], "token": job["lease_token"]} | VERBS[verb] for job in jobs]
    items.insert(1, {"id": NO_ID, "token": 5} | VERBS[verb])
    answer = await api.post(f"/api/v1/jobs:{verb}", {"items": items})
    assert answer.status == 200
    assert ["ok" in item for item in answer.body["results"]] == [True, False, True]
    assert answer.body["results"][1]["error"]["code"] == "unknown_job"


async def test_leases_of_several_lengths_come_back_in_order(api: Api, service: Service) -> None:
    await enqueue(service, b"1", b"2", b"3")
    jobs = await take(api, most=3)
    lengths = [HOUR_MS, 2 * HOUR_MS, HOUR_MS]
    items = [
        {"id": job["id"], "token": job["lease_token"], "lease_ms": lease_ms}
        for job, lease_ms in zip(jobs, lengths, strict=True)
    ]
    answer = await api.post("/api/v1/jobs:extend", {"items": items})
    first, second, third = (item["ok"]["deadline_at_ms"] for item in answer.body["results"])
    assert second - first > HOUR_MS / 2
    assert abs(third - first) < HOUR_MS / 2


# Reports and a take in one request


async def test_outcomes_and_the_next_taking_in_one_request(api: Api, service: Service) -> None:
    await enqueue(service, b"1", b"2", b"3", result_ttl_ms=HOUR_MS)
    first, second = await take(api, most=2)
    answer = await api.post(
        "/api/v1/exchange",
        {
            "finishes": [
                {"id": first["id"], "token": first["lease_token"], "result": 1},
                {"id": NO_ID, "token": 1},
            ],
            "failures": [{"id": second["id"], "token": second["lease_token"], "then": "final"}],
            "take": {"queues": ["q"], "most": 5},
        },
    )
    assert answer.status == 200
    assert answer.body["finished"][0] == {"ok": {"outcome": "finished"}}
    assert answer.body["finished"][1]["error"]["code"] == "unknown_job"
    assert answer.body["failed"] == [{"ok": {"outcome": "failed"}}]
    assert [job["payload"] for job in answer.body["jobs"]] == [3]


async def test_an_exchange_waits_for_the_next_job_after_its_reports(api: Api, service: Service) -> None:
    job = await take_one(api, service)
    body = {
        "finishes": [{"id": job["id"], "token": job["lease_token"]}],
        "take": {"queues": ["q"], "wait_ms": 30_000},
    }
    async with asyncio.timeout(20):
        waiting = asyncio.create_task(api.post("/api/v1/exchange", body))
        await wait_for_takers(service)
        assert (await service.stats(["q"]))[0].running == 0
        [job_id] = await enqueue(service)
        assert [item["id"] for item in (await waiting).body["jobs"]] == [job_id]


async def test_a_plain_client_works_what_the_engine_was_given(api: Api, service: Service) -> None:
    """Take, run and finish jobs until none is left, with requests only."""
    await enqueue(service, *(b"%d" % number for number in range(25)), result_ttl_ms=HOUR_MS)
    body: dict[str, Any] = {"take": {"queues": ["q"], "most": 10}}
    worked = []
    while jobs := (await api.post("/api/v1/exchange", body)).body["jobs"]:
        worked += [job["payload"] for job in jobs]
        body["finishes"] = [
            {"id": job["id"], "token": job["lease_token"], "result": job["payload"] * 2} for job in jobs
        ]
    assert worked == list(range(25))
    stats = (await service.stats(["q"]))[0]
    assert (stats.queued, stats.running, stats.finished) == (0, 0, 25)
