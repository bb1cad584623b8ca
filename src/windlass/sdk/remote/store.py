"""Remote store: sends requests to a server in place of commands to an engine, and generates job ids."""

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
from windlass.core.namespace.format import NamespaceFormat
from windlass.core.partition import partition_of
from windlass.store.cache.queue_survey import QueueSurveys
from windlass.store.driver import run, run_sync

from .address import ServerAddress
from .async_session import AsyncHttpSession
from .request import ApiRequest, RequestFlow, get, read_response, reading_response
from .retry_policy import RequestRetryPolicy
from .sync_session import SyncHttpSession

T = TypeVar("T")


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Response to GET /info, as far as the store needs it."""

    version: str
    partitions: int
    namespace_format: NamespaceFormat | None = None  # None: the server is of version 0.1.0


class ServerDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """Description of the deployment behind a server."""

    version: str
    product: str = "Windlass server"
    format: NamespaceFormat | None = None


class RemoteStore:
    """Counterpart of Store over HTTP. It opens with the first request; close it after use.

    Attributes of Store that need the engine raise BadSetting."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str = "",
        durability: Durability | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self.endpoint = address
        self.requested_durability = durability  # None: that of the server
        self.deployment: ServerDeployment | None = None
        self.queue_surveys = QueueSurveys()  # without effect: the server has its own
        self.partitions = 1
        self._token = token
        self._patience_s = patience_s
        self._open_lock = threading.Lock()
        self._session = AsyncHttpSession(address, token)
        self._sync_session = SyncHttpSession(address, token)

    # Read by validation in the service; the server applies the requested durability.
    durability: Durability = "memory"
    namespace = ""  # the server's; clients build no keys

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_offered(f"`{name}` of a store")

    def partition_of_queue(self, queue: str) -> int:
        return partition_of(queue, self.partitions)

    def partition_of_job(self, job_id: bytes) -> int:
        return partition_of_id(job_id) % self.partitions

    def new_id(self, queue: str) -> bytes:
        return self.new_ids([queue])[0]

    def new_ids(self, queues: Sequence[str]) -> list[bytes]:
        """Generate job ids on the client, so that a repeated request enqueues the same jobs."""
        at_ms = int(time.time() * 1000)
        return [make_id(at_ms, self.partition_of_queue(queue), secrets.randbits(64)) for queue in queues]

    async def open(self) -> ServerDeployment:
        if self.deployment is None:
            await asyncio.to_thread(self.open_sync)
        return cast(ServerDeployment, self.deployment)

    def open_sync(self) -> ServerDeployment:
        """Read the number of partitions. A wrong address or token fails here."""
        with self._open_lock:
            if self.deployment is None:
                self._set_deployment(self._perform_sync(get("/info", ServerInfo)))
            return cast(ServerDeployment, self.deployment)

    def _set_deployment(self, info: ServerInfo) -> None:
        self.partitions = info.partitions
        self.deployment = ServerDeployment(version=info.version, format=info.namespace_format)

    def clone(self) -> RemoteStore:
        """Return another store for the same server, for another event loop. Close it after use."""
        other = RemoteStore(
            self.endpoint, token=self._token, durability=self.requested_durability, patience_s=self._patience_s
        )
        self.open_sync()
        other.partitions, other.deployment = self.partitions, self.deployment
        return other

    async def close(self) -> None:
        await self._session.close()
        self.close_sync()

    def close_sync(self) -> None:
        self._sync_session.close()

    async def __aenter__(self) -> RemoteStore:
        await self.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def run(self, flow: RequestFlow[T]) -> T:
        await self.open()
        with reading_response(self.endpoint):
            return await run(flow, self.perform)

    run_unjoined = run  # over HTTP nothing is joined

    def run_sync(self, flow: RequestFlow[T]) -> T:
        self.open_sync()
        with reading_response(self.endpoint):
            return run_sync(flow, self._perform_sync)

    def start_sync(self, flow: RequestFlow[T]) -> Callable[[], T]:
        """Return a function that runs the flow. Over HTTP nothing is sent ahead."""
        return lambda: self.run_sync(flow)

    def start(self, flow: RequestFlow[T]) -> Coroutine[Any, Any, T]:
        return self.run(flow)

    async def perform(self, effect: Any) -> Any:
        request = _check_request(effect)
        retries = self.new_retry_policy()
        while True:
            try:
                return read_response(self.endpoint, request, await self._session.send(request))
            except WindlassError as error:
                pause_s = retries.pause_s(error, request, time.monotonic())
            await asyncio.sleep(pause_s)

    def _perform_sync(self, effect: Any) -> Any:
        request = _check_request(effect)
        retries = self.new_retry_policy()
        while True:
            try:
                return read_response(self.endpoint, request, self._sync_session.send(request))
            except WindlassError as error:
                pause_s = retries.pause_s(error, request, time.monotonic())
            time.sleep(pause_s)

    @property
    def session(self) -> AsyncHttpSession:
        return self._session

    @property
    def sync_session(self) -> SyncHttpSession:
        return self._sync_session

    def new_retry_policy(self) -> RequestRetryPolicy:
        return RequestRetryPolicy(self._patience_s, time.monotonic())


def _check_request(effect: Any) -> ApiRequest:
    """Refuse commands to the engine: flows of the remote service yield requests only."""
    if not isinstance(effect, ApiRequest):
        command = effect[0] if isinstance(effect, list) else effect
        raise not_offered(f"`{getattr(command, 'operation', 'this')}`")
    return effect


def not_offered(what: str) -> BadSetting:
    return BadSetting(f"{what} is not available over HTTP; use the URL of the engine (redis://…) for it.")
