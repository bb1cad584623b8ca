"""Routes and router. The route table dispatches requests and is the source of the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from windlass.core.access.tokens import Role
from windlass.core.errors import BadInput, WindlassError
from windlass.web.listener.deferred import DeferredAnswer
from windlass.web.listener.messages import Response
from windlass.wire.encoding import Encoding
from windlass.wire.problems import Headers

from .problems import MethodNotAllowed, NotFound
from .request_context import RequestContext

ErrorFormatter: TypeAlias = Callable[[WindlassError, Encoding], Response]
# Roles that may call a route; admins may call all. None instead of a set: no token is needed.
READERS = frozenset({Role.READ})
PRODUCERS = frozenset({Role.PRODUCE})
WORKERS = frozenset({Role.WORK})
JOB_READERS = frozenset({Role.READ, Role.PRODUCE, Role.WORK})  # read a job by its id
JOB_CONTROLLERS = frozenset({Role.PRODUCE})  # actions that are open to the producer of a job
ADMINS = frozenset({Role.ADMIN})


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Result of a handler with its own status or headers."""

    value: Any
    status: int = 0  # 0: the status of the route
    headers: Headers = ()


Handler: TypeAlias = Callable[[RequestContext[Any, Any]], Awaitable[Any] | DeferredAnswer[Any, Answer]]


DocumentBuilder: TypeAlias = Callable[[list[Any]], dict[str, Any]]  # from the served routes


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Route: method, path, handler and its description for OpenAPI."""

    method: str
    path: str  # parameters as {name}
    handler: Handler
    operation: str
    tag: str
    summary: str
    description: str
    roles: frozenset[Role] | None
    body: Any = None  # type of the body
    decode_body: Callable[[bytes, Encoding], Any] | None = None  # replaces decoding as `body`
    query: type[msgspec.Struct] | None = None
    form: type[msgspec.Struct] | None = None  # fields of a form of the dashboard, which decodes it itself
    response: Any = None  # type of the successful response; None: it has no body
    status: int = 200
    other_responses: Mapping[int, Any] = {}  # types of other successful responses by status
    refuses: tuple[type[WindlassError], ...] = ()
    response_media: str = ""  # media type of the response, if it is not negotiated
    stream_media: str = ""  # media type of a stream that the route answers with if the client asks for it
    body_media: str = ""  # media type of the body, if it is fixed
    waits: bool = False
    streams_body: bool = False
    headers: Mapping[str, str] = {}  # headers that the handler uses, with their descriptions
    required_headers: tuple[str, ...] = ()
    is_audited: bool = False
    is_listed: bool = True  # in OpenAPI
    is_page: bool = False  # of the dashboard
    body_max: int = 0  # bytes; 0: the limit of the server
    error_formatter: ErrorFormatter | None = None  # of its dialect; None: problem details
    error_body: Any = None  # type of a formatted error; None: plain text
    builds_document: DocumentBuilder | None = None  # of a dialect: the OpenAPI document that the route serves

    @property
    def is_body_optional(self) -> bool:
        """Whether the body may be missing because all its fields have defaults."""
        if self.body_media or not (isinstance(self.body, type) and issubclass(self.body, msgspec.Struct)):
            return False
        return not any(field.required for field in msgspec.structs.fields(self.body))

    @property
    def names(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Routes:
    """Routes of one subject; a dialect has one or several."""

    def __init__(
        self, prefix: str = "", *, tag: str = "", error_formatter: ErrorFormatter | None = None, error_body: Any = None
    ) -> None:
        """`error_formatter`: formats all errors below the prefix. `error_body`: type of a formatted error, None for
        plain text."""
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


NO_PARAMETERS: Mapping[str, str] = {}
Methods: TypeAlias = dict[str, Route]


class Router:
    """Lookup of routes by method and path. The path is split before its segments are decoded, so that a parameter may
    hold any character."""

    def __init__(self, routes: Iterable[Routes]) -> None:
        tables = list(routes)
        self.routes = [route for table in tables for route in table.all]
        self._error_formatters = [
            (f"{table.prefix}/", table.error_formatter) for table in tables if table.error_formatter is not None
        ]
        self._static: dict[str, Methods] = {}
        self._parametrized: dict[int, list[tuple[list[str], Methods]]] = {}  # by the number of segments
        for route in self.routes:
            if self._methods_at(route.path).setdefault(route.method, route) is not route:
                raise ValueError(f"{route.method} {route.path} is declared twice")

    def _methods_at(self, path: str) -> Methods:
        if "{" not in path:
            return self._static.setdefault(path, {})
        parts = path.split("/")
        candidates = self._parametrized.setdefault(len(parts), [])
        for known, methods in candidates:
            if known == parts:
                return methods
        candidates.append((parts, {}))
        return candidates[-1][1]

    def error_formatter_at(self, path: str) -> ErrorFormatter | None:
        """Return the error formatter of the dialect that the path belongs to."""
        return next((formatter for prefix, formatter in self._error_formatters if path.startswith(prefix)), None)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        methods = self._static.get(path)
        parameters: Mapping[str, str] = NO_PARAMETERS
        if methods is None:
            methods, parameters = self._find_parametrized(path)
        route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        if route is None:
            raise MethodNotAllowed(_allowed_methods(methods))
        return route, parameters

    def _find_parametrized(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        """Find a path with parameters, or a static path with a percent-encoded colon as in jobs%3Abatch."""
        try:
            return self._match(path)
        except NotFound:
            decoded = path.replace("%3A", ":").replace("%3a", ":")
            if decoded in self._static:
                return self._static[decoded], NO_PARAMETERS
            raise

    def _match(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        segments = path.split("/")
        for parts, methods in self._parametrized.get(len(segments), ()):
            if all(
                part == segment or (part[:1] == "{" and segment) for part, segment in zip(parts, segments, strict=True)
            ):
                return methods, {
                    part[1:-1]: _decode(segment)
                    for part, segment in zip(parts, segments, strict=True)
                    if part[:1] == "{"
                }
        raise NotFound


def _allowed_methods(methods: Methods) -> str:
    return ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))


def _decode(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise BadInput(f"{segment!r} in the path is not UTF-8 after percent-decoding.") from error
