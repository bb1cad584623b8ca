"""Fast path for enqueueing one simple job from a sync caller.

The bytes of the command are joined from a cached prefix and the job's record, with no flow in between. Other jobs take
the general path (service/enqueue.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from windlass.core.errors import LimitsChanged, Refusal
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.commands.enqueue import enqueue_item, read_enqueued
from windlass.store.connection.connection import EngineReplyError, pack

if TYPE_CHECKING:
    from windlass.store.store import Store

_ARGUMENTS = 8  # of the command, including its name
_NO_TERMS = b"\r\n$0\r\n\r\n"
_SIZE_LINES = [b"$%d\r\n" % size for size in range(1024)]  # formatting costs three times as much


class FastEnqueue:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_on_one_node = False  # or the store is not open yet
        self._call: Callable[[bytes], Any]
        self._prefix = b""
        self._prefix_version = -1  # of the limits
        self._prefix_offset_ms = 0

    def fits(self, template: JobTemplate) -> bool:
        """Tell whether a job of this template can take the fast path: it is simple, and one node holds all jobs."""
        is_simple = template.is_simple and not template.has_relative_times and not template.job.id
        return is_simple and (self._is_on_one_node or self._finds_one_node())

    def _finds_one_node(self) -> bool:
        found = self._store.deployment
        if found is not None and found.partitions == 1 and not self._store.topology.has_slots:
            self._call = self._store.call_packed
            self._is_on_one_node = True
        return self._is_on_one_node

    def new_id(self, job: PreparedJob) -> bytes:
        return self._store.new_id(job.template.job.queue)

    def enqueue(self, job_id: bytes, job: PreparedJob) -> Enqueued | Refusal | None:
        """Enqueue a job. None: the caller must use the general path, with the same id."""
        store = self._store
        limits = store.limit_cache.table(0)
        entry, _ = enqueue_item(job_id, job, 0, limits)
        if limits.version != self._prefix_version or store.clock_offset_ms != self._prefix_offset_ms:
            self._make_prefix(limits.version)
        size = len(entry)
        size_line = _SIZE_LINES[size] if size < len(_SIZE_LINES) else b"$%d\r\n" % size
        try:
            [reply] = self._call(b"".join((self._prefix, size_line, entry, _NO_TERMS)))
        except EngineReplyError:
            self._prefix_version = -1  # perhaps the store calls operations in another way now
            return None
        answer = read_enqueued(reply)
        return None if type(answer) is LimitsChanged else answer

    def _make_prefix(self, version: int) -> None:
        """Make the bytes of the command up to the job."""
        offset_ms = self._store.clock_offset_ms
        arguments = pack((*self._store.command_prefix("enqueue", 0), version))
        self._prefix = b"*%d\r\n%b" % (_ARGUMENTS, arguments.partition(b"\r\n")[2])
        self._prefix_version, self._prefix_offset_ms = version, offset_ms
