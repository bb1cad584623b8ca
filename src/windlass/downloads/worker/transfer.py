"""Transfer of one body into its temporary file, from the start or from where an earlier attempt broke off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.outbound import (
    FetchRequest,
    IncomingResponse,
    Outbound,
    RequestFailed,
    ResponseTooLarge,
    TruncatedBody,
)

from .content_type import LOOKED_AT, mime_type_of
from .failures import PREPARING, DownloadFailure, connection_failure, status_failure
from .globs import Globs
from .resume import PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE, ResumePoint, continued_length, may_resume, resume_point
from .temp_file import TempFile
from .threads import ThreadPool

WRITE_AT_ONCE = 1024 * 1024
SHORTEST_TIMEOUT_S = 0.001

ProgressCallback: TypeAlias = Callable[[int, int | None], None]  # received bytes, and the length if known


class FetchedBody(NamedTuple):
    """Complete body."""

    status: int  # as it is reported: that of the answer that began the body
    last_status: int  # of the last answer, as it is counted
    mime_type: str
    unwritten: list[bytes]  # last parts, not yet written


class Transfer:
    """One transfer. After `run` has failed, `point` says where the next attempt may continue; None: nowhere."""

    def __init__(
        self,
        outbound: Outbound,
        threads: ThreadPool,
        wanted: FetchRequest,
        globs: Globs,
        temp: TempFile,
        on_progress: ProgressCallback,
        point: ResumePoint | None,
    ) -> None:
        self._outbound = outbound
        self._threads = threads
        self._wanted = wanted
        self._globs = globs
        self._temp = temp
        self._on_progress = on_progress
        self._begun_at_s = time.monotonic()
        self._incoming: IncomingResponse | None = None  # answer whose body is being read
        self._unwritten: list[bytes] = []
        self.point = point

    async def run(self) -> FetchedBody:
        """Fetch the body. Raise DownloadFailure, or OSError for a disk error."""
        try:
            return await self._continue_or_start()
        except BadInput as error:
            raise DownloadFailure(PREPARING, str(error)) from error
        except RequestFailed as error:
            await self._note_break()
            answered = self._incoming and (self.point or self._incoming)
            raise connection_failure(error, answered.status if answered else 0) from error

    async def _continue_or_start(self) -> FetchedBody:
        if self.point is not None:
            body = await self._continue(self.point)
            if body is not None:
                return body
            await self._start_over()
            self._wanted = self._with_time_left()
        async with self._outbound.get(self._wanted) as incoming:
            return await self._receive(incoming, 0, incoming.length)

    async def _continue(self, point: ResumePoint) -> FetchedBody | None:
        """Ask for the rest. None: the origin cannot continue this body, so ask for all of it."""
        wanted = msgspec.structs.replace(self._wanted, headers={**self._wanted.headers, **point.headers})
        async with self._outbound.get(wanted) as incoming:
            if incoming.status == RANGE_NOT_SATISFIABLE:
                return None
            if incoming.status == PARTIAL_CONTENT:
                length = continued_length(point, incoming)
                return None if length is None else await self._receive(incoming, point.received, length)
            if incoming.status < 400:  # the whole body, because it has changed or the origin ignores ranges
                await self._start_over()
            return await self._receive(incoming, 0, incoming.length)

    def _with_time_left(self) -> FetchRequest:
        if self._wanted.timeout_s is None:
            return self._wanted
        left_s = self._begun_at_s + self._wanted.timeout_s - time.monotonic()
        return msgspec.structs.replace(self._wanted, timeout_s=max(SHORTEST_TIMEOUT_S, left_s))

    async def _start_over(self) -> None:
        self.point, self._incoming = None, None
        await self._threads.run(self._temp.clear)

    async def _receive(self, incoming: IncomingResponse, offset: int, length: int | None) -> FetchedBody:
        """Write the body to the temporary file. The type is checked as soon as it is known, so an unwanted body is not
        fetched to its end."""
        if incoming.status >= 400:
            raise status_failure(incoming.status, incoming.reason, incoming.headers)
        if (length or 0) > self._wanted.size_max:
            raise ResponseTooLarge(f"The body has more than {self._wanted.size_max} bytes, the maximum.")
        self._incoming = incoming
        status = self.point.status if offset and self.point else incoming.status
        beginning = await self._threads.run(self._temp.read_start, LOOKED_AT) if offset else b""
        mime_type = self._check_type(beginning, status) if len(beginning) >= LOOKED_AT else ""
        waiting, received = 0, offset
        while part := await incoming.read():
            self._unwritten.append(part)
            waiting += len(part)
            received += len(part)
            self._on_progress(received, length)
            if not mime_type:
                beginning += part[:LOOKED_AT]
                mime_type = self._check_type(beginning, status) if len(beginning) >= LOOKED_AT else ""
            if waiting >= WRITE_AT_ONCE:
                await self._write()
                waiting = 0
        if offset and received != length:
            raise TruncatedBody("unexpected EOF")
        return FetchedBody(status, incoming.status, mime_type or self._check_type(beginning, status), self._unwritten)

    async def _write(self) -> None:
        parts, self._unwritten = self._unwritten, []
        await self._threads.run(self._temp.write, parts)

    async def _note_break(self) -> None:
        """Note where to continue. Without an answer it is where this attempt has begun, if it continued another."""
        if self._incoming is None:
            return
        await self._write()
        received = await self._threads.run(self._temp.size)
        if self.point is not None:
            self.point = msgspec.structs.replace(self.point, received=received)
        elif may_resume(self._wanted.headers):
            self.point = resume_point(self._wanted.url, self._incoming, received)
        if self.point is not None and self.point.length is not None and received >= self.point.length:
            self.point = None

    def _check_type(self, beginning: bytes, status: int) -> str:
        mime_type = mime_type_of(beginning)
        if mismatch := self._globs.mismatch(mime_type):
            raise DownloadFailure("checking the mime type", mismatch, response_code=status, counted_as=".mime")
        return mime_type
