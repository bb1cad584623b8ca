"""The `data` of a job: any JSON value, most often an object.

Values keep the text in which the client wrote them, without white space. Keys that the server adds (`mockRequest`,
`retryAfterCount`) are not stored in an object: they come from fields of the job. A value that is no object is shown
without them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.core.job import Blob, Job
from windlass.core.states import State
from windlass.core.text.codecs import as_json, compact_json

from .refusals import CommandRefused

MOCKED, COUNT, DELETE = "mockRequest", "retryAfterCount", "delete"
EMPTY = b"{}"
UNCOUNTED_PREFIX = "manual"  # jobs with this prefix have no limit of deliveries
MALFORMED = (402, "Data is not a valid JSON Object")
_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_ERRORS = (ValueError, RecursionError, msgspec.MsgspecError)


def parse_value(text: str, raw: str) -> bytes:
    """Parse the unescaped text, or else the raw text, for clients that do not escape their backslashes.

    `null` means no data, so it becomes an empty object."""
    for candidate in (text, raw):
        try:
            encoded = candidate.encode()
            return EMPTY if _decode(encoded) is None else compact_json(encoded)
        except _DECODE_ERRORS:
            continue
    raise CommandRefused(*MALFORMED)


def is_object(data: bytes) -> bool:
    return data[:1] == b"{"


def check_size(content: bytes, most: int) -> bytes:
    """Refuse data that is too long, with the reason in the status line: clients show nothing else."""
    if len(content) > most:
        raise CommandRefused(402, f"Malformed data: it has {len(content)} bytes, at most {most} are allowed")
    return content


def decode_fields(data: bytes) -> dict[str, msgspec.Raw]:
    return _decode_object(data)


def has_key(data: bytes, key: str) -> bool:
    """Return whether the data is an object with this key."""
    return data != EMPTY and b'"%b"' % key.encode() in data and is_object(data) and key in decode_fields(data)


def without_keys(data: bytes, *keys: str) -> bytes:
    """Return an object without these keys, and any other value as it is."""
    if data == EMPTY or not any(b'"%b"' % key.encode() in data for key in keys) or not is_object(data):
        return data
    fields = decode_fields(data)
    return msgspec.json.encode({key: value for key, value in fields.items() if key not in keys})


def with_keys(data: bytes, items: Iterable[tuple[str, str]]) -> bytes:
    added = ",".join(f'"{key}":{value}' for key, value in items).encode()
    if not added:
        return data
    return b"{" + added + b"}" if data == EMPTY else data[:-1] + b"," + added + b"}"


def delivery_count_in(data: bytes) -> int:
    """Return the counter that a client wrote into the data, or 0."""
    if not has_key(data, COUNT):
        return 0
    text = bytes(decode_fields(data)[COUNT])
    return min(int(text), 2**31) if text.isdigit() else 0


def merge_patch(old: bytes, patch: bytes) -> bytes:
    """Merge `patch` into `old` (RFC 7396). Keys of the old object come first. A patch that is no object replaces it."""
    if not is_object(patch):
        return patch
    fields = decode_fields(old) if is_object(old) else {}
    for key, value in decode_fields(patch).items():
        change = bytes(value)
        if change == b"null":
            fields.pop(key, None)
        elif is_object(change):
            fields[key] = msgspec.Raw(merge_patch(bytes(fields.get(key, msgspec.Raw(EMPTY))), change))
        else:
            fields[key] = value
    return msgspec.json.encode(fields)


def stored_value(payload: Blob) -> bytes:
    """Return a payload as JSON. A payload that is empty, or that JSON cannot hold, becomes an empty object."""
    converted = as_json(payload)
    encoded = EMPTY if converted is None else bytes(converted)
    return EMPTY if encoded == b"null" else encoded


def value_for_client(job: Job, count: int) -> msgspec.Raw:
    """Return the data; an object has the keys that the server adds.

    `count`: deliveries so far; a finished job has none."""
    stored = stored_value(job.payload)
    if not is_object(stored):
        return msgspec.Raw(stored)
    added: list[tuple[str, str]] = []
    if job.is_hidden:
        added.append((MOCKED, "true"))
    if is_counted(job) and count > 0 and job.state is not State.FINISHED:
        added.append((COUNT, str(count)))
    return msgspec.Raw(with_keys(without_keys(stored, *(key for key, _ in added)), added))


def is_counted(job: Job) -> bool:
    return job.retake and not job.name.startswith(UNCOUNTED_PREFIX)
