"""Index over payload fields: the entries that the payload of a job has in it, and conditions that find them.

An entry is `path=value`, with the value as text. A value that is long or not printable is replaced by its digest:
`path#digest`. Text, integers and booleans have entries, and so have the first elements of a list of these.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec
from windlass.core.text.control_characters import has_control

from .condition import MISSING, get_field

INDEX_FIELDS_MAX = 8  # of a task, and of a queue
INDEX_PATH_MAX = 64  # bytes
INDEX_ELEMENTS_MAX = 8  # of a list
INDEX_VALUE_MAX = 64  # bytes of a value that is kept readable
WHERE_MAX = INDEX_PATH_MAX + 1 + 4096  # bytes of a condition
CONDITIONS_MAX = 4
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # isprintable() depends on the version of Python
_DIGESTED = re.compile(r"[^=#]+#[0-9a-f]{24}")
_DECODERS: dict[Codec, Callable[[bytes], Any]] = {
    Codec.JSON: msgspec.json.decode,
    Codec.MSGPACK: msgspec.msgpack.decode,
}


def decode_payload(payload: Blob) -> Any:
    """Return the content of a payload, or `MISSING` if it cannot be read."""
    decode = _DECODERS.get(payload.codec)
    try:
        return decode(payload.data) if decode else MISSING
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MISSING


def read_entries(paths: Sequence[str], payload: Blob) -> tuple[str, ...]:
    """Return the entries of a payload. A field that is missing, or holds null, a fraction or an object, has none."""
    content = decode_payload(payload)
    return tuple(dict.fromkeys(entry for path in paths for entry in _entries_of(path, get_field(content, path))))


def _entries_of(path: str, value: Any) -> Iterator[str]:
    for element in value[:INDEX_ELEMENTS_MAX] if isinstance(value, list) else (value,):
        if isinstance(element, bool):
            yield make_entry(path, "true" if element else "false")
        elif isinstance(element, str | int):
            yield make_entry(path, str(element))


def make_entry(path: str, value: str) -> str:
    stored = value.encode("utf-8", "surrogatepass")
    if len(stored) <= INDEX_VALUE_MAX and not has_control(value) and not _UNREADABLE.search(value):
        return f"{path}={value}"
    return f"{path}#{hashlib.blake2b(stored, digest_size=12).hexdigest()}"


def parse_condition(text: str) -> str:
    """Return the entry that a condition looks for: `path=value`, or an entry as a job shows it."""
    path, equals, value = text.partition("=")
    if equals and path:
        return make_entry(path, value)
    if _DIGESTED.fullmatch(text):
        return text
    raise BadInput(f"where must be field=value, as order_id=4711, not {text!r}.")


def path_of(entry: str) -> str:
    return entry.partition("=")[0].partition("#")[0]
