"""Native routes of workers: heartbeats, and the return of jobs of lost workers."""

from __future__ import annotations

import uuid

import pytest

from tests.dialects.http_requests import NativeApi
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WORKER = uuid.UUID("01890a5d-ac96-7000-8000-b5c1d0b7a3f2")


def hold(service: Service) -> bytes:
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    [job] = service.take(Take(queues=("mail",), worker=WORKER.bytes)).wait().jobs
    return job.id


async def test_a_worker_registers_and_is_shown_with_what_it_holds(native_api: NativeApi, service: Service) -> None:
    body = {
        "host": "h1", "pid": 7, "queues": ["mail", "ключ"], "slots": 4, "name": "w", "beat_ms": 5_000,
        "version": "1.2.3", "python": "3.13.1", "memory_bytes": 50_000_000,
    }  # fmt: skip
    answer = await native_api.ok("PUT", f"/workers/{WORKER}", body)
    assert answer["silent_at_ms"] == answer["now_ms"] + 5_000
    job = hold(service)
    [shown] = (await native_api.get("/workers"))["workers"]
    [known] = service.workers().wait()
    assert known.silent_at_ms == answer["silent_at_ms"]
    assert shown == {
        "id": str(WORKER), "host": "h1", "pid": 7, "queues": ["mail", "ключ"], "slots": 4, "name": "w", "names": [],
            "url": "", "version": "1.2.3", "python": "3.13.1", "memory_bytes": 50_000_000, "component": "",
        "started_at_ms": known.started_at_ms, "silent_at_ms": known.silent_at_ms,
        "beat_at_ms": answer["now_ms"], "running_count": 1,
        "running": [{"id": format_id(job), "since_ms": known.running[0].since_ms}],
        "stopping_since_ms": None,
    }  # fmt: skip


async def test_nothing_needs_to_be_said_to_register(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", f"/workers/{WORKER}")
    assert service.workers().wait()[0].info == WorkerInfo()


async def test_a_beat_keeps_a_worker(native_api: NativeApi, service: Service, store: Store) -> None:
    await native_api.ok("PUT", f"/workers/{WORKER}", {"beat_ms": 5_000})
    hold(service)
    store.clock_offset_ms += 4_000
    reply = await native_api("POST", f"/workers/{WORKER}/beat")
    assert (reply.status, reply.value) == (200, {"is_asked_to_stop": False})
    store.clock_offset_ms += 4_000
    service.recover().wait()
    assert service.workers().wait()[0].running_count == 1
    store.clock_offset_ms += 4_000
    service.recover().wait()
    reply = await native_api("POST", f"/workers/{WORKER}/beat")
    assert (reply.status, reply.code) == (404, "unknown_worker")
    assert service.stats(["mail"]).wait()[0].queued == 1


async def test_a_worker_that_leaves_gives_back_what_it_holds(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", f"/workers/{WORKER}")
    hold(service)
    assert await native_api.ok("DELETE", f"/workers/{WORKER}") == {"given_back": 1}
    assert service.stats(["mail"]).wait()[0].queued == 1
    assert (await native_api("DELETE", f"/workers/{WORKER}")).code == "unknown_worker"


async def test_many_workers_come_in_pages(native_api: NativeApi, service: Service) -> None:
    for _ in range(5):
        service.register(uuid.uuid4().bytes, WorkerInfo()).wait()
    pages = [(await native_api.get(f"/workers?start={start}&most=2"))["workers"] for start in (0, 2, 4, 6)]
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert len({item["id"] for page in pages for item in page}) == 5
    for query in ("most=0", "most=501", "start=-1", "start=x", "from=1"):
        assert (await native_api("GET", f"/workers?{query}")).code == "bad_input"


BAD_IDS = ["x", str(uuid.UUID(int=0)), "%2e%2e", f"{WORKER}0", "%d0%ba"]


async def test_ids_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for worker in BAD_IDS:
        path = f"/workers/{worker}"
        for reply in (
            await native_api("PUT", path, {}),
            await native_api("POST", f"{path}/beat"),
            await native_api("DELETE", path),
        ):
            assert (reply.status, reply.code) == (400, "bad_input")
            assert "job id" not in reply.value["detail"]
        assert service.workers().wait() == [], worker


BAD_WORKERS = [
    ({"host": "x" * 256}, 400),
    ({"host": "é" * 200}, 413),
    ({"name": "a\nb"}, 400),
    ({"pid": -1}, 400),
    ({"slots": 1_000_001}, 400),
    ({"slots": "4"}, 400),
    ({"queues": "mail"}, 400),
    ({"queues": [""]}, 400),
    ({"queues": [f"q{at}" for at in range(101)]}, 400),
    ({"beat_ms": 99}, 400),
    ({"beat_ms": None}, 400),
    ({"colour": "red"}, 400),
    ([], 400),
]


async def test_what_a_worker_cannot_be_is_refused(native_api: NativeApi, service: Service) -> None:
    for body, status in BAD_WORKERS:
        assert (await native_api("PUT", f"/workers/{WORKER}", body)).status == status, body
        assert service.workers().wait() == [], body


async def test_a_worker_serves_the_queues_of_its_token(native_api: NativeApi, service: Service) -> None:
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.WORK}), queues=("mail",))).wait().text
    reply = await native_api("PUT", f"/workers/{WORKER}", {"queues": ["mail", "billing"]}, token=token)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert service.workers().wait() == []
    await native_api.ok("PUT", f"/workers/{WORKER}", {"queues": ["mail"]}, token=token)
    await native_api.ok("POST", f"/workers/{WORKER}/beat", token=token)
    await native_api.ok("DELETE", f"/workers/{WORKER}", token=token)


async def test_who_works_where_is_about_all_queues(native_api: NativeApi, service: Service) -> None:
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail",))).wait().text
    assert (await native_api("GET", "/workers", token=token)).code == "forbidden"


async def test_a_beat_that_names_jobs_hears_of_leases_that_it_does_not_name(
    native_api: NativeApi, service: Service, store: Store
) -> None:
    await native_api.ok("PUT", f"/workers/{WORKER}", {"beat_ms": 60_000})
    named, unnamed = hold(service), hold(service)
    store.clock_offset_ms += 3_000
    held = [format_id(named), format_id(unnamed)]
    assert await native_api.ok("POST", f"/workers/{WORKER}/beat", {"held": held}) == {"is_asked_to_stop": False}
    answer = await native_api.ok("POST", f"/workers/{WORKER}/beat", {"held": held[:1]})
    [lease] = answer["unclaimed"]
    assert lease["id"] == held[1]
    assert await native_api.ok("POST", f"/jobs/{lease['id']}/release", {"token": lease["token"]}) == {"state": "queued"}
    assert await native_api.ok("POST", f"/workers/{WORKER}/beat", {"held": held[:1]}) == {"is_asked_to_stop": False}
    assert (await native_api("POST", f"/workers/{WORKER}/beat", {"held": ["x"]})).status == 400


async def test_a_worker_is_asked_to_end(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", f"/workers/{WORKER}", {})
    assert await native_api.ok("POST", f"/workers/{WORKER}/stop") == {"was_asked": False}
    assert await native_api.ok("POST", f"/workers/{WORKER}/stop") == {"was_asked": True}
    assert await native_api.ok("POST", f"/workers/{WORKER}/beat") == {"is_asked_to_stop": True}
    assert service.audits().wait().entries[0].target == str(WORKER)
