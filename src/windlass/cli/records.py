"""Things as JSON: the fields that the structs of core/ have, ids as people write them, payloads decoded."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Blob
from windlass.core.states import State
from windlass.core.text.codecs import as_json


def record(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, bytes):
        return format_id(value)
    if isinstance(value, State):
        return value.label
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return record(value._asdict())
    if isinstance(value, list | tuple):
        return [record(one) for one in value]
    if isinstance(value, dict):
        return {key: record(one) for key, one in value.items()}
    return value.name.lower() if isinstance(value, Enum) else value


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, Blob):
            found |= blob_fields(field, value)
        else:
            found[field] = record(value)
    return found


def blob_fields(field: str, blob: Blob) -> dict[str, Any]:
    """The value itself and its codec; what cannot be written as JSON under another name, as base64."""
    written = as_json(blob)
    named: dict[str, Any] = {f"{field}_codec": blob.codec.name.lower()}
    if written is None:
        return named | {f"{field}_base64": base64.b64encode(blob.data).decode()}
    return named | {field: written}


def to_json(value: Any, *, indent: int = -1) -> str:
    """`indent` -1: one line without spaces."""
    written = msgspec.json.encode(value)
    return (msgspec.json.format(written, indent=indent) if indent >= 0 else written).decode()
