"""Event streams over HTTP: no event is missing or doubled, and no follower is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.dialects.event_stream import Heard, following
from tests.dialects.sample_jobs import ABSENT, bearer, failed, finished, path, put, running, take, until
from tests.support.namespace import send_command
from windlass.core.event import Emit
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Finish, LeaseRef, Update
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store
from windlass.wire import sse

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

EVENTS = "/api/v1/events"
LONG_AGO = "0:1-5"  # of a past epoch


def kinds(heard: list[Heard]) -> list[str]:
    return [item.kind for item in heard]


def followers(store: Store) -> int:
    return sum(len(shared._followers) for shared in store.fanout._shared.values())


async def finish(service: Service, job: Job, result: Blob | None = None) -> None:
    await service.finish([Finish(job.id, job.lease_token, result)]).one()


# All events


async def test_events_arrive_as_they_happen(client: httpx.AsyncClient, service: Service) -> None:
    async with following(client, EVENTS) as stream:
        assert stream.response.headers["cache-control"] == "no-store"
        position = await stream.mark()
        job_id = await put(service, name="résumé")
        queued = await stream.next()
        job = await take(service)
        started = await stream.next()
        await service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="half")]).one()
        reported = await stream.next()
        await finish(service, job)
        ended = await stream.next()
    told = (await service.events(position)).events
    assert [item and item.id for item in (queued, started, reported, ended)] == [event.position for event in told]
    about = {"job": format_id(job_id), "queue": "q", "name": "résumé"}
    assert [item and item.data for item in (queued, started, reported, ended)] == [
        {"kind": "queued", "state": "queued", "attempt": 0, "progress": 0.0, "at_ms": told[0].at_ms, **about},
        {"kind": "running", "state": "running", "attempt": 1, "progress": 0.0, "at_ms": told[1].at_ms, **about},
        {"kind": "progress", "attempt": 1, "progress": 0.5, "note": "half", "at_ms": told[2].at_ms, **about},
        {"kind": "finished", "state": "finished", "attempt": 1, "progress": 1.0, "at_ms": told[3].at_ms, **about},
    ]


@pytest.mark.parametrize("how", ["header", "query", "header before query"])
async def test_who_comes_back_goes_on_without_gap_or_double(
    client: httpx.AsyncClient, service: Service, how: str
) -> None:
    async with following(client, EVENTS) as stream:
        start = await stream.mark()
        for number in range(5):
            await put(service, name=f"n{number}")
        before = await stream.some(3)
    for number in range(5, 9):
        await put(service, name=f"n{number}")
    where = {"header": EVENTS, "query": f"{EVENTS}?position={before[-1].id}"}.get(how, f"{EVENTS}?position={start}")
    headers = {} if how == "query" else {"last_event_id": before[-1].id}
    async with following(client, where, **headers) as stream:
        after = await stream.some(5)
        await put(service, name="n9")
        after += await stream.some(2)
    assert [item.data["name"] for item in before + after] == [f"n{number}" for number in range(10)]


async def test_who_comes_back_before_anything_happened(client: httpx.AsyncClient, service: Service) -> None:
    async with following(client, EVENTS) as stream:
        position = await stream.mark()
    await put(service, name="meanwhile")
    async with following(client, EVENTS, last_event_id=position) as stream:
        [heard] = await stream.some(1)
    assert heard.data["name"] == "meanwhile"


async def test_one_queue(client: httpx.AsyncClient, service: Service) -> None:
    async with following(client, f"{EVENTS}?queue=a%2Fb%20%C3%BC") as stream:
        await stream.mark()
        await put(service, queue="other")
        await put(service, queue="a/b ü")
        [heard] = await stream.some(1)
    assert heard.data["queue"] == "a/b ü"


async def test_who_was_away_for_too_long_is_told_so(client: httpx.AsyncClient, service: Service) -> None:
    async with following(client, f"{EVENTS}?position={LONG_AGO}") as stream:
        [missed] = await stream.some(1)
        await put(service)
        [heard] = await stream.some(1)
    assert (missed.kind, missed.data) == ("missed", {"kind": "missed", "missed": None})
    assert heard.kind == "queued"
    async with following(client, EVENTS, last_event_id=missed.id) as stream:
        assert await stream.some(1) == [heard]


async def test_values_that_were_emitted(client: httpx.AsyncClient, service: Service) -> None:
    """Line breaks in a value do not become lines of the protocol."""
    big = 2**200 + 1
    async with following(client, EVENTS) as stream:
        await stream.mark()
        job = await running(service)
        for value in (
            Blob(b'{"n": %d}' % big),
            Blob(b'[1,\n"a\\nevent: lie",\r\n 2]'),
            Blob(b"\x81\xa1b\xc4\x01\xff", Codec.MSGPACK),
            Blob(b"\n\nid: lie\n\n", Codec.RAW),
            Blob(b'"a\nid: lie"'),
        ):
            await service.emit([Emit(job.id, job.lease_token, value)]).one()
        found = [item.data for item in (await stream.some(7))[2:]]
    assert [(item["kind"], item["value_codec"]) for item in found] == [
        ("emitted", codec) for codec in ("json", "json", "msgpack", "raw", "json")
    ]
    assert [item.get("value") for item in found[:3]] == [{"n": big}, [1, "a\nevent: lie", 2], {"b": "/w=="}]
    assert found[3]["value_base64"] == "CgppZDogbGllCgo="
    assert "lie" not in stream.last_id


async def test_a_sign_of_life_tells_where_to_go_on(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.02)
    async with following(client, f"{EVENTS}?queue=q") as stream:
        begin = await stream.mark()
        await put(service, queue="other")
        while stream.last_id == begin:
            await stream.mark()
        assert stream.comments
        await put(service, name="first")
        [heard] = await stream.some(1)
        assert heard.data["name"] == "first"
    async with following(client, f"{EVENTS}?queue=q", last_event_id=stream.last_id) as stream:
        await put(service, name="second")
        [heard] = await stream.some(1)
        assert heard.data["name"] == "second"


@pytest.mark.parametrize("query", ["position=x", "position=9:1-5", "queue=q%00", "queue=q&colour=red"])
async def test_what_cannot_be_followed(client: httpx.AsyncClient, store: Store, query: str) -> None:
    answer = await client.get(f"{EVENTS}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert answer.headers["content-type"] == "application/problem+json"
    assert followers(store) == 0


# One job


async def test_a_job_until_its_end(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await put(service, name="mine")
    async with following(client, path(job_id, "/events")) as stream:
        [snapshot] = await stream.some(1)
        await put(service, name="another", priority=5)
        job = await take(service)
        await finish(service, job)
        heard = await stream.rest()
    assert snapshot.data == {
        "kind": "snapshot", "job": format_id(job_id), "queue": "q", "name": "mine", "state": "queued", "attempt": 0,
        "progress": 0.0,
    }  # fmt: skip
    assert kinds(heard) == ["running", "finished"]
    assert {item.data["job"] for item in heard} == {format_id(job_id)}


@pytest.mark.parametrize("end", ["failed", "cancelled", "deleted"])
async def test_every_end_ends_the_stream(client: httpx.AsyncClient, service: Service, end: str) -> None:
    job_id = await put(service)
    async with following(client, path(job_id, "/events")) as stream:
        await stream.some(1)
        if end == "failed":
            await failed(service, queue="q")
        elif end == "cancelled":
            await service.cancel([job_id]).one()
        else:
            await service.delete([job_id]).one()
        heard = await stream.rest()
    assert heard[-1].kind == end


async def test_a_job_that_had_ended_before(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    job_id = await finished(service, result_ttl_ms=60_000)
    async with following(client, path(job_id, "/events")) as stream:
        [snapshot] = await stream.rest()
    assert (snapshot.kind, snapshot.data["state"], snapshot.data["attempt"]) == ("snapshot", "finished", 1)
    again = await client.get(path(job_id, "/events"), headers={"last-event-id": snapshot.id})
    assert (again.status_code, again.content) == (204, b"")
    await service.requeue([job_id]).one()
    async with following(client, path(job_id, "/events"), last_event_id=snapshot.id) as stream:
        [snapshot] = await stream.some(1)
        await finish(service, await take(service))
        assert (snapshot.data["state"], kinds(await stream.rest())) == ("queued", ["running", "finished"])


@pytest.mark.parametrize("is_kept", [True, False])
async def test_who_comes_back_to_a_job_hears_its_end(
    client: httpx.AsyncClient, service: Service, is_kept: bool
) -> None:
    job_id = await put(service, result_ttl_ms=60_000 if is_kept else 0)
    where = path(job_id, "/events")
    async with following(client, where) as stream:
        await stream.some(1)
        job = await take(service)
        [started] = await stream.some(1)
    await finish(service, job)
    async with following(client, where, last_event_id=started.id) as stream:
        heard = await stream.rest()
    assert kinds(heard) == (["snapshot", "finished"] if is_kept else ["finished"])
    again = await client.get(where, headers={"last-event-id": heard[-1].id})
    assert again.status_code == (204 if is_kept else 410)


async def test_who_comes_back_to_a_job_that_goes_on(client: httpx.AsyncClient, service: Service) -> None:
    where = path(await put(service), "/events")
    async with following(client, where) as stream:
        [snapshot] = await stream.some(1)
    job = await take(service)
    async with following(client, where, last_event_id=snapshot.id) as stream:
        heard = await stream.some(2)
        await finish(service, job)
        heard += await stream.rest()
    assert kinds(heard) == ["snapshot", "running", "finished"]
    assert (heard[0].id, heard[0].data["state"]) == (snapshot.id, "running")


async def test_what_was_missed_may_have_been_its_end(client: httpx.AsyncClient, service: Service) -> None:
    job_id = await put(service)
    async with following(client, path(job_id, f"/events?position={LONG_AGO}")) as stream:
        heard = await stream.some(3)
        await service.cancel([job_id]).one()
        heard += await stream.rest()
    assert kinds(heard) == ["snapshot", "missed", "snapshot", "cancelled"]
    async with following(client, path(job_id, f"/events?position={LONG_AGO}")) as stream:
        heard = await stream.rest()
    assert kinds(heard) == ["snapshot", "missed", "cancelled"]
    assert heard[0].data["state"] == "cancelled"


async def test_an_end_that_the_engine_could_not_tell(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    job_id = await put(service)
    async with following(client, path(job_id, "/events")) as stream:
        await stream.some(1)
        await asyncio.to_thread(
            send_command, store, "DEL", f"{store.root(0)}:followed"
        )  # the engine no longer knows its followers
        await service.cancel([job_id]).one()
        await service.events()
        await put(service)
        heard = await stream.rest()
    assert kinds(heard) == ["missed", "snapshot"]
    assert heard[-1].data["state"] == "cancelled"


async def test_a_job_that_cannot_be_followed(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    job_id = await put(service)
    for where, status, code in (
        (path(ABSENT, "/events"), 404, "unknown_job"),
        (path(await finished(service, queue="other"), "/events"), 410, "already_ended"),
        (path("nope", "/events"), 400, "bad_input"),
        (path(job_id, "/events?position=x"), 400, "bad_input"),
        (path(job_id, "/events?queue=q"), 400, "bad_input"),
    ):
        answer = await client.get(where)
        assert (answer.status_code, answer.json()["code"]) == (status, code), where
    assert followers(store) == 0


# Access


async def test_a_token_for_some_queues_sees_these(client: httpx.AsyncClient, service: Service) -> None:
    shown = await bearer(service, "read", queues=("q*",))
    elsewhere = await put(service, queue="elsewhere")
    async with following(client, EVENTS, **shown) as stream:
        await stream.mark()
        for queue in ("elsewhere", "q1", "other", "q2"):
            await put(service, queue=queue)
        heard = await stream.some(2)
        assert [item.data["queue"] for item in heard] == ["q1", "q2"]
    for where in (f"{EVENTS}?queue=elsewhere", path(elsewhere, "/events")):
        answer = await client.get(where, headers=shown)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_events_of_a_job_that_is_gone_are_not_told_to_other_queues(
    client: httpx.AsyncClient, service: Service
) -> None:
    position = (await service.events(job=bytes(16))).position
    job_id = await finished(service, queue="elsewhere")
    where = path(job_id, f"/events?position={position}")
    for queues, status in ((("q*",), 410), (("else*",), 200)):
        shown = await bearer(service, "read", queues=queues)
        assert (await client.get(where, headers=shown)).status_code == status


@pytest.mark.parametrize(("role", "status"), [("read", 200), ("produce", 403), ("work", 403)])
async def test_roles(client: httpx.AsyncClient, service: Service, role: str, status: int) -> None:
    shown = await bearer(service, role)
    async with client.stream("GET", EVENTS, headers=shown) as response:
        assert response.status_code == status
    job_id = await finished(service, result_ttl_ms=60_000)
    assert (await client.get(path(job_id, "/events"), headers=shown)).status_code == 200


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_token_that_is_revoked_ends_its_streams(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch, is_idle: bool
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.05 if is_idle else 60)
    shown = await bearer(service, "read")
    await bearer(service, "work")  # another token stays: without tokens, all local clients have access
    job_id = await put(service)
    async with (
        following(client, EVENTS, **shown) as everything,
        following(client, path(job_id, "/events"), **shown) as item,
    ):
        await everything.mark()
        await item.some(1)
        await service.revoke_token("read")
        heard = asyncio.gather(everything.rest(), item.rest())
        while not heard.done():  # events within a second may still arrive
            if not is_idle:
                job = await take(service)
                await service.release([LeaseRef(job.id, job.lease_token)]).one()
            await asyncio.wait([heard], timeout=0.05)
        await heard


# End of a stream


async def test_a_client_that_goes_leaves_nobody_behind(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    job_id = await put(service)
    for where in (EVENTS, f"{EVENTS}?queue=q", path(job_id, "/events")):
        async with following(client, where) as stream:
            await stream.mark()
            assert followers(store) == 1
        await until(lambda: followers(store) == 0)
        assert (await client.head(where)).status_code == 200
        await until(lambda: followers(store) == 0)


async def test_a_job_that_has_ended_leaves_no_follower(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    job_id = await put(service)
    async with following(client, path(job_id, "/events")) as stream:
        await stream.some(1)
        await service.cancel([job_id]).one()
        await stream.rest()
        await until(lambda: followers(store) == 0)


async def test_a_server_that_stops_ends_its_streams(store: Store, service: Service) -> None:
    ended: list[Any] = []

    async def follow(url: str, begun: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=30) as client, following(client, url) as stream:
            await stream.mark()
            begun.set()
            ended.append(await stream.rest())  # not cut: the stream ends properly

    async with (
        asyncio.TaskGroup() as group,
        open_server(store, Settings(port=0, bedrock_port=0, roles="api")) as server,
    ):
        job_id = await put(service)
        for where in (EVENTS, path(job_id, "/events")):
            begun = asyncio.Event()
            group.create_task(follow(server.url + where, begun))
            await begun.wait()
    assert sorted(kinds(heard) for heard in ended) == [[], ["snapshot"]]


async def test_many_follow_at_once(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    async def follow(number: int, ready: asyncio.Semaphore) -> list[str]:
        where = EVENTS if number % 2 else f"{EVENTS}?queue=q"
        async with following(client, where) as stream:
            await stream.mark()
            ready.release()
            return [item.data["name"] for item in await stream.some(20)]

    ready = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(number, ready)) for number in range(30)]
        for _ in tasks:
            await ready.acquire()
        for number in range(20):
            await put(service, name=f"n{number}")
    assert [task.result() for task in tasks] == [[f"n{number}" for number in range(20)]] * 30
    await until(lambda: followers(store) == 0)


async def test_how_many_were_missed_is_not_told_to_a_token_for_some_queues(
    client: httpx.AsyncClient, service: Service, store: Store
) -> None:
    """The number counts the events of all queues."""
    everything = await bearer(service, "read")
    async with following(client, EVENTS, **everything) as stream:  # events are numbered while there is a follower
        position = await stream.mark()
        for _ in range(3):
            await put(service, queue="elsewhere")
        await stream.some(3)
        send_command(store, "XTRIM", f"{store.root(0)}:events", "MAXLEN", 0)
        await put(service, queue="q1")
        for queues, expected in (((), 3), (("q*",), None)):
            shown = await bearer(service, "read", "work", queues=queues)
            async with following(client, EVENTS, last_event_id=position, **shown) as other:
                missed, heard = await other.some(2)
            assert (missed.kind, missed.data["missed"]) == ("missed", expected)
            assert heard.data["queue"] == "q1"
