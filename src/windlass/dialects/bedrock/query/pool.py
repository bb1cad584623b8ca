"""Pool of child processes for queries: started on demand, killed at the time limit, ended when idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.processes.pool import ChildDied, ChildNotReady, ChildPool, HandlerRaised

from . import sqlite_query
from .child import TARGET, QueryReply, QueryRequest, decode_answer, encode

log = logging.getLogger("windlass.bedrock")

QUERIES_AT_ONCE = 4  # others wait
START_S = 60.0  # for a process to start; this does not count as time of the query
SPARE_S = 0.5  # above the time limit, then the process is killed
IDLE_S = 60.0  # then idle processes end
MEMORY_BYTES = 192 * 1024 * 1024  # for a query, in addition to MEMORY_FACTOR times the size of its copy
MEMORY_FACTOR = 3
RECYCLE_BYTES = 256 * 1024 * 1024  # a process that uses more after a query is replaced
GRACE_S = 1.0
STOPPING = "The server is stopping; send the query again in a moment."
FAILED = (502, "Query failed")


class QueryPool:
    def __init__(self) -> None:
        self._children: ChildPool | None = None
        self._slots = asyncio.Semaphore(QUERIES_AT_ONCE)
        self._active: set[asyncio.Timeout] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def pids(self) -> list[int]:
        return self._children.pids if self._children else []

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free process. The block is cancelled when the server stops."""
        if self._is_stopped:
            raise CommandRefused(*sqlite_query.ABORTED, STOPPING)
        until_stop = asyncio.timeout(None)
        try:
            async with until_stop:
                self._active.add(until_stop)
                async with self._slots:
                    yield
        except TimeoutError:
            if until_stop.expired():
                raise CommandRefused(*sqlite_query.ABORTED, STOPPING) from None
            raise
        finally:
            self._active.discard(until_stop)

    async def run(self, request: QueryRequest) -> QueryReply:
        """Run a query in a child process. Kill the process at the time limit, or on cancellation."""
        encoded = encode(request)
        limits = request.limits
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_S) as limit:
                answer = await self._ensure_children().run(
                    encoded,
                    memory_bytes=MEMORY_BYTES + MEMORY_FACTOR * len(encoded),
                    on_begin=lambda: limit.reschedule(loop.time() + limits.seconds + SPARE_S),
                )
                return decode_answer(answer)
        except TimeoutError:
            limits.refuse_slow()
        except ChildDied as died:
            if died.reason == "out_of_memory":
                raise CommandRefused(*sqlite_query.ABORTED, sqlite_query.OUT_OF_MEMORY) from None
            log.warning(
                "The process of a query ended: %s. Its client got 502; other queries use another process.", died
            )
            raise CommandRefused(
                *sqlite_query.ABORTED, "The process of the query was ended; ask for less at once."
            ) from None
        except (ChildNotReady, HandlerRaised) as error:
            log.error("A query failed: %s. Its client got 502; other commands are not affected.", error)
            raise CommandRefused(*FAILED, "The server could not run the query; its log has the reason.") from None
        finally:
            self._schedule_idle_end()

    def _ensure_children(self) -> ChildPool:
        if self._children is None:
            self._children = ChildPool(TARGET, QUERIES_AT_ONCE, recycle_bytes=RECYCLE_BYTES, grace_s=GRACE_S)
        return self._children

    def _schedule_idle_end(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if not self._is_stopped and self._children is not None:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._children.end_idle)

    def stop(self) -> None:
        """End all queries at once. A stopping server does not wait for queries."""
        if self._is_stopped:
            return
        self._is_stopped = True
        now_s = asyncio.get_running_loop().time()
        for until_stop in self._active:
            until_stop.reschedule(now_s)

    async def close(self) -> None:
        self.stop()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._children is not None:
            await self._children.close()
