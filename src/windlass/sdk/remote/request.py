"""Requests as data, and the meaning of their responses. No I/O; the sync and the async session share it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from windlass.core import errors
from windlass.core.errors import REFUSALS, EngineError, EngineUnavailable, EngineUnsuitable, Refusal, WindlassError
from windlass.core.validation.bounds import MIB, PAYLOAD_MAX, TAKE_MAX
from windlass.wire.admin import NDJSON
from windlass.wire.encoding import JSON, MSGPACK
from windlass.wire.problems import Problem

from .address import ServerAddress

T = TypeVar("T")
API_PREFIX = "/api/v1"
RESPONSE_TIMEOUT_S = 30.0  # in addition to the time that the server may wait
RESPONSE_MAX = 2 * TAKE_MAX * PAYLOAD_MAX  # bytes: a response with the largest payloads fits, an endless one ends
ERROR_RESPONSE_MAX = MIB
_encode = msgspec.msgpack.Encoder().encode
_ENGINE_ERRORS: dict[str, type[WindlassError]] = {
    error.code: error
    for error in (
        errors.EngineUnavailable,
        errors.DiskFull,
        errors.DataDirectoryLost,
        errors.EngineError,
        errors.EngineNotPermitted,
        errors.EngineUnsuitable,
    )
}
SHAPE_ERRORS = (msgspec.MsgspecError, ValueError, LookupError, ArithmeticError, RecursionError)
_PROXY_STATUSES = (502, 503, 504)  # proxies use these for an unavailable server


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # below API_PREFIX, percent-encoded
    response_type: Any  # type of the response body; None: no body, or it is ignored
    body: msgspec.Struct | None = None
    lines: bytes | None = None  # body of JSON lines, instead of `body`
    query: Mapping[str, Any] = {}  # a list is repeated for each item; None is omitted
    wait_ms: int = 0  # how long the server may wait before it responds
    # Whether it may be sent again after a lost response, without a second effect.
    is_repeatable: bool = True

    @property
    def target(self) -> str:
        fields = {name: _format_query_value(value) for name, value in self.query.items() if value is not None}
        query = f"?{urlencode(fields, doseq=True)}" if fields else ""
        return f"{API_PREFIX}{self.path}{query}"

    @property
    def content(self) -> bytes | None:
        return self.lines if self.body is None else _encode(self.body)

    @property
    def content_type(self) -> str:
        """Media type of the content; empty if there is none."""
        return MSGPACK if self.body is not None else NDJSON if self.lines is not None else ""

    @property
    def timeout_s(self) -> float:
        return RESPONSE_TIMEOUT_S + self.wait_ms / 1000


def _format_query_value(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


RequestFlow: TypeAlias = Generator[ApiRequest, Any, T]


def get(path: str, response_type: Any, **more: Any) -> ApiRequest:
    return ApiRequest(method="GET", path=path, response_type=response_type, **more)


def post(path: str, response_type: Any, body: msgspec.Struct | None = None, **more: Any) -> ApiRequest:
    return ApiRequest(method="POST", path=path, response_type=response_type, body=body, **more)


def quote_segment(name: str) -> str:
    """Encode a name as one segment of a path."""
    return quote(name, safe="")


def build_headers(token: str, *, content_type: str = "", accept: str = MSGPACK) -> dict[str, str]:
    headers = {"Accept": accept}
    if content_type:
        headers["Content-Type"] = content_type
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


class ApiResponse(msgspec.Struct, frozen=True):
    status: int
    media: str
    body: bytes


class NotReached(EngineUnavailable):
    """The server did not receive the request, or did not start it."""


class NoAnswer(EngineUnavailable):
    """The response was lost. The server may have executed the request."""


def may_repeat(error: WindlassError, request: ApiRequest) -> bool:
    return isinstance(error, NotReached | errors.TooManyRequests) or (
        isinstance(error, NoAnswer) and request.is_repeatable
    )


def server_unreachable(address: ServerAddress, why: object) -> NotReached:
    return NotReached(
        f"Cannot reach the server at {address}: {why}. Check the address, and that the server runs (windlass serve)."
    )


def answer_lost(address: ServerAddress, why: object) -> NoAnswer:
    return NoAnswer(f"The server at {address} did not respond: {why}.")


def read_response(address: ServerAddress, request: ApiRequest, response: ApiResponse) -> Any:
    if not 200 <= response.status < 300:
        raise error_of(address, request.path, response)
    if request.response_type is None:
        return None
    with reading_response(address, request.path):
        return _decoder(request.response_type)(response.body)


@contextlib.contextmanager
def reading_response(address: ServerAddress, path: str = "a request") -> Iterator[None]:
    """Turn the errors of reading a response with another shape, or with impossible values, into EngineUnsuitable."""
    try:
        yield
    except SHAPE_ERRORS as error:
        raise wrong_shape(address, path, error) from error


def wrong_shape(address: ServerAddress, path: str, error: Exception) -> EngineUnsuitable:
    return EngineUnsuitable(
        f"The server at {address} is not a Windlass server of this version: the response to {path} has another shape "
        f"({error})."
    )


def response_max(status: int) -> int:
    """Return how many bytes the body of a response may have."""
    return RESPONSE_MAX if 200 <= status < 300 else ERROR_RESPONSE_MAX


def response_too_large(address: ServerAddress, most: int) -> EngineUnsuitable:
    return EngineUnsuitable(f"The server at {address} sent a response of more than {most:,} bytes. Check the address.")


def error_of(address: ServerAddress, path: str, response: ApiResponse) -> WindlassError:
    problem = _decode_problem(response)
    if problem is None:
        return _unexpected_response(address, path, response)
    if problem.code in REFUSALS:
        return REFUSALS[problem.code](problem.detail)
    if problem.code == EngineUnavailable.code:
        return NoAnswer(problem.detail)
    if problem.code in _ENGINE_ERRORS:
        return _ENGINE_ERRORS[problem.code](problem.detail)
    return _http_error(address, path, problem)


def refusal_of(problem: Problem) -> Refusal:
    """Return the refusal of one item of a batch."""
    return REFUSALS.get(problem.code, Refusal)(problem.detail)


def _http_error(address: ServerAddress, path: str, problem: Problem) -> WindlassError:
    if problem.status == 503:
        return NotReached(f"The server at {address} is busy or stopping: {problem.detail}")
    if problem.status in (404, 405):
        return EngineUnsuitable(
            f"The server at {address} does not know {path}: it is older than this program. Upgrade the server."
        )
    return EngineError(f"The server at {address} refused {path} ({problem.status}): {problem.detail}")


def _unexpected_response(address: ServerAddress, path: str, response: ApiResponse) -> WindlassError:
    if response.status in _PROXY_STATUSES:
        return answer_lost(address, f"status {response.status}")
    return EngineUnsuitable(
        f"The server at {address} is not a Windlass server: the response to {path} has status {response.status} and "
        f"media type {response.media or '(none)'}. Check the address and its path."
    )


def _decode_problem(response: ApiResponse) -> Problem | None:
    decoder = _PROBLEMS.get(response.media.partition(";")[0].strip().replace("problem+", ""))
    try:
        return None if decoder is None else decoder(response.body)
    except (msgspec.MsgspecError, RecursionError):
        return None


@lru_cache(None)
def _decoder(wanted: Any) -> Any:
    return msgspec.msgpack.Decoder(wanted).decode


_PROBLEMS = {MSGPACK: msgspec.msgpack.Decoder(Problem).decode, JSON: msgspec.json.Decoder(Problem).decode}
