"""Liveness and readiness routes for supervisors and load balancers. They need no token."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.core.errors import WindlassError
from windlass.wire.problems import HttpRefusal

from .app_state import AppState
from .request_context import RequestContext
from .router import Routes

routes = Routes(tag="Health")

PING_TIMEOUT_S = 1.0


class Health(msgspec.Struct, frozen=True):
    status: str


class NotReady(HttpRefusal):
    code = "not_ready"
    status = 503
    sentence = "This server is not ready; try again in a moment."
    headers = (("Retry-After", "1"),)


@routes.get("/healthz", roles=None, response=Health)
async def healthz(context: RequestContext[None, None]) -> Health:
    """Check whether the process answers.

    200 as long as it does, whatever the state of the engine: a process that only lacks its engine must not be
    restarted."""
    return Health("ok")


@routes.get("/readyz", roles=None, response=Health, refuses=(NotReady,))
async def readyz(context: RequestContext[None, None]) -> Health:
    """Check whether requests should be sent here.

    200 when the engine answers within a second and the background loops run; else 503 with a sentence that says what
    is missing."""
    missing = await _missing(context.state)
    if missing:
        raise NotReady(" ".join(missing))
    return Health("ready")


async def _missing(state: AppState) -> list[str]:
    if state.stopping.is_set():
        return ["The server is stopping."]
    missing = await _missing_engine(state)
    late = state.liveness.late(state.service.store.partitions)
    if late:
        among = f" of the partitions {', '.join(map(str, late))}" if state.service.store.partitions > 1 else ""
        missing.append(f"The background loops{among} have not run recently.")
    return missing


async def _missing_engine(state: AppState) -> list[str]:
    try:
        async with asyncio.timeout(PING_TIMEOUT_S):
            await state.service.ping()
    except TimeoutError:
        return [f"The engine has not answered within {PING_TIMEOUT_S:g} s."]
    except WindlassError as error:
        return [f"The engine does not answer: {error}"]
    return []
