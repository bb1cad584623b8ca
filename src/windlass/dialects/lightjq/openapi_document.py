"""OpenAPI documents of LightJQ: of its routes, with paths relative to /lightjq, and of the API of its workers."""

from __future__ import annotations

from typing import Any

from windlass import __version__
from windlass.web.app.router import Route
from windlass.web.docs.dialect_document import TAG, build_dialect_document, serve_document
from windlass.web.docs.openapi import DocumentInfo, Examples
from windlass.wire.push.worker_document import PUSHED_JOB, build_worker_document, push_operation

from .protocol import PREFIX, make_routes

routes = make_routes(TAG)
worker_routes = make_routes(TAG, "/worker")

_ABOUT = DocumentInfo(
    "LightJQ",
    "A job queue with MessagePack bodies that pushes jobs to its workers over HTTP. Worker API: a worker serves "
    "`POST /worker-job` below the URL that it registers; see `webhooks`, or the document of its own at "
    "`/worker/openapi.json`.",
    PREFIX,
)
_EXAMPLES = Examples(
    {
        "push_job": {"name": "send", "argument": {"order": 7}, "keep_result": True},
        "register_worker": {"name": "mailer", "max_jobs": 4, "url": "http://127.0.0.1:9000"},
        "report_done": {"type": "success", "job_id": "01890a5d-ac96-774b-bcce-b302099a8057", "result": 42},
        "set_constraint": {
            "name": "per customer",
            "matcher": {"name": {"prefix": "send"}},
            "rate": 2.5,
            "capacity": 5,
            "per": "customer",
        },
    },
    {"poll_job": {"timeout": 5}, "ui_jobs": {"status": "error"}},
)


def self_description(served: list[Route]) -> dict[str, Any]:
    webhooks = {"worker-job": {"post": push_operation(PUSHED_JOB)}}
    return {**build_dialect_document(served, _EXAMPLES, _ABOUT), "webhooks": webhooks}


def worker_description(_served: list[Route]) -> dict[str, Any]:
    return build_worker_document(__version__)


serve_document(routes, "lightjq", self_description)
serve_document(worker_routes, "lightjq_worker", worker_description)
