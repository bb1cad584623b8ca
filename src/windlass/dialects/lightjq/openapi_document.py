"""OpenAPI document of LightJQ, built from its routes. Paths are relative to /lightjq."""

from __future__ import annotations

import copy
from typing import Any

from windlass.web.app.router import Route
from windlass.web.docs.dialect_document import TAG, build_dialect_document, serve_document
from windlass.web.docs.openapi import DocumentInfo, Examples
from windlass.wire.encoding import MSGPACK

from .protocol import PREFIX, make_routes

routes = make_routes(TAG)

_ABOUT = DocumentInfo(
    "LightJQ",
    "A job queue with MessagePack bodies that pushes jobs to its workers over HTTP. Worker API: a worker serves "
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
    "summary": "Push of a job to a worker, at <url>/worker-job",
    "security": [],  # workers have no tokens of this server
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
        "202": {"description": "Accepted. The worker reports the outcome with POST /done."},
        "400": {"description": "Invalid. The job is offered to another worker."},
        "404": {"description": "This worker does not know the name."},
    },
}


def self_description(served: list[Route]) -> dict[str, Any]:
    webhooks = {"worker-job": {"post": copy.deepcopy(_WORKER_JOB)}}
    return {**build_dialect_document(served, _EXAMPLES, _ABOUT), "webhooks": webhooks}


serve_document(routes, "lightjq", self_description)
