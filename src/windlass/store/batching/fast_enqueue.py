"""One plain job from a caller that blocks, straight to the engine: the bytes of its call are joined from what stays the
same and what does not, and nothing is asked in between. What does not fit goes the general way (service/producing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.errors import LimitsChanged, Refusal
from windlass.core.job_template import PreparedJob, JobTemplate
from windlass.core.operations import Enqueued
from windlass.store.commands.enqueue import enqueue_item, read_enqueued
from windlass.store.connection.connection import EngineReplyError, pack

if TYPE_CHECKING:
    from windlass.store.store import Store

_ARGUMENTS = 8  # of the command, with its name
_NO_TERMS = b"\r\n$0\r\n\r\n"


class FastEnqueue:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._common = b""
        self._common_of: tuple[str, int, int] = ("", 0, 0)

    def fits(self, form: JobTemplate) -> bool:
        """Nothing of such a job is asked or decided here, and one node has all jobs."""
        found = self._store.deployment
        is_simple = form.is_simple and not form.has_relative_times and not form.job.id
        return is_simple and found is not None and found.partitions == 1 and not self._store.topology.has_slots

    def named(self, job: PreparedJob) -> PreparedJob:
        return PreparedJob(job.template, job.payload, self._store.new_id(job.template.job.queue))

    def enqueue(self, job: PreparedJob) -> Enqueued | Refusal | None:
        """None: it is to be tried in the general way, with the same id."""
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
        """Of the call, up to the job."""
        of = self._store.function("enqueue"), self._store.clock_offset_ms, version
        if of != self._common_of:
            function, offset_ms, _ = of
            arguments = pack(("FCALL", function, 1, self._store.root(0), offset_ms, version))
            self._common = b"*%d\r\n%b" % (_ARGUMENTS, arguments.partition(b"\r\n")[2])
            self._common_of = of
        return self._common
