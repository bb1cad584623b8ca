"""The native API as an admin, or whoever has a token, asks it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from tests.support.api_client import MEDIA, NOTHING, Api


class Reply(NamedTuple):
    status: int
    value: Any
    headers: Any

    @property
    def code(self) -> str:
        """Of a refusal."""
        assert self.status >= 400, self
        return str(self.value["code"])


class Asker:
    """Paths below /api/v1, as they are given."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.encoding = api.encoding

    async def __call__(self, method: str, path: str, body: Any = NOTHING, *, token: str = "") -> Reply:
        given = {"authorization": f"Bearer {token}"} if token else {}
        answered = await self._api.ask(method, f"/api/v1{path}", body, **given)
        if answered.content:
            assert answered.headers["content-type"].replace("problem+", "") == MEDIA[self.encoding]
        return Reply(answered.status, answered.body if answered.content else None, answered.headers)

    async def raw(self, method: str, path: str, content: bytes) -> Reply:
        headers = {"content-type": MEDIA[self.encoding]}
        answered = await self._api.raw(method, f"/api/v1{path}", content, headers)
        return Reply(answered.status, answered.body, answered.headers)

    async def get(self, path: str, *, token: str = "") -> Any:
        return await self.good("GET", path, token=token)

    async def good(self, method: str, path: str, body: Any = NOTHING, *, token: str = "") -> Any:
        """The value of a good answer."""
        reply = await self(method, path, body, token=token)
        assert reply.status < 300, reply
        return reply.value


def segment(name: str) -> str:
    """Of a path; dots too, which clients would take for a way up."""
    return quote(name, safe="").replace(".", "%2E")
