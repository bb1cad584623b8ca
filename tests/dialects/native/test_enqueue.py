"""Native routes that enqueue one job, a batch or a stream."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.api_client import ENCODE, Api
from windlass.core.ids import format_id, parse_id
from windlass.core.job import ENDS, Blob, Codec, Job, NewJob
from windlass.core.operations import Finish, Listing, Take
from windlass.core.retry import ENDLESS, Backoff
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

JOBS = "/api/v1/jobs"
CODECS = {"json": Codec.JSON, "msgpack": Codec.MSGPACK}


def new(**more: Any) -> dict[str, Any]:
    return {"queue": "q", "name": "n"} | more


async def read(service: Service, job_id: str) -> Job:
    return (await service.job([parse_id(job_id)]).one()).job


async def count(service: Service, state: str = "queued") -> int:
    return len((await service.jobs(Listing(queue="q", state=state, most=500))).jobs)


# One


async def test_everything_that_can_be_said_of_a_job_arrives(api: Api, service: Service) -> None:
    parent = await service.enqueue([NewJob(queue="q", name="p")]).one()
    [taken] = (await service.take(Take(queues=("q",)))).jobs
    answer = await api.post(
        JOBS,
        new(
            payload={"order": 7},
            priority=-5,
            delay_ms=60_000,
            expires_in_ms=120_000,
            lane="l",
            unique="u",
            retry={"tries": 4, "base_ms": 10},
            lease_ms=5_000,
            timeout_ms=7_000,
            result_ttl_ms=9_000,
            tags=["a:b", "c"],
            trace="00-x",
            parent=format_id(taken.id),
            held=True,
            on_failure="ignore",
            callback={"url": "http://127.0.0.1:9/x", "headers": {"X-A": "b"}},
        ),
    )
    assert (answer.status, answer.body["status"]) == (201, "waiting")
    job = await read(service, answer.body["id"])
    assert job.payload == Blob(ENCODE[api.encoding]({"order": 7}), CODECS[api.encoding])
    assert (job.priority, job.lane, job.unique, job.lease_ms, job.timeout_ms) == (-5, "l", "u", 5_000, 7_000)
    assert (job.retry, job.result_ttl_ms, job.tags, job.trace) == (Backoff(4, 10), 9_000, ("a:b", "c"), "00-x")
    assert (job.parent, job.is_held, job.on_failure) == (parent.id, True, "ignore")
    assert job.callback is not None
    assert (job.callback.url, job.callback.events) == ("http://127.0.0.1:9/x", ENDS)
    assert job.callback.headers == (("X-A", "b"),)
    assert round((job.run_at_ms - job.created_at_ms) / 1000) == 60


async def test_only_queue_and_name_are_needed(api: Api, service: Service) -> None:
    job = await read(service, (await api.post(JOBS, new())).body["id"])
    assert (job.payload, job.retry, job.priority) == (Blob(b"null"), ENDLESS, 0)


async def test_a_payload_stays_as_it_was_sent(json_api: Api, service: Service) -> None:
    text = b'{ "n": 123456789012345678901234567890, "f": 1.10, "\\u00e9": "\\u00e9" }'
    headers = {"content-type": "application/json"}
    answer = await json_api.raw("POST", JOBS, b'{"queue":"q","name":"n","payload":' + text + b"}", headers)
    assert (await read(service, answer.body["id"])).payload.data == text


async def test_bytes_of_any_codec_are_given_as_base64(api: Api, service: Service) -> None:
    data = bytes(range(256))
    for more, codec in (({}, Codec.RAW), ({"payload_codec": "msgpack"}, Codec.MSGPACK)):
        answer = await api.post(JOBS, new(payload_base64=base64.b64encode(data).decode(), **more))
        assert (await read(service, answer.body["id"])).payload == Blob(data, codec)


async def test_what_is_there_already_is_200(api: Api) -> None:
    first = await api.post(JOBS, new(unique="k"))
    second = await api.post(JOBS, new(unique="k"))
    assert (first.status, second.status) == (201, 200)
    assert (second.body["id"], second.body["status"]) == (first.body["id"], "existing")
    assert second.headers["location"] == first.headers["location"] == f"{JOBS}/{first.body['id']}"


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"queue": "q"}, "bad_input", "name"),
        ({"name": "n"}, "bad_input", "queue"),
        (new(queue=""), "bad_input", "queue"),
        (new(queue=7), "bad_input", "queue"),
        (new(priority="high"), "bad_input", "priority"),
        (new(priority=2**31), "bad_input", "priority"),
        (new(delay_ms=-1), "bad_input", "delay_ms"),
        (new(delay=5), "bad_input", "delay"),
        (new(delay_ms=5, run_at_ms=5), "bad_input", "not both"),
        (new(id="7"), "bad_input", "not a job id"),
        (new(payload=1, payload_base64=""), "bad_input", "not both"),
        (new(payload_base64="*"), "bad_input", "base64"),
        (new(payload_codec="json"), "bad_input", "payload_base64"),
        (new(retry={"tries": -1}), "bad_input", "tries"),
        (new(retry={"times": 1}), "bad_input", "times"),
        (new(callback={"url": "ftp://x"}), "bad_input", "http"),
        (new(tags=["x"] * 21), "bad_input", "tags"),
        (new(repeat="NOW AND THEN"), "bad_input", "repeat"),
        (new(held=True), "bad_input", "parent"),
        (new(name="\x07"), "bad_input", "control"),
        (new(parent="01890a5d-ac96-7000-8000-b5c1d0b7a3f2"), "unknown_parent", "parent"),
        (new(after=["01890a5d-ac96-7000-8000-b5c1d0b7a3f2"]), "unknown_member", "enqueue it first"),
        (new(payload="x" * 1_100_000), "too_large", "Store it elsewhere"),
        ([new()], "bad_input", "object"),
        (None, "bad_input", "object"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_and_nothing_is_enqueued(
    api: Api, service: Service, body: Any, code: str, says: str
) -> None:
    answer = await api.post(JOBS, body)
    assert answer.status == {"too_large": 413, "unknown_parent": 409, "unknown_member": 409}.get(code, 400)
    assert answer.headers["content-type"] == f"application/problem+{api.encoding}"
    assert (answer.body["code"], answer.body["status"]) == (code, answer.status)
    assert answer.body["type"] == f"urn:windlass:{code}"
    assert says in answer.body["detail"]
    assert await count(service) == 0


async def test_queues_that_are_full_refuse_for_now(api: Api, service: Service) -> None:
    await service.configure("q", {"max_length": 1})
    assert (await api.post(JOBS, new())).status == 201
    answer = await api.post(JOBS, new())
    assert (answer.status, answer.body["code"], answer.headers["retry-after"]) == (503, "queue_full", "1")


async def test_durability_is_asked_for_in_the_query(api: Api) -> None:
    assert (await api.post(f"{JOBS}?durability=memory", new())).body["is_durable"] is True
    unable = await api.post(f"{JOBS}?durability=fsync", new())  # this engine has no append-only file
    assert (unable.status, unable.body["code"]) == (400, "bad_setting")
    answer = await api.post(f"{JOBS}?durability=eternal", new())
    assert (answer.status, answer.body["code"]) == (400, "bad_input")


# Keys


async def test_a_repeated_key_is_the_same_job(api: Api, service: Service) -> None:
    answers = await asyncio.gather(*(api.post(JOBS, new(payload=1), idempotency_key="k") for _ in range(5)))
    assert len({answer.body["id"] for answer in answers}) == 1
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 200, 201]
    assert (await api.post(JOBS, new(payload=1), idempotency_key="other")).status == 201
    assert await count(service) == 2


async def test_a_key_is_known_after_the_job_has_gone(api: Api, service: Service) -> None:
    first = await api.post(JOBS, new(), idempotency_key="k")
    [job] = (await service.take(Take(queues=("q",)))).jobs
    await service.finish([Finish(job.id, job.lease_token)])
    again = await api.post(JOBS, new(), idempotency_key="k")
    assert (again.status, again.body["id"], again.body["status"]) == (200, first.body["id"], "ended")
    assert await count(service) == 0


async def test_a_key_with_another_content_is_refused(api: Api, service: Service) -> None:
    await api.post(JOBS, new(payload=1), idempotency_key="k")
    for other in (new(payload=2), new(payload=1, queue="r")):
        answer = await api.post(JOBS, other, idempotency_key="k")
        assert (answer.status, answer.body["code"]) == (409, "id_conflict")
    assert await count(service) == 1


async def test_keys_that_are_none(api: Api, service: Service) -> None:
    for key in ("", "k" * 256):
        assert (await api.post(JOBS, new(), idempotency_key=key)).status == 400
    answer = await api.post(JOBS, new(id="01890a5d-ac96-7000-8000-b5c1d0b7a3f2"), idempotency_key="k")
    assert (answer.status, await count(service)) == (400, 0)


async def test_a_key_of_a_list_is_for_each_of_it(api: Api, service: Service) -> None:
    items = {"items": [new(payload=number) for number in range(3)]}
    first, again = [await api.post(f"{JOBS}:batch", items, idempotency_key="k") for _ in range(2)]
    assert [item["ok"]["id"] for item in first.body["results"]] == [item["ok"]["id"] for item in again.body["results"]]
    assert [item["ok"]["status"] for item in again.body["results"]] == ["existing"] * 3
    assert await count(service) == 3


# Many


async def test_many_are_answered_one_by_one(api: Api, service: Service) -> None:
    taken = await api.post(JOBS, new(payload=0))
    items = [new(payload=1), new(payload=2, id=taken.body["id"]), new(payload=3, delay_ms=60_000)]
    answer = await api.post(f"{JOBS}:batch", {"items": items})
    assert answer.status == 200
    first, second, third = answer.body["results"]
    assert (first["ok"]["status"], third["ok"]["status"]) == ("queued", "scheduled")
    assert (second["error"]["code"], second["error"]["status"]) == ("id_conflict", 409)
    assert "ok" not in second
    assert await count(service) == 2


@pytest.mark.parametrize("body", [{}, {"items": [{}]}, {"items": 7}, {"jobs": []}, {"items": [new()] * 1001}])
async def test_lists_that_are_none_change_nothing(api: Api, service: Service, body: Any) -> None:
    answer = await api.post(f"{JOBS}:batch", body)
    assert (answer.status, answer.body["code"], await count(service)) == (400, "bad_input", 0)


async def test_an_empty_list_is_answered_by_one(api: Api) -> None:
    assert (await api.post(f"{JOBS}:batch", {"items": []})).body == {"results": []}


# A stream

NDJSON = {"content-type": "application/x-ndjson"}


async def lines_of(client: httpx.AsyncClient, content: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"{JOBS}:stream", content=content, headers=NDJSON)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_stream_of_any_length_is_acknowledged_in_steps(client: httpx.AsyncClient, service: Service) -> None:
    async def jobs() -> AsyncIterator[bytes]:
        for number in range(20):
            yield b"".join(json.dumps(new(payload=number * 250 + item)).encode() + b"\n" for item in range(250))

    said = await lines_of(client, jobs())
    assert len(said) > 2
    assert [line["accepted"] for line in said] == sorted(line["accepted"] for line in said)
    assert said[-1] == {
        "lines": 5000, "accepted": 5000, "existing": 0, "refused": 0, "is_end": True, "error": None,
    }  # fmt: skip
    assert (await service.stats(["q"]))[0].queued == 5000
    first = (await service.take(Take(queues=("q",), most=3))).jobs
    assert [job.payload.data for job in first] == [b"0", b"1", b"2"]


async def test_bad_lines_are_refused_alone(client: httpx.AsyncClient, service: Service) -> None:
    lines = [
        json.dumps(new(unique="k")), "{", "", json.dumps({"queue": "q"}), json.dumps(new(unique="k")), "[]",
        '"\\ud800"', json.dumps(new(priority=2**40)), "[" * 5000, json.dumps(new(delay_ms=1, run_at_ms=1)),
    ]  # fmt: skip
    said = await lines_of(client, "\n".join(lines).encode())
    refused = {line["line"]: line["error"]["code"] for line in said if "line" in line}
    assert refused == dict.fromkeys((2, 4, 6, 7, 8, 9, 10), "bad_input")
    assert {key: said[-1][key] for key in ("lines", "accepted", "existing", "refused", "is_end")} == {
        "lines": 10, "accepted": 1, "existing": 1, "refused": 7, "is_end": True,
    }  # fmt: skip


async def test_what_was_acknowledged_before_the_cut_is_there(client: httpx.AsyncClient, service: Service) -> None:
    """The client disconnects in the middle of a line. Jobs before that are stored and were acknowledged."""
    acknowledged = asyncio.Event()

    async def jobs() -> AsyncIterator[bytes]:
        yield json.dumps(new()).encode() + b"\n" + b'{"queue": "q", "na'
        await acknowledged.wait()
        raise RuntimeError("the client dies")

    async def send() -> None:
        with pytest.raises(RuntimeError):
            await client.post(f"{JOBS}:stream", content=jobs(), headers=NDJSON)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(send())
        [job] = (await service.take(Take(queues=("q",), wait_ms=20_000))).jobs
        acknowledged.set()
    assert (job.name, await count(service)) == ("n", 0)


async def test_a_line_that_never_ends_ends_the_stream(client: httpx.AsyncClient, service: Service) -> None:
    said = await lines_of(client, json.dumps(new()).encode() + b"\n" + b"x" * 3_000_000)
    assert said[-1]["is_end"] is True
    assert said[-1]["error"]["code"] == "too_large"


async def test_an_empty_stream_is_an_end(client: httpx.AsyncClient) -> None:
    assert [line["is_end"] for line in await lines_of(client, b"")] == [True]
