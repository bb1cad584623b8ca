"""Job templates: the common part of jobs that differ only in their payloads.

A template is validated once (`core/validation`) and packed once (`store`) for all of its jobs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .job import Blob, NewJob


class JobTemplate:
    """Common part of many jobs. The payload of `job` is ignored."""

    __slots__ = ("has_relative_times", "is_checked", "is_simple", "job", "packed")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.is_checked = False
        self.has_relative_times = bool(job.delay_ms or job.expires_in_ms)  # counted from the enqueue
        has_check = bool(job.unique) and job.unique_check != "none"
        self.is_simple = job.cap is None and not has_check and not job.after  # nothing to check in the engine
        self.packed: dict[Any, Any] = {}  # the store's packed forms of the template


class PreparedJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a template."""

    template: JobTemplate
    payload: Blob
    id: bytes = b""  # empty: the template's id, or an id made by the store

    def new_job(self) -> NewJob:
        return msgspec.structs.replace(self.template.job, payload=self.payload, id=self.id or self.template.job.id)


def prepare_single(job: NewJob) -> PreparedJob:
    """Return a job as the only job of its template."""
    return PreparedJob(JobTemplate(job), job.payload)
