"""Reads server-sent events as the HTML standard says, from a real connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import msgspec


class Heard(NamedTuple):
    kind: str  # of what is only a comment: ""
    data: Any
    id: str  # the last one that was told, by this event or before it


class EventStream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments = 0
        self._lines = self._read_lines()

    async def _read_lines(self) -> AsyncIterator[str]:
        rest = ""
        async for text in self.response.aiter_text():
            *lines, rest = (rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
            for line in lines:
                yield line

    async def next(self) -> Heard | None:
        """The next event; None when the stream has ended."""
        kind, data = "", list[str]()
        async with asyncio.timeout(20):
            async for line in self._lines:
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if not line:
                    if data:
                        return Heard(kind, msgspec.json.decode("\n".join(data)), self.last_id)
                    kind = ""
                elif not field:
                    self.comments += 1
                elif field == "id":
                    self.last_id = value
                elif field == "event":
                    kind = value
                elif field == "data":
                    data.append(value)
                else:
                    raise AssertionError(line)
        return None

    async def mark(self) -> str:
        """Reads up to the next id: from there on nothing is missed."""
        async with asyncio.timeout(20):
            async for line in self._lines:
                self.comments += line.startswith(":")
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")
                    return self.last_id
        raise AssertionError("no id came")

    async def some(self, count: int) -> list[Heard]:
        found = [await self.next() for _ in range(count)]
        return [one for one in found if one is not None]

    async def rest(self) -> list[Heard]:
        """All until the end."""
        found = []
        while (one := await self.next()) is not None:
            found.append(one)
        return found


@contextlib.asynccontextmanager
async def following(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[EventStream]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers=sent) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        yield EventStream(response)
