"""Mounted application: the API and the dashboard as an ASGI application inside another program.

It has one runtime per event loop, with a store of its own. The runtime starts with the first request, with the lifespan
of the host, or with `async with`: frameworks do not pass the events of their lifespan on to mounted applications."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from contextvars import Context
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

import msgspec

from windlass.background.liveness import Liveness
from windlass.background.loop import log_unexpected_end
from windlass.core.errors import BadSetting, EngineUnavailable, WindlassError
from windlass.core.job import Codec
from windlass.core.server_roles import API, NOTIFIER, PROCESSOR, parse_roles
from windlass.dashboard import login
from windlass.settings import Settings
from windlass.store.store import Store
from windlass.web.app.app_state import AppState
from windlass.web.app.auth import Authenticator
from windlass.web.app.content_negotiation import problem_response
from windlass.web.app.problems import InternalError
from windlass.web.asgi.host_auth import HostAuthenticator, RoleFunction
from windlass.web.asgi.request import send_response
from windlass.web.asgi.scope import Receive, Scope, Send
from windlass.web.asgi.transport import AsgiTransport

from .application import DASHBOARD, NATIVE, PARTS, build_application, prepare_pages, routes_of, run_roles
from .service import open_service

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

log = logging.getLogger("windlass.server")

# An event loop holds its tasks by weak references: without these, an application that its host forgets, as tests do,
# would be collected while it runs.
_running: set[asyncio.Task[None]] = set()
ROLES = f"{API},{NOTIFIER}"  # downloads need memory, a disk and a URL, which a web program seldom has to spare


class MountOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `asgi`."""

    role: RoleFunction | None
    login_url: str
    parts: frozenset[str]
    roles: str


def asgi(
    app: Windlass,
    *,
    role: RoleFunction | None = None,
    login_url: str = "",
    parts: Collection[str] = (NATIVE, DASHBOARD),
    roles: str = ROLES,
) -> MountedApplication:
    """Return the API and the dashboard of an application's deployment as an ASGI application.

    Every request needs an access token, as with `windlass serve`; there is no open mode. With `role`, the host decides
    instead: the function gets the ASGI scope and returns the name of a role, `windlass.Access(…)`, or None to refuse.
    It may be a coroutine function. `login_url` is the host's login page for people whose requests are refused. `parts`
    are native, dashboard, lightjq, jobber and downloader; `roles` are the server roles to run, as of `windlass serve`.
    """
    return MountedApplication(app, _check_options(role, login_url, parts, roles))


def _check_options(role: RoleFunction | None, login_url: str, parts: Collection[str], roles: str) -> MountOptions:
    wanted = frozenset([parts] if isinstance(parts, str) else parts)
    unknown = sorted(wanted - frozenset(PARTS))
    if unknown:
        raise BadSetting(f"{unknown[0]!r} is not a part of the application; the parts are {', '.join(PARTS)}.")
    if role is not None and not callable(role):
        raise BadSetting(f"`role` must be a function of the ASGI scope, not {role!r}; see docs/asgi.md.")
    if login_url and role is None:
        raise BadSetting("`login_url` needs `role`: without it, people log in with a token on Windlass's own page.")
    parse_roles(roles)
    return MountOptions(role=role, login_url=login_url, parts=wanted, roles=roles)


