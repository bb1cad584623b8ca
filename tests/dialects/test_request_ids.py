"""Every field of a request that can hold an id, with the id of something in another queue. The fields are read from the
routes and their schemas: a new text field must be declared here as an id or as none, and a new id is probed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec
import msgspec.inspect as shapes
import pytest

from tests.dialects.sample_jobs import bearer, put
from windlass.core.access.tokens import Role
from windlass.core.ids import format_id, parse_id
from windlass.core.job import FlowRef, NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.dialects.examples import EXAMPLES
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.web.app.router import Route, Router
from windlass.web.docs.openapi import build_document

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

SECRET = "S3CRET"  # noqa: S105 (part of the name of the other queue, which no answer may tell)
OTHERS = f"{SECRET}-queue"
# An admin token is for all queues (test_tokens.py): these roles are what a token for some queues can have.
SCOPED = frozenset({Role.READ, Role.PRODUCE, Role.WORK})
OPEN = [route for route in Router(ROUTES).routes if route.roles is not None and route.roles & SCOPED]

JOB_IDS = {"body id", "body job_id", "body parent", "body after", "body held", "body children", "query alias",
           "query copy", "query q", "form id", "form ids", "path id"}  # fmt: skip
FLOW_IDS = {"body id of a flow", "form id of a flow", "path id of a flow"}
WORKER_IDS = {"body worker", "header worker-id", "path id of a worker"}
# Text that names nothing by an id, or names it within a queue that is checked. Only an admin of all queues may name a
# limit (native/access/test_caps.py).
NO_IDS = {
    "body all_but", "body destination", "body error_base64", "body finished_at", "body glob", "body headers",
    "body host", "body lane", "body lease_rule", "body level", "body limit", "body message", "body name", "body names",
    "body note", "body only", "body python", "body version",
    "body payload_base64", "body queue", "body queues", "body reason", "body repeat", "body request_id",
    "body result_base64", "body signal", "body schema_base64",
    "body step", "body tags", "body index", "body text", "body trace", "body type", "body unique", "body url",
    "body value_base64", "body base64", "body fields", "body former", "form page", "form former",
    "form filters",
    "query before", "query cursor", "query error", "query error_shape", "query key", "query lanes", "query name",
    "query order", "query position", "query queue", "query search", "query shape", "query since", "query state",
    "query preset", "query rule", "query tag", "query text", "query where", "query trail", "query after",
    "query signal",
    "form attempts", "form back", "form csrf", "form lane", "form name", "form payload", "form priority",
    "form queue", "form tags", "form when", "form answer", "form input", "form schema", "form request_id",
    "form signal", "form value",
    "header Idempotency-Key", "header Last-Event-ID", "path name", "path queue",
}  # fmt: skip

TAKEN = "an id is used once: the job is refused, and nothing is told of the one that has the id"
TOGETHER = "jobs of a flow are enqueued by jobs:whole only"
# What is answered otherwise than by 403, and why that gives nothing away.
ANSWERED = {
    "POST /api/v1/jobs body id": (409, TAKEN),
    "POST /api/v1/jobs:whole body items.0.id": (409, TAKEN),
    "POST /api/v1/jobs:batch body items.0.id": (200, TAKEN),
    "POST /api/v1/jobs:stream body id": (200, TAKEN),
    "POST /api/v1/jobs body flow.id": (400, TOGETHER),
    "POST /api/v1/jobs:batch body items.0.flow.id": (400, TOGETHER),
    "POST /api/v1/jobs:stream body flow.id": (200, TOGETHER),
    "POST /api/v1/jobs:whole body items.0.flow.id": (409, TAKEN),
    "POST /api/v1/jobs:stream body parent": (200, "the line is refused with 403"),
    "POST /api/v1/jobs:stream body after.0": (200, "the line is refused with 403"),
    "GET /api/v1/actions/{id} path id": (404, "a job is no action"),
    "GET /actions/{id} path id": (404, "a job is no action"),
    "POST /api/v1/workers/{id}/beat body held.0": (200, "ids are only compared with the leases of the worker itself"),
    "GET /search query q": (200, "it is not found"),
    "GET /palette query q": (200, "it is not found"),
    "GET /api/v1/jobs query alias": (200, "it is not found"),
    "GET /api/v1/flows query alias": (200, "it is not found"),
    "POST /lightjq/done header worker-id": (409, "the worker is compared with the one that holds the job"),
}


# Where an own job that runs is answered by 404, too.
HAS_NONE = {
    "GET /api/v1/actions/{id} path id",
    "GET /actions/{id} path id",
    "GET /jobs/{id}/result path id",
    "GET /jobs/{id}/step path id",
}


FLOWS_ONLY_WHOLE = {"POST /api/v1/jobs body flow.id", "POST /api/v1/jobs:batch body items.0.flow.id"}


class RequestField(NamedTuple):
    """Where a request holds a text."""

    route: Route
    kind: str  # body, query, form, header or path
    path: tuple[Any, ...]

    @property
    def field(self) -> str:
        name = [str(part) for part in self.path if part != 0][-1]
        owner = self._owner if name == "id" else ""
        return f"{self.kind} {name}{owner and f' of a {owner}'}"

    @property
    def _owner(self) -> str:
        """What an id belongs to, if not to a job."""
        if self.kind == "path":
            return next((noun for noun in ("worker", "flow") if f"/{noun}s/" in self.route.path), "")
        return "flow" if "flow" in self.path or self.route.path.endswith("-flow") else ""

    def __str__(self) -> str:
        return f"{self.route.method} {self.route.path} {self.kind} {'.'.join(map(str, self.path))}"


def _texts(kind: shapes.Type, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all texts of a type."""
    if isinstance(kind, shapes.Metadata):
        yield from _texts(kind.type, path)
    elif isinstance(kind, shapes.StructType):
        for field in kind.fields:
            yield from _texts(field.type, (*path, field.encode_name))
    elif isinstance(kind, shapes.ListType | shapes.VarTupleType | shapes.SetType | shapes.FrozenSetType):
        yield from _texts(kind.item_type, (*path, 0))
    elif isinstance(kind, shapes.UnionType):
        for one in kind.types:
            yield from _texts(one, path)
    elif isinstance(kind, shapes.DictType):
        yield from _texts(kind.value_type, path)
    elif isinstance(kind, shapes.StrType | shapes.BytesType):
        yield path


