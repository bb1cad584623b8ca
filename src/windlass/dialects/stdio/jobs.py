"""Conversion between jobs of the processor and jobs of the engine.

The payload is stored, and sent to the worker, exactly as the client wrote it."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Job, NewJob
from windlass.core.job_aliases import processor_uuid
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.text.codecs import as_json
from windlass.core.validation.bounds import NAME_MAX
from windlass.core.validation.jobs import check_new_job
from windlass.core.validation.values import check_new_name

from . import instants

HIGHEST_PRIORITY, DEFAULT_PRIORITY, LOWEST_PRIORITY = 0, 5, 9
DEFAULT_JOB_NAME = "job"  # of a job without a usable command
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NIL_UUID = "00000000-0000-0000-0000-000000000000"


def parse_priority(given: Any) -> int:
    """Parse a priority: a number from 0, the highest, to 9, also as text."""
    if given is None:
        return DEFAULT_PRIORITY
    if isinstance(given, str) and re.fullmatch(r"\s*[0-9]{1,3}\s*", given, re.ASCII):
        given = int(given)
    if type(given) is float and given.is_integer():
        given = int(given)
    if type(given) is not int or not HIGHEST_PRIORITY <= given <= LOWEST_PRIORITY:
        raise BadInput(
            f"priority must be a whole number from {HIGHEST_PRIORITY} to {LOWEST_PRIORITY}, not {str(given)[:40]!r}."
        )
    return given


def _job_name(command: Any) -> str:
    try:
        check_new_name("command", command, NAME_MAX)
    except BadInput:
        return DEFAULT_JOB_NAME
    return str(command)


def new_job(raw: bytes, fields: dict[str, Any], *, keep_ms: int, attempts: int) -> NewJob:
    """Make a job. Its uuid is the unique key in the queue, as long as the engine keeps any record of the job."""
    job = NewJob(
        queue=fields["queue_name"],
        name=_job_name(fields.get("command")),
        payload=Blob(raw),
        priority=parse_priority(fields.get("priority")) - DEFAULT_PRIORITY,
        unique=fields["uuid"],
        unique_while_kept=True,
        result_ttl_ms=keep_ms,
        retry=Backoff(tries=attempts) if attempts else ENDLESS,
    )
    check_new_job(job)
    return job


def job_uuid(job: Job) -> str:
    """Return the uuid of a job in all messages: the one it was added with, or its id if no processor added it."""
    return processor_uuid(job) or job.key


def engine_id(uuid: str) -> bytes:
    """Return the engine's id in a uuid, for jobs that were not added by a processor. Empty: it cannot be an id."""
    return parse_id(uuid) if _UUID.fullmatch(uuid) else b""


def clamp_priority(job: Job) -> int:
    """Return the priority of a job within the range of the processor."""
    return min(max(job.priority + DEFAULT_PRIORITY, HIGHEST_PRIORITY), LOWEST_PRIORITY)


def worker_id(uuid: str) -> bytes:
    """Return the 16 bytes that identify a worker: its uuid in canonical form, or else a hash of the text."""
    if _UUID.fullmatch(uuid) and uuid != _NIL_UUID:
        return parse_id(uuid)
    return hashlib.sha256(uuid.encode()).digest()[:16]


class _StoredFields(msgspec.Struct):
    dispatched_at: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_stored = msgspec.json.Decoder(_StoredFields).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def encode_assignment(job: Job) -> bytes:
    """Encode the stored job with `dispatched_at`. A job from another dialect gets the fields of a processor job."""
    dispatched_at = _encode(instants.format_instant(job.started_at_ms or 0))
    if not processor_uuid(job):
        return _encode_other_job(job, dispatched_at)
    if _decode_stored(job.payload.data).dispatched_at is not msgspec.UNSET:
        return _encode(_decode_fields(job.payload.data) | {"dispatched_at": msgspec.Raw(dispatched_at)})
    return job.payload.data.rstrip()[:-1] + b',"dispatched_at":' + dispatched_at + b"}"


def _encode_other_job(job: Job, dispatched_at: bytes) -> bytes:
    args = as_json(job.payload)
    fields = {
        "uuid": job_uuid(job),
        "queue_name": job.queue,
        "priority": clamp_priority(job),
        "created_at": instants.format_instant(job.created_at_ms),
        "command": job.name,
        "args": args,
        "dispatched_at": msgspec.Raw(dispatched_at),
    }
    if args is None:  # bytes that JSON cannot hold
        fields["args_base64"] = base64.b64encode(job.payload.data).decode()
    return _encode(fields)
