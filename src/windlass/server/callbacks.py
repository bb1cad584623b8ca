"""Notifier of callbacks, configured by the settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from windlass.background.alerts.bodies import alert_body
from windlass.background.callbacks.backend import Backend
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.kafka_backend import KafkaBackend
from windlass.background.callbacks.notifier import Notifier
from windlass.background.callbacks.smtp_backend import SmtpBackend
from windlass.background.loop import log_unexpected_end
from windlass.background.stats_publisher import publish_stats
from windlass.core.alerts.message import ALERT_QUEUE
from windlass.core.alerts.smtp_url import parse_smtp_url
from windlass.core.alerts.targets import MAIL, SLACK, WEBHOOK
from windlass.core.callbacks.kafka_config import parse_kafka_config
from windlass.core.callbacks.signing import parse_keys
from windlass.core.server_roles import NOTIFIER, parse_roles
from windlass.downloads import worker
from windlass.outbound import Outbound, PolicySource
from windlass.service import Service
from windlass.settings import Settings

DOWNLOAD_ATTEMPTS = 2  # further attempts need POST /downloader/retry


@contextlib.asynccontextmanager
async def run_notifier(service: Service, policy: PolicySource, settings: Settings) -> AsyncIterator[Notifier | None]:
    """Deliver callbacks until the block ends; deliveries in progress are completed. Yield None if this server does not
    deliver callbacks."""
    if not settings.callback_concurrency or NOTIFIER not in parse_roles(settings.roles):
        yield None
        return
    async with Outbound(policy) as outbound, _backends(outbound, settings) as backends:
        keep_ms = settings.download_keep_ms
        notifier = Notifier(
            backends,
            bodies={worker.QUEUE: lambda pending: worker.callback_body(service, pending), ALERT_QUEUE: alert_body},
            on_delivered={worker.QUEUE: lambda pending: worker.on_delivered(service, pending, keep_ms)},
            attempts_by_queue={worker.QUEUE: DOWNLOAD_ATTEMPTS},
            max_in_flight=settings.callback_concurrency,
            max_per_destination=settings.callback_host_concurrency,
            attempts=settings.callback_attempts,
            retry_delay_ms=settings.callback_retry_delay_ms,
        )
        delivering = asyncio.create_task(notifier.run(service), name="windlass-notifier")
        delivering.add_done_callback(log_unexpected_end)
        try:
            async with publish_stats(service, NOTIFIER, notifier.counters):
                yield notifier
        finally:
            delivering.cancel()
            await asyncio.wait({delivering})


@contextlib.asynccontextmanager
async def _backends(outbound: Outbound, settings: Settings) -> AsyncIterator[dict[str, Backend]]:
    backends: dict[str, Backend] = {"http": HttpBackend(outbound, parse_keys(settings.callback_keys))}
    # Slack knows no signature. Its URL is as much outside as any other, so the policy for addresses applies.
    backends |= {WEBHOOK: backends["http"], SLACK: HttpBackend(outbound)}
    backends[MAIL] = SmtpBackend(parse_smtp_url(settings.smtp_url), settings.mail_from)
    if settings.callback_kafka:
        backends["kafka"] = KafkaBackend(parse_kafka_config(settings.callback_kafka))
    try:
        yield backends
    finally:
        for backend in backends.values():
            await backend.close()