def _places(route: Route) -> Iterator[RequestField]:
    for kind, type_ in (("body", route.body), ("query", route.query), ("form", route.form)):
        if type_ is not None:
            yield from (RequestField(route, kind, path) for path in dict.fromkeys(_texts(shapes.type_info(type_))))
    yield from (RequestField(route, "header", (name,)) for name in route.headers)
    yield from (RequestField(route, "path", (name,)) for name in route.names)


PLACES = [place for route in OPEN for place in _places(route)]
PROBED = [place for place in PLACES if place.field in JOB_IDS | WORKER_IDS | FLOW_IDS]


def test_every_text_of_a_request_is_declared(engine: object) -> None:
    """A field of a new name fails here: say whether it can hold an id. If it can, it is probed below."""
    assert {place.field for place in PLACES} == JOB_IDS | WORKER_IDS | FLOW_IDS | NO_IDS


class Party(NamedTuple):
    """What a request is about: a running job with its lease, a worker, and a flow."""

    job: str
    token: int
    worker: str
    flow: str

    def id_for(self, field: str) -> str:
        return self.worker if field in WORKER_IDS else self.flow if field in FLOW_IDS else self.job


async def _party(service: Service, queue: str, worker: bytes) -> Party:
    await service.register(worker, WorkerInfo(queues=(queue,)), beat_ms=3_600_000)
    await put(service, queue=queue, name="n")
    (job,) = (await service.take(Take(queues=(queue,), worker=worker))).jobs
    flow_id = service.store.new_id(queue)
    flow = [NewJob(queue=queue, name="n", flow=FlowRef(flow_id, queue, queue), delay_ms=3_600_000)]
    await service.enqueue(flow, whole=True)
    return Party(format_id(job.id), job.lease_token, format_id(worker), format_id(flow_id))


async def _own(service: Service, place: RequestField) -> Party:
    queue = "lightjq" if place.route.path.startswith("/lightjq") else "mine"
    await service.configure(queue, {"name_lanes": False})
    return await _party(service, queue, b"m" * 16)


def _aimed(example: Any, own: Party) -> Any:
    """An example of the documents as a token for the queue `mine` may send it."""
    known: dict[str, Any] = {"token": own.token, "wait_ms": 0, "id": own.job, "job_id": own.job, "queue": "mine",
                             "queues": ["mine"], "worker": own.worker}  # fmt: skip
    if isinstance(example, dict):
        return {name: known.get(name, _aimed(value, own)) for name, value in example.items()}
    return [_aimed(one, own) for one in example] if isinstance(example, list) else example


def _example(route: Route, own: Party) -> Any:
    if route.body is None:
        return None
    paths = build_document([msgspec.structs.replace(route, is_listed=True)], EXAMPLES)["paths"]
    content = paths[route.path][route.method.lower()]["requestBody"]["content"]
    return _aimed(copy.deepcopy(next(iter(content.values()))["example"]), own)


def _put(body: Any, path: tuple[Any, ...], value: str, token: int) -> None:
    """Set one text of a body, with the objects and lists that lead to it. An object of a list is about a lease."""
    for part, following in pairwise(path):
        if part == 0:
            body = body[0]
        else:
            default: Any = [{"token": token}] if following == 0 and len(path) > 2 else [] if following == 0 else {}
            body = body.setdefault(part, default) or body[part]
    if path[-1] == 0:
        body[:] = [value]
    else:
        body[path[-1]] = value


