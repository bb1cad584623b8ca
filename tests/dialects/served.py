"""The native API in a thread of its own, on a real socket; and a plain client that sends paths as they are given."""

from __future__ import annotations

import asyncio
import http.client
import threading
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import msgspec

from windlass.core.job import Codec
from windlass.dialects.native import ROUTES
from windlass.service import Service
from windlass.store.store import Store
from windlass.web.application import WebApplication
from windlass.web.guard import Guard
from windlass.web.listener import Listener
from windlass.web.routing import Office, Router
from windlass.web.token_table import TokenTable

_TYPES = {Codec.JSON: "application/json", Codec.MSGPACK: "application/msgpack"}


class Served:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        store = self._store.twin()
        service = Service(store)
        table = TokenTable(service)
        office = Office(service)
        listener = Listener(WebApplication(Router(ROUTES), office, Guard(table, is_open=True, is_local=True)))
        await listener.start("127.0.0.1")
        self.port, self._stop = listener.address[1], asyncio.Event()
        self._is_listening.set()
        await self._stop.wait()
        office.stop()
        await listener.stop(5)
        await table.close()
        await store.close()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_listening.wait(30)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


class Reply(NamedTuple):
    status: int
    value: Any
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Of a refusal."""
        assert self.status >= 400, self
        return str(self.value["code"])


class Api:
    def __init__(self, port: int, encoding: Codec = Codec.JSON) -> None:
        self.encoding = encoding
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        coding: Any = msgspec.json if encoding is Codec.JSON else msgspec.msgpack
        self._encode, self._decode = coding.encode, coding.decode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()

    def __call__(self, method: str, path: str, body: Any = None, *, token: str = "", raw: bytes = b"") -> Reply:
        headers = {"Content-Type": _TYPES[self.encoding]}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        sent = raw or (None if body is None else self._encode(body))
        self._connection.request(method, f"/api/v1{path}", sent, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        kind = answer.headers.get("Content-Type", "")
        assert not text or kind.replace("problem+", "") == _TYPES[self.encoding]
        value = self._decode(text) if text else None
        return Reply(answer.status, value, dict(answer.headers))

    def get(self, path: str, **more: Any) -> Any:
        """The value of a good answer."""
        return self.good("GET", path, **more)

    def good(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        reply = self(method, path, body, **more)
        assert reply.status < 300, reply
        return reply.value


def segment(name: str) -> str:
    return quote(name, safe="")
