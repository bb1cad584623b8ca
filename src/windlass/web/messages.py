"""Requests and answers, and what the protocol and the application know of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Head(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    peer: str


class Client(Protocol):
    is_gone: bool
    is_tls: bool
    peer: str


class Request(msgspec.Struct):
    head: Head
    client: Client
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = None


class Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    headers: Headers = ()
    content_type: str = ""


class Streamed(msgspec.Struct, frozen=True):
    status: int
    chunks: AsyncIterator[bytes]
    headers: Headers = ()
    content_type: str = ""


Reply: TypeAlias = Response | Streamed


class Plan(msgspec.Struct, frozen=True):
    handle: Callable[[Request], Awaitable[Reply]]
    body_max: int
    streams_body: bool = False
    waits: bool = False


class Application(Protocol):
    def plan(self, head: Head) -> Plan | Response: ...

    def refuse(self, status: int, detail: str, head: Head | None) -> Response: ...
