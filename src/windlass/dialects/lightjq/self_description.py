"""LightJQ's own OpenAPI document, made from its routes; paths are relative to /lightjq, as its clients know them."""

from __future__ import annotations

import asyncio
import copy
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ...web.encoding import JSON, MSGPACK
from ...web.messages import Response
from ...web.openapi import About, Examples, document
from ...web.routing import Ask, Office, Route, Routes
from .words import PREFIX, No, msgpack_words

routes = Routes(PREFIX, tag="About", words=msgpack_words, says=No)

YAML = "application/yaml"
_ABOUT = About(
    "LightJQ",
    "A job queue that speaks MessagePack and pushes jobs to its workers over HTTP. Worker-API: a worker serves "
    "`POST /worker-job` below the URL that it registers; see `webhooks`.",
    PREFIX,
)
_EXAMPLES = Examples(
    {
        "push_job": {"name": "send", "argument": {"order": 7}, "keep_result": True},
        "register_worker": {"name": "mailer", "max_jobs": 4, "url": "http://127.0.0.1:9000"},
        "report_done": {"type": "success", "job_id": "01890a5d-ac96-774b-bcce-b302099a8057", "result": 42},
        "set_constraint": {"matcher": {"name": "send"}, "rate": 2.5, "capacity": 5, "per": "customer"},
    },
    {"poll_job": {"timeout": 5}, "ui_jobs": {"status": "error"}},
)
_WORKER_JOB: dict[str, Any] = {
    "operationId": "worker_job",
    "summary": "A job is pushed to a worker, at <url>/worker-job",
    "requestBody": {
        "required": True,
        "content": {
            MSGPACK: {
                "schema": {
                    "type": "object",
                    "required": ["id", "job_id", "name", "argument", "timeout"],
                    "properties": {
                        "id": {"type": "string"},
                        "job_id": {"type": "string", "description": "The same as id."},
                        "name": {"type": "string"},
                        "argument": {},
                        "timeout": {"type": "number", "description": "Seconds."},
                    },
                }
            }
        },
    },
    "responses": {
        "202": {"description": "Accepted; its outcome goes to POST /done."},
        "400": {"description": "Invalid; it is offered to another worker."},
        "404": {"description": "This worker does not know the name."},
    },
}
_made: WeakKeyDictionary[Office, bytes] = WeakKeyDictionary()


def self_description(served: list[Route]) -> dict[str, Any]:
    ours = [
        msgspec.structs.replace(route, is_listed=True)
        for route in served
        if route.path.startswith(f"{PREFIX}/") and route.tag != routes.tag
    ]
    return {**document(ours, _EXAMPLES, _ABOUT), "webhooks": {"worker-job": {"post": copy.deepcopy(_WORKER_JOB)}}}


async def _document(office: Office) -> bytes:
    """Made beside the event loop, when somebody asks for the first time."""
    if office not in _made:
        served = list(office.routes)
        _made[office] = await asyncio.to_thread(lambda: msgspec.json.encode(self_description(served)))
    return _made[office]


@routes.get("/openapi.json", operation="lightjq_openapi", roles=None, media=JSON, is_listed=False)
async def openapi_json(ask: Ask[None, None]) -> Response:
    """This API as an OpenAPI 3.1 document."""
    return Response(200, await _document(ask.office), (("Cache-Control", "no-cache"),), JSON)


@routes.get("/openapi.yaml", operation="lightjq_openapi_yaml", roles=None, media=YAML, is_listed=False)
async def openapi_yaml(ask: Ask[None, None]) -> Response:
    """The same for those who ask for YAML: every JSON document is one."""
    return Response(200, await _document(ask.office), (("Cache-Control", "no-cache"),), YAML)
