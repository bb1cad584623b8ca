"""Copies of flows, to run them again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, Job, NewJob, copy_of

from .flow import FlowStep

_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def copy_steps(steps: Sequence[FlowStep], jobs: Sequence[Job], new_ids: Sequence[bytes], flow: FlowRef) -> list[NewJob]:
    """Return the jobs of a new flow like the one with these steps. `jobs` and `new_ids` are those of the steps.

    References to other steps become references to their copies, in payloads too. The copies do not wait for jobs
    outside the flow."""
    ids = {step.job_id: new_id for step, new_id in zip(steps, new_ids, strict=True)}
    texts = {format_id(old).encode(): format_id(new).encode() for old, new in ids.items()}
    return [
        msgspec.structs.replace(
            copy_of(job),
            id=ids[step.job_id],
            payload=replace_ids(job.payload, texts),
            after=tuple(ids[other] for other in step.after),
            joins=step.joins,
            on_failure=step.on_failure,
            flow=msgspec.structs.replace(flow, step=step.step),
        )
        for step, job in zip(steps, jobs, strict=True)
    ]


def replace_ids(payload: Blob, texts: Mapping[bytes, bytes]) -> Blob:
    """Return a payload with other ids, given and written in their text form. All have the same length, so that this
    works in every codec."""
    return Blob(_ID.sub(lambda found: texts.get(found[0], found[0]), payload.data), payload.codec)
