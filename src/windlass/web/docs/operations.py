"""Sections of the reference: operations and shapes of one OpenAPI document, as HTML. Every text is escaped."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

Json: TypeAlias = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
_JSON = "application/json"
_SHOWN_MAX = 2**32  # larger limits are not shown, because they are of no use to a reader
_LIMITS = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤", "maxItems": "items ≤"}


class SectionRenderer:
    """Renders the sections of one document. `shapes`: address of the page with its shapes; empty: the same page.
    `root`: path below which its operations are served."""

    def __init__(self, document: Json, shapes: str = "", root: str = "") -> None:
        self._schemas = document.get("components", {}).get("schemas", {})
        self._shapes = shapes
        self._root = root

    def operation(self, method: str, path: str, operation: Json) -> Iterator[str]:
        name = anchor("op", operation["operationId"])
        call = f'data-method="{method}" data-path="{escape(path)}"'
        yield f'<section id="{name}" class="operation" {call}>'
        yield f'<h2><a href="#{name}">{escape(operation["summary"])}</a></h2>'
        yield f'<p class="call">{method_badge(method)} <code>{_path(self._root + path)}</code></p>'
        if operation.get("description"):
            yield f"<p>{prose(operation['description'])}</p>"
        yield from self._parameters(operation.get("parameters", ()))
        yield from self._body(operation)
        yield f"<h3>Example</h3><pre>{escape(curl(method, self._root + path, operation))}</pre>"
        yield from self._answers(operation)
        yield "</section>"

    def shape(self, name: str, schema: Json) -> Iterator[str]:
        at = anchor("shape", name)
        yield f'<section id="{at}"><h2><a href="#{at}">{escape(name)}</a></h2>'
        if schema.get("description"):
            yield f"<p>{prose(schema['description'])}</p>"
        if schema.get("type") != "object":
            yield f"<p>{self._type(schema)}</p>"
        yield from self._fields(schema)
        yield "</section>"

    def _parameters(self, parameters: Any) -> Iterator[str]:
        if parameters:
            yield "<h3>Parameters</h3><table>"
            for parameter in parameters:
                schema = {**parameter["schema"], "description": parameter.get("description", "")}
                note = "" if parameter["in"] == "query" else f"in the {parameter['in']}"
                yield self._field(parameter["name"], schema, is_required=parameter.get("required", False), note=note)
            yield "</table>"

    def _body(self, operation: Json) -> Iterator[str]:
        if "requestBody" not in operation:
            return
        media, first = next(iter(operation["requestBody"]["content"].items()))
        schema = first["schema"]
        line = f", each line of {escape(media)}" if media != _JSON else ""
        yield f"<h3>Body: {self._type(schema)}{line}</h3>"
        if "$ref" in schema:
            component = self._schemas[_ref_name(schema)]
            if component.get("description"):
                yield f"<p>{prose(component['description'])}</p>"
            yield from self._fields(component)

    def _fields(self, schema: Json) -> Iterator[str]:
        fields = schema.get("properties")
        if fields:
            required = schema.get("required", ())
            yield "<table>"
            for name, field in fields.items():
                yield self._field(name, field, is_required=name in required)
            yield "</table>"

    def _field(self, name: str, schema: Json, *, is_required: bool, note: str = "") -> str:
        about = [prose(schema["description"])] if schema.get("description") else []
        limits = [f"{sign} {schema[limit]:,}" for limit, sign in _LIMITS.items() if _is_shown(schema.get(limit))]
        if limits:
            about.append(f"<small>{escape(', '.join(limits))}</small>")
        if schema.get("default") is not None:
            default = msgspec.json.encode(schema["default"]).decode()
            about.append(f"<small>default <code>{escape(default)}</code></small>")
        needed = " <em>required</em>" if is_required else ""
        place = f" <small>{escape(note)}</small>" if note else ""
        named = f"<code>{escape(name)}</code>{needed}{place}"
        return f"<tr><th>{named}</th><td>{self._type(schema)}</td><td>{' '.join(about)}</td></tr>"

    def _type(self, schema: Json) -> str:
        """Describe a type in a few words, with links to named shapes."""
        if "$ref" in schema:
            name = _ref_name(schema)
            return f'<a href="{self._shapes}#{anchor("shape", name)}">{escape(name)}</a>'
        if schema.get("anyOf"):
            return " or ".join(dict.fromkeys(map(self._type, schema["anyOf"])))
        if schema.get("enum"):
            return " | ".join(f"<code>{escape(msgspec.json.encode(value).decode())}</code>" for value in schema["enum"])
        kind = schema.get("type", "any value")
        if kind == "array" and schema.get("items"):
            return f"list of {self._type(schema['items'])}"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"object of {self._type(schema['additionalProperties'])}"
        return escape(str(kind))

    def _answers(self, operation: Json) -> Iterator[str]:
        yield '<h3>Answers</h3><table class="answers">'
        for status, response in operation["responses"].items():
            phrase, _, codes = response["description"].partition(": ")
            detail = " ".join(f"<code>{escape(code)}</code>" for code in codes.split(", ") if code)
            if status < "4":
                schemas = [media["schema"] for media in response.get("content", {}).values() if "schema" in media]
                detail = "".join(f"{escape(codes)} {self._type(schema)}" for schema in schemas[:1])
            cells = f"<th>{escape(status)}</th><td>{escape(phrase)}</td><td>{detail}</td>"
            yield f'<tr class="s{escape(status[:1])}">{cells}</tr>'
        yield "</table>"


def operations_of(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, operations in document.get("paths", {}).items():
        for method in METHODS:
            if method in operations and tag in operations[method].get("tags", (tag,)):
                yield method, path, operations[method]


def method_badge(method: str) -> str:
    return f'<b class="{method}">{method.upper()}</b>'


def _path(path: str) -> str:
    return re.sub(r"\{[^}]*\}", lambda found: f"<var>{found[0]}</var>", escape(path))


def _is_shown(limit: float | None) -> bool:
    return limit is not None and abs(limit) < _SHOWN_MAX


def _ref_name(schema: Json) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def curl(method: str, path: str, operation: Json) -> str:
    """Return an example call with curl as a shell command."""
    parameters = [parameter for parameter in operation.get("parameters", ()) if "example" in parameter]
    for parameter in parameters:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(str(parameter["example"]), safe=""))
    query = urlencode(
        {parameter["name"]: parameter["example"] for parameter in parameters if parameter["in"] == "query"}
    )
    path = f"{path}?{query}" if query else path
    words = ["curl", *(() if method in ("get", "post") else ("-X", method.upper())), f"localhost:8080{path}"]
    if "requestBody" in operation:
        media, content = next(iter(operation["requestBody"]["content"].items()))
        body = msgspec.json.encode(content.get("example", {})).decode()
        words += ["-H", f"Content-Type: {media}", "-d", body]
    elif method == "post":
        words[1:1] = ["-X", "POST"]
    return shlex.join(words)


def prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))


def anchor(kind: str, name: str) -> str:
    return escape(f"{kind}-{quote(name, safe='')}")
