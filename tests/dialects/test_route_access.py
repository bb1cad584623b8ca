"""Every route with a token of other queues: made from the routes themselves and the examples of their documents, so
that none can be forgotten. Roles are test_native_roles.py's."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest

from windlass.core.access.tokens import NewToken, Role
from windlass.core.alerts.rule import AlertRule
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Callback, FlowRef, NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.core.stats.task_figures import TaskSums
from windlass.dialects.examples import EXAMPLE_ID, EXAMPLES
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.web.app.router import Route, Router
from windlass.web.docs.openapi import build_document

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ROUTED = Router(ROUTES).routes
SECRET = "S3CRET"  # noqa: S105 (it stands in everything that only others may see)
PATHS = {"id": EXAMPLE_ID, "queue": "mail", "name": "nightly", "version": "v", "file": "windlass.css", "folder": "nig"}
WANTED = {"queue": "mail", "queues": "mail", "q": "runs"}
# The palette repeats what is typed: the beginning of the secret finds all that has it in its name.
WANTED_OF = {"palette": {"q": SECRET[:-1]}}
HELD_S = 5.0
# What is answered otherwise than by 403, and why that gives nothing away. A new route that is not refused is looked at,
# and written down here.
LISTS = "what is of other queues is left out"
NONE = "there is none, for anybody"
HIDDEN = "it names a queue of others, and is answered as if there were none"
NO_WORKER = "without the header worker-id it concerns no worker (test_request_ids.py sends one)"
ANSWERED = {
    "POST /api/v1/jobs:stream": (200, "each line is refused for itself"),
    "GET /api/v1/actions": (200, LISTS),
    "GET /api/v1/actions/{id}": (404, NONE),
    "GET /api/v1/flows": (200, LISTS),
    "GET /api/v1/queues": (200, LISTS),
    "GET /api/v1/tasks": (200, LISTS),
    "GET /api/v1/tasks/{name}": (200, "sums over the queues of the token: here over none"),
    "GET /api/v1/limits": (200, LISTS),
    "GET /api/v1/alerts": (200, LISTS),
    "GET /api/v1/filters": (200, LISTS),
    "GET /api/v1/filters/{name}": (404, HIDDEN),
    "GET /api/v1/schedules": (200, LISTS),
    "GET /api/v1/info": (200, "versions, and nothing of queues"),
    "GET /metrics": (200, LISTS),
    "GET /": (200, LISTS),
    "GET /engine": (200, "nothing of queues"),
    "GET /flows": (200, LISTS),
    "GET /queues": (200, LISTS),
    "GET /tasks": (200, LISTS),
    "GET /tasks/{name}": (404, "nothing is known of the task in the queues of the token"),
    "GET /jobs/new": (200, "an empty form"),
    "POST /do/rename-filter": (404, HIDDEN),
    "GET /search": (200, LISTS),
    "GET /palette": (200, "entries of other queues are left out: pages are left, and the typed words"),
    "GET /actions": (200, LISTS),
    "GET /actions/{id}": (404, NONE),
    "GET /workers": (200, LISTS),
    "GET /schedules": (200, LISTS),
    "GET /lightjq/constraint": (200, LISTS),
    "GET /limits": (200, LISTS),
    "GET /alerts": (200, LISTS),
    "GET /limits/{name}": (404, "it is none of theirs"),
    "GET /callbacks": (200, LISTS),
    "DELETE /lightjq/worker": (400, NO_WORKER),
    "POST /lightjq/worker/beat": (400, NO_WORKER),
    "POST /lightjq/done": (400, NO_WORKER),
}


async def _populated(service: Service) -> int:
    """The queue `mail`, which all examples are about, in the middle of its day. Answers the token of a lease."""
    secret = Blob(msgspec.json.encode({"secret": SECRET}))
    for name in ("mail", "job_queue_mail", "lightjq", "downloads", SECRET):
        await service.enqueue([NewJob(queue=name, name=SECRET, payload=secret, tags=(SECRET,), lane=SECRET)] * 2)
    flow = FlowRef(parse_id(EXAMPLE_ID), SECRET, SECRET)
    await service.enqueue([NewJob(queue="mail", name=SECRET, payload=secret, flow=flow)] * 2, whole=True)
    callback = Callback(url=f"http://192.0.2.1/{SECRET}")
    jobs = [
        NewJob(queue="mail", name="fails", payload=secret, priority=-9, retry=Backoff(tries=1), callback=callback),
        NewJob(queue="mail", name="ends", payload=secret, priority=-8, result_ttl_ms=3_600_000),
        NewJob(
            queue="mail",
            name="runs",
            payload=secret,
            priority=-7,
            id=parse_id(EXAMPLE_ID),
            unique=SECRET,
            callback=callback,
        ),
    ]
    await service.enqueue(jobs)
    fails, ends, runs = (await service.take(Take(queues=("mail",), most=3, lease_ms=3_600_000))).jobs
    await service.fail([Fail(id=fails.id, token=fails.lease_token, error=secret)])
    await service.finish([Finish(id=ends.id, token=ends.lease_token, result=secret)])
    await service.update([Update(id=runs.id, token=runs.lease_token, progress=0.5, note=SECRET)])
    await service.log([Log(runs.id, runs.lease_token, [LogLine(await service.now(), "info", SECRET)])])
    await service.limit(Limit(name="nightly", matches=Matcher(queue="mail", payload={"x": SECRET}), running=5))
    constraint = Matcher(queue=Condition(in_=("mail", "mine")), name=Condition(glob=SECRET))
    await service.limit(Limit(name=f"lightjq-{SECRET}", matches=constraint, running=5))
    nightly = NewJob(queue="mail", name="n", payload=secret)
    for name in ("nightly", SECRET):
        await service.schedule(Schedule(name=name, job=nightly, every_ms=86_400_000))
    await service.register(
        parse_id(EXAMPLE_ID), WorkerInfo(host=SECRET, name=SECRET, queues=("mail",)), beat_ms=3_600_000
    )
    await service.pause("lightjq", reason=SECRET)
    await service.set_alert(AlertRule(name="nightly", kind="failures", pattern="mail", note=SECRET))
    await service.save_filter(SavedFilter(name="nightly", page="jobs", fields={"queue": "mail", "text": SECRET}))
    await service.save_filter(SavedFilter(name=SECRET, page="jobs", fields={"queue": "mail"}))
    await service.report_tasks(parse_id(EXAMPLE_ID), 1, [TaskSums(queue="mail", name=SECRET, failed=1)])
    return runs.lease_token


async def _everything(service: Service) -> list[bytes]:
    """All that is kept, beside when it was asked for; and the lease, which an export leaves out. Sorted: an export
    follows the engine's scans, whose order changes when a table of the engine grows."""
    lines = [line async for line in service.export()]
    held = (await service.job([parse_id(EXAMPLE_ID)]))[0]
    return sorted([*lines[1:], repr(held).encode()])


