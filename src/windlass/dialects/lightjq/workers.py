"""Registration of workers. The push dispatcher sends them jobs; their reports are in reports.py."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.callbacks.urls import URL_MAX
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.operations import WorkerInfo
from windlass.core.queue import DAY_MS
from windlass.core.validation.bounds import QUEUES_PER_TAKE
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKERS
from windlass.wire.encoding import MSGPACK

from .jobs import ensure_name_lanes
from .protocol import QUEUE, QueueName, make_routes, parse_worker_id
from .worker_url import check_reachable

routes = make_routes("Workers")

WORKER_ID = "worker-id"
NEEDS_WORKER = {
    "headers": {WORKER_ID: "The id from the registration of the worker."},
    "required_headers": (WORKER_ID,),
}
# LightJQ workers send no heartbeats. A worker with a URL is kept until it is unreachable, any other for a week.
PUSH_WORKER_TTL_MS, OTHER_WORKER_TTL_MS = 3650 * DAY_MS, 7 * DAY_MS


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker. Unknown fields are ignored."""

    name: Annotated[str, Meta(min_length=1, max_length=255, description="Names need not be unique.")]
    max_jobs: Annotated[int, Meta(ge=1, le=1_000_000, description="Jobs that the worker runs at once.")]
    url: Annotated[
        Annotated[str, Meta(max_length=URL_MAX)] | None,
        Meta(description="Base URL: jobs are posted to `<url>/worker-job`. nil: no jobs are pushed.", examples=[None]),
    ] = None
    queues: Annotated[
        list[QueueName],
        Meta(
            min_length=1, max_length=QUEUES_PER_TAKE, description="Jobs of these queues are pushed.", examples=[[QUEUE]]
        ),
    ] = msgspec.field(default_factory=lambda: [QUEUE])


class Registered(msgspec.Struct, frozen=True):
    worker_id: str


@routes.post(
    "/worker", operation="register_worker", roles=WORKERS, body=NewWorker, body_media=MSGPACK, response=Registered,
    response_media=MSGPACK, status=201, is_listed=False, refuses=(errors.TooLarge, errors.EngineError),
)  # fmt: skip
async def register_worker(context: RequestContext[NewWorker, None]) -> Registered:
    """Register a worker."""
    body, worker = context.body, uuid.uuid4().bytes
    queues = tuple(dict.fromkeys(body.queues))
    for queue in queues:
        context.check_queue(queue)
    info = WorkerInfo(name=body.name, slots=body.max_jobs, queues=queues, url=(body.url or "").rstrip("/"))
    operation = context.service.register(worker, info, beat_ms=PUSH_WORKER_TTL_MS if info.url else OTHER_WORKER_TTL_MS)
    if info.url:
        _check_share(context, info)
        await check_reachable(info.url, await context.state.policy.current())
    if QUEUE in queues:
        await ensure_name_lanes(context.state)
    await operation
    return Registered(format_id(worker))


def _check_share(context: RequestContext[Any, Any], info: WorkerInfo) -> None:
    """Raise BadInput if a partition of these queues would get no part of max_jobs (WorkerOperations.register)."""
    number = len({context.service.store.partition_of_queue(queue) for queue in info.queues})
    if info.slots < number:
        raise BadInput(
            f"These queues are in {number} partitions, which divide max_jobs; give at least {number}, or fewer queues."
        )


def parse_worker_header(context: RequestContext[Any, Any]) -> bytes:
    text = context.request.head.headers.get(WORKER_ID, "").strip()
    if not text:
        raise BadInput("The header worker-id is missing; send the id from the answer of POST /worker.")
    return parse_worker_id(text)


@routes.delete(
    "/worker", operation="remove_worker", status=204, roles=WORKERS, body_media=MSGPACK, response_media=MSGPACK,
    is_listed=False, refuses=(errors.UnknownWorker, errors.EngineError), **NEEDS_WORKER,
)  # fmt: skip
async def remove_worker(context: RequestContext[None, None]) -> None:
    """Remove a worker. Its jobs are given to other workers."""
    worker = parse_worker_header(context)
    await context.check_worker(worker, with_jobs=True)
    await context.service.forget(worker)


@routes.post(
    "/worker/beat", operation="beat_worker", status=204, roles=WORKERS, body_media=MSGPACK, response_media=MSGPACK,
    is_listed=False, refuses=(errors.UnknownWorker, errors.EngineError), **NEEDS_WORKER,
)  # fmt: skip
async def beat_worker(context: RequestContext[None, None]) -> None:
    """Check that the worker is still registered.

    A worker that was unreachable for a while is removed. It then has to register again."""
    worker = parse_worker_header(context)
    await context.check_worker(worker)
    await context.service.beat([worker]).one()
