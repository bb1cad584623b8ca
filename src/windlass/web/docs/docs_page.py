"""API reference page, rendered from the OpenAPI document: one HTML file without scripts, styled by docs.css. Every text
is escaped, and every link is relative, so that the page can be served below any path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

Json: TypeAlias = Mapping[str, Any]
_METHODS = ("get", "post", "put", "patch", "delete")
_JSON = "application/json"
MANY = ": up to 1,000 jobs"
_SHOWN_MAX = 2**32  # larger limits are not shown, because they are of no use to a reader
_LIMITS = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤", "maxItems": "items ≤"}
_INTRODUCTION = """\
<p>Try it: <code>make serve</code>, then</p>
<pre>curl localhost:8080/api/v1/jobs -H 'Content-Type: application/json' -d '{"queue":"mail","name":"send"}'</pre>
<p>If the server uses tokens, send yours: <code>-H 'Authorization: Bearer wl_…'</code>. Times are milliseconds since
1970, durations are milliseconds. The same reference for programs is <a href="openapi.json">openapi.json</a>.</p>"""


def render_docs_page(document: Json, others: Sequence[str] = ()) -> bytes:
    """Render the page. `others`: paths of the OpenAPI documents of dialects."""
    return "\n".join(_page(document, others)).encode(errors="replace")


def _page(document: Json, others: Sequence[str]) -> Iterator[str]:
    info = document["info"]
    title = f"{info['title']} {info['version']}: HTTP API"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f'<title>{escape(title)}</title><link rel="stylesheet" href="docs.css"></head><body>'
    yield from _contents(document)
    yield f"<main><header><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield f"<p>{_prose(info.get('description', ''))}</p>{_INTRODUCTION}{_other_documents(others)}</header>"
    for tag in document["tags"]:
        yield f'<h2 id="{_anchor("tag", tag["name"])}">{escape(tag["name"])}</h2>'
        for method, path, operation in _operations(document, tag["name"]):
            yield from _operation(method, path, operation, document)
    yield '<h2 id="shapes">Shapes</h2>'
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _other_documents(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    links = ", ".join(f'<a href="{escape(path.lstrip("/"))}">{escape(path)}</a>' for path in paths)
    return f"<p>Documents of the dialects: {links}.</p>"


def _operations(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations and tag in operations[method]["tags"]:
                yield method, path, operations[method]


def _contents(document: Json) -> Iterator[str]:
    yield '<nav aria-label="Contents"><ul>'
    for tag in document["tags"]:
        name = tag["name"]
        yield f'<li><a class="tag" href="#{_anchor("tag", name)}">{escape(name)}</a><ul>'
        for method, path, operation in _operations(document, name):
            link = f"#{_anchor('op', operation['operationId'])}"
            hint = escape(f"{method.upper()} {path}")
            yield f'<li><a href="{link}" title="{hint}">{escape(_short(operation["summary"]))}</a></li>'
        yield "</ul></li>"
    yield '<li><a class="tag" href="#shapes">Shapes</a></li></ul></nav>'


def _short(summary: str) -> str:
    """Shorten a summary to the part before its first comma, colon or semicolon, and mark batch operations."""
    many = ", many" if MANY in summary else ""
    return re.split(r"[:;]|, ", summary)[0] + many


def _operation(method: str, path: str, operation: Json, document: Json) -> Iterator[str]:
    anchor = _anchor("op", operation["operationId"])
    yield f'<section id="{anchor}"><h3><a href="#{anchor}">{escape(operation["summary"])}</a></h3>'
    yield f'<p class="call"><b class="{method}">{method.upper()}</b> <code>{_path(path)}</code></p>'
    if operation.get("description"):
        yield f"<p>{_prose(operation['description'])}</p>"
    yield from _parameters(operation.get("parameters", ()))
    yield from _body(operation, document)
    yield f"<h4>Example</h4><pre>{escape(curl(method, path, operation))}</pre>"
    yield from _answers(operation)
    yield "</section>"


def _path(path: str) -> str:
    return re.sub(r"\{[^}]*\}", lambda found: f"<var>{found[0]}</var>", escape(path))


def _parameters(parameters: Any) -> Iterator[str]:
    if parameters:
        yield "<h4>Parameters</h4><table>"
        for parameter in parameters:
            schema = {**parameter["schema"], "description": parameter.get("description", "")}
            note = "" if parameter["in"] == "query" else f"in the {parameter['in']}"
            yield _field(parameter["name"], schema, is_required=parameter["required"], note=note)
        yield "</table>"


def _body(operation: Json, document: Json) -> Iterator[str]:
    if "requestBody" not in operation:
        return
    content = operation["requestBody"]["content"]
    media, first = next(iter(content.items()))
    schema = first["schema"]
    line = f", each line of {escape(media)}" if media != _JSON else ""
    yield f"<h4>Body: {_type(schema)}{line}</h4>"
    if "$ref" in schema:
        component = document["components"]["schemas"][_ref_name(schema)]
        if component.get("description"):
            yield f"<p>{_prose(component['description'])}</p>"
        yield from _fields(component)


def _schema(name: str, schema: Json) -> Iterator[str]:
    anchor = _anchor("shape", name)
    yield f'<section id="{anchor}"><h3><a href="#{anchor}">{escape(name)}</a></h3>'
    if schema.get("description"):
        yield f"<p>{_prose(schema['description'])}</p>"
    if schema.get("type") != "object":
        yield f"<p>{_type(schema)}</p>"
    yield from _fields(schema)
    yield "</section>"


def _fields(schema: Json) -> Iterator[str]:
    fields = schema.get("properties")
    if fields:
        required = schema.get("required", ())
        yield "<table>"
        for name, field in fields.items():
            yield _field(name, field, is_required=name in required)
        yield "</table>"


def _field(name: str, schema: Json, *, is_required: bool, note: str = "") -> str:
    about = [_prose(schema["description"])] if schema.get("description") else []
    limits = [f"{sign} {schema[limit]:,}" for limit, sign in _LIMITS.items() if _is_shown(schema.get(limit))]
    if limits:
        about.append(f"<small>{escape(', '.join(limits))}</small>")
    if schema.get("default") is not None:
        default = msgspec.json.encode(schema["default"]).decode()
        about.append(f"<small>default <code>{escape(default)}</code></small>")
    needed = " <em>required</em>" if is_required else ""
    place = f" <small>{escape(note)}</small>" if note else ""
    named = f"<code>{escape(name)}</code>{needed}{place}"
    return f"<tr><th>{named}</th><td>{_type(schema)}</td><td>{' '.join(about)}</td></tr>"


def _is_shown(limit: float | None) -> bool:
    return limit is not None and abs(limit) < _SHOWN_MAX


def _type(schema: Json) -> str:
    """Describe a type in a few words, with links to named shapes."""
    if "$ref" in schema:
        name = _ref_name(schema)
        return f'<a href="#{_anchor("shape", name)}">{escape(name)}</a>'
    if schema.get("anyOf"):
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("enum"):
        return " | ".join(f"<code>{escape(msgspec.json.encode(value).decode())}</code>" for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array" and schema.get("items"):
        return f"list of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(str(kind))


def _ref_name(schema: Json) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _answers(operation: Json) -> Iterator[str]:
    yield '<h4>Answers</h4><table class="answers">'
    for status, response in operation["responses"].items():
        phrase, _, codes = response["description"].partition(": ")
        detail = " ".join(f"<code>{escape(code)}</code>" for code in codes.split(", ") if code)
        if status < "4":
            detail = "".join(f"{escape(codes)} {_type(media['schema'])}" for media in list(_content(response))[:1])
        yield f'<tr class="s{status[0]}"><th>{escape(status)}</th><td>{escape(phrase)}</td><td>{detail}</td></tr>'
    yield "</table>"


def _content(response: Json) -> Iterator[Json]:
    yield from response.get("content", {}).values()


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


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))


def _anchor(kind: str, name: str) -> str:
    return escape(f"{kind}-{quote(name, safe='')}")
