"""Which function answers which request: one table, from which requests are dispatched and OpenAPI is written."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from windlass.core.access.tokens import Role
from windlass.core.errors import BadInput, WindlassError
from windlass.web.listener.messages import Response, StreamedResponse
from windlass.wire.encoding import Encoding
from windlass.wire.problems import Headers

from .problems import MethodNotAllowed, NotFound
from .request_context import RequestContext

T = TypeVar("T")
ErrorFormatter: TypeAlias = Callable[[WindlassError, Encoding], Response]
# Which roles may do it; an admin may do everything. None: anybody, even without a token.
READS = frozenset({Role.READ})
PRODUCES = frozenset({Role.PRODUCE})
WORKS = frozenset({Role.WORK})
KNOWS = frozenset({Role.READ, Role.PRODUCE, Role.WORK})  # of a job whose id one has
STEERS = frozenset({Role.PRODUCE})  # ... what its producer may do to it
ADMIN = frozenset({Role.ADMIN})


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer that is not just the route's own good one."""

    value: Any
    status: int = 0  # 0: the route's
    headers: Headers = ()


class DeferredAnswer(msgspec.Struct, Generic[T], frozen=True):
    """What a handler gives that waits for one future and nothing else. Such a handler is no coroutine, and needs no
    task."""

    future: asyncio.Future[T]
    to_answer: Callable[[T], Answer]  # makes the answer of its result


Handler: TypeAlias = Callable[[RequestContext[Any, Any]], Awaitable[Any] | DeferredAnswer[Any]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # with {names} of segments
    handler: Handler
    operation: str
    tag: str
    summary: str
    description: str
    roles: frozenset[Role] | None
    body: Any = None  # type of the body
    decode_body: Callable[[bytes, Encoding], Any] | None = None  # makes something else of it for the handler
    query: type[msgspec.Struct] | None = None
    form: type[msgspec.Struct] | None = None  # fields of a form, which the dashboard reads from the body itself
    response: Any = None  # type of the good answer; None: it has no body
    status: int = 200
    other_responses: Mapping[int, Any] = {}  # other good answers
    refuses: tuple[type[WindlassError], ...] = ()
    response_media: str = ""  # of an answer that is neither JSON nor MessagePack
    body_media: str = ""  # of such a body
    waits: bool = False
    streams_body: bool = False
    headers: Mapping[str, str] = {}  # that it looks at, each with its description
    required_headers: tuple[str, ...] = ()  # those of them without which it refuses
    is_audited: bool = False
    is_listed: bool = True  # in OpenAPI
    is_page: bool = False  # of the dashboard
    body_max: int = 0  # 0: the server's
    error_formatter: ErrorFormatter | None = None  # how its dialect says no; None: as a problem
    error_body: Any = None  # the type of what these words are; None: plain text

    @property
    def may_be_empty(self) -> bool:
        """Whether a body says nothing that an absent one would not."""
        if self.body_media or not (isinstance(self.body, type) and issubclass(self.body, msgspec.Struct)):
            return False
        return not any(field.required for field in msgspec.structs.fields(self.body))

    @property
    def names(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Routes:
    """The routes of one subject; a dialect has one or several."""

    def __init__(
        self, prefix: str = "", *, tag: str = "", error_formatter: ErrorFormatter | None = None, error_body: Any = None
    ) -> None:
        """`error_formatter`: a dialect's own way to say no, for everything below its prefix; `error_body`: its type, if no text."""
        self.prefix = prefix
        self.tag = tag
        self.error_formatter = error_formatter
        self.error_body = error_body
        self.all: list[Route] = []

    def __call__(
        self, method: str, path: str, *, roles: frozenset[Role] | None, **more: Any
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            summary, _, description = (inspect.getdoc(handler) or "").partition("\n")
            self.all.append(
                Route(
                    method=method,
                    path=self.prefix + path,
                    handler=handler,
                    operation=more.pop("operation", "") or handler.__name__,
                    tag=self.tag,
                    summary=summary.rstrip("."),
                    description=" ".join(description.split()),
                    roles=roles,
                    error_formatter=self.error_formatter,
                    error_body=self.error_body,
                    **more,
                )
            )
            return handler

        return add

    def get(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("GET", path, **more)

    def post(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("POST", path, **more)

    def put(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("PUT", path, **more)

    def patch(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("DELETE", path, **more)


NOTHING: Mapping[str, str] = {}
Methods: TypeAlias = dict[str, Route]


class Router:
    """Finds a route by method and path. Segments are split before they are decoded: names may hold any character."""

    def __init__(self, routes: Iterable[Routes]) -> None:
        tables = list(routes)
        self.routes = [route for some in tables for route in some.all]
        self._words = [(f"{some.prefix}/", some.error_formatter) for some in tables if some.error_formatter is not None]
        self._plain: dict[str, Methods] = {}
        self._with_names: dict[int, list[tuple[list[str], Methods]]] = {}
        for route in self.routes:
            if self._methods_at(route.path).setdefault(route.method, route) is not route:
                raise ValueError(f"{route.method} {route.path} is declared twice")

    def _methods_at(self, path: str) -> Methods:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        parts = path.split("/")
        candidates = self._with_names.setdefault(len(parts), [])
        for known, methods in candidates:
            if known == parts:
                return methods
        candidates.append((parts, {}))
        return candidates[-1][1]

    def error_formatter_at(self, path: str) -> ErrorFormatter | None:
        """In which words something is refused there."""
        return next((words for prefix, words in self._words if path.startswith(prefix)), None)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        methods = self._plain.get(path)
        names: Mapping[str, str] = NOTHING
        if methods is None:
            methods, names = self._find_slowly(path)
        route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        if route is None:
            raise MethodNotAllowed(_allowed(methods))
        return route, names

    def _find_slowly(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        """Also where a client has encoded more than it had to, as the colon of jobs:batch."""
        try:
            return self._find_with_names(path)
        except NotFound:
            unreserved = path.replace("%3A", ":").replace("%3a", ":")
            if unreserved in self._plain:
                return self._plain[unreserved], NOTHING
            raise

    def _find_with_names(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        given = path.split("/")
        for parts, methods in self._with_names.get(len(given), ()):
            if all(part == one or (part[:1] == "{" and one) for part, one in zip(parts, given, strict=True)):
                return methods, {
                    part[1:-1]: _decoded(one) for part, one in zip(parts, given, strict=True) if part[:1] == "{"
                }
        raise NotFound


def _allowed(methods: Methods) -> str:
    return ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise BadInput(f"{segment!r} in the path is not UTF-8 once its % signs are decoded.") from error


Given: TypeAlias = Response | StreamedResponse | Answer | msgspec.Struct | None
