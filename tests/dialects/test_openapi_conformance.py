"""Random requests made from the served OpenAPI document: no 5xx, no answer that it does not describe."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, reject, settings
from schemathesis import checks

from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from tests.support.threaded_server import threaded_server
from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, NewJob
from windlass.core.operations import Take
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app.router import Router
from windlass.web.docs.openapi import build_document

TOKEN = "a-token-that-opens-everything"  # noqa: S105 (an example)
CHECKED = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@schemathesis.serializer("application/msgpack")
def _to_msgpack(ctx: Any, value: Any) -> bytes:
    try:
        return value if isinstance(value, bytes) else msgspec.msgpack.encode(value, enc_hook=str)
    except OverflowError:  # a number that MessagePack has no form for
        reject()


@schemathesis.deserializer("application/msgpack", "application/problem+msgpack")
def _from_msgpack(ctx: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


# Endless by nature, or a text of its own: these have tests of their own.
api = schemathesis.openapi.from_dict(build_document(Router(ROUTES).routes)).exclude(
    operation_id=[
        "follow_events",
        "follow_job",
        "enqueue_stream",
        "events",
        "job_events",
        "connect_worker",
        "export",
        "import_lines",
    ]
)

api.config.phases.coverage.enabled = False  # every edge of every field: minutes


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """With jobs in it, some of them taken, so that ids and tokens lead somewhere. The id of a taken job is also that of
    a flow."""
    with EngineProcess("valkey") as engine:
        store = make_store(engine)
        service = Service(store)
        service.enqueue([NewJob(queue="q", name="n", payload=Blob(b"%d" % n)) for n in range(100)]).wait()
        taken = service.take(Take(queues=("q",), most=50, lease_ms=3_600_000)).wait().jobs
        for job in taken:
            steps = [NewJob(queue="f", name=step, flow=FlowRef(job.id, "flow", step)) for step in ("a", "b")]
            service.enqueue(steps, whole=True).wait()
        waiting = service.take(Take(queues=("q",), most=1)).wait().jobs
        with threaded_server(store, Settings(port=0, bedrock_port=0, roles="api", token=TOKEN)) as url:
            yield url, [{"id": format_id(job.id), "token": job.lease_token} for job in (*taken, *waiting)]


@api.parametrize()
@settings(
    max_examples=examples(usual=6, deep=50),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)
def test_every_answer_is_described(case: schemathesis.Case, served: tuple[str, list[dict[str, Any]]]) -> None:
    url, jobs = served
    _lead_somewhere(case, jobs)
    case.call_and_validate(base_url=url, checks=CHECKED, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)


def _lead_somewhere(case: schemathesis.Case, jobs: list[dict[str, Any]]) -> None:
    """Half of the requests are about a job that exists, with the right token; nobody waits long."""
    chosen = random.Random(repr(case.path_parameters) + repr(case.body))
    job = chosen.choice(jobs)
    if "id" in (case.path_parameters or {}) and chosen.random() < 0.5:
        case.path_parameters["id"] = job["id"]
    body = case.body if isinstance(case.body, dict) else {}
    for part in (case.query, body, body.get("take")):
        if isinstance(part, dict) and isinstance(part.get("wait_ms"), int):
            part["wait_ms"] %= 5
    if isinstance(case.body, dict) and "token" in case.body and chosen.random() < 0.5:
        case.body["token"] = job["token"]
