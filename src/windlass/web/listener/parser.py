"""Request parser on llhttp. It rejects input that is not HTTP/1.x or exceeds the bounds."""

from __future__ import annotations

import re
from typing import Protocol

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from .body_headers import expects_continue
from .bounds import Bounds
from .in_flight import InFlightRequest
from .messages import Head

BETWEEN, HEAD, BODY = range(3)
_SLACK = 8 * 1024  # bytes between fields, and data fed together with the end of the previous request

# A request target with a scheme, as clients of proxies send it. Its host replaces the header `Host`.
_ABSOLUTE = re.compile(r"https?://([^/?#]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_SPACES = " \t"
# Common headers as they are sent, and their lower-case names: a lookup is cheaper than decoding.
_NAMES: dict[bytes, str] = {
    written.encode(): name
    for name in (
        "host", "user-agent", "accept", "accept-encoding", "connection", "content-type", "content-length",
        "authorization", "idempotency-key",
    )
    for written in (name, name.title())
}  # fmt: skip
_METHODS: dict[bytes, str] = {
    name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
}


class HttpProtocolError(Exception):
    """Invalid input, with the status and text of the answer. Input after it cannot be parsed."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Receiver(Protocol):
    """Receiver of the parsed requests."""

    def begin(self, in_flight: InFlightRequest) -> None:
        """Accept a request whose head is complete."""

    def receive(self, in_flight: InFlightRequest, piece: bytes) -> None: ...

    def complete(self, in_flight: InFlightRequest) -> None: ...


class RequestParser:
    """Incremental parser of one connection."""

    __slots__ = (
        "_bounds",
        "_extra_fields",
        "_headers",
        "_is_replaying",
        "_is_upgrading",
        "_parser",
        "_peer",
        "_raw",
        "_receiver",
        "_size",
        "_target",
        "receiving",
        "stage",
    )

    def __init__(self, bounds: Bounds, peer: str, receiver: Receiver) -> None:
        self._bounds = bounds
        self._peer = peer
        self._receiver = receiver
        self._parser = HttpRequestParser(self)
        self.stage = BETWEEN
        self.receiving: InFlightRequest | None = None  # the request whose body is being read
        self._target = b""
        self._headers: dict[str, str] = {}
        self._extra_fields = 0  # repeated fields and trailers
        self._size = 0  # bytes of all fields
        self._raw = 0  # bytes fed since the parser last reported anything
        self._is_upgrading = False
        self._is_replaying = False

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more input. Raise HttpProtocolError if it is invalid; the parser cannot be used afterwards."""
        if self.stage == BETWEEN:
            self.stage = HEAD
        received = -1 if self.receiving is None else self.receiving.received
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade(memoryview(data)[upgrade.args[0] :])
            return
        except HttpParserCallbackError as error:
            if isinstance(error.__context__, HttpProtocolError):
                raise error.__context__ from None
            raise
        except HttpParserError as error:
            raise HttpProtocolError(*_explain(error, bytes(data[:16]))) from None
        if self.stage != BETWEEN:
            self._count(len(data), received)

    def _count(self, size: int, received: int) -> None:
        """Bound the bytes of an unfinished field: llhttp buffers a field until it ends."""
        in_flight = self.receiving
        if in_flight is not None and (received < 0 or in_flight.received != received):
            self._raw = 0
            return
        self._raw += size
        if self._raw > self._bounds.line_bytes_max + self._bounds.header_bytes_max + _SLACK:
            raise self._too_many_header_bytes()

    def _too_many_header_bytes(self) -> HttpProtocolError:
        return HttpProtocolError(
            431, f"The headers of a request may have {self._bounds.header_bytes_max} bytes in all."
        )

    # Called by llhttp.

    def on_url(self, piece: bytes) -> None:
        if self._is_replaying:
            return
        self.stage = HEAD
        self._target = self._target + piece if self._target else piece
        if len(self._target) > self._bounds.line_bytes_max:
            raise HttpProtocolError(
                414, f"The path and query of a request may have {self._bounds.line_bytes_max} bytes."
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value)
        if self.receiving is not None:
            self._count_trailer()
            return
        key = _NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if text[-1:] in _SPACES:
            text = text.rstrip(_SPACES)
        if key in self._headers:
            text = self._join(key, text)
        self._headers[key] = text

    def _count_trailer(self) -> None:
        """Count a trailer towards the bounds of the head; it is not used otherwise."""
        if not self._is_replaying:
            self._extra_fields += 1
            self._check_fields()

    def _check_fields(self) -> None:
        if self._size > self._bounds.header_bytes_max:
            raise self._too_many_header_bytes()
        if len(self._headers) + self._extra_fields > self._bounds.headers_max:
            raise HttpProtocolError(431, f"A request may have {self._bounds.headers_max} header fields.")

    def _join(self, key: str, text: str) -> str:
        if key == "host":
            raise HttpProtocolError(400, "A request must have one Host header, not several.")
        self._extra_fields += 1
        return f"{self._headers[key]}, {text}"

    def on_headers_complete(self) -> None:
        if self._is_replaying:
            return
        headers = self._headers
        bounds = self._bounds
        if self._size > bounds.header_bytes_max or len(headers) + self._extra_fields > bounds.headers_max:
            self._check_fields()
        parser = self._parser
        keep_alive = parser.should_keep_alive()
        # Without a Connection header, keep-alive follows from the version.
        is_http10 = not keep_alive if "connection" not in headers else parser.get_http_version() != "1.1"
        if is_http10 and parser.get_http_version() != "1.0":
            raise HttpProtocolError(505, "Only HTTP/1.1 and HTTP/1.0 are supported.")
        if "upgrade" in headers and parser.should_upgrade():
            self._is_upgrading = True
        in_flight = InFlightRequest(
            self._head(headers, is_http10), is_http10=is_http10, keep_alive=keep_alive, length=self._length(is_http10)
        )
        if "expect" in headers:
            self._note_expectation(in_flight, headers["expect"])
        self.stage = BODY
        self._raw = 0
        self.receiving = in_flight
        self._receiver.begin(in_flight)

    def _note_expectation(self, in_flight: InFlightRequest, expect: str) -> None:
        if expects_continue(expect):
            in_flight.wants_continue = not in_flight.is_http10
        elif expect and in_flight.length != 0:
            in_flight.keep_alive = False  # it will be refused, and the client may or may not send its body

    def _head(self, headers: dict[str, str], is_http10: bool) -> Head:
        if "host" not in headers and not is_http10:
            raise HttpProtocolError(400, "An HTTP/1.1 request must have a Host header.")
        name = self._parser.get_method()
        target = self._target.decode("latin-1")
        if target[0] != "/":
            target = self._origin(name, target, headers)
        if "#" in target:
            raise HttpProtocolError(400, "The target of a request must not have a fragment (#…).")
        path, _, query = target.partition("?")
        return Head(_METHODS.get(name) or name.decode("latin-1"), path, query, headers, self._peer)

    def _origin(self, method: bytes, target: str, headers: dict[str, str]) -> str:
        if target == "*" and method == b"OPTIONS":
            return target
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise HttpProtocolError(400, "The target of a request must be a path that starts with a slash.")
        host, path, query = absolute.groups()
        headers["host"] = host
        return (path or "/") if query is None else f"{path or '/'}?{query}"

    def _length(self, is_http10: bool) -> int | None:
        coding = self._headers.get("transfer-encoding")
        if coding is None:
            length = self._headers.get("content-length")
            return 0 if length is None else int(length)
        if is_http10:
            raise HttpProtocolError(400, "Transfer-Encoding is not part of HTTP/1.0.")
        if coding.lower() != "chunked":
            raise HttpProtocolError(501, "The only supported Transfer-Encoding is chunked.")
        return None

    def on_body(self, piece: bytes) -> None:
        in_flight = self.receiving
        if in_flight is not None:
            in_flight.received += len(piece)
            self._receiver.receive(in_flight, piece)

    def on_message_complete(self) -> None:
        in_flight = self.receiving
        if self._is_upgrading or in_flight is None:
            return
        self.stage = BETWEEN
        self.receiving = None
        self._target = b""
        self._headers = {}
        self._extra_fields = self._size = self._raw = 0
        in_flight.is_complete = True
        self._receiver.complete(in_flight)

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Continue after an Upgrade header. llhttp would treat the rest as another protocol, and none is supported: a
        new parser gets the framing headers and reads the body."""
        in_flight = self.receiving
        assert in_flight is not None  # noqa: S101 — the upgrade was seen in its head
        self._is_upgrading = False
        self._parser = HttpRequestParser(self)
        framing = "Transfer-Encoding: chunked" if in_flight.length is None else f"Content-Length: {in_flight.length}"
        end = "keep-alive" if in_flight.keep_alive else "close"
        self._is_replaying = True
        self._parser.feed_data(f"POST / HTTP/1.1\r\nConnection: {end}\r\n{framing}\r\n\r\n".encode())
        self._is_replaying = False
        if rest:
            self.feed(rest)


def _explain(error: HttpParserError, start: bytes) -> tuple[int, str]:
    if start[:1] == b"\x16":
        return 400, "The client started TLS, and this port serves plain HTTP: use http:// instead of https://."
    if start.startswith(b"PRI * HTTP/2"):
        return 505, "HTTP/2 is not supported: use HTTP/1.1."
    return 400, f"The input is not a valid HTTP request: {error}."
