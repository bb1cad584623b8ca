"""Random requests generated from the LightJQ document: no 5xx, and no answer outside of the document."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, reject, settings
from schemathesis import checks

from tests.dialects.lightjq.lightjq_client import QUEUE
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from tests.support.threaded_server import threaded_server
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.dialects.lightjq.openapi_document import self_description
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app.router import Router

TOKEN = "a-token-that-opens-everything"  # noqa: S105 (an example)
WORKER = bytes(15) + b"w"
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


@schemathesis.deserializer("application/msgpack")
def _from_msgpack(ctx: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


api = schemathesis.openapi.from_dict(self_description(Router(ROUTES).routes))
api.config.phases.coverage.enabled = False  # every edge of every field: minutes


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[str]]]:
    """Run a server with jobs, some of them leased, so that ids exist."""
    with EngineProcess("valkey") as engine:
        store = make_store(engine)
        service = Service(store)
        payload = Blob(b"\x80", Codec.MSGPACK)
        service.enqueue([NewJob(queue=QUEUE, name="n", payload=payload) for _ in range(60)]).wait()
        service.register(WORKER, WorkerInfo(queues=(QUEUE,), slots=100)).wait()
        jobs = service.take(Take(queues=(QUEUE,), most=50, lease_ms=3_600_000, worker=WORKER)).wait().jobs
        with threaded_server(store, Settings(port=0, bedrock_port=None, roles="api", token=TOKEN)) as url:
            yield f"{url}/lightjq", [format_id(job.id) for job in jobs]


@api.parametrize()
@settings(
    max_examples=examples(usual=8, deep=50),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)
def test_every_answer_is_described(case: schemathesis.Case, served: tuple[str, list[str]]) -> None:
    url, jobs = served
    chosen = random.Random(repr(case.path_parameters) + repr(case.body))
    if "id" in (case.path_parameters or {}) and chosen.random() < 0.5:
        case.path_parameters["id"] = chosen.choice(jobs)
    if isinstance(case.query, dict) and isinstance(case.query.get("timeout"), int):
        case.query["timeout"] %= 2
    elif case.path.endswith("/polling"):
        case.query = {"timeout": 0}
    if isinstance(case.body, dict) and "type" in case.body and chosen.random() < 0.7:
        case.body["job_id"] = case.body["id"] = chosen.choice(jobs)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if case.path == "/done":
        headers["worker-id"] = format_id(WORKER)
    case.call_and_validate(base_url=url, checks=CHECKED, headers=headers, timeout=20)
