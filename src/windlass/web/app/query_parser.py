"""Query string parser: a struct with typed fields."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from windlass.core.errors import BadInput

S = TypeVar("S", bound=msgspec.Struct)
FIELDS_MAX = 100


@lru_cache(None)
def _list_fields(wanted: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields that may be repeated."""
    fields = msgspec.inspect.type_info(wanted).fields  # type: ignore[attr-defined]
    several = (msgspec.inspect.VarTupleType, msgspec.inspect.ListType)
    return frozenset(field.encode_name for field in fields if isinstance(_without_metadata(field.type), several))


def _without_metadata(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Return a type without its description."""
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


@lru_cache(None)
def _empty_query(wanted: type[msgspec.Struct]) -> Any:
    return _convert({}, wanted)


def parse_query(query: str, wanted: type[S], fields_max: int = FIELDS_MAX) -> S:
    if not query:
        return _empty_query(wanted)  # type: ignore[no-any-return]
    found: dict[str, Any] = {}
    lists = _list_fields(wanted)
    for name, value in _pairs(query, fields_max):
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise BadInput(f"{name} is given twice in the query.")
        else:
            found[name] = value
    return _convert(found, wanted)


def _convert(found: dict[str, Any], wanted: type[S]) -> S:
    try:
        return msgspec.convert(found, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"The query does not fit: {error}.") from error


def _pairs(query: str, fields_max: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=fields_max, errors="strict")
    except ValueError as error:
        raise BadInput(f"The query cannot be read: {error}.") from error
