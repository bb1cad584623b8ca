"""Alert rules of a server: the rules that its settings declare, and the evaluation of all rules."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

from windlass.background.alerts.evaluator import AlertEvaluator
from windlass.background.loop import log_unexpected_end
from windlass.core.alerts.declared import parse_tables
from windlass.core.alerts.rule import AlertRule
from windlass.core.errors import BadInput, BadSetting, WindlassError
from windlass.core.server_roles import NOTIFIER, parse_roles
from windlass.retry_loop import RetryLoop
from windlass.service import Service
from windlass.settings import Settings

log = logging.getLogger("windlass.server")


@contextlib.asynccontextmanager
async def run_alerts(service: Service, settings: Settings, own_url: str) -> AsyncIterator[None]:
    """Evaluate alert rules until the block ends, on servers with the role that delivers their messages. `own_url`:
    address of the server, for links, if the settings name none."""
    if NOTIFIER not in parse_roles(settings.roles):
        yield
        return
    evaluator = AlertEvaluator(settings.public_url or own_url)
    declared = read_declared(settings)
    running = asyncio.create_task(_declare_and_run(service, evaluator, declared), name="windlass-alerts")
    running.add_done_callback(log_unexpected_end)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def _declare_and_run(service: Service, evaluator: AlertEvaluator, declared: list[AlertRule] | None) -> None:
    if declared is not None:
        retry = RetryLoop(log, "Could not store the declared alert rules", WindlassError)
        await retry.until_done(lambda: _declare(service, declared))
    await evaluator.run(service)


async def _declare(service: Service, declared: list[AlertRule]) -> None:
    await service.declare_alerts(declared)


def read_declared(settings: Settings) -> list[AlertRule] | None:
    """Return the declared rules. None: this server declares nothing, so it leaves the rules of others alone."""
    if isinstance(settings.alerts, dict):
        return parse_tables(settings.alerts)
    if not settings.alerts:
        return None
    try:
        return parse_tables(tomllib.loads(Path(settings.alerts).read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, BadInput) as error:
        raise BadSetting(f"The alert rules in {settings.alerts} cannot be used: {error}") from error
