"""Server process: engine, background loops and listeners, started in this order and stopped in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from msgspec import structs

from windlass.background.liveness import Liveness
from windlass.core.errors import BadSetting
from windlass.core.server_roles import API, parse_roles
from windlass.dialects.bedrock.command_router import CommandRouter
from windlass.dialects.bedrock.connections.listener import BOUNDS as BEDROCK_BOUNDS
from windlass.dialects.bedrock.connections.listener import BedrockListener
from windlass.dialects.bedrock.rules import RULES
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store
from windlass.web.app.access_log import AccessLog
from windlass.web.app.app_state import AppState
from windlass.web.app.auth import Authenticator
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.listener import HttpListener, OnAnswer
from windlass.web.listener.messages import Client, Head
from windlass.web.listener.tls import tls_context
from windlass.web.metrics.meter import Meter

from .application import DASHBOARD, PARTS, build_application, prepare_pages, routes_of, run_roles
from .service import open_service
from .sockets import Sockets, address_of, are_local, open_sockets, url_of

Frontend: TypeAlias = HttpListener | BedrockListener
ROUTES = tuple(routes_of(PARTS))


class Server:
    """Running server. Setting `stop_now` cancels the requests in progress when it stops."""

    def __init__(self, service: Service, settings: Settings, sockets: Sockets, liveness: Liveness) -> None:
        self.service = service
        self.liveness = liveness
        self.state = AppState(service, liveness, settings)
        self.settings = settings
        self.roles = parse_roles(settings.roles)
        self.url = url_of(sockets.http, settings) if sockets.http else ""  # empty: no HTTP listener
        self.bedrock = (
            address_of(sockets.bedrock) if sockets.bedrock else ""
        )  # host and port; empty: no Bedrock listener
        self.is_local = are_local(sockets.all)
        # Without the API role, downloads are ordered at other processes, so local sockets prove nothing about clients.
        self.is_only_local = self.is_local and API in self.roles
        self.tokens = 0
        self.stop_now = asyncio.Event()

    async def stop(self, listeners: Sequence[Frontend]) -> None:
        """Stop the listeners. Accepted requests are completed within the grace period; long polls end at once."""
        stopping = asyncio.create_task(_stop(listeners, self.settings.grace_ms / 1000))
        await asyncio.sleep(0)  # the listeners stop first, so that the next answers announce `Connection: close`
        self.state.stop()
        cancelled = asyncio.create_task(self.stop_now.wait())
        await asyncio.wait({stopping, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await _stop(listeners, 0)
        cancelled.cancel()
        await stopping


async def _stop(listeners: Sequence[Frontend], grace_s: float) -> None:
    async with asyncio.TaskGroup() as group:
        for listener in listeners:
            group.create_task(listener.stop(grace_s))


@contextlib.asynccontextmanager
async def open_server(
    store: Store, settings: Settings | None = None, sockets: Sockets | None = None
) -> AsyncIterator[Server]:
    """Run a server in this process until the block ends. It opens and closes the store. `sockets`: open sockets to use
    instead of those in the settings."""
    settings = settings or Settings()
    tls = _tls(settings)
    listening = sockets or open_sockets(settings)
    try:
        liveness = Liveness()
        async with open_service(store, liveness) as service:
            server = Server(service, settings, listening, liveness)
            await _check_exposure(server)
            own_url = server.url if API in server.roles else ""
            async with contextlib.AsyncExitStack() as stack:
                tokens = await stack.enter_async_context(
                    run_roles(server.state, is_local=server.is_only_local, own_url=own_url)
                )
                log = await stack.enter_async_context(_access_log(settings))
                authenticator = Authenticator(
                    tokens, is_open=server.is_local or settings.allow_anonymous, is_local=server.is_local
                )
                frontends: list[Frontend] = [_http_listener(server, authenticator, log)] if listening.http else []
                if listening.bedrock:
                    frontends.append(_bedrock_listener(server, authenticator))
                preparing = asyncio.create_task(prepare_pages(settings))
                try:
                    for frontend, its in zip(frontends, listening, strict=False):
                        await frontend.start(sock=its, ssl=tls)
                    yield server
                finally:
                    await server.stop(frontends)
                    await preparing
    finally:
        listening.close()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_certificate:
        return tls_context(settings.tls_certificate, settings.tls_key or None)
    if settings.tls_key:
        raise BadSetting("There is a TLS key but no certificate; set --tls-certificate or WINDLASS_TLS_CERTIFICATE.")
    return None


async def _check_exposure(server: Server) -> None:
    """Refuse to start a server that other machines can reach without a token."""
    settings = server.settings
    server.tokens = len((await server.service.tokens()).tokens) + bool(settings.token)
    if not (server.is_local or server.tokens or settings.allow_anonymous):
        raise BadSetting(
            f"{settings.host} can be reached by others, and no token exists: every client would be admin. Create a "
            "token (windlass tokens create) or set WINDLASS_TOKEN; or listen on 127.0.0.1; or use --allow-anonymous to "
            "allow it."
        )


def _http_listener(server: Server, authenticator: Authenticator, log: AccessLog | None) -> HttpListener:
    settings = server.settings
    parts = [part for part in PARTS if settings.dashboard or part != DASHBOARD]
    routes = routes_of(parts if API in server.roles else ())
    application = build_application(server.state, authenticator, routes)
    bounds = Bounds(connections_max=settings.connections_max)
    listener = HttpListener(application, bounds, _on_answer(server.state.meter, log))
    server.state.meter.listener = listener
    return listener


def _bedrock_listener(server: Server, authenticator: Authenticator) -> BedrockListener:
    settings = server.settings
    rules = RULES[settings.bedrock_rules]
    command_router = CommandRouter(
        server.service,
        server.state.batcher,
        data_max=settings.bedrock_data_max,
        query_timeout_s=settings.bedrock_query_timeout_ms / 1000,
        rules=rules,
        job_timeout_ms=settings.bedrock_job_timeout_ms,
    )
    bounds = structs.replace(BEDROCK_BOUNDS, connections_max=settings.bedrock_connections_max)
    return BedrockListener(command_router, authenticator, bounds, rules.verbs)


@contextlib.asynccontextmanager
async def _access_log(settings: Settings) -> AsyncIterator[AccessLog | None]:
    """Open the access log if it is enabled. It is closed in a thread, because closing waits for the writer."""
    if not settings.access_log:
        yield None
        return
    log = AccessLog()
    log.open()
    try:
        yield log
    finally:
        await asyncio.to_thread(log.close)


def _on_answer(meter: Meter, log: AccessLog | None) -> OnAnswer:
    if log is None:
        return meter.on_answer

    def both(head: Head | None, status: int, size: int, duration_s: float, client: Client) -> None:
        meter.on_answer(head, status, size, duration_s, client)
        log.on_answer(head, status, size, duration_s, client)

    return both
