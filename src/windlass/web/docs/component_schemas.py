"""Component schemas of an OpenAPI document, arranged so that code generators make usable clients of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_REF_PREFIX = "#/components/schemas/"


def arrange_schemas(written: dict[str, Any]) -> None:
    """Change a finished document in place."""
    schemas = written["components"]["schemas"]
    bodies = [operation.get("requestBody", {}) for path in written["paths"].values() for operation in path.values()]
    for name in _reachable(bodies, schemas):
        _describe_defaults(schemas[name])
    used = _reachable([written["paths"], written.get("webhooks", {})], schemas)
    written["components"]["schemas"] = {name: schema for name, schema in schemas.items() if name in used}
    for name in used:
        _retitle(name, schemas[name])


def _describe_defaults(schema: dict[str, Any]) -> None:
    """Say defaults in words. Generators take a property with the keyword `default` for one that is always there, so a
    client would have to send it (openapi-typescript does)."""
    for field in schema.get("properties", {}).values():
        if "default" in field:
            default = field.pop("default")
            if default not in (None, "", [], {}) or default is False:
                told = f"Default: `{msgspec.json.encode(default).decode()}`."
                field["description"] = f"{field['description']} {told}" if "description" in field else told


def _retitle(name: str, schema: dict[str, Any]) -> None:
    """Give a schema another title where its name is that of one of its fields, as `Queues.queues`: the methods that
    openapi-python-client makes use both as a variable. The component keeps its name."""
    if _snake_case(name) in schema.get("properties", {}):
        schema["title"] = f"{name}Body"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _reachable(roots: list[Any], schemas: dict[str, Any]) -> set[str]:
    """Names of the schemas that the roots refer to, directly or by others."""
    found: set[str] = set()
    left = roots
    while left:
        names = {name for part in left for name in _referred(part)} - found
        found |= names
        left = [schemas[name] for name in names]
    return found


def _referred(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(ref := part.get("$ref"), str) and ref.startswith(_REF_PREFIX):
            yield ref.removeprefix(_REF_PREFIX)
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _referred(inner)