def _wait_for_children(body: Any) -> None:
    """Make the waits of an example waits for children: others name no jobs."""
    for report in body.get("items", [body]):
        report["waits"] = [{"name": "gather", "kind": "children"}]


class RequestOutcome(NamedTuple):
    status: int
    said: bytes


async def _send(client: httpx.AsyncClient, place: RequestField, value: str, own: Party) -> RequestOutcome:
    """Send what the route wants about our own job, but for one place."""
    route = place.route
    names = {"id": own.id_for(RequestField(route, "path", ("id",)).field), "queue": "mine", "name": "n"}
    headers = {"content-type": route.body_media or "application/json", "accept": "*/*"}
    query: dict[str, Any] = EXAMPLES.queries.get(route.operation, {}) | {"wait_ms": 0, "timeout": 0, "queue": "mine"}
    body = _example(route, own)
    form = {"queue": "mine", "name": "n", "payload": "{}", "confirmed": "1", "signal": "approval", "value": "1"}
    if route.operation == "report_done":
        body = {"type": "success", "job_id": own.job}
    if "worker-id" in route.headers:
        headers["worker-id"] = own.worker
    if place.kind == "body":
        if route.operation in ("enqueue", "enqueue_many", "enqueue_stream", "enqueue_whole"):
            body = {"queue": "mine", "name": "n"}
            body = {"items": [body]} if "items" in place.path else body
        if route.operation == "report_done":
            body = {"type": "success"}
        if "children" in place.path:
            _wait_for_children(body)
        _put(body, place.path, value, own.token)
    elif place.kind == "path":
        names |= {place.path[0]: value}
    elif place.kind == "header":
        headers |= {place.path[0]: value}
    elif place.kind == "query":
        # An alias is combined with a queue only, and names jobs of all queues without one.
        query = {} if place.path[0] == "alias" else query
        query |= {place.path[0]: value}
    else:
        form |= {place.path[0]: value}
    known = () if route.query is None else [field.encode_name for field in msgspec.structs.fields(route.query)]
    encode = msgspec.msgpack.encode if route.body_media.endswith("msgpack") else msgspec.json.encode
    content = urlencode(form).encode() if route.form else None if body is None else encode(body)
    request = client.build_request(
        route.method, route.path.format(**names), params={name: query[name] for name in query if name in known},
        content=content, headers=headers,
    )  # fmt: skip
    return await _answer(client, request, is_stream=route.response_media.startswith("text/event-stream"))


async def _answer(client: httpx.AsyncClient, request: httpx.Request, *, is_stream: bool) -> RequestOutcome:
    """The status and the beginning of the answer: streams of events have no end, and begin with all they tell."""
    answer = await client.send(request, stream=True)
    said = b""
    try:
        async with asyncio.timeout(30):
            async for part in answer.aiter_raw():
                said += part
                if is_stream:
                    break
    finally:
        await answer.aclose()
    return RequestOutcome(answer.status_code, said)


@pytest.fixture
async def scoped(client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    """A client with a token for some queues."""
    monkeypatch.setattr("windlass.dashboard.routes.ENGINE_TIMEOUT_S", 30.0)  # a busy machine is no engine that is away
    client.headers.update(await bearer(service, *SCOPED, queues=("mine", "mine-*", "lightjq")))
    return client


async def test_an_id_of_another_queue_is_refused_wherever_it_stands(
    scoped: httpx.AsyncClient, service: Service
) -> None:
    theirs = await _party(service, OTHERS, b"t" * 16)
    before = await _known_of(service, theirs)
    answers = {}
    for place in PROBED:
        answers[str(place)] = await _send(scoped, place, theirs.id_for(place.field), await _own(service, place))
    assert [place for place, (_, said) in answers.items() if SECRET.encode() in said] == []
    expected = {place: status for place, (status, _) in ANSWERED.items()}
    assert {place: status for place, (status, _) in answers.items() if status != 403} == expected
    assert await _known_of(service, theirs) == before


async def _known_of(service: Service, theirs: Party) -> list[Any]:
    """All that a request could have changed."""
    job_id, worker = parse_id(theirs.job), parse_id(theirs.worker)
    about = [
        service.job([job_id]), service.list_members(job_id), service.worker(worker), service.stats([OTHERS]),
        service.flows(queues=(OTHERS,)),
    ]  # fmt: skip
    return [await one for one in about]


async def test_an_own_id_is_accepted_in_the_same_place(scoped: httpx.AsyncClient, service: Service) -> None:
    """Else the refusals above would show nothing."""
    refused = {}
    for place in PROBED:
        own = await _own(service, place)
        status, said = await _send(scoped, place, own.id_for(place.field), own)
        is_unknown = status == 404 and str(place) not in HAS_NONE
        if status == 400 and str(place) in FLOWS_ONLY_WHOLE:
            continue
        if status in (400, 403) or is_unknown or status >= 500:
            refused[str(place)] = status, said[:300]
    assert refused == {}
