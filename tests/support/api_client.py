"""A client of the HTTP API in one of its encodings, on a real socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import msgspec

MEDIA = {"json": "application/json", "msgpack": "application/msgpack"}
ENCODE = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}
NOTHING = object()  # no body at all; None is a body


class ApiResponse(NamedTuple):
    status: int
    body: Any  # decoded; bytes if it is neither JSON nor MessagePack
    headers: httpx.Headers
    content: bytes


class Api:
    """A client: `await api.post("/api/v1/jobs", {...})`. Paths are sent unchanged, so percent-encode them."""

    def __init__(self, client: httpx.AsyncClient, encoding: str) -> None:
        self.client = client
        self.encoding = encoding

    async def get(self, path: str, **headers: str) -> ApiResponse:
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: Any = NOTHING, **headers: str) -> ApiResponse:
        return await self.request("POST", path, body, **headers)

    async def put(self, path: str, body: Any = NOTHING, **headers: str) -> ApiResponse:
        return await self.request("PUT", path, body, **headers)

    async def patch(self, path: str, body: Any = NOTHING, **headers: str) -> ApiResponse:
        return await self.request("PATCH", path, body, **headers)

    async def delete(self, path: str, body: Any = NOTHING, **headers: str) -> ApiResponse:
        return await self.request("DELETE", path, body, **headers)

    async def request(self, method: str, path: str, body: Any = NOTHING, **headers: str) -> ApiResponse:
        """Send a request. Headers are keywords: `idempotency_key="k"`."""
        media = MEDIA[self.encoding]
        all_headers = {"accept": media} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is NOTHING:
            return await self.raw(method, path, headers=all_headers)
        return await self.raw(method, path, ENCODE[self.encoding](body), {"content-type": media} | all_headers)

    async def raw(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> ApiResponse:
        """Send exactly these bytes and headers."""
        response = await self.client.request(method, path, content=content, headers=dict(headers or {}))
        return ApiResponse(response.status_code, decode_body(response), response.headers, response.content)


def decode_body(response: httpx.Response) -> Any:
    media = response.headers.get("content-type", "").partition(";")[0]
    if media.endswith("msgpack") and response.content:
        return msgspec.msgpack.decode(response.content)
    if media.endswith("json") and response.content:
        return msgspec.json.decode(response.content)
    return response.content
