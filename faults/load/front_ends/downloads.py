"""The downloader's API: one POST per download. Its answer has no id of a job, and a repeated order is a second job."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from ...history import JobFacts
from ..job_generator import JobRequest
from .native_http import HttpClient, post_once

QUEUE = "downloads"
AGGREGATIONS, AT_ONCE = 3, 2
FILE = b"a file of a few bytes\n" * 50


class DownloadProducer:
    """A download is known by the key in its order: the id in the answer is not the job's."""

    is_repeatable = False

    def __init__(self, http: HttpClient, origin: str, callback: str) -> None:
        self._http = http
        self._origin = origin
        self._callback = callback

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        (request,) = requests
        group = f"group {zlib.crc32(request.key.encode()) % AGGREGATIONS}"
        body = {
            "url": self._origin, "aggr_id": group, "aggr_limit": AT_ONCE, "callback_url": self._callback,
            "extra": request.key,
        }  # fmt: skip
        await post_once(self._http, "/downloader/download", body)
        return [JobFacts(outcome="queued", expects_callback=True)]


@contextlib.asynccontextmanager
async def file_server(*, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve a file and yield its URL."""

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=FILE, content_type="text/plain")

    application = web.Application()
    application.router.add_get("/{anything:.*}", serve)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        yield f"http://{host}:{port or runner.addresses[0][1]}/file.txt"
    finally:
        await runner.cleanup()
