"""Web application: find the route, authenticate, decode, call the handler, encode the answer. The same for all
dialects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

from windlass.core.access.audit import DONE
from windlass.core.access.tokens import Principal
from windlass.core.errors import BadInput, WindlassError
from windlass.core.job import Codec
from windlass.settings import BODY_MAX
from windlass.web.listener.body_headers import check_body_headers
from windlass.web.listener.deferred import DeferredAnswer
from windlass.web.listener.messages import Head, Plan, Reply, Request, Response, StreamedResponse
from windlass.wire.encoding import Encoding, decode
from windlass.wire.problems import HttpRefusal
from windlass.wire.sse import is_wanted

from .app_state import AppState, RequestAuthenticator
from .audit import write_audit_entry
from .content_negotiation import body_encoding, encoded_response, negotiate_encoding, problem_response, route_encoding
from .problems import protocol_refusal
from .query_parser import parse_query
from .request_context import RequestContext
from .router import Answer, Route, Router

UNKNOWN_BODY_MAX = 64 * 1024  # body of a client whose token is not verified yet
Encodings: TypeAlias = tuple[Encoding, Encoding]
_REPLIES = (Response, StreamedResponse)


class WebApplication:
    """Application of the HTTP listener."""

    def __init__(
        self, router: Router, state: AppState, authenticator: RequestAuthenticator, body_max: int = BODY_MAX
    ) -> None:
        self._router = router
        self._state = state
        state.routes = router.routes
        state.still_admits = authenticator.still_admits
        state.session_control = authenticator
        self._base = state.settings.base_path
        self._authenticator = authenticator
        self._body_max = body_max

    def plan(self, head: Head) -> Plan | Response:
        try:
            if self._base:
                self._strip_base(head)
            route, names = self._router.find(head.method, head.path)
            head.operation, head.is_page = route.operation, route.is_page
            principal = self._authenticator.admit_cached(head, route.roles)
            if "content-encoding" in head.headers or "expect" in head.headers:
                check_body_headers(head.headers)
        except WindlassError as error:
            return self._error_response(error, head)
        is_trusted = principal is not None or self._authenticator.is_probably_admitted(head)
        body_max = (route.body_max or self._body_max) if is_trusted else UNKNOWN_BODY_MAX
        return Plan(partial(self._handle, route, names, principal), body_max, route.streams_body, route.waits)

    def _strip_base(self, head: Head) -> None:
        head.base = self._base
        if head.path == self._base or head.path.startswith(f"{self._base}/"):
            head.path = head.path[len(self._base) :] or "/"

    def is_public(self, head: Head) -> bool:
        """Whether a request needs no role: its route asks for none, or it has no route."""
        try:
            return self._router.find(head.method, head.path)[0].roles is None
        except WindlassError:
            return True

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        """Format a protocol error as a response."""
        error = protocol_refusal(status, detail)
        return problem_response(error, Codec.JSON) if head is None else self._error_response(error, head)

    def _error_response(
        self,
        error: WindlassError,
        head: Head,
        encoding: Encoding | None = None,
        context: RequestContext[Any, Any] | None = None,
    ) -> Response:
        page = self._state.render_error_page
        if page is not None and (head.is_page or _wants_html_not_found(head)):
            return page(self._state, error, head, context)
        formatter = self._router.error_formatter_at(head.path) or problem_response
        return formatter(error, _error_encoding(head) if encoding is None else encoding)

    def _handle(
        self, route: Route, names: Mapping[str, str], principal: Principal | None, request: Request
    ) -> Coroutine[Any, Any, Reply] | DeferredAnswer[Any, Response] | Response:
        headers = request.head.headers
        try:
            accept = headers.get("accept", "")
            response_media = route.response_media
            if route.stream_media and is_wanted(accept):
                response_media = route.stream_media
            encodings = _encodings(route.body_media, response_media, headers.get("content-type", ""), accept)
        except WindlassError as error:
            return self._error_response(error, request.head, _fallback_encoding(route, request.head))
        if principal is None:
            return self._admit_and_start(route, names, request, encodings)
        return self._start(route, names, principal, request, encodings)

    async def _admit_and_start(
        self, route: Route, names: Mapping[str, str], request: Request, encodings: Encodings
    ) -> Reply:
        try:
            principal = await self._authenticator.admit(request.head, route.roles)
        except WindlassError as error:
            return self._error_response(error, request.head, encodings[1])
        result = self._start(route, names, principal, request, encodings)
        if isinstance(result, Response):
            return result
        if isinstance(result, DeferredAnswer):
            await asyncio.wait((result.future,))
            return result.to_answer(result.future)
        return await result

    def _start(
        self, route: Route, names: Mapping[str, str], principal: Principal, request: Request, encodings: Encodings
    ) -> Coroutine[Any, Any, Reply] | DeferredAnswer[Any, Response] | Response:
        head = request.head
        of_body, of_response = encodings
        context: RequestContext[Any, Any] | None = None
        try:
            head.principal_name = principal.name
            query = None if route.query is None else parse_query(head.query, route.query)
            body = None if route.body is None or route.streams_body else _body(request, route, of_body)
            context = RequestContext(self._state, request, principal, names, query, body, of_body, of_response)
            result = route.handler(context)
        except WindlassError as error:
            return self._error_response(error, head, of_response, context)
        if type(result) is DeferredAnswer:
            return DeferredAnswer(result.future, partial(self._reply_deferred, route, context, result.to_answer))
        return self._reply(route, context, result)  # type: ignore[arg-type]  # an awaitable

    def _reply_deferred(
        self,
        route: Route,
        context: RequestContext[Any, Any],
        to_answer: Callable[[asyncio.Future[Any]], Answer],
        future: asyncio.Future[Any],
    ) -> Response:
        try:
            shaped = to_answer(future)
            return _encode_answer(route, shaped, context)
        except WindlassError as error:
            return self._error_response(error, context.request.head, context.response_encoding, context)

    async def _reply(self, route: Route, context: RequestContext[Any, Any], handling: Awaitable[Any]) -> Reply:
        try:
            result = await (_run_audited(route, context, handling) if route.is_audited else handling)
            return _to_reply(route, result, context)
        except WindlassError as error:
            return self._error_response(error, context.request.head, context.response_encoding, context)


async def _run_audited(route: Route, context: RequestContext[Any, Any], handling: Awaitable[Any]) -> Any:
    outcome = "unknown"
    try:
        result = await handling
        outcome = DONE
        return result
    except WindlassError as error:
        outcome = error.code
        raise
    finally:
        await write_audit_entry(context, route.operation, outcome)


@lru_cache(256)
def _encodings(body_media: str, response_media: str, content_type: str, accept: str) -> Encodings:
    """Return the encodings of the body and of the response."""
    of_body = route_encoding(body_media) if body_media else body_encoding(content_type)
    return of_body, route_encoding(response_media) if response_media else negotiate_encoding(accept, of_body)


def _fallback_encoding(route: Route, head: Head) -> Encoding:
    """Return the encoding of an error if the request's encodings are not supported: that of the body, else JSON."""
    try:
        return _encodings(route.body_media, "", head.headers.get("content-type", ""), "")[0]
    except HttpRefusal:
        return Codec.JSON


