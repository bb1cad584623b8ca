"""Web application of a server process, and everything that its roles run in the background. The listener of
`windlass serve` and an ASGI server of another program are two ways in to the same application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping

from windlass import dashboard
from windlass.background.bulk_runner import BulkRunner
from windlass.background.loop import log_unexpected_end
from windlass.background.push_dispatcher import PushDispatcher
from windlass.dialects import jobber, lightjq, native, operator_routes
from windlass.downloads import api
from windlass.downloads.startup import download_base, run_downloads
from windlass.outbound import Outbound, PolicySource
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app import health
from windlass.web.app.app_state import AppState, RequestAuthenticator
from windlass.web.app.application import WebApplication
from windlass.web.app.router import Router, Routes
from windlass.web.app.token_table import TokenTable

from .alerts import run_alerts
from .callbacks import run_notifier
from .outbound_policy import policy_of

# Parts of the application by name: the dialects over HTTP, and the dashboard.
NATIVE, DASHBOARD = "native", "dashboard"
PARTS: Mapping[str, tuple[Routes, ...]] = {
    NATIVE: native.ROUTES,
    "lightjq": lightjq.ROUTES,
    "jobber": (jobber.routes,),
    "downloader": api.ROUTES,
    DASHBOARD: dashboard.ROUTES,
}
OPERATOR_ROUTES = (health.routes, operator_routes.routes)  # of every process


def routes_of(parts: Iterable[str]) -> list[Routes]:
    """Return the routes of these parts, in the order of the table: the first of overlapping routes wins."""
    wanted = frozenset(parts)
    served = [routes for part, tables in PARTS.items() if part in wanted for routes in tables]
    return [*served, *OPERATOR_ROUTES]


def build_application(state: AppState, authenticator: RequestAuthenticator, routes: Iterable[Routes]) -> WebApplication:
    settings = state.settings
    if settings.dashboard:
        state.render_error_page = dashboard.render_error_page
    return WebApplication(Router(routes), state, authenticator, settings.body_max)


@contextlib.asynccontextmanager
async def run_roles(state: AppState, *, is_local: bool, own_url: str) -> AsyncIterator[TokenTable]:
    """Run the background work of the roles in the settings, until the block ends. `is_local`: only this machine can
    reach the server. `own_url`: URL of the server; empty: unknown, or it serves no HTTP."""
    service, settings = state.service, state.settings
    base = download_base(settings, own_url)
    async with contextlib.AsyncExitStack() as stack:
        tokens = await stack.enter_async_context(_token_table(service, settings))
        policy = state.policy = policy_of(settings, tokens, is_local=is_local)
        await stack.enter_async_context(_run_push_dispatcher(service, policy))
        await stack.enter_async_context(_run_bulk_actions(service))
        await stack.enter_async_context(run_alerts(service, settings, own_url))
        notifier = await stack.enter_async_context(run_notifier(service, policy, settings))
        await stack.enter_async_context(run_downloads(service, policy, settings, base))
        state.callback_counters = notifier.counters if notifier else dict
        yield tokens


@contextlib.asynccontextmanager
async def _token_table(service: Service, settings: Settings) -> AsyncIterator[TokenTable]:
    """Open the token table. It is read before the first request, so that the body limit of that request is right."""
    table = TokenTable(service, settings.token)
    try:
        await table.refresh()
        yield table
    finally:
        await table.close()


@contextlib.asynccontextmanager
async def _run_push_dispatcher(service: Service, policy: PolicySource) -> AsyncIterator[None]:
    """Push jobs to workers until the block ends; pushes in progress are completed."""
    async with Outbound(policy) as outbound:
        dispatching = asyncio.create_task(PushDispatcher(outbound).run(service), name="windlass-dispatcher")
        dispatching.add_done_callback(log_unexpected_end)
        try:
            yield
        finally:
            dispatching.cancel()
            await asyncio.wait({dispatching})


@contextlib.asynccontextmanager
async def _run_bulk_actions(service: Service) -> AsyncIterator[None]:
    """Run bulk actions until the block ends."""
    running = asyncio.create_task(BulkRunner().run(service), name="windlass-bulk-runner")
    running.add_done_callback(log_unexpected_end)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def prepare_pages(settings: Settings) -> None:
    """Load the pages of the dashboard in a thread, so that the first view is fast."""
    if settings.dashboard:
        await asyncio.to_thread(dashboard.prepare)
