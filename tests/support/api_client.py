"""A client of the HTTP API in one of its encodings, on a real socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import msgspec

MEDIA = {"json": "application/json", "msgpack": "application/msgpack"}
ENCODE = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}
NOTHING = object()  # no body at all; None is a body


class Answered(NamedTuple):
    status: int
    body: Any  # decoded; what is neither JSON nor MessagePack: bytes
    headers: httpx.Headers
    content: bytes


class Api:
    """`await api.post("/api/v1/jobs", {...})`. Paths are sent as they are given: percent-encode what needs it."""

    def __init__(self, client: httpx.AsyncClient, encoding: str) -> None:
        self.client = client
        self.encoding = encoding

    async def get(self, path: str, **headers: str) -> Answered:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any = NOTHING, **headers: str) -> Answered:
        return await self.ask("POST", path, body, **headers)

    async def put(self, path: str, body: Any = NOTHING, **headers: str) -> Answered:
        return await self.ask("PUT", path, body, **headers)

    async def patch(self, path: str, body: Any = NOTHING, **headers: str) -> Answered:
        return await self.ask("PATCH", path, body, **headers)

    async def delete(self, path: str, body: Any = NOTHING, **headers: str) -> Answered:
        return await self.ask("DELETE", path, body, **headers)

    async def ask(self, method: str, path: str, body: Any = NOTHING, **headers: str) -> Answered:
        """Headers as keywords: `idempotency_key="k"`."""
        media = MEDIA[self.encoding]
        given = {"accept": media} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is NOTHING:
            return await self.raw(method, path, headers=given)
        return await self.raw(method, path, ENCODE[self.encoding](body), {"content-type": media} | given)

    async def raw(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Exactly these bytes and headers."""
        found = await self.client.request(method, path, content=content, headers=dict(headers or {}))
        return Answered(found.status_code, decoded(found), found.headers, found.content)


def decoded(found: httpx.Response) -> Any:
    media = found.headers.get("content-type", "").partition(";")[0]
    if media.endswith("msgpack") and found.content:
        return msgspec.msgpack.decode(found.content)
    if media.endswith("json") and found.content:
        return msgspec.json.decode(found.content)
    return found.content
