"""A no as HTTP says it: a status and a problem (RFC 9457) whose `code` is ours and stable."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from windlass.core import errors
from windlass.core.errors import WindlassError

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused. `code` is stable; `detail` is for people and says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str


class HttpRefusal(errors.Refusal):
    """A no that only HTTP knows."""

    status = 400
    headers: Headers = ()


class NotFound(HttpRefusal):
    code = "not_found"
    status = 404
    sentence = "There is nothing at this path; /docs lists what there is."


class MethodNotAllowed(HttpRefusal):
    code = "method_not_allowed"
    status = 405
    sentence = "This path does not know this method."

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This path knows {allowed} only.")
        self.headers = (("Allow", allowed),)


class NotAcceptable(HttpRefusal):
    code = "not_acceptable"
    status = 406
    sentence = "Answers are application/json or application/msgpack; ask for one of them in Accept."


class UnsupportedMedia(HttpRefusal):
    code = "unsupported_media_type"
    status = 415
    sentence = "A body is application/json or application/msgpack; say which in Content-Type."


class UnsupportedContentEncoding(HttpRefusal):
    code = "unsupported_content_encoding"
    status = 415
    sentence = "The content encoding of the body is not understood here; send it without Content-Encoding."
    headers = (("Accept-Encoding", "identity"),)  # RFC 9110, 12.5.3: which codings the server would have understood


class ExpectationFailed(HttpRefusal):
    code = "expectation_failed"
    status = 417
    sentence = "The only expectation that can be met here is 100-continue; send the request without Expect."


class Malformed(HttpRefusal):
    """What came is no HTTP, or none that is allowed here; the protocol closes the connection."""

    code = "malformed_request"
    sentence = "This is not a well-formed HTTP request."


class RequestTimeout(HttpRefusal):
    code = "request_timeout"
    status = 408
    sentence = "The request did not arrive in time; send it without pauses."


class UriTooLong(HttpRefusal):
    code = "uri_too_long"
    status = 414
    sentence = "The path and query are too long; ask for less at a time."


class HeadersTooLarge(HttpRefusal):
    code = "headers_too_large"
    status = 431
    sentence = "The headers are too many or too large; send fewer."


class InternalError(HttpRefusal):
    """A fault of ours; the server's log says which."""

    code = "internal_error"
    status = 500
    sentence = "The server failed; its log says why."


class NotImplementedHere(HttpRefusal):
    code = "not_implemented"
    status = 501
    sentence = "This part of HTTP is not spoken here."


class Overloaded(HttpRefusal):
    """The server stops, or has as many connections or requests as it may."""

    code = "unavailable"
    status = 503
    sentence = "The server has too much to do, or stops; try again."
    headers = (("Retry-After", "1"),)


class HttpVersion(HttpRefusal):
    code = "http_version_not_supported"
    status = 505
    sentence = "Only HTTP/1.1 and HTTP/1.0 are spoken here."


# What the protocol has to say itself.
SAID: dict[int, type[errors.Refusal]] = {
    413: errors.TooLarge,
    **{
        one.status: one
        for one in (
            Malformed, RequestTimeout, UriTooLong, HeadersTooLarge, InternalError, NotImplementedHere, Overloaded,
            HttpVersion,
        )
    },
}  # fmt: skip


def said(status: int, detail: str) -> errors.Refusal:
    return SAID.get(status, Malformed if status < 500 else InternalError)(detail)


_HEADERS = {
    401: (("WWW-Authenticate", "Bearer"),),
    429: (("Retry-After", "1"),),
    503: (("Retry-After", "1"),),
}
_STATUSES: dict[type[WindlassError], int] = {
    errors.BadSetting: 400,  # asked for what this deployment cannot give
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.UnknownJob: 404,
    errors.UnknownLimit: 404,
    errors.UnknownWorker: 404,
    errors.UnknownSchedule: 404,
    errors.UnknownCallback: 404,
    errors.UnknownToken: 404,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.TooManyRequests: 429,
    errors.UnknownParent: 409,
    errors.UnknownMember: 409,
    errors.CrossPartition: 409,
    errors.NamesNeedLanes: 409,
    errors.NoExactPriority: 409,
    errors.QueueFull: 503,
    errors.EngineFull: 503,
    errors.LimitsChanged: 503,
    errors.Unsettled: 503,
    errors.PartitionStopped: 503,
    errors.EngineUnavailable: 503,
    errors.DiskFull: 503,
    errors.DataDirectoryLost: 503,
    errors.EngineError: 500,
    errors.EngineNotPermitted: 503,
    errors.EngineUnsuitable: 503,
}
_CONFLICT = 409


def status_of(error: type[WindlassError]) -> int:
    """Of a refusal without a status of its own: a conflict with the state of things."""
    if issubclass(error, HttpRefusal):
        return error.status
    return _STATUSES.get(error, _CONFLICT if issubclass(error, errors.Refusal) else 500)


def headers_of(error: WindlassError) -> Headers:
    if isinstance(error, HttpRefusal):
        return error.headers
    return _HEADERS.get(status_of(type(error)), ())


def status_for(error: WindlassError) -> int:
    """Of this very one: what the protocol says has a status of its own each time."""
    return error.status if isinstance(error, HttpRefusal) else status_of(type(error))


def problem(error: WindlassError) -> Problem:
    return Problem(
        type=f"urn:windlass:{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=status_for(error),
        detail=str(error),
        code=error.code,
    )
