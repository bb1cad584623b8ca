"""Requests, responses and the interface between listener and application. No I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import msgspec

from .deferred import DeferredAnswer

SIGNED_LINKS = "/signals/"  # below it are signed links; such a URL is a permission


def path_for_logs(path: str) -> str:
    """Return a path without the secret of a signed link."""
    before, mark, secret = path.partition(SIGNED_LINKS)
    return f"{before}{mark}…" if secret else path


class Head(msgspec.Struct, gc=False):
    """Head of a request: everything before its body."""

    method: str
    path: str  # as sent: percent-encoded, without the query
    query: str  # as sent
    headers: dict[str, str]  # lower-case names; repeated ones joined by ", "
    peer: str  # address of the client
    # Set by the application, for metrics and the access log.
    operation: str = ""
    principal_name: str = ""
    is_page: bool = False  # a page of the dashboard
    base: str = ""  # path below which the application is served, percent-encoded; the plan takes it off `path`


class Client:
    """Client of a connection."""

    __slots__ = ("is_gone", "is_tls", "peer")

    def __init__(self, peer: str, is_tls: bool) -> None:
        self.peer = peer
        self.is_tls = is_tls
        self.is_gone = False  # the connection is lost or cut


class Request(msgspec.Struct):
    head: Head
    body: bytes
    client: Client
    chunks: AsyncIterator[bytes] | None = None  # the body, if the plan streams it; can be read once


class Response(msgspec.Struct, gc=False):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = ""


class StreamedResponse(msgspec.Struct):
    """Response whose body is generated while it is sent. The iterator is always closed at the end."""

    status: int
    chunks: AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    length: int | None = None  # in bytes; None: unknown


Reply: TypeAlias = Response | StreamedResponse


class IncompleteBody(Exception):
    """A streamed body that ended early: the client disconnected, stopped sending, or sent invalid HTTP."""


class Plan(msgspec.Struct):
    """Handler of a request and its options, chosen from the head alone."""

    handle: Callable[[Request], Coroutine[Any, Any, Reply] | DeferredAnswer[Any, Response] | Response]
    body_max: int  # bytes of a buffered body; a streamed body may have any length
    streams_body: bool = False  # the handler runs while the body arrives, and reads `request.chunks`
    # The handler is cancelled when the client disconnects or half-closes. Other handlers run to their end.
    waits: bool = False


class Application(Protocol):
    """Interface of the application to the listener."""

    def plan(self, head: Head) -> Plan | Response:
        """Plan a request when its head is complete. A Response refuses it before the body is read."""

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        """Format a protocol error as a response."""
