"""Fast path for enqueueing one simple job from a sync caller.

The bytes of the command are joined from a cached prefix and the job's record, with no flow in between. Other jobs take
the general path (service/enqueue.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.errors import LimitsChanged, Refusal
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.commands.enqueue import enqueue_item, read_enqueued
from windlass.store.connection.connection import EngineReplyError, pack

if TYPE_CHECKING:
    from windlass.store.store import Store

_ARGUMENTS = 8  # of the command, including its name
_NO_TERMS = b"\r\n$0\r\n\r\n"


class FastEnqueue:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._common = b""
        self._common_of: tuple[str, int, int] = ("", 0, 0)

    def fits(self, template: JobTemplate) -> bool:
        """Tell whether a job of this template can take the fast path: it is simple, and one node holds all jobs."""
        found = self._store.deployment
        is_simple = template.is_simple and not template.has_relative_times and not template.job.id
        return is_simple and found is not None and found.partitions == 1 and not self._store.topology.has_slots

    def with_new_id(self, job: PreparedJob) -> PreparedJob:
        return PreparedJob(job.template, job.payload, self._store.new_id(job.template.job.queue))

    def enqueue(self, job: PreparedJob) -> Enqueued | Refusal | None:
        """Enqueue a job. None: the caller must use the general path, with the same id."""
        limits = self._store.limit_cache.table(0)
        entry, _ = enqueue_item(job.id, job, 0, limits)
        size = b"$%d\r\n" % len(entry)
        try:
            [reply] = self._store.call_packed(b"".join((self._command_prefix(limits.version), size, entry, _NO_TERMS)))
        except EngineReplyError:
            return None
        answer = read_enqueued(reply)
        return None if type(answer) is LimitsChanged else answer

    def _command_prefix(self, version: int) -> bytes:
        """Return the bytes of the command up to the job."""
        of = self._store.function("enqueue"), self._store.clock_offset_ms, version
        if of != self._common_of:
            function, offset_ms, _ = of
            arguments = pack(("FCALL", function, 1, self._store.root(0), offset_ms, version))
            self._common = b"*%d\r\n%b" % (_ARGUMENTS, arguments.partition(b"\r\n")[2])
            self._common_of = of
        return self._common
