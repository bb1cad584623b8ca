"""Sample values for schemas: the required fields, or the first optional fields if none is required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SIMPLE: dict[str, Any] = {"boolean": True, "number": 1.0, "null": None, "string": "text"}
_FIRST = 2  # number of fields in a sample without required fields


def sample(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return sample(components[schema["$ref"].rpartition("/")[2]], components)
    for chosen in ("examples", "enum"):
        if schema.get(chosen):
            return schema[chosen][0]
    if schema.get("anyOf"):
        return sample(_best(schema["anyOf"]), components)
    if schema.get("default"):
        return schema["default"]
    return _of_type(schema, components)


def _best(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first choice that is not null."""
    return next((choice for choice in choices if choice.get("type") != "null"), choices[0])


def _of_type(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, components)
    if kind == "array":
        return [sample(schema["items"], components)] if schema.get("items") else []
    if kind == "integer":
        return max(schema.get("minimum", 1), 1)
    return _SIMPLE.get(str(kind), {})


def _object(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    names = schema.get("required") or list(fields)[:_FIRST]
    return {name: sample(fields[name], components) for name in names}
