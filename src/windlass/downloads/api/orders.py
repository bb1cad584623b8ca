"""POST /download and POST /retry: enqueue downloads, and redeliver given-up callbacks."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from typing import Annotated
from weakref import WeakSet

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.callbacks.callback import GIVEN_UP_KEPT_MS
from windlass.core.errors import BadInput, Refusal, TooLarge, UniqueConflict, UnknownCallback, UnknownLimit, WrongState
from windlass.core.ids import number_of_download_id
from windlass.core.job import Blob, NewJob
from windlass.core.retry import Backoff
from windlass.downloads.worker.order import CRASHES_MAX, NAME, QUEUE
from windlass.service import Service
from windlass.web.app.app_state import AppState
from windlass.web.app.problems import InternalError
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import PRODUCERS

from .aggregation import cap_of, lane_of, prepare
from .order_form import OrderForm, ParsedOrder, parse_order
from .refusals import routes_of

routes = routes_of("Downloads")

TRIES = 3  # to find a free id
ID_MAX = 128
_prepared: WeakSet[AppState] = WeakSet()


class Ordered(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="14 characters.", examples=["Uk9bZl8xR2FvbnA"])]


def new_download_id() -> str:
    return urlsafe_b64encode(secrets.token_bytes(10)).decode().rstrip("=")


def job_of(order: ParsedOrder, download_id: str) -> NewJob:
    payload = msgspec.json.encode({"id": download_id, **order.fields})
    return NewJob(
        queue=QUEUE,
        name=NAME,
        payload=Blob(payload),
        lane=lane_of(order.aggregation),
        unique=download_id,
        unique_check="refuse",
        unique_while_kept=True,
        # The download worker sets the delay of a retry; this policy only bounds the number of crashes.
        retry=Backoff(tries=1 + order.max_retries + CRASHES_MAX, base_ms=0, jitter=0),
        result_ttl_ms=GIVEN_UP_KEPT_MS,
        callback=order.callback,
        cap=cap_of(order.limit, order.proxy),
    )


@routes.post(
    "/download", operation="download", roles=PRODUCERS, body=OrderForm, body_media="application/json",
    response=Ordered, response_media="application/json", status=201,
    refuses=(TooLarge, errors.QueueFull, errors.EngineError),
)  # fmt: skip
async def download(context: RequestContext[OrderForm, None]) -> Ordered:
    """Download a file and send a callback.

    A processor fetches the file. The first job of an aggregation sets the number of its concurrent downloads. The
    callback reports the outcome. Content-Type and Accept are ignored."""
    context.check_queue(QUEUE)
    order = parse_order(context.body)
    await _prepare(context.state)
    return Ordered(await _enqueue(context.state, order))


async def _prepare(state: AppState) -> None:
    if state not in _prepared:
        await prepare(state.service)
        _prepared.add(state)


async def _enqueue(state: AppState, order: ParsedOrder) -> str:
    for _ in range(TRIES):
        download_id = new_download_id()
        try:
            await state.batcher.enqueue(job_of(order, download_id))
            return download_id
        except UniqueConflict:
            continue
        except UnknownLimit:  # the limit was removed
            await prepare(state.service)
    raise InternalError("Could not find a free id; try again.")


async def find_job(service: Service, download_id: str) -> bytes | None:
    """Return the id of the job with a download id, which is its unique key or made from its number. None: there is no
    such job in the queue."""
    if len(download_id) > ID_MAX or not download_id.isprintable():
        return None
    held = await service.holder(QUEUE, download_id)
    number = number_of_download_id(download_id)
    if held is not None or number is None:
        return held
    (found,) = await service.find_numbers([number])
    if isinstance(found, Refusal) or await service.queue_of([found]) != [QUEUE]:
        return None
    return found


@routes.post(
    "/retry/{name}", operation="retry_callback", roles=PRODUCERS, status=204,
    refuses=(BadInput, TooLarge, errors.EngineError),
)  # fmt: skip
async def retry_callback(context: RequestContext[None, None]) -> None:
    """Redeliver a given-up callback.

    It is due at once, with a full set of attempts. 400: there is no such download, or its callback was not given
    up."""
    context.check_queue(QUEUE)
    job_id = await find_job(context.service, context.path["name"])
    if job_id is None:
        raise BadInput("There is no download of this id; it may have been delivered.")
    try:
        await context.service.redeliver([job_id]).one()
    except (UnknownCallback, WrongState) as error:
        raise BadInput("The callback of this download has not failed; only one that has can be tried again.") from error


@routes.post(
    "/retry/", operation="retry_callback_without_id", roles=PRODUCERS, status=204, is_listed=False, refuses=(BadInput,)
)
async def retry_callback_without_id(context: RequestContext[None, None]) -> None:
    """Refuse an empty id. A named path segment is never empty, so this needs its own route."""
    context.check_queue(QUEUE)
    raise BadInput("The path has no id: POST /retry/<id>, with the id that POST /download has answered.")