def _body(request: Request, route: Route, encoding: Encoding) -> Any:
    if not request.body and route.is_body_optional:
        return route.body()
    if not request.body:
        raise BadInput("The body is empty; this path needs one, see /docs.")
    if route.decode_body is not None:
        return route.decode_body(request.body, encoding)
    return decode(request.body, route.body, encoding)


def _to_reply(route: Route, result: Any, context: RequestContext[Any, Any]) -> Reply:
    if isinstance(result, Answer):
        return _encode_answer(route, result, context)
    if isinstance(result, _REPLIES):
        return result
    return Response(204) if result is None else encoded_response(route.status, result, context.response_encoding)


def _encode_answer(route: Route, answer: Answer, context: RequestContext[Any, Any]) -> Response:
    """Encode an answer. Its Location names a route; a client needs the base before it."""
    headers, base = answer.headers, context.request.head.base
    if base and headers:
        headers = tuple((name, f"{base}{value}" if name == "Location" else value) for name, value in headers)
    return encoded_response(answer.status or route.status, answer.value, context.response_encoding, headers)


def _wants_html_not_found(head: Head) -> bool:
    """Whether a browser asked for a path without a route."""
    return not head.operation and head.method == "GET" and "text/html" in head.headers.get("accept", "")


def _error_encoding(head: Head) -> Encoding:
    """Return the encoding that the response would have had, or JSON if it cannot be negotiated."""
    try:
        return negotiate_encoding(head.headers.get("accept", ""), body_encoding(head.headers.get("content-type", "")))
    except HttpRefusal:
        return Codec.JSON
