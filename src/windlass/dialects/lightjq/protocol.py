"""Shared parts of the LightJQ protocol: the queue, error bodies, values and ids."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw

from windlass.core.errors import BadInput, UnknownJob, UnknownWorker, WindlassError
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import QUEUE_MAX
from windlass.core.validation.workers import check_worker_id
from windlass.web.app.content_negotiation import encoded_response
from windlass.web.app.router import Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import MSGPACK, Encoding
from windlass.wire.problems import headers_of, status_for

PREFIX = "/lightjq"
QUEUE = "lightjq"  # of jobs and workers that name none
NIL = Raw(b"\xc0")

Value: TypeAlias = Annotated[Raw, Meta(description="Any value.", examples=[{"order": 7}])]
QueueName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=QUEUE_MAX, examples=[QUEUE])]
JobId: TypeAlias = Annotated[str, Meta(examples=["01890a5d-ac96-774b-bcce-b302099a8057"])]


class No(msgspec.Struct, frozen=True):
    """Refusal of a request. `error` is a stable code, `message` a text for people."""

    error: str
    message: str


def format_error_as_msgpack(error: WindlassError, _encoding: Encoding) -> Response:
    """Format an error as MessagePack, whatever the client accepts."""
    body = No(error.code, str(error))
    return Response(status_for(error), msgspec.msgpack.encode(body), headers_of(error), MSGPACK)


def format_error_as_accepted(error: WindlassError, encoding: Encoding) -> Response:
    return encoded_response(status_for(error), No(error.code, str(error)), encoding, headers_of(error))


def make_routes(tag: str, below: str = "") -> Routes:
    return Routes(PREFIX + below, tag=tag, error_formatter=format_error_as_msgpack, error_body=No)


def check_value(field: str, value: Raw) -> bytes:
    """Return the bytes of a value. Raw values were not decoded before, so they are checked here."""
    try:
        msgspec.msgpack.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{field} is not a valid MessagePack value: {error}.") from error
    return bytes(value)


# A malformed id is answered like an unknown id.


def parse_job_id(text: str) -> bytes:
    try:
        return parse_id(text)
    except BadInput as error:
        raise UnknownJob from error


def parse_worker_id(text: str) -> bytes:
    try:
        worker = parse_id(text)
        check_worker_id(worker)
    except BadInput as error:
        raise UnknownWorker from error
    return worker
