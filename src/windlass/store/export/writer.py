"""Export of a deployment as a stream of lines, page by page, in constant memory. It only reads."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from windlass import __version__
from windlass.core.errors import EngineUnavailable
from windlass.core.export import lines as export_lines
from windlass.core.filters.saved_filter import SavedFilter
from windlass.store.commands import limits, queues, schedules
from windlass.store.commands.admin import alerts, filters
from windlass.store.commands.admin import export as commands
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.store import Store
from windlass.store.topology.namespace_format import stored_format

from .entries import write_callback, write_job, write_queue, write_schedule, write_tombstone
from .flow_entries import write_flow

NAMES_PER_CALL = 200
RECENT_NAMES_MAX = 65_536  # when the engine resizes its table, a scan repeats names of recent pages
Lines = list[bytes]
StoredEntry = tuple[bytes, Any]  # a name and its stored value


class ExportWriter:
    """Iterator over the lines of an export: `async for`, or `for` without an event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[str] = Counter()
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._run = ""
        self._cursor = "0"
        self._is_over = False
        self._names: list[bytes] = []  # rest of the current page
        self._estimates: Counter[str] = Counter()  # entries of each kind at the start

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
            yield from self._pages(partial(self._queue_page, partition))
        for partition in partitions:
            yield self._limits(partition)
        yield self._filters()
        for partition in partitions:
            yield from self._pages(partial(self._schedule_page, partition))
        yield self._alerts()
        # Flows and tombstones come last: a job that is removed during the export is then in at least one of the lists.
        for kind, write in (
            ("j", self._jobs),
            ("b", self._callbacks),
            ("f", self._flow_lines),
            ("t", self._tombstones),
        ):
            for partition in partitions:
                self._run = ""
                yield from self._pages(partial(self._scan_page, kind, partition, write))
        yield self._end()

    def _pages(self, page: Callable[[], Flow[Lines]]) -> Iterator[Flow[Lines]]:
        """Yield pages until the last."""
        self._cursor, self._is_over = "0", False
        while not self._is_over:
            yield page()

    def _encode_counted(self, kind: str, lines: Sequence[export_lines.AnyLine]) -> Lines:
        self._counts[kind] += len(lines)
        return [export_lines.encode_line(line) for line in lines]

    # Header and end

    def _header(self) -> Flow[Lines]:
        store = self._store
        now_ms: int = yield EngineTime()
        stored = yield from stored_format(store.roots)
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
                    namespace_format=stored.number,
                    counts=dict(self._estimates),
                )
            )
        ]

    def _estimate(self, partition: int) -> Flow[None]:
        cursor = "0"
        while True:
            cursor, names = yield queues.queues(cursor, NAMES_PER_CALL, partition)
            self._estimates["queue"] += len(names)
            for start in range(0, len(names), NAMES_PER_CALL):
                for stats in (yield queues.stats(names[start : start + NAMES_PER_CALL], partition)):
                    live = stats.queued + stats.scheduled + stats.waiting + stats.suspended + stats.running
                    self._estimates["job"] += live + stats.finished + stats.failed + stats.cancelled + stats.history
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
        return self._encode_counted("queue", [write_queue(name, parts) for name, parts in found])

    def _limits(self, partition: int) -> Flow[Lines]:
        known: limits.StoredLimits = yield limits.limits(partition)
        return self._encode_counted(
            "limit", [export_lines.LimitLine(limit=limit) for limit in known.table.limits.values()]
        )

    def _filters(self) -> Flow[Lines]:
        known: list[SavedFilter] = yield filters.filters()
        lines = [export_lines.FilterLine(name=saved.name, page=saved.page, fields=saved.fields) for saved in known]
        return self._encode_counted("filter", lines)

    def _schedule_page(self, partition: int) -> Flow[Lines]:
        page: schedules.ScheduleNames = yield schedules.schedules(
            "" if self._cursor == "0" else self._cursor, partition
        )
        names = page.names
        found = yield from _read_all("s", names, partition)
        self._is_over = not names
        self._cursor = names[-1] if names else ""
        return self._encode_counted("schedule", [write_schedule(parts) for _, parts in found])

    def _alerts(self) -> Flow[Lines]:
        stored: alerts.StoredAlerts = yield alerts.alerts(0)
        found = [export_lines.AlertLine(rule=one.status.rule, state=one.status.state) for one in stored.rules]
        return self._encode_counted("alert", found)

    # Jobs, callbacks, flows and tombstones: scans with the engine's cursor

    def _scan_page(
        self, kind: str, partition: int, write: Callable[[list[StoredEntry], int], Flow[Lines]]
    ) -> Flow[Lines]:
        """Return the lines of one command's entries. If the current page of names is used up, read the next page."""
        if self._names:
            replies = yield commands.export(kind, self._names[:NAMES_PER_CALL], partition)
            found = [(name, reply) for name, reply in zip(self._names, replies, strict=False) if reply is not None]
            del self._names[: len(replies)]
            lines = yield from write(found, partition)
        else:
            lines = []
            yield from self._next_names(kind, partition)
        self._is_over = not self._names and self._cursor == "0"
        return lines

    def _next_names(self, kind: str, partition: int) -> Flow[None]:
        page: commands.NamePage = yield commands.walk(kind, self._cursor, partition)
        if self._run not in ("", page.run):
            raise EngineUnavailable("The engine was restarted or replaced during the export; start the export again.")
        self._run, self._cursor = page.run, page.cursor
        self._names = [name for name in page.names if self._is_new(kind.encode() + name)]

    def _is_new(self, name: bytes) -> bool:
        if name in self._recent:
            return False
        self._recent[name] = None
        if len(self._recent) > RECENT_NAMES_MAX:
            self._recent.popitem(last=False)
        return True

    def _jobs(self, found: list[StoredEntry], partition: int) -> Flow[Lines]:
        now_ms: int = yield EngineTime()
        lines = []
        for job_id, reply in found:
            stored = commands.read_job(reply)
            awaited, cursor = list(stored.awaited), stored.cursor
            while cursor:
                cursor, more = yield commands.awaited(job_id, cursor, partition)
                awaited += more
            lines.append(write_job(job_id, stored._replace(awaited=awaited), now_ms))
        return self._encode_counted("job", lines)

    def _callbacks(self, found: list[StoredEntry], _partition: int) -> Flow[Lines]:
        yield EngineTime()
        return self._encode_counted("callback", [write_callback(callback_id, parts) for callback_id, parts in found])

    def _flow_lines(self, found: list[StoredEntry], _partition: int) -> Flow[Lines]:
        yield EngineTime()
        lines = [write_flow(flow_id, parts) for flow_id, parts in found]
        return self._encode_counted("flow", [line for line in lines if line is not None])

    def _tombstones(self, found: list[StoredEntry], _partition: int) -> Flow[Lines]:
        yield EngineTime()
        return self._encode_counted("tombstone", [write_tombstone(job_id, parts) for job_id, parts in found])


def _read_all(kind: str, names: Sequence[Any], partition: int) -> Flow[list[tuple[Any, Any]]]:
    """Return the stored value of each name that still exists. A reply may cover only some of the names."""
    found, at = [], 0
    while at < len(names):
        replies = yield commands.export(kind, names[at : at + NAMES_PER_CALL], partition)
        found += [(name, reply) for name, reply in zip(names[at:], replies, strict=False) if reply is not None]
        at += len(replies)
    return found
