"""Jobber and the downloader: one POST for each job, an id that the server makes, and nothing to repeat it by."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import AsyncIterator, Sequence

import msgspec
from aiohttp import web

from ..history import Seen
from .by_http import Http, decoded, refusal
from .wishes import Wish

VISIBLE_AGAIN_S = 2.0
AGGREGATIONS, AT_ONCE = 3, 2
DOWNLOADS = "downloads"
FILE = b"a file of a few bytes\n" * 50


async def _posted(http: Http, path: str, body: object) -> dict[str, str]:
    """Refusals are plain text there."""
    status, content = await http.send("POST", path, msgspec.json.encode(body), {})
    if status != 201:
        raise refusal(status, None)
    answer: dict[str, str] = decoded(content)
    return answer


class JobberCounter:
    is_repeatable = False

    def __init__(self, http: Http, kind: str) -> None:
        self._http = http
        self._type = kind
        self.queue = f"job_queue_{kind}"

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        (wish,) = wishes
        body = {"type": self._type, "payload": wish.payload, "visibility_timeout": VISIBLE_AGAIN_S}
        answer = await _posted(self._http, "/jobber/queue", body)
        return [Seen(id=answer["job-id"], outcome="queued")]


class DownloadCounter:
    """A download is known by the key in its order: the id that it is given is not the job's."""

    is_repeatable = False

    def __init__(self, http: Http, origin: str, callback: str) -> None:
        self._http = http
        self._origin = origin
        self._callback = callback

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        (wish,) = wishes
        group = f"group {zlib.crc32(wish.key.encode()) % AGGREGATIONS}"
        body = {
            "url": self._origin, "aggr_id": group, "aggr_limit": AT_ONCE, "callback_url": self._callback,
            "extra": wish.key,
        }  # fmt: skip
        await _posted(self._http, "/downloader/download", body)
        return [Seen(outcome="queued", is_callback_owed=True)]


@contextlib.asynccontextmanager
async def serving_files(*, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The URL of a file, while it is served."""

    async def give(_request: web.Request) -> web.Response:
        return web.Response(body=FILE, content_type="text/plain")

    application = web.Application()
    application.router.add_get("/{anything:.*}", give)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        yield f"http://{host}:{port or runner.addresses[0][1]}/file.txt"
    finally:
        await runner.cleanup()
