"""The OpenAPI document, made from the routes: what is served is what is written, and the other way round."""

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
    "queue": "Any name; percent-encode what a path cannot hold, as %2F for a slash.",
    "name": "Any name; percent-encode what a path cannot hold, as %2F for a slash.",
    "folder": "The first three characters of the name.",
}
_PATH_EXAMPLES = {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "queue": "mail"}
_NOTHING = {"description": "Done; there is nothing more to say."}
_WITHOUT_BODY = {
    int(HTTPStatus.NO_CONTENT): _NOTHING,
    int(HTTPStatus.NOT_MODIFIED): {"description": "What was sent before (If-None-Match) still holds."},
}
_ABOUT = (
    "A job queue on Redis/Valkey that does not lose jobs. Every route speaks JSON and MessagePack, by Content-Type and "
    "Accept. Errors are problem details (RFC 9457) with a stable `code`."
)


class Examples(msgspec.Struct, frozen=True):
    """By operation. A body that is not here is made from its schema."""

    bodies: Mapping[str, Any] = {}
    queries: Mapping[str, Mapping[str, Any]] = {}


class DocumentInfo(msgspec.Struct, frozen=True):
    """What a document is of. `base`: where its paths are appended to."""

    title: str = "Windlass"
    description: str = _ABOUT
    base: str = ""


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
        _exemplify(operation, examples or Examples(), components)
    written = {
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
    written = _shorten_schema_names(written)
    arrange_schemas(written)
    return written


def _shorten_schema_names(written: dict[str, Any]) -> dict[str, Any]:
    """Give schemas their published names: those that classes declare, without the suffix `Shape`. The suffix stays
    where a schema has the shorter name already."""
    text = msgspec.json.encode(written).decode()
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
        for one in (route.body, route.query, route.response, route.error_body, *route.other_responses.values()):
            if one is not None:
                found[_key(one)] = one
    return list(found.values())


def _operation(route: Route, refs: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {
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
        written["description"] = route.description
    if route.body is not None:
        schema = refs[_key(route.body)]
        written["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {one: {"schema": schema} for one in _media(route.body_media)},
        }
    written["security"] = [] if route.roles is None else [{"token": []}]
    return written


def _exemplify(operation: dict[str, Any], examples: Examples, components: dict[str, Any]) -> None:
    name = operation["operationId"]
    if "requestBody" in operation:
        first = next(iter(operation["requestBody"]["content"].values()))
        known = examples.bodies.get(name)
        first["example"] = sample(first["schema"], components) if known is None else known
    for parameter in operation["parameters"]:
        if parameter["in"] == "query" and parameter["name"] in examples.queries.get(name, {}):
            parameter["example"] = examples.queries[name][parameter["name"]]


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    name_of_its_own = {"type": "string", "minLength": 1}
    schemas = {"id": {"type": "string", "format": "uuid"}}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas.get(name, name_of_its_own),
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
            "schema": one,
            **({"description": one["description"]} if "description" in one else {}),
        }
        for name, one in schema["properties"].items()
    ]


# Said before it is known which route was meant, so in no route's own words.
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
        said = f"{HTTPStatus(status).phrase}: {', '.join(codes)}"
        answers[str(status)] = {"description": said, "content": _refusal(route, status, refs)}
    return answers


def _refusal(route: Route, status: int, refs: dict[str, Any]) -> dict[str, Any]:
    if status in _PROTOCOL_STATUSES:
        return {"application/problem+json": {"schema": refs[_key(Problem)]}}
    if route.error_body is not None:
        return {one: {"schema": refs[_key(route.error_body)]} for one in _media(route.response_media)}
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
        return _NOTHING
    schema = refs[_key(gives)]
    return {"description": "Well.", "content": {one: {"schema": schema} for one in _media(route.response_media)}}


def _text(gives: Any, refs: dict[str, Any]) -> dict[str, Any]:
    """Describe a text, or a stream of items: OpenAPI 3.1 has no keyword for the schema of each of these."""
    if gives is None:
        return {"type": "string"}
    return {
        "type": "string",
        "description": "A stream; `contentSchema` is the schema of each item.",
        "contentMediaType": JSON,
        "contentSchema": refs[_key(gives)],
    }


def _media(own: str) -> list[str]:
    """Of a route with one of its own, or both that all others speak."""
    return [own] if own else [JSON, MSGPACK]


def _refusals(route: Route) -> dict[int, list[str]]:
    """By status, which codes; those that any such route may answer included."""
    found: dict[int, list[str]] = {}
    for error in dict.fromkeys((*route.refuses, *_common_refusals(route))):
        found.setdefault(status_of(error), []).append(error.code)
    return found


def _common_refusals(route: Route) -> list[type[WindlassError]]:
    # What the protocol says of malformed requests comes before any route.
    usual: list[type[WindlassError]] = [
        errors.BadInput, UriTooLong, HeadersTooLarge, UnsupportedContentEncoding, ExpectationFailed,
    ]  # fmt: skip
    if route.roles is not None:
        usual += [errors.Unauthorized, errors.Forbidden, errors.TooManyRequests]
        usual += [errors.EngineUnavailable, errors.DiskFull, errors.DataDirectoryLost]
    if route.body is not None:
        usual.append(errors.TooLarge)
    if not route.body_media:
        usual.append(UnsupportedMediaType)
    if not route.response_media:
        usual.append(NotAcceptable)
    return usual