def _body(route: Route, token: int) -> bytes | None:
    if route.method not in ("POST", "PUT", "PATCH"):
        return None
    if route.body is None:
        form = {"queue": "mail", "name": "nightly", "confirmed": "1", "ids": EXAMPLE_ID, "id": EXAMPLE_ID}
        return urlencode(form | {"former": "nightly", "page": "jobs", "filters": "queue=mail"}).encode()
    paths = build_document([msgspec.structs.replace(route, is_listed=True)], EXAMPLES)["paths"]
    content = paths[route.path][route.method.lower()]["requestBody"]["content"]
    example = next(iter(content.values()))["example"]
    encode = msgspec.msgpack.encode if route.body_media.endswith("msgpack") else msgspec.json.encode
    return encode(_aimed(example, token))


def _aimed(example: Any, token: int) -> Any:
    """At what there is: with the right token, and without waiting."""
    known = {"token": token, "wait_ms": 0, "id": EXAMPLE_ID, "job_id": EXAMPLE_ID}
    if isinstance(example, dict):
        return {name: known.get(name, _aimed(value, token)) for name, value in example.items()}
    return [_aimed(one, token) for one in example] if isinstance(example, list) else example


async def _send_request(client: httpx.AsyncClient, route: Route, token: int) -> tuple[int, bytes]:
    """The status and the beginning of the answer: streams have no end."""
    wanted = WANTED | WANTED_OF.get(route.operation, {})
    known = {**wanted, **EXAMPLES.queries.get(route.operation, {}), "wait_ms": 0}
    query = {name: value for name, value in known.items() if name in _fields(route)}
    headers = {"content-type": route.body_media or "application/json", "accept": "*/*"}
    path = route.path.format(**PATHS)
    request = client.build_request(route.method, path, params=query, content=_body(route, token), headers=headers)
    answer = await client.send(request, stream=True)
    said = b""
    try:
        async with asyncio.timeout(0.3 if route.response_media.startswith("text/event-stream") else HELD_S):
            async for part in answer.aiter_raw():
                said += part
    except TimeoutError:
        pass
    await answer.aclose()
    return answer.status_code, said


def _fields(route: Route) -> tuple[str, ...]:
    return () if route.query is None else tuple(field.encode_name for field in msgspec.structs.fields(route.query))


async def test_a_token_of_other_queues_sees_and_changes_nothing(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dashboard.routes.ENGINE_TIMEOUT_S", 30.0)  # a busy machine is no engine that is away
    token = await _populated(service)
    roles = frozenset({Role.READ, Role.PRODUCE, Role.WORK})
    made = await service.create_token(NewToken(name="elsewhere", roles=roles, queues=("mine", "mine-*")))
    client.headers["authorization"] = f"Bearer {made.text}"
    before = await _everything(service)
    closed = [route for route in ROUTED if route.roles is not None]
    answers = {f"{route.method} {route.path}": await _send_request(client, route, token) for route in closed}
    assert [route for route, (_, said) in answers.items() if SECRET.encode() in said] == []
    assert await _everything(service) == before
    expected = {route: status for route, (status, _) in ANSWERED.items()}
    assert {route: status for route, (status, _) in answers.items() if status != 403} == expected


def test_the_documents_say_which_operations_need_a_token(engine: object) -> None:
    """What is listed as open is open, and what is listed at all is a route."""
    written = build_document(ROUTED)["paths"]
    for route in ROUTED:
        if route.is_listed:
            operation = written[route.path][route.method.lower()]
            assert operation["security"] == ([] if route.roles is None else [{"token": []}]), route.operation
            assert {"401", "403"} <= set(operation["responses"]) or route.roles is None, route.operation