class MountedApplication:
    """ASGI application. Use `async with` in the lifespan of the host to start it before the first request and to stop
    it in order."""

    def __init__(self, app: Windlass, options: MountOptions) -> None:
        self._app = app
        self._options = options
        self._runtimes: WeakKeyDictionary[asyncio.AbstractEventLoop, Runtime] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})  # before it is accepted: the server answers 403

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            transport = await self._transport()
        except WindlassError as error:
            log.error("The mounted application could not start; the request is refused: %s", error)
            refusal = error if isinstance(error, EngineUnavailable) else InternalError()
            await send_response(send, problem_response(refusal, Codec.JSON), is_head=scope["method"] == "HEAD")
        else:
            await transport.handle(scope, receive, send)

    async def _transport(self) -> AsgiTransport:
        loop, store = asyncio.get_running_loop(), self._app.store
        found = self._runtimes.get(loop)
        if found is not None and found.source is not store:  # a test has replaced the connection
            await found.stop()
            found = self._runtimes.get(loop)
        if found is None:
            self._runtimes[loop] = found = Runtime(store, self._settings(), self._options)
            found.task.add_done_callback(log_unexpected_end)
            found.task.add_done_callback(lambda _: self._forget(loop, found))
        return await asyncio.shield(found.ready)

    def _forget(self, loop: asyncio.AbstractEventLoop, runtime: Runtime) -> None:
        if self._runtimes.get(loop) is runtime:
            del self._runtimes[loop]

    def _settings(self) -> Settings:
        """Return the settings of the deployment. Those of a listener do not apply: the host has its own."""
        options = self._options
        settings = msgspec.structs.replace(
            self._app.settings, base_path="", roles=options.roles, dashboard=DASHBOARD in options.parts
        )
        if PROCESSOR in parse_roles(options.roles) and not (settings.download_url or settings.public_url):
            raise BadSetting(
                "Downloaded files have no URL: set WINDLASS_PUBLIC_URL to the address of the mounted application, or "
                "WINDLASS_DOWNLOAD_URL."
            )
        return settings

    async def __aenter__(self) -> Self:
        await self._transport()
        return self

    async def __aexit__(self, *exc: object) -> None:
        found = self._runtimes.get(asyncio.get_running_loop())
        if found is not None:
            await found.stop()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan of a server that serves this application alone."""
        await receive()
        try:
            await self.__aenter__()
        except WindlassError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__()
        await send({"type": "lifespan.shutdown.complete"})


class Runtime:
    """The application in one event loop. Its task opens and closes everything, and ends with the loop at the latest."""

    def __init__(self, source: Store, settings: Settings, options: MountOptions) -> None:
        self.source = source
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[AsgiTransport] = loop.create_future()
        self._stopping = asyncio.Event()
        # Without the context of the request that starts it: background work is not part of its trace or transaction.
        self.task = loop.create_task(self._run(settings, options), name="windlass-mounted", context=Context())
        _running.add(self.task)
        self.task.add_done_callback(_running.discard)

    async def _run(self, settings: Settings, options: MountOptions) -> None:
        try:
            async with _open_transport(self.source, settings, options) as transport:
                self.ready.set_result(transport)
                await self._stopping.wait()
        except Exception as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
            self.ready.exception()  # it counts as retrieved: the request that waits for it may be gone
        finally:
            self.ready.cancel()

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.wait((self.task,))


@contextlib.asynccontextmanager
async def _open_transport(source: Store, settings: Settings, options: MountOptions) -> AsyncIterator[AsgiTransport]:
    liveness = Liveness()
    store = await asyncio.to_thread(source.clone)
    async with open_service(store, liveness) as service:
        state = AppState(service, liveness, settings)
        async with run_roles(state, is_local=False, own_url=settings.public_url.rstrip("/")) as tokens:
            host = None if options.role is None else HostAuthenticator(options.role)
            state.host_login = None if host is None else options.login_url
            routes = [table for table in routes_of(options.parts) if host is None or table is not login.routes]
            # Not open, wherever the server of the host listens: behind it may be a proxy, and the world.
            authenticator = host or Authenticator(tokens, is_open=False, is_local=False)
            transport = AsgiTransport(
                build_application(state, authenticator, routes),
                on_answer=state.meter.on_answer,
                on_host_stop=state.stop,
                identify=None if host is None else host.identify,
            )
            preparing = asyncio.create_task(prepare_pages(settings))
            try:
                yield transport
            finally:
                state.stop()
                await transport.stop(settings.grace_ms / 1000)
                await preparing
