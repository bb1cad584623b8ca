"""Structs as JSON: the fields of the structs in core/, with formatted ids and decoded payloads."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Blob
from windlass.core.states import State
from windlass.core.text.codecs import as_json


def to_record(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, bytes):
        return format_id(value)
    if isinstance(value, State):
        return value.label
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_record(value._asdict())
    if isinstance(value, list | tuple):
        return [to_record(item) for item in value]
    if isinstance(value, dict):
        return {key: to_record(item) for key, item in value.items()}
    return value.name.lower() if isinstance(value, Enum) else value


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, Blob):
            found |= blob_fields(field, value)
        else:
            found[field] = to_record(value)
    return found


def blob_fields(field: str, blob: Blob) -> dict[str, Any]:
    """Return the value and its codec. A value that JSON cannot express gets another name, and is base64."""
    json_text = as_json(blob)
    codec: dict[str, Any] = {f"{field}_codec": blob.codec.name.lower()}
    if json_text is None:
        return codec | {f"{field}_base64": base64.b64encode(blob.data).decode()}
    return codec | {field: json_text}


def to_json(value: Any, *, indent: int = -1) -> str:
    """Encode as JSON. `indent` -1: one line without spaces."""
    encoded = msgspec.json.encode(value)
    return (msgspec.json.format(encoded, indent=indent) if indent >= 0 else encoded).decode()
