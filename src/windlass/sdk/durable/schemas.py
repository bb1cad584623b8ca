"""JSON Schemas of the types that the code declares for signals. The dashboard makes forms from them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from windlass.core.durable import SCHEMA_MAX
from windlass.core.job import Blob
from windlass.sdk.tasks.storable import is_pydantic_model

_TYPES_KEPT = 256


def signal_schema(kind: Any) -> Blob | None:
    """Return the schema of a declared type. None: any value, or a type that has no schema or a very long one."""
    if kind is Any:
        return None
    try:
        return _make_schema(kind)
    except Exception:  # users' classes can raise anything, and a type may have no hash: a wait does not fail for a form
        return None


@lru_cache(_TYPES_KEPT)
def _make_schema(kind: Any) -> Blob | None:
    schema = kind.model_json_schema() if is_pydantic_model(kind) else msgspec.json.schema(kind)
    encoded = msgspec.json.encode(schema)
    return Blob(encoded) if len(encoded) <= SCHEMA_MAX else None
