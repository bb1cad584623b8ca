"""Jobs that differ by their payloads alone: what they have in common is a form, checked and packed once for all of
them. Checking is validation's part, packing the store's."""

from __future__ import annotations

from typing import Any

import msgspec

from .job import Blob, NewJob


class JobTemplate:
    """`job` is one of them; its payload counts for nothing."""

    __slots__ = ("has_relative_times", "is_checked", "is_simple", "job", "packed")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.is_checked = False
        self.has_relative_times = bool(job.delay_ms or job.expires_in_ms)  # counted from when it is enqueued
        has_check = bool(job.unique) and job.unique_check != "none"
        self.is_simple = job.cap is None and not has_check and not job.after  # comes without terms
        self.packed: dict[Any, Any] = {}  # what the store makes of it


class PreparedJob(msgspec.Struct, frozen=True, gc=False):
    """One of the jobs of a form."""

    template: JobTemplate
    payload: Blob
    id: bytes = b""  # if it was not made by the store, as that of the form

    def new_job(self) -> NewJob:
        return msgspec.structs.replace(self.template.job, payload=self.payload, id=self.id or self.template.job.id)


def prepare_single(job: NewJob) -> PreparedJob:
    """As the only one of its form."""
    return PreparedJob(JobTemplate(job), job.payload)
