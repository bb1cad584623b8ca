"""JSON and MessagePack on every route: which one a request is in, which one its answer will be in, and both ways."""

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
_WILDCARDS = {"*/*": 0, "application/*": 1}  # how specific; a name of ours is more so
_CONTENT_TYPES: dict[Codec, str] = {Codec.JSON: JSON, Codec.MSGPACK: MSGPACK}
_PROBLEM_TYPES: dict[Codec, str] = {
    Codec.JSON: "application/problem+json",
    Codec.MSGPACK: "application/problem+msgpack",
}


def route_encoding(media: str) -> Encoding:
    """Of a route that has one of its own; where that is neither, as its answers say."""
    return Codec.MSGPACK if media == MSGPACK else Codec.JSON


@lru_cache(256)
def body_encoding(content_type: str) -> Encoding:
    """A body without a type is JSON; curl's default, a form, is not taken for anything else than it says."""
    media = content_type.partition(";")[0].strip().lower()
    if not media:
        return Codec.JSON
    if media not in _ENCODINGS:
        raise UnsupportedMediaType(f"{UnsupportedMediaType.sentence[:-1]}, not {media}.")
    return _ENCODINGS[media]


@lru_cache(256)
def negotiate_encoding(accept: str, of_body: Encoding) -> Encoding:
    """The best of what is accepted; where both are as good, the answer is as the question."""
    if not accept or accept == "*/*":
        return of_body
    other: Encoding = Codec.MSGPACK if of_body is Codec.JSON else Codec.JSON
    weights = _quality_values(accept)
    best = max((of_body, other), key=lambda one: weights[one])  # the first of equals
    if weights[best] <= 0:
        raise NotAcceptable
    return best


def _quality_values(accept: str) -> dict[Encoding, float]:
    """Of each encoding, what its most specific mention says."""
    found: dict[Encoding, tuple[int, float]] = {Codec.JSON: (-1, 0.0), Codec.MSGPACK: (-1, 0.0)}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        named = _ENCODINGS.get(media.replace("problem+", ""))
        weight = _quality(parameters)
        for encoding in found if media in _WILDCARDS else () if named is None else (named,):
            found[encoding] = max(found[encoding], (_WILDCARDS.get(media, 2), weight))
    return {encoding: weight for encoding, (_, weight) in found.items()}


def _quality(parameters: list[str]) -> float:
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0


def json_response(status: int, written: bytes) -> Response:
    """Of what is JSON already."""
    return Response(status, written, (), JSON)


def encoded_response(status: int, value: Any, encoding: Encoding, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, encode(value, encoding), headers, _CONTENT_TYPES[encoding])


def problem_response(error: WindlassError, encoding: Encoding) -> Response:
    said = problem_of(error)
    return Response(said.status, encode(said, encoding), headers_of(error), _PROBLEM_TYPES[encoding])
