"""The JSON object of a job. Texts are kept as they were written, without white space; the keys that the server itself
writes into it are not stored there but come from the job's own fields."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.core.job import Blob, Job
from windlass.core.states import State
from windlass.core.text.codecs import as_json, compact_json

from .refusals import CommandRefused

MOCKED, COUNT, DELETE = "mockRequest", "retryAfterCount", "delete"
EMPTY = b"{}"
UNCOUNTED_PREFIX = "manual"  # jobs whose names begin so are handed out without end
MALFORMED = (402, "Data is not a valid JSON Object")
_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_ERRORS = (ValueError, RecursionError, msgspec.MsgspecError)


def parse_object(text: str, raw: str) -> bytes:
    """As it was meant, or else as it was sent: a client that does not escape its backslashes is understood too."""
    for given in (text, raw):
        try:
            encoded = given.encode()
            if isinstance(_decode(encoded), dict):
                return compact_json(encoded)
        except _DECODE_ERRORS:
            continue
    raise CommandRefused(*MALFORMED)


def check_size(content: bytes, most: int) -> bytes:
    """Refuse data that is too long, with the reason in the status line: clients show nothing else."""
    if len(content) > most:
        raise CommandRefused(402, f"Malformed data: it has {len(content)} bytes, at most {most} are allowed")
    return content


def decode_fields(data: bytes) -> dict[str, msgspec.Raw]:
    return _decode_object(data)


def has_key(data: bytes, key: str) -> bool:
    return data != EMPTY and b'"%b"' % key.encode() in data and key in decode_fields(data)


def without_keys(data: bytes, *keys: str) -> bytes:
    if data == EMPTY or not any(b'"%b"' % key.encode() in data for key in keys):
        return data
    found = decode_fields(data)
    return msgspec.json.encode({key: value for key, value in found.items() if key not in keys})


def with_keys(data: bytes, more: Iterable[tuple[str, str]]) -> bytes:
    added = ",".join(f'"{key}":{value}' for key, value in more).encode()
    if not added:
        return data
    return b"{" + added + b"}" if data == EMPTY else data[:-1] + b"," + added + b"}"


def delivery_count_in(data: bytes) -> int:
    """What a client wrote into the counter; 0 when it wrote none."""
    if not has_key(data, COUNT):
        return 0
    text = bytes(decode_fields(data)[COUNT])
    return min(int(text), 2**31) if text.isdigit() else 0


def merge_patch(old: bytes, patch: bytes) -> bytes:
    """RFC 7396; keys of the old object first."""
    found = decode_fields(old) if old[:1] == b"{" else {}
    for key, value in decode_fields(patch).items():
        change = bytes(value)
        if change == b"null":
            found.pop(key, None)
        elif change[:1] == b"{":
            found[key] = msgspec.Raw(merge_patch(bytes(found.get(key, msgspec.Raw(EMPTY))), change))
        else:
            found[key] = value
    return msgspec.json.encode(found)


def stored_object(payload: Blob) -> bytes:
    """A payload as JSON; what has no form there, and nothing, is an empty object."""
    found = as_json(payload)
    written = EMPTY if found is None else bytes(found)
    return EMPTY if written == b"null" else written


def object_for_client(job: Job, count: int) -> msgspec.Raw:
    """With what the server adds. `count`: deliveries so far; a job that has finished keeps none."""
    written = stored_object(job.payload)
    if written[:1] != b"{":
        return msgspec.Raw(written)
    more: list[tuple[str, str]] = []
    if job.is_hidden:
        more.append((MOCKED, "true"))
    if is_counted(job) and count > 0 and job.state is not State.FINISHED:
        more.append((COUNT, str(count)))
    return msgspec.Raw(with_keys(without_keys(written, *(key for key, _ in more)), more))


def is_counted(job: Job) -> bool:
    return job.retake and not job.name.startswith(UNCOUNTED_PREFIX)
