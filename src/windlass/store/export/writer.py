"""The stream of an export: what is stored becomes lines, page by page, in constant memory. Reads only."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from windlass import __version__
from windlass.core.errors import EngineUnavailable
from windlass.core.export import lines as export_lines
from windlass.store.commands import limits, queues, schedules
from windlass.store.commands.admin import export as calls
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.store import Store

from .entries import write_callback, write_job, write_queue, write_schedule

NAMES_PER_CALL = 200
REMEMBERED = 65_536  # names of the last pages: the engine repeats some when its table is resized, close behind
Lines = list[bytes]
Found = tuple[bytes, Any]  # a name, and what is stored under it


class Exporting:
    """All lines of an export, by `async for` or, without an event loop, by `for`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[str] = Counter()
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._run = ""
        self._cursor = "0"
        self._is_over = False
        self._names: list[bytes] = []  # of the page that is being read
        self._about: Counter[str] = Counter()  # how many of each kind there were at the beginning

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._store.open()
        for flow in self._flows():
            for line in await self._store.run(flow):
                yield line

    def __iter__(self) -> Iterator[bytes]:
        self._store.open_sync()
        for flow in self._flows():
            yield from self._store.run_sync(flow)

    def _flows(self) -> Iterator[Flow[Lines]]:
        yield self._header()
        partitions = range(self._store.partitions)
        for partition in partitions:
            yield from self._paged(partial(self._queue_page, partition))
        for partition in partitions:
            yield self._limits(partition)
        for partition in partitions:
            yield from self._paged(partial(self._schedule_page, partition))
        for kind, write in (("j", self._jobs), ("b", self._callbacks)):
            for partition in partitions:
                self._run = ""
                yield from self._paged(partial(self._walked, kind, partition, write))
        yield self._end()

    def _paged(self, page: Callable[[], Flow[Lines]]) -> Iterator[Flow[Lines]]:
        """Pages until one says that it was the last."""
        self._cursor, self._is_over = "0", False
        while not self._is_over:
            yield page()

    def _counted(self, kind: str, lines: Sequence[export_lines.AnyLine]) -> Lines:
        self._counts[kind] += len(lines)
        return [export_lines.encode_line(line) for line in lines]

    # The beginning and the end

    def _header(self) -> Flow[Lines]:
        store = self._store
        now_ms: int = yield EngineTime()
        for partition in range(store.partitions):
            yield from self._estimate(partition)
        return [
            export_lines.encode_line(
                export_lines.HeaderLine(
                    format=export_lines.FORMAT,
                    version=export_lines.VERSION,
                    windlass=__version__,
                    exported_at_ms=now_ms,
                    namespace=store.namespace,
                    partitions=store.partitions,
                    counts=dict(self._about),
                )
            )
        ]

    def _estimate(self, partition: int) -> Flow[None]:
        cursor = "0"
        while True:
            cursor, names = yield queues.queues(cursor, NAMES_PER_CALL, partition)
            self._about["queue"] += len(names)
            for start in range(0, len(names), NAMES_PER_CALL):
                for one in (yield queues.stats(names[start : start + NAMES_PER_CALL], partition)):
                    live = one.queued + one.scheduled + one.waiting + one.running
                    self._about["job"] += live + one.finished + one.failed + one.cancelled + one.history
            if cursor == "0":
                return

    def _end(self) -> Flow[Lines]:
        yield EngineTime()
        return [
            export_lines.encode_line(
                export_lines.EndLine(counts={kind: self._counts[kind] for kind in export_lines.KINDS})
            )
        ]

    # Configuration

    def _queue_page(self, partition: int) -> Flow[Lines]:
        self._cursor, names = yield queues.queues(self._cursor, NAMES_PER_CALL, partition)
        fresh = [name for name in names if self._is_new(b"q" + name.encode())]
        found = yield from _read_all("q", fresh, partition)
        self._is_over = self._cursor == "0"
        return self._counted("queue", [write_queue(name, parts) for name, parts in found])

    def _limits(self, partition: int) -> Flow[Lines]:
        known: limits.StoredLimits = yield limits.limits(partition)
        return self._counted("limit", [export_lines.LimitLine(limit=limit) for limit in known.table.limits.values()])

    def _schedule_page(self, partition: int) -> Flow[Lines]:
        names = yield schedules.schedules("" if self._cursor == "0" else self._cursor, partition)
        found = yield from _read_all("s", names, partition)
        self._is_over = not names
        self._cursor = names[-1] if names else ""
        return self._counted("schedule", [write_schedule(parts) for _, parts in found])

    # What is walked by the engine's own cursor

    def _walked(self, kind: str, partition: int, write: Callable[[list[Found], int], Flow[Lines]]) -> Flow[Lines]:
        """One answer's worth of entries; when a page of names is used up, the next page."""
        if self._names:
            replies = yield calls.export(kind, self._names[:NAMES_PER_CALL], partition)
            found = [(name, reply) for name, reply in zip(self._names, replies, strict=False) if reply is not None]
            del self._names[: len(replies)]
            lines = yield from write(found, partition)
        else:
            lines = []
            yield from self._next_names(kind, partition)
        self._is_over = not self._names and self._cursor == "0"
        return lines

    def _next_names(self, kind: str, partition: int) -> Flow[None]:
        page: calls.NamePage = yield calls.walk(kind, self._cursor, partition)
        if self._run not in ("", page.run):
            raise EngineUnavailable("The engine was restarted or replaced during the export; start it again.")
        self._run, self._cursor = page.run, page.cursor
        self._names = [name for name in page.names if self._is_new(kind.encode() + name)]

    def _is_new(self, name: bytes) -> bool:
        if name in self._recent:
            return False
        self._recent[name] = None
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return True

    def _jobs(self, found: list[Found], partition: int) -> Flow[Lines]:
        now_ms: int = yield EngineTime()
        lines = []
        for job_id, reply in found:
            stored = calls.read_job(reply)
            awaited, cursor = list(stored.awaited), stored.cursor
            while cursor:
                cursor, more = yield calls.awaited(job_id, cursor, partition)
                awaited += more
            lines.append(write_job(job_id, stored._replace(awaited=awaited), now_ms))
        return self._counted("job", lines)

    def _callbacks(self, found: list[Found], _partition: int) -> Flow[Lines]:
        yield EngineTime()
        return self._counted("callback", [write_callback(debt, parts) for debt, parts in found])


def _read_all(kind: str, names: Sequence[Any], partition: int) -> Flow[list[tuple[Any, Any]]]:
    """What is stored under each name that is still there; an answer may go only part of the way."""
    found, at = [], 0
    while at < len(names):
        replies = yield calls.export(kind, names[at : at + NAMES_PER_CALL], partition)
        found += [(name, reply) for name, reply in zip(names[at:], replies, strict=False) if reply is not None]
        at += len(replies)
    return found
