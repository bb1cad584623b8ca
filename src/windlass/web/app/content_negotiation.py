"""Content negotiation between JSON and MessagePack, and encoded responses."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windlass.core.errors import WindlassError
from windlass.core.job import Codec
from windlass.web.listener.messages import Response
from windlass.wire.encoding import JSON, MSGPACK, Encoding, encode
from windlass.wire.problems import headers_of, problem_of

from .problems import NotAcceptable, UnsupportedMediaType

_ENCODINGS: dict[str, Encoding] = {
    JSON: Codec.JSON,
    MSGPACK: Codec.MSGPACK,
    "application/x-msgpack": Codec.MSGPACK,
    "application/vnd.msgpack": Codec.MSGPACK,
    "text/json": Codec.JSON,
}
_WILDCARDS = {"*/*": 0, "application/*": 1}  # with their specificity; a full media type has 2
_CONTENT_TYPES: dict[Codec, str] = {Codec.JSON: JSON, Codec.MSGPACK: MSGPACK}
_PROBLEM_TYPES: dict[Codec, str] = {
    Codec.JSON: "application/problem+json",
    Codec.MSGPACK: "application/problem+msgpack",
}


def route_encoding(media: str) -> Encoding:
    """Return the encoding of a route with a fixed media type. Errors of other media types are JSON."""
    return Codec.MSGPACK if media == MSGPACK else Codec.JSON


@lru_cache(256)
def body_encoding(content_type: str) -> Encoding:
    """Return the encoding of a body. Without a content type it is JSON; a form, the default of curl, is refused."""
    media = content_type.partition(";")[0].strip().lower()
    if not media:
        return Codec.JSON
    if media not in _ENCODINGS:
        raise UnsupportedMediaType(f"{UnsupportedMediaType.sentence[:-1]}, not {media}.")
    return _ENCODINGS[media]


@lru_cache(256)
def negotiate_encoding(accept: str, of_body: Encoding) -> Encoding:
    """Return the encoding that the client prefers; of equal ones, that of the body."""
    if not accept or accept == "*/*":
        return of_body
    other: Encoding = Codec.MSGPACK if of_body is Codec.JSON else Codec.JSON
    weights = _quality_values(accept)
    best = max((of_body, other), key=lambda encoding: weights[encoding])  # the first of equals
    if weights[best] <= 0:
        raise NotAcceptable
    return best


def _quality_values(accept: str) -> dict[Encoding, float]:
    """Return the quality value of each encoding by its most specific media range."""
    found: dict[Encoding, tuple[int, float]] = {Codec.JSON: (-1, 0.0), Codec.MSGPACK: (-1, 0.0)}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        named = _ENCODINGS.get(media.replace("problem+", ""))
        weight = _quality(parameters)
        for encoding in found if media in _WILDCARDS else () if named is None else (named,):
            found[encoding] = max(found[encoding], (_WILDCARDS.get(media, 2), weight))
    return {encoding: weight for encoding, (_, weight) in found.items()}


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0


def json_response(status: int, body: bytes) -> Response:
    """Return a response whose body is encoded JSON."""
    return Response(status, body, (), JSON)


def encoded_response(
    status: int, value: Any, encoding: Encoding, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    return Response(status, encode(value, encoding), headers, _CONTENT_TYPES[encoding])


def problem_response(error: WindlassError, encoding: Encoding) -> Response:
    problem = problem_of(error)
    return Response(problem.status, encode(problem, encoding), headers_of(error), _PROBLEM_TYPES[encoding])
