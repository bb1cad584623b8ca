"""Native routes of tasks: reports of workers, the list and the page of a task, and what a token sees of them."""

from __future__ import annotations

import uuid

import pytest

from tests.dialects.http_requests import NativeApi
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Take, WorkerInfo
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WORKER = uuid.UUID("01890a5d-ac96-7000-8000-b5c1d0b7a3f2")
HOUR_MS = 3_600_000


@pytest.fixture
def registered(service: Service) -> Service:
    info = WorkerInfo(host="h1", name="w1", queues=("mail", "video"), names=("send", "cut"))
    service.register(WORKER.bytes, info, beat_ms=HOUR_MS).wait()
    return service


async def report(native_api: NativeApi, number: int, *tasks: dict[str, object], token: str = "") -> int:
    answer = await native_api.ok("POST", f"/workers/{WORKER}/tasks", {"number": number, "tasks": tasks}, token=token)
    return int(answer["uncounted"])


def fail_one(service: Service, queue: str, name: str) -> None:
    service.enqueue([NewJob(queue=queue, name=name)]).one().wait()
    [job] = service.take(Take(queues=(queue,))).wait().jobs
    error = Blob(b'{"type": "CardError", "message": "declined"}')
    service.fail([Fail(id=job.id, token=job.lease_token, then="final", error=error)]).wait()


async def test_a_worker_reports_and_the_page_of_a_task_shows_it(native_api: NativeApi, registered: Service) -> None:
    fail_one(registered, "mail", "send")
    send = {"queue": "mail", "name": "send", "failed": 1, "retried": 2, "runs": [0, 0, 3, 1]}
    assert await report(native_api, 1, send) == 0
    assert await report(native_api, 1, send) == 0, "the same report counts once"
    found = await native_api.get("/tasks/send")
    figures = found["figures"]
    assert (figures["finished"], figures["failed"], figures["retried"], figures["cancelled"]) == (4, 1, 2, 0)
    assert figures["runs"] == [0, 0, 3, 1]
    assert (figures["run_p50_ms"], figures["run_p99_ms"]) == (1, 2)
    assert found["queues"] == ["mail"]
    assert found["workers"] == [{"id": str(WORKER), "name": "w1", "host": "h1", "queues": ["mail", "video"]}]
    assert [(group["count"], group["sample_error"]) for group in found["failures"]] == [(1, "CardError: declined")]
    assert found["has_all_failures"]
    assert sum(step["finished"] for step in found["steps"]) == 4


async def test_the_list_of_tasks_has_pages(native_api: NativeApi, registered: Service) -> None:
    await report(native_api, 1, {"queue": "video", "name": "cut", "runs": [5]})
    first = await native_api.get("/tasks?most=1")
    assert [(task["name"], task["workers"]) for task in first["tasks"]] == [("cut", 1)]
    assert first["tasks"][0]["figures"]["finished"] == 5
    second = await native_api.get(f"/tasks?most=1&after={first['after']}")
    assert [task["name"] for task in second["tasks"]] == ["send"]
    assert second["after"] == ""


async def test_an_unknown_task_is_empty_with_a_suggestion(native_api: NativeApi, registered: Service) -> None:
    found = await native_api.get("/tasks/sned")
    assert (found["suggestion"], found["workers"], found["figures"]["finished"]) == ("send", [], 0)


async def test_a_token_sees_and_reports_its_queues_only(native_api: NativeApi, registered: Service) -> None:
    fail_one(registered, "video", "send")
    roles = frozenset({Role.READ, Role.WORK})
    registered.create_token(NewToken(name="all", roles=frozenset({Role.ADMIN}))).wait()
    token = registered.create_token(NewToken(name="mailer", roles=roles, queues=("mail",))).wait().text
    everything = registered.create_token(NewToken(name="any", roles=roles)).wait().text
    sums = [{"queue": queue, "name": "send", "failed": 1} for queue in ("mail", "video")]
    await report(native_api, 1, *sums, token=everything)
    found = await native_api.get("/tasks/send", token=token)
    assert (found["figures"]["failed"], found["queues"], found["failures"]) == (1, ["mail"], [])
    assert found["workers"][0]["queues"] == ["mail"]
    [listed] = [task for task in (await native_api.get("/tasks", token=token))["tasks"] if task["name"] == "send"]
    assert (listed["figures"]["failed"], listed["queues"], listed["failures"]) == (1, ["mail"], 0)
    for tasks in (sums, sums[1:], sums[:1]):  # the worker of the last report serves another queue too
        refused = await native_api("POST", f"/workers/{WORKER}/tasks", {"number": 2, "tasks": tasks}, token=token)
        assert (refused.status, refused.code) == (403, "forbidden")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"number": 1, "tasks": []}, 400, "bad_input"),
        ({"number": 0, "tasks": [{"queue": "q", "name": "n"}]}, 400, "bad_input"),
        ({"number": 1, "tasks": [{"queue": "q", "name": "n", "runs": [0] * 130}]}, 400, "bad_input"),
        ({"number": 1, "tasks": [{"queue": "q", "name": "n"}]}, 404, "unknown_worker"),
    ],
)
async def test_wrong_reports_are_refused(native_api: NativeApi, body: object, status: int, code: str) -> None:
    refused = await native_api("POST", f"/workers/{WORKER}/tasks", body)
    assert (refused.status, refused.code) == (status, code)
