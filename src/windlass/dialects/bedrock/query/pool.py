"""Child processes that run queries: started by the first one, killed at its time limit, ended when idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.processes.children import ChildDied, ChildNotReady, Children, HandlerRaised

from . import sqlite_query
from .child import TARGET, QueryReply, QueryRequest, decode_answer, encode

log = logging.getLogger("windlass.bedrock")

QUERIES_AT_ONCE = 4  # queries; others wait for their turn
START_S = 60.0  # for a process to start, which is no part of a query's time
SPARE_S = 0.5  # after which a query that has not kept its own limit is killed
IDLE_S = 60.0  # after which processes that have nothing to do end
MEMORY_BYTES = 192 * 1024 * 1024  # that a query may use, and COPIES times the jobs that it is given
MEMORY_FACTOR = 3
RECYCLE_BYTES = 256 * 1024 * 1024  # a process that has kept more than this is replaced
GRACE_S = 1.0
STOPPING = "The server is stopping; send the query again in a moment."
FAILED = (502, "Query failed")


class QueryPool:
    def __init__(self) -> None:
        self._children: Children | None = None
        self._slots = asyncio.Semaphore(QUERIES_AT_ONCE)
        self._active: set[asyncio.Timeout] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def pids(self) -> list[int]:
        return self._children.pids if self._children else []

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free place. The block is ended when the server stops, wherever it is."""
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

    async def run(self, question: QueryRequest) -> QueryReply:
        """Run the question in a child process; kill the process when it exceeds the time limit, or on cancellation."""
        request = encode(question)
        limits = question.limits
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_S) as limit:
                answer = await self._ensure_children().run(
                    request,
                    memory_bytes=MEMORY_BYTES + MEMORY_FACTOR * len(request),
                    on_begin=lambda: limit.reschedule(loop.time() + limits.seconds + SPARE_S),
                )
                return decode_answer(answer)
        except TimeoutError:
            limits.refuse_slow()
        except ChildDied as died:
            if died.reason == "out_of_memory":
                raise CommandRefused(*sqlite_query.ABORTED, sqlite_query.OUT_OF_MEMORY) from None
            log.warning("A query was ended with its process: %s. Other queries go on in another process.", died)
            raise CommandRefused(
                *sqlite_query.ABORTED, "The process of the query was ended; ask for less at once."
            ) from None
        except (ChildNotReady, HandlerRaised) as error:
            log.error("A query failed: %s. Its client was answered 502; other commands are not affected.", error)
            raise CommandRefused(*FAILED, "The server could not run the query; its log has the reason.") from None
        finally:
            self._schedule_idle_end()

    def _ensure_children(self) -> Children:
        if self._children is None:
            self._children = Children(TARGET, QUERIES_AT_ONCE, recycle_bytes=RECYCLE_BYTES, grace_s=GRACE_S)
        return self._children

    def _schedule_idle_end(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if not self._is_stopped and self._children is not None:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._children.end_idle)

    def stop(self) -> None:
        """End all queries at once: nobody waits for a query when the server stops."""
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
