"""Refusals of HTTP itself, each with its status and its stable code."""

from __future__ import annotations

from windlass.core import errors
from windlass.wire.problems import HttpRefusal


class NotFound(HttpRefusal):
    code = "not_found"
    status = 404
    sentence = "There is nothing at this path; /docs lists all paths."


class MethodNotAllowed(HttpRefusal):
    code = "method_not_allowed"
    status = 405
    sentence = "This path does not support this method."

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This path knows {allowed} only.")
        self.headers = (("Allow", allowed),)


class NotAcceptable(HttpRefusal):
    code = "not_acceptable"
    status = 406
    sentence = "Answers are application/json or application/msgpack; ask for one of them in Accept."


class UnsupportedMediaType(HttpRefusal):
    code = "unsupported_media_type"
    status = 415
    sentence = "A body is application/json or application/msgpack; say which in Content-Type."


class UnsupportedContentEncoding(HttpRefusal):
    code = "unsupported_content_encoding"
    status = 415
    sentence = "The content encoding of the body is not supported; send it without Content-Encoding."
    headers = (("Accept-Encoding", "identity"),)  # RFC 9110, 12.5.3: the supported codings


class ExpectationFailed(HttpRefusal):
    code = "expectation_failed"
    status = 417
    sentence = "The only supported expectation is 100-continue; send the request without Expect."


class Malformed(HttpRefusal):
    """Invalid HTTP; the listener closes the connection."""

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
    """Unexpected error in the server."""

    code = "internal_error"
    status = 500
    sentence = "The server failed; its log says why."


class HttpFeatureNotSupported(HttpRefusal):
    code = "not_implemented"
    status = 501
    sentence = "This part of HTTP is not supported."


class Overloaded(HttpRefusal):
    """The server stops, or has reached its limit of connections or requests."""

    code = "unavailable"
    status = 503
    sentence = "The server is overloaded or stopping; try again."
    headers = (("Retry-After", "1"),)


class HttpVersionNotSupported(HttpRefusal):
    code = "http_version_not_supported"
    status = 505
    sentence = "Only HTTP/1.1 and HTTP/1.0 are supported."


# Refusals by the listener, by status.
PROTOCOL_REFUSALS: dict[int, type[errors.Refusal]] = {
    413: errors.TooLarge,
    **{
        refusal.status: refusal
        for refusal in (
            Malformed, RequestTimeout, UriTooLong, HeadersTooLarge, InternalError, HttpFeatureNotSupported, Overloaded,
            HttpVersionNotSupported,
        )
    },
}  # fmt: skip


def protocol_refusal(status: int, detail: str) -> errors.Refusal:
    return PROTOCOL_REFUSALS.get(status, Malformed if status < 500 else InternalError)(detail)
