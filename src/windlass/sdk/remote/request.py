"""A request as data, and what its answer means: no I/O. Both ways of sending share it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from windlass.core import errors
from windlass.core.errors import REFUSALS, EngineError, EngineUnavailable, EngineUnsuitable, Refusal, WindlassError
from windlass.wire.encoding import JSON, MSGPACK
from windlass.wire.problems import Problem

from .address import ServerAddress

T = TypeVar("T")
API = "/api/v1"
ANSWER_S = 30.0  # for an answer, beside the time that the request itself wants to wait
_encode = msgspec.msgpack.Encoder().encode
_OTHERS: dict[str, type[WindlassError]] = {
    error.code: error
    for error in (
        errors.EngineUnavailable,
        errors.DiskFull,
        errors.DataDirectoryLost,
        errors.EngineError,
        errors.EngineNotPermitted,
        errors.EngineUnsuitable,
    )
}
_BETWEEN = (502, 503, 504)  # what proxies say of a server that is away


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # under the API, its names encoded
    gives: Any  # type of the answer's body; None: it has none, or it does not matter
    body: msgspec.Struct | None = None
    query: Mapping[str, Any] = {}  # a list is given as often as it has items; what is None is not given
    wait_ms: int = 0  # how long the server may wait before it answers
    # After a lost answer it may be sent again: nothing is done twice.
    is_repeatable: bool = True

    @property
    def target(self) -> str:
        given = {name: _written(value) for name, value in self.query.items() if value is not None}
        query = f"?{urlencode(given, doseq=True)}" if given else ""
        return f"{API}{self.path}{query}"

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else _encode(self.body)

    @property
    def timeout_s(self) -> float:
        return ANSWER_S + self.wait_ms / 1000


def _written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


Requests: TypeAlias = Generator[Request, Any, T]


def get(path: str, gives: Any, **more: Any) -> Request:
    return Request(method="GET", path=path, gives=gives, **more)


def post(path: str, gives: Any, body: msgspec.Struct | None = None, **more: Any) -> Request:
    return Request(method="POST", path=path, gives=gives, body=body, **more)


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def headers(token: str, *, has_body: bool, accept: str = MSGPACK) -> dict[str, str]:
    found = {"Accept": accept}
    if has_body:
        found["Content-Type"] = MSGPACK
    if token:
        found["Authorization"] = f"Bearer {token}"
    return found


class Response(msgspec.Struct, frozen=True):
    status: int
    media: str
    body: bytes


# What may be tried again


class NotReached(EngineUnavailable):
    """The server has not got the request, or has not begun with it."""


class NoAnswer(EngineUnavailable):
    """The server may have done what was asked."""


def may_repeat(error: WindlassError, request: Request) -> bool:
    return isinstance(error, NotReached | errors.TooManyRequests) or (
        isinstance(error, NoAnswer) and request.is_repeatable
    )


def unreachable(address: ServerAddress, why: object) -> NotReached:
    return NotReached(
        f"The server at {address} cannot be reached: {why}. Is it running (windlass serve), and is this its address?"
    )


def unanswered(address: ServerAddress, why: object) -> NoAnswer:
    return NoAnswer(f"The server at {address} went away before it answered: {why}.")


# Answers


def read(address: ServerAddress, request: Request, response: Response) -> Any:
    if not 200 <= response.status < 300:
        raise failure(address, request.path, response)
    if request.gives is None:
        return None
    try:
        return _decoder(request.gives)(response.body)
    except msgspec.MsgspecError as error:
        raise EngineUnsuitable(
            f"What answers at {address} is no Windlass server of this version: {request.path} said something else than "
            f"expected ({error})."
        ) from error


def failure(address: ServerAddress, path: str, response: Response) -> WindlassError:
    found = _problem(response)
    if found is None:
        return _without_problem(address, path, response)
    if found.code in REFUSALS:
        return REFUSALS[found.code](found.detail)
    if found.code == EngineUnavailable.code:
        return NoAnswer(found.detail)
    if found.code in _OTHERS:
        return _OTHERS[found.code](found.detail)
    return _said_by_http(address, path, found)


def refused(found: Problem) -> Refusal:
    """One of many."""
    return REFUSALS.get(found.code, Refusal)(found.detail)


def _said_by_http(address: ServerAddress, path: str, found: Problem) -> WindlassError:
    if found.status == 503:
        return NotReached(f"The server at {address} is busy or about to stop: {found.detail}")
    if found.status in (404, 405):
        return EngineUnsuitable(f"The server at {address} does not know {path}: it is older than this program.")
    return EngineError(f"The server at {address} refused {path} ({found.status}): {found.detail}")


def _without_problem(address: ServerAddress, path: str, response: Response) -> WindlassError:
    if response.status in _BETWEEN:
        return unanswered(address, f"status {response.status}")
    return EngineUnsuitable(
        f"What answers at {address} is no Windlass server: {path} was answered with status {response.status} and "
        f"{response.media or 'nothing'}. Is the address right, and its path?"
    )


def _problem(response: Response) -> Problem | None:
    decoder = _PROBLEMS.get(response.media.partition(";")[0].strip().replace("problem+", ""))
    try:
        return None if decoder is None else decoder(response.body)
    except msgspec.MsgspecError:
        return None


@lru_cache(None)
def _decoder(wanted: Any) -> Any:
    return msgspec.msgpack.Decoder(wanted).decode


_PROBLEMS = {MSGPACK: msgspec.msgpack.Decoder(Problem).decode, JSON: msgspec.json.Decoder(Problem).decode}
