"""GET /files: downloaded files, for callers that know the id. The headers prevent that a downloaded page runs as part
of this site."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from windlass.core.errors import Unauthorized
from windlass.core.ids import number_of_download_id
from windlass.deployment import download_dir
from windlass.downloads.worker.content_type import EMPTY, LOOKED_AT, UNKNOWN, mime_type_of
from windlass.downloads.worker.order import QUEUE, is_id, path_of
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS
from windlass.web.listener.messages import StreamedResponse
from windlass.wire.problems import HttpRefusal

from .refusals import routes_of

routes = routes_of("Downloads")

READ_AT_ONCE = 256 * 1024
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_SAFE_HEADERS = (
    ("Content-Disposition", "attachment"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; sandbox"),
    ("Cache-Control", "private"),
    ("Accept-Ranges", "bytes"),
)


class RangeNotSatisfiable(HttpRefusal):
    code = "range_not_satisfiable"
    status = 416
    sentence = "The file has no such part."

    def __init__(self, size: int = 0) -> None:
        super().__init__(f"The file has {size} bytes.")
        self.headers = (("Content-Range", f"bytes */{size}"),)


class ByteRange(NamedTuple):
    first: int
    length: int


@routes.get(
    "/files/{folder}/{name}", operation="downloaded_file", roles=None, response_media="application/octet-stream",
    waits=True, other_responses={206: None}, headers={"range": "One part of the file, such as bytes=0-1023."},
    refuses=(NotFound, RangeNotSatisfiable, Unauthorized),
)  # fmt: skip
async def downloaded_file(context: RequestContext[None, None]) -> StreamedResponse:
    """Return a downloaded file.

    No token is needed: the callback has the URL, which cannot be guessed. The id of a job that was not made by POST
    /download can be guessed, so its file needs a token for the queue, once tokens exist."""
    name = context.path["name"]
    settings = context.state.settings
    if settings.download_s3_bucket or not is_id(name) or context.path["folder"] != name[:3]:
        raise NotFound
    if number_of_download_id(name) is not None:
        head = context.request.head
        if not await context.state.still_admits(head, JOB_READERS, QUEUE):
            raise Unauthorized("The file of this download needs a token: Authorization: Bearer.")
    file, size, media = await asyncio.to_thread(_open, download_dir(settings) / path_of(name))
    try:
        part = _parse_range(context.request.head.headers.get("range", ""), size)
    except RangeNotSatisfiable:
        file.close()
        raise
    wanted = part or ByteRange(0, size)
    content_range = (
        ((("Content-Range", f"bytes {wanted.first}-{wanted.first + wanted.length - 1}/{size}"),)) if part else ()
    )
    headers = (*_SAFE_HEADERS, *content_range)
    return StreamedResponse(206 if part else 200, _Chunks(file, wanted), headers, media, wanted.length)


def _open(path: Path) -> tuple[BinaryIO, int, str]:
    """Open a regular file. Symbolic links are not followed."""
    try:
        file = open(path, "rb", opener=_opener)  # noqa: SIM115 (Path.open takes no opener)
    except OSError as error:
        raise NotFound from error
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotFound
        media = mime_type_of(file.read(LOOKED_AT))
        return file, status.st_size, UNKNOWN if media == EMPTY else media
    except BaseException:
        file.close()
        raise


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _parse_range(header: str, size: int) -> ByteRange | None:
    """Parse a Range header. Return None for the whole file, also if the header is no single range of bytes. Raise
    RangeNotSatisfiable if the file has no such part."""
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:  # a suffix: the last bytes
        length = min(int(found[2]), size)
        if not length:
            raise RangeNotSatisfiable(size)
        return ByteRange(size - length, length)
    first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
    if found[2] and int(found[2]) < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return ByteRange(first, last - first + 1)


class _Chunks:
    """Chunks of a part of a file. The file is closed even if nothing is read."""

    def __init__(self, file: BinaryIO, part: ByteRange) -> None:
        self._file = file
        self._left = part.length
        file.seek(part.first)

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        data = await asyncio.to_thread(self._file.read, min(self._left, READ_AT_ONCE)) if self._left else b""
        if not data:
            raise StopAsyncIteration
        self._left -= len(data)
        return data

    async def aclose(self) -> None:
        self._file.close()
