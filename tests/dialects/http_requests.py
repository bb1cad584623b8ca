"""Requests to the native API, as an admin or with a token."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from tests.support.api_client import MEDIA, NOTHING, Api


class NativeReply(NamedTuple):
    status: int
    value: Any
    headers: Any

    @property
    def code(self) -> str:
        """Code of a refusal."""
        assert self.status >= 400, self
        return str(self.value["code"])


class NativeApi:
    """Client for paths below /api/v1. Paths are sent as given."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.encoding = api.encoding

    async def __call__(self, method: str, path: str, body: Any = NOTHING, *, token: str = "") -> NativeReply:
        given = {"authorization": f"Bearer {token}"} if token else {}
        answered = await self._api.request(method, f"/api/v1{path}", body, **given)
        if answered.content:
            assert answered.headers["content-type"].replace("problem+", "") == MEDIA[self.encoding]
        return NativeReply(answered.status, answered.body if answered.content else None, answered.headers)

    async def raw(self, method: str, path: str, content: bytes) -> NativeReply:
        headers = {"content-type": MEDIA[self.encoding]}
        answered = await self._api.raw(method, f"/api/v1{path}", content, headers)
        return NativeReply(answered.status, answered.body, answered.headers)

    async def get(self, path: str, *, token: str = "") -> Any:
        return await self.ok("GET", path, token=token)

    async def ok(self, method: str, path: str, body: Any = NOTHING, *, token: str = "") -> Any:
        """Return the value of a successful answer."""
        reply = await self(method, path, body, token=token)
        assert reply.status < 300, reply
        return reply.value


def segment(name: str) -> str:
    """Quote a segment of a path, also dots, which clients would resolve."""
    return quote(name, safe="").replace(".", "%2E")
