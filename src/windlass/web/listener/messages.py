"""Requests and answers, and what stands between the protocol and the application. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeAlias

import msgspec


class Head(msgspec.Struct, gc=False):
    """What is known of a request before its body."""

    method: str
    path: str  # as sent: percent-encoded, without the query
    query: str  # as sent
    headers: dict[str, str]  # lower-case names; repeated ones joined by ", "
    peer: str  # address of the client
    # Filled in by the application, for those who count and write down what was asked.
    operation: str = ""
    who: str = ""
    is_page: bool = False  # of the dashboard: for a browser, and for somebody who looks at it


class Client:
    """The other end of a connection."""

    __slots__ = ("is_gone", "is_tls", "peer")

    def __init__(self, peer: str, is_tls: bool) -> None:
        self.peer = peer
        self.is_tls = is_tls
        self.is_gone = False  # true from the moment the connection is known to be lost


class Request(msgspec.Struct):
    head: Head
    body: bytes
    client: Client
    chunks: AsyncIterator[bytes] | None = None  # of a plan that streams the body; it is read once


class Response(msgspec.Struct, gc=False):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = ""


class StreamedResponse(msgspec.Struct):
    """An answer that is made while it is sent. The iterator is closed when the answer ends, however it ends."""

    status: int
    chunks: AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    length: int | None = None  # in bytes; None: not known


Reply: TypeAlias = Response | StreamedResponse


class DeferredReply(msgspec.Struct, frozen=True):
    """An answer that waits for one future and nothing else, so that nobody needs a task for it."""

    future: asyncio.Future[Any]
    reply: Callable[[asyncio.Future[Any]], Response]  # makes it of the future, once that is done


class IncompleteBody(Exception):
    """A streamed body ended before its end: the client went, stopped sending, or sent what is not HTTP."""


class Plan(msgspec.Struct):
    """How a request will be answered, decided from its head alone."""

    handle: Callable[[Request], Awaitable[Reply] | DeferredReply | Response]
    body_max: int  # of a body that is gathered; a streamed one may have any length
    streams_body: bool = False  # the handler runs while the body arrives, and reads `request.chunks`
    # The handler is cancelled when the client has gone (half a connection counts as gone). All others run to their end.
    waits: bool = False


class Application(Protocol):
    def plan(self, head: Head) -> Plan | Response:
        """Called when the head is complete; a Response refuses before the body is read."""

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        """What the protocol itself must say, in the application's words."""
