"""Names under which dialects know a job, as far as the job itself tells them."""

from __future__ import annotations

import json

import msgspec

from .ids import DOWNLOAD_ID_LENGTH, DOWNLOADS_QUEUE, download_id_of_number
from .job import Codec, Job

ALIASES_TRIED = "id, Bedrock job number, download id, processor uuid or other unique key"
_UUID_FIELD = "uuid"
_read_value = json.JSONDecoder().raw_decode


class AliasMatches(msgspec.Struct, frozen=True):
    """Jobs that an alias may mean. A unique key may belong to jobs of several queues."""

    jobs: list[Job]
    is_complete: bool = True  # False: there are more queues, jobs or matches than were examined
    looked_at: int = 0  # jobs whose ids were examined for the alias as a part of an id; 0: another name was found


class JobAliases(msgspec.Struct, frozen=True, kw_only=True):
    """Names of a job beside its id."""

    number: int | None = None  # in Bedrock; None: it has no number
    processor_uuid: str = ""
    download_id: str = ""


def aliases_of(job: Job, number: int | None) -> JobAliases:
    """Return the names of a job. `number`: its number, if it has one."""
    return JobAliases(
        number=number, processor_uuid=processor_uuid(job) or "", download_id=_download_id(job, number) or ""
    )


def _download_id(job: Job, number: int | None) -> str | None:
    if job.queue != DOWNLOADS_QUEUE:
        return None
    if job.unique and len(job.unique) == DOWNLOAD_ID_LENGTH:
        return job.unique
    return None if number is None else download_id_of_number(number)


class _NamedPayload(msgspec.Struct):
    uuid: str


_decode_named = msgspec.json.Decoder(_NamedPayload).decode


def processor_uuid(job: Job) -> str | None:
    """Return the uuid under which a processor added a job: its unique key and the field `uuid` of its payload. Empty:
    it was added in another way. None: unknown, because the job has only the beginning of its payload."""
    if not job.unique or job.payload.codec is not Codec.JSON:
        return ""
    if not job.payload_is_whole:
        return job.unique if _uuid_in_beginning(job.payload.data) == job.unique else None
    try:
        named = _decode_named(job.payload.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return job.unique if named.uuid == job.unique else ""


def _uuid_in_beginning(data: bytes) -> object:
    """Return the field `uuid` of a JSON object that is cut off, or None if the field is not in this part."""
    text = data.decode(errors="replace")
    at = _skip(text, 0, "{")
    try:
        while at:
            key, at = _read_value(text, at)
            value, at = _read_value(text, _skip(text, at, ":"))
            if key == _UUID_FIELD:
                return value
            at = _skip(text, at, ",")
    except (ValueError, RecursionError):  # the text ends here
        pass
    return None


def _skip(text: str, at: int, mark: str) -> int:
    """Return the place after the mark and white space around it. 0: the mark does not follow."""
    at = _skip_space(text, at)
    return _skip_space(text, at + len(mark)) if text.startswith(mark, at) else 0


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at
