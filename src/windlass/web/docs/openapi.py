"""OpenAPI document, generated from the route table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from windlass import __version__
from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app.problems import (
    ExpectationFailed,
    HeadersTooLarge,
    NotAcceptable,
    UnsupportedContentEncoding,
    UnsupportedMediaType,
    UriTooLong,
)
from windlass.web.app.router import Route
from windlass.wire.encoding import JSON, MSGPACK
from windlass.wire.problems import Problem, status_of
from windlass.wire.shape import COMPONENT_NAMES

from .component_schemas import arrange_schemas
from .samples import sample

PLAIN_TEXT = "text/plain"
_REF = "#/components/schemas/{name}"
_PATH = {
    "id": "A UUID.",
    "queue": "Any name. Percent-encode characters that a path cannot hold, such as %2F for a slash.",
    "name": "Any name. Percent-encode characters that a path cannot hold, such as %2F for a slash.",
    "folder": "The first three characters of the name.",
}
_PATH_EXAMPLES = {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "queue": "mail"}
_NO_CONTENT = {"description": "Done; the response has no body."}
_WITHOUT_BODY = {
    int(HTTPStatus.NO_CONTENT): _NO_CONTENT,
    int(HTTPStatus.NOT_MODIFIED): {"description": "The response sent before (If-None-Match) is still valid."},
}
_ABOUT = (
    "A job queue on Redis/Valkey that does not lose jobs. Every route supports JSON and MessagePack, by Content-Type "
    "and Accept. Errors are problem details (RFC 9457) with a stable `code`."
)


class Examples(msgspec.Struct, frozen=True):
    """Example bodies and queries by operation. A missing body is generated from its schema."""

    bodies: Mapping[str, Any] = {}
    queries: Mapping[str, Mapping[str, Any]] = {}


class DocumentInfo(msgspec.Struct, frozen=True):
    """Title, description and base of a document. Its paths are relative to `base`."""

    title: str = "Windlass"
    description: str = _ABOUT
    base: str = ""


def encode_below(document: Mapping[str, Any], base: str) -> bytes:
    """Encode a document for an application that is served below the path `base`."""
    if base:
        document = {**document, "servers": [_server_below(server, base) for server in document["servers"]]}
    return msgspec.json.encode(document)


def _server_below(server: Mapping[str, Any], base: str) -> Mapping[str, Any]:
    """Put the base before a path of this server. Other URLs, as of push workers, stay."""
    url = str(server["url"])
    return {**server, "url": f"{base}{url}".rstrip("/")} if url.startswith("/") else server


def build_document(
    routes: Sequence[Route], examples: Examples | None = None, about: DocumentInfo | None = None
) -> dict[str, Any]:
    about = about or DocumentInfo()
    listed = [route for route in routes if route.is_listed]
    schemas, components = msgspec.json.schema_components(_types(listed), ref_template=_REF)
    refs = dict(zip(map(_key, _types(listed)), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        operation = _operation(route, refs, components)
        paths.setdefault(route.path.removeprefix(about.base), {})[route.method.lower()] = operation
        _add_examples(operation, examples or Examples(), components)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": __version__,
            "description": about.description,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": about.base or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in listed)],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    document = _shorten_schema_names(document)
    arrange_schemas(document)
    return document


def _shorten_schema_names(document: dict[str, Any]) -> dict[str, Any]:
    """Give schemas their published names: those that classes declare, without the suffix `Shape`. The suffix stays
    where a schema has the shorter name already."""
    text = msgspec.json.encode(document).decode()
    for name, published in COMPONENT_NAMES.items():
        text = re.sub(rf"(?<![A-Za-z]){name}(?![A-Za-z])", published, text)
    taken = set(msgspec.json.decode(text)["components"]["schemas"])
    text = re.sub(r"([A-Za-z]+)Shape(?=[\"_])", lambda found: found[0] if found[1] in taken else found[1], text)
    return msgspec.json.decode(text, type=dict[str, Any])


def _key(wanted: Any) -> str:
    return repr(wanted)


def _types(routes: Sequence[Route]) -> list[Any]:
    found = {_key(Problem): Problem}
    for route in routes:
        for shape in (route.body, route.query, route.response, route.error_body, *route.other_responses.values()):
            if shape is not None:
                found[_key(shape)] = shape
    return list(found.values())


def _operation(route: Route, refs: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route, refs, components),
            *_header_parameters(route),
        ],
        "responses": _responses(route, refs),
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not None:
        schema = refs[_key(route.body)]
        operation["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {media: {"schema": schema} for media in _media(route.body_media)},
        }
    operation["security"] = [] if route.roles is None else [{"token": []}]
    return operation


def _add_examples(operation: dict[str, Any], examples: Examples, components: dict[str, Any]) -> None:
    name = operation["operationId"]
    if "requestBody" in operation:
        first = next(iter(operation["requestBody"]["content"].values()))
        known = examples.bodies.get(name)
        first["example"] = sample(first["schema"], components) if known is None else known
    for parameter in operation["parameters"]:
        if parameter["in"] == "query" and parameter["name"] in examples.queries.get(name, {}):
            parameter["example"] = examples.queries[name][parameter["name"]]


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    any_name = {"type": "string", "minLength": 1}
    schemas = {"id": {"type": "string", "format": "uuid"}}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas.get(name, any_name),
            "description": _PATH.get(name, "Percent-encoded."),
            "example": _PATH_EXAMPLES.get(name, "nightly"),
        }
        for name in route.names
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "header",
            "required": name in route.required_headers,
            "schema": {"type": "string"},
            "description": about,
        }
        for name, about in route.headers.items()
    ]


def _query_parameters(route: Route, refs: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[refs[_key(route.query)]["$ref"].rpartition("/")[2]]
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": field,
            **({"description": field["description"]} if "description" in field else {}),
        }
        for name, field in schema["properties"].items()
    ]


# Answered before a route is found, so never formatted by a dialect.
_PROTOCOL_STATUSES = frozenset((UriTooLong.status, HeadersTooLarge.status))


def _responses(route: Route, refs: dict[str, Any]) -> dict[str, Any]:
    answers = {
        str(route.status if route.response is not None or route.response_media else 204): _success(
            route, route.response, refs
        )
    }
    answers |= {
        str(status): _WITHOUT_BODY[status] if status in _WITHOUT_BODY else _success(route, gives, refs)
        for status, gives in route.other_responses.items()
    }
    for status, codes in sorted(_refusals(route).items()):
        description = f"{HTTPStatus(status).phrase}: {', '.join(codes)}"
        answers[str(status)] = {"description": description, "content": _refusal(route, status, refs)}
    return answers


def _refusal(route: Route, status: int, refs: dict[str, Any]) -> dict[str, Any]:
    if status in _PROTOCOL_STATUSES:
        return {"application/problem+json": {"schema": refs[_key(Problem)]}}
    if route.error_body is not None:
        return {media: {"schema": refs[_key(route.error_body)]} for media in _media(route.response_media)}
    if route.error_formatter is not None:
        return {PLAIN_TEXT: {"schema": {"type": "string"}}}
    problem = {"schema": refs[_key(Problem)]}
    return {"application/problem+json": problem, "application/problem+msgpack": problem}


def _success(route: Route, gives: Any, refs: dict[str, Any]) -> dict[str, Any]:
    if route.response_media not in ("", JSON, MSGPACK):
        return {
            "description": "Well.",
            "content": {route.response_media.partition(";")[0]: {"schema": _text(gives, refs)}},
        }
    if gives is None:
        return _NO_CONTENT
    schema = refs[_key(gives)]
    content = {media: {"schema": schema} for media in _media(route.response_media)}
    if route.stream_media:
        content[route.stream_media] = {"schema": {"type": "string"}}
    return {"description": "Success.", "content": content}


def _text(gives: Any, refs: dict[str, Any]) -> dict[str, Any]:
    """Describe a text or a stream of items. OpenAPI 3.1 has no keyword for the schema of each item."""
    if gives is None:
        return {"type": "string"}
    return {
        "type": "string",
        "description": "A stream; `contentSchema` is the schema of each item.",
        "contentMediaType": JSON,
        "contentSchema": refs[_key(gives)],
    }


def _media(own: str) -> list[str]:
    """Return the media types of a route: its fixed one, or JSON and MessagePack."""
    return [own] if own else [JSON, MSGPACK]


def _refusals(route: Route) -> dict[int, list[str]]:
    """Return error codes by status, including the common ones."""
    found: dict[int, list[str]] = {}
    for error in dict.fromkeys((*route.refuses, *_common_refusals(route))):
        found.setdefault(status_of(error), []).append(error.code)
    return found


def _common_refusals(route: Route) -> list[type[WindlassError]]:
    # Malformed requests are refused before a route is found and are not listed.
    common: list[type[WindlassError]] = [
        errors.BadInput, UriTooLong, HeadersTooLarge, UnsupportedContentEncoding, ExpectationFailed,
    ]  # fmt: skip
    if route.roles is not None:
        common += [errors.Unauthorized, errors.Forbidden, errors.TooManyRequests]
        common += [errors.EngineUnavailable, errors.DiskFull, errors.DataDirectoryLost]
    if route.body is not None:
        common.append(errors.TooLarge)
    if not route.body_media:
        common.append(UnsupportedMediaType)
    if not route.response_media:
        common.append(NotAcceptable)
    return common
