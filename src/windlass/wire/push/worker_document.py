"""OpenAPI document of the HTTP API that a push worker serves. The server and `PushWorker` publish it."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from windlass.core.validation.bounds import NAME_MAX
from windlass.core.validation.push import BUSY_PAUSE_MAX
from windlass.wire.encoding import MSGPACK

WORKER_ID = "worker-id"
SCHEMA = "PushedJob"
_ABOUT = (
    "The HTTP API of a LightJQ worker, below the URL that it registers with `POST /lightjq/worker`. The master is the "
    "client: it pushes a job, and the worker answers at once, before it runs the job. The worker reports the end of "
    "the job to the master with `POST /lightjq/done`. The master ignores the bodies of answers, does not follow "
    "redirects, and waits five seconds for an answer. It may push a job again whose answer was lost."
)
PUSHED_JOB: dict[str, Any] = {
    "title": SCHEMA,
    "type": "object",
    "description": "A job to run. Further fields may be added.",
    "required": ["id", "job_id", "name", "argument", "timeout"],
    "properties": {
        "id": {"type": "string", "format": "uuid", "description": "The id of the job."},
        "job_id": {"type": "string", "format": "uuid", "description": "The same as `id`."},
        "name": {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "description": "The kind of job."},
        "argument": {
            "description": "Any MessagePack value: a map for jobs of LightJQ, and what another producer has stored "
            "for other jobs. Values that are neither JSON nor MessagePack come as binary."
        },
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds from the acceptance on. After it the master takes the attempt as failed.",
        },
    },
}
_REFUSED = "The master offers the job to another worker. When every worker has refused it, the attempt has failed."
RESPONSES: dict[str, Any] = {
    "202": {"description": "Accepted. The timeout of the job begins, and the worker reports its end later."},
    "2XX": {"description": "The same as 202."},
    "400": {"description": f"The request is not a valid job. {_REFUSED}"},
    "404": {
        "description": "This worker does not know the name. The master offers the job to other workers and no job of "
        "that name to this worker until it registers again. No attempt is spent."
    },
    "410": {
        "description": "The worker in the header does not exist here; it has registered again, or another program has "
        "its address. The master removes that worker, and its jobs go to other workers."
    },
    "413": {"description": f"The job is too large for this worker. {_REFUSED}"},
    "415": {"description": f"This worker does not read the media type of the body. {_REFUSED}"},
    "422": {"description": f"The argument is not valid for this name. {_REFUSED}"},
    "429": {
        "description": "Busy. The job goes back to its queue and no attempt is spent. The master pushes nothing to "
        "this worker for a pause: that of `Retry-After`, or one that grows from 0.25 to 4 seconds.",
        "headers": {
            "Retry-After": {
                "description": f"Seconds, at most {BUSY_PAUSE_MAX // 1000}.",
                "schema": {"type": "integer", "minimum": 0},
            }
        },
    },
    "5XX": {
        "description": "An error of the worker. The job goes back to its queue and no attempt is spent. The master "
        "pushes nothing to this worker for a pause that grows from 0.25 to 4 seconds, then tries it with one job. "
        "After ten seconds of errors it removes the worker."
    },
    "default": {"description": "Any other status, and no answer, is taken as an error of the worker like 5XX."},
}
_EXAMPLE = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "job_id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "name": "send",
    "argument": {"order": 7},
    "timeout": 30,
}


def push_operation(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe the push of a job, with the given schema or reference of its body."""
    return {
        "operationId": "worker_job",
        "summary": "Push of a job to a worker, at <url>/worker-job",
        "security": [],  # workers have no tokens of the server
        "parameters": [
            {
                "name": WORKER_ID,
                "in": "header",
                "required": True,
                "description": "The id that the worker got at its registration. A worker that has registered again "
                "answers 410 to its former id.",
                "schema": {"type": "string", "format": "uuid"},
            }
        ],
        "requestBody": {"required": True, "content": {MSGPACK: {"schema": schema, "example": _EXAMPLE}}},
        "responses": copy.deepcopy(RESPONSES),
    }


def build_worker_document(version: str, url: str = "") -> dict[str, Any]:
    """Build the document. `url` is the base URL of a worker, if it is known."""
    operation = push_operation({"$ref": f"#/components/schemas/{SCHEMA}"})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LightJQ worker",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [_server(url)],
        "tags": [{"name": "Jobs"}],
        "paths": {"/worker-job": {"post": {**operation, "tags": ["Jobs"]}}},
        "components": {"schemas": {SCHEMA: copy.deepcopy(PUSHED_JOB)}},
    }


def _server(url: str) -> dict[str, Any]:
    if url:
        return {"url": url}
    variable = {"default": "http://127.0.0.1:9000", "description": "The URL that the worker registers."}
    return {"url": "{worker}", "variables": {"worker": variable}}


def encode_worker_document(version: str, url: str = "") -> bytes:
    return msgspec.json.encode(build_worker_document(version, url))
