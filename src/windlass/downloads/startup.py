"""Start of the download worker from the settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from windlass.background.loop import log_unexpected_end
from windlass.background.stats_publisher import publish_stats
from windlass.core.errors import BadSetting
from windlass.core.server_roles import PROCESSOR, parse_roles
from windlass.deployment import download_dir
from windlass.outbound import Outbound, PolicySource
from windlass.service import Service
from windlass.settings import Settings

from .api.aggregation import prepare, proxy_of
from .api.refusals import PREFIX
from .worker import DownloadOptions, DownloadWorker, parse_headers


def download_base(settings: Settings, own_url: str) -> str:
    """Return the base of file URLs. `own_url` is the URL of this server; empty if it serves no HTTP."""
    if settings.download_url:
        return settings.download_url.rstrip("/")
    if not own_url and not settings.port and PROCESSOR in parse_roles(settings.roles):
        raise BadSetting(
            "Downloaded files have no URL: set WINDLASS_DOWNLOAD_URL, or WINDLASS_PORT to the port of the server that "
            "serves the files."
        )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "https" if settings.tls_certificate else "http"
    return f"{own_url or f'{scheme}://{host}:{settings.port}'}{PREFIX}/files"


def _options(settings: Settings, base: str) -> DownloadOptions:
    return DownloadOptions(
        directory=download_dir(settings),
        base=base,
        slots=settings.download_slots,
        retry_delay_ms=settings.download_retry_delay_ms,
        size_max=settings.download_max,
        headers=parse_headers(settings.download_headers),
        s3_bucket=settings.download_s3_bucket,
        s3_region=settings.download_s3_region,
        s3_endpoint=settings.download_s3_endpoint,
    )


@contextlib.asynccontextmanager
async def run_downloads(service: Service, policy: PolicySource, settings: Settings, base: str) -> AsyncIterator[None]:
    """Run the download worker until the block ends. Downloads in flight are given back then."""
    if PROCESSOR not in parse_roles(settings.roles):
        yield
        return
    async with Outbound(policy) as outbound:
        worker = DownloadWorker(outbound, _options(settings, base), proxy_of=proxy_of, prepare=prepare)
        running = asyncio.create_task(worker.run(service), name="windlass-processor")
        running.add_done_callback(log_unexpected_end)
        try:
            async with publish_stats(service, PROCESSOR, worker.counters):
                yield
        finally:
            running.cancel()
            await asyncio.wait({running})
