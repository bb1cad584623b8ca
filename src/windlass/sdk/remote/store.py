"""What stands in the place of a store when the engine is behind a server: it performs requests, awaited or at once, and
makes ids. Of the engine itself it offers nothing."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from windlass.core.errors import BadSetting, WindlassError
from windlass.core.ids import make_id, partition_of_id
from windlass.core.job import Durability
from windlass.core.partition import partition_of
from windlass.store.driver import run, run_sync

from .address import ServerAddress
from .async_session import Session
from .request import Request, Requests, get, read
from .retry_policy import Patience
from .sync_session import Connections

T = TypeVar("T")


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself."""

    version: str
    partitions: int


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """As a deployment is shown."""

    version: str
    product: str = "Windlass server"


class RemoteStore:
    """Opens by itself with the first request; close it when done."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str = "",
        durability: Durability | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self.endpoint = address
        self.asked_durability = durability  # None: the server's
        self.deployment: Server | None = None
        self.partitions = 1
        self._token = token
        self._patience_s = patience_s
        self._opening = threading.Lock()
        self._session = Session(address, token)
        self._connections = Connections(address, token)

    # As a store has it, for what is checked before anything is asked
    durability: Durability = "memory"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_offered(f"`{name}` of a store")

    # Ids

    def partition_of_queue(self, queue: str) -> int:
        return partition_of(queue, self.partitions)

    def partition_of_job(self, job_id: bytes) -> int:
        return partition_of_id(job_id) % self.partitions

    def new_id(self, queue: str) -> bytes:
        return self.new_ids([queue])[0]

    def new_ids(self, queues: Sequence[str]) -> list[bytes]:
        """Made here, so that a request which is sent again is about the same jobs."""
        at_ms = int(time.time() * 1000)
        return [make_id(at_ms, self.partition_of_queue(queue), secrets.randbits(64)) for queue in queues]

    # Opening and closing

    async def open(self) -> Server:
        if self.deployment is None:
            await asyncio.to_thread(self.open_sync)
        return cast(Server, self.deployment)

    def open_sync(self) -> Server:
        """Asks how the deployment is divided; a wrong address or token is found out here."""
        with self._opening:
            if self.deployment is None:
                self._opened(self._perform_sync(get("/info", Info)))
            return cast(Server, self.deployment)

    def _opened(self, found: Info) -> None:
        self.partitions = found.partitions
        self.deployment = Server(version=found.version)

    def clone(self) -> RemoteStore:
        """Another one for the same server, for another event loop; close it."""
        other = RemoteStore(
            self.endpoint, token=self._token, durability=self.asked_durability, patience_s=self._patience_s
        )
        self.open_sync()
        other.partitions, other.deployment = self.partitions, self.deployment
        return other

    async def close(self) -> None:
        await self._session.close()
        self.close_sync()

    def close_sync(self) -> None:
        self._connections.close()

    async def __aenter__(self) -> RemoteStore:
        await self.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    # Performing

    async def run(self, flow: Requests[T]) -> T:
        await self.open()
        return await run(flow, self.perform)

    def run_sync(self, flow: Requests[T]) -> T:
        self.open_sync()
        return run_sync(flow, self._perform_sync)

    def start_sync(self, flow: Requests[T]) -> Callable[[], T]:
        """Over HTTP nothing is sent ahead."""
        return lambda: self.run_sync(flow)

    def start(self, flow: Requests[T]) -> Coroutine[Any, Any, T]:
        return self.run(flow)

    async def perform(self, asked: Any) -> Any:
        request = _request(asked)
        patience = Patience(self._patience_s, time.monotonic())
        while True:
            try:
                return read(self.endpoint, request, await self._session.send(request))
            except WindlassError as error:
                pause_s = patience.pause_s(error, request, time.monotonic())
            await asyncio.sleep(pause_s)

    def _perform_sync(self, asked: Any) -> Any:
        request = _request(asked)
        patience = Patience(self._patience_s, time.monotonic())
        while True:
            try:
                return read(self.endpoint, request, self._connections.send(request))
            except WindlassError as error:
                pause_s = patience.pause_s(error, request, time.monotonic())
            time.sleep(pause_s)

    # For those who follow

    @property
    def session(self) -> Session:
        return self._session

    @property
    def connections(self) -> Connections:
        return self._connections

    @property
    def patience(self) -> Patience:
        return Patience(self._patience_s, time.monotonic())


def _request(asked: Any) -> Request:
    """What no method of the remote service has made is a call of the engine."""
    if not isinstance(asked, Request):
        call = asked[0] if isinstance(asked, list) else asked
        raise not_offered(f"`{getattr(call, 'operation', 'this')}`")
    return asked


def not_offered(what: str) -> BadSetting:
    return BadSetting(f"{what} is not offered over HTTP; give the URL of the engine itself (redis://…) for it.")
