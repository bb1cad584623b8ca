"""From a request's head to its route, past the guard, to the handler and back: the same way for all dialects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

from windlass.core.access.audit import DONE
from windlass.core.access.tokens import Principal
from windlass.core.errors import BadInput, WindlassError
from windlass.core.job import Codec
from windlass.settings import BODY_MAX
from windlass.web.listener.body_headers import check_body_headers
from windlass.web.listener.messages import DeferredReply, Head, Plan, Reply, Request, Response, StreamedResponse
from windlass.wire.encoding import Encoding, decode
from windlass.wire.problems import HttpRefusal

from .app_state import AppState
from .audit import write_audit_entry
from .auth import Authenticator
from .content_negotiation import body_encoding, encoded_response, negotiate_encoding, problem_response, route_encoding
from .problems import protocol_refusal
from .query_string import parse_query
from .request_context import RequestContext
from .router import Answer, DeferredAnswer, Route, Router

UNKNOWN_BODY_MAX = 64 * 1024  # of those who may still be let in, but are not known yet
Encodings: TypeAlias = tuple[Encoding, Encoding]
_REPLIES = (Response, StreamedResponse)


class WebApplication:
    """Answers requests by its routes."""

    def __init__(self, router: Router, state: AppState, authenticator: Authenticator, body_max: int = BODY_MAX) -> None:
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
            if self._base and (head.path == self._base or head.path.startswith(f"{self._base}/")):
                head.path = head.path[len(self._base) :] or "/"
            route, names = self._router.find(head.method, head.path)
            head.operation, head.is_page = route.operation, route.is_page
            principal = self._authenticator.admit_cached(head, route.roles)
            if "content-encoding" in head.headers or "expect" in head.headers:
                check_body_headers(head.headers)
        except WindlassError as error:
            return self._refused(error, head)
        is_trusted = principal is not None or self._authenticator.is_probably_admitted(head)
        body_max = (route.body_max or self._body_max) if is_trusted else UNKNOWN_BODY_MAX
        return Plan(partial(self._handle, route, names, principal), body_max, route.streams_body, route.waits)

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        """What the protocol has to say itself."""
        error = protocol_refusal(status, detail)
        return problem_response(error, Codec.JSON) if head is None else self._refused(error, head)

    def _refused(
        self,
        error: WindlassError,
        head: Head,
        encoding: Encoding | None = None,
        context: RequestContext[Any, Any] | None = None,
    ) -> Response:
        page = self._state.refusal_page
        if page is not None and (head.is_page or _wants_html_not_found(head)):
            return page(self._state, error, head, context)
        words = self._router.error_formatter_at(head.path) or problem_response
        return words(error, _error_encoding(head) if encoding is None else encoding)

    def _handle(
        self, route: Route, names: Mapping[str, str], principal: Principal | None, request: Request
    ) -> Awaitable[Reply] | DeferredReply | Response:
        headers = request.head.headers
        try:
            encodings = _encodings(
                route.body_media, route.response_media, headers.get("content-type", ""), headers.get("accept", "")
            )
        except WindlassError as error:
            return self._refused(error, request.head, _fallback_encoding(route, request.head))
        if principal is None:
            return self._admit_slowly(route, names, request, encodings)
        return self._begin(route, names, principal, request, encodings)

    async def _admit_slowly(
        self, route: Route, names: Mapping[str, str], request: Request, encodings: Encodings
    ) -> Reply:
        try:
            principal = await self._authenticator.admit(request.head, route.roles)
        except WindlassError as error:
            return self._refused(error, request.head, encodings[1])
        begun = self._begin(route, names, principal, request, encodings)
        if isinstance(begun, Response):
            return begun
        if isinstance(begun, DeferredReply):
            await asyncio.wait((begun.future,))
            return begun.reply(begun.future)
        return await begun

    def _begin(
        self, route: Route, names: Mapping[str, str], principal: Principal, request: Request, encodings: Encodings
    ) -> Awaitable[Reply] | DeferredReply | Response:
        head = request.head
        of_body, wanted = encodings
        context: RequestContext[Any, Any] | None = None
        try:
            head.who = principal.name
            query = None if route.query is None else parse_query(head.query, route.query)
            body = None if route.body is None or route.streams_body else _body(request, route, of_body)
            context = RequestContext(self._state, request, principal, names, query, body, of_body, wanted)
            given = route.handler(context)
        except WindlassError as error:
            return self._refused(error, head, wanted, context)
        if type(given) is DeferredAnswer:
            return DeferredReply(given.future, partial(self._reply_later, route, context, given))
        return self._reply(route, context, given)  # type: ignore[arg-type]  # an awaitable

    def _reply_later(
        self, route: Route, context: RequestContext[Any, Any], given: DeferredAnswer[Any], future: asyncio.Future[Any]
    ) -> Response:
        try:
            shaped = given.to_answer(future.result())
            return encoded_response(shaped.status or route.status, shaped.value, context.response_encoding, shaped.headers)
        except WindlassError as error:
            return self._refused(error, context.request.head, context.response_encoding, context)

    async def _reply(self, route: Route, context: RequestContext[Any, Any], handling: Awaitable[Any]) -> Reply:
        try:
            given = await (_run_audited(route, context, handling) if route.is_audited else handling)
            return _reply(route, given, context.response_encoding)
        except WindlassError as error:
            return self._refused(error, context.request.head, context.response_encoding, context)


async def _run_audited(route: Route, context: RequestContext[Any, Any], handling: Awaitable[Any]) -> Any:
    outcome = "unknown"
    try:
        given = await handling
        outcome = DONE
        return given
    except WindlassError as error:
        outcome = error.code
        raise
    finally:
        await write_audit_entry(context, route.operation, outcome)


@lru_cache(256)
def _encodings(takes_media: str, media: str, content_type: str, accept: str) -> Encodings:
    """Of the body, and of the answer."""
    of_body = route_encoding(takes_media) if takes_media else body_encoding(content_type)
    return of_body, route_encoding(media) if media else negotiate_encoding(accept, of_body)


def _fallback_encoding(route: Route, head: Head) -> Encoding:
    """Where one of both cannot be told: the body's, else JSON."""
    try:
        return _encodings(route.body_media, "", head.headers.get("content-type", ""), "")[0]
    except HttpRefusal:
        return Codec.JSON


def _body(request: Request, route: Route, encoding: Encoding) -> Any:
    if not request.body and route.may_be_empty:
        return route.body()
    if not request.body:
        raise BadInput("The body is empty; this path wants one, see /docs.")
    return (
        decode(request.body, route.body, encoding)
        if route.decode_body is None
        else route.decode_body(request.body, encoding)
    )


def _reply(route: Route, given: Any, encoding: Encoding) -> Reply:
    if isinstance(given, Answer):
        return encoded_response(given.status or route.status, given.value, encoding, given.headers)
    if isinstance(given, _REPLIES):
        return given
    return Response(204) if given is None else encoded_response(route.status, given, encoding)


def _wants_html_not_found(head: Head) -> bool:
    """Somebody with a browser, at a path where nothing is."""
    return not head.operation and head.method == "GET" and "text/html" in head.headers.get("accept", "")


def _error_encoding(head: Head) -> Encoding:
    """As the answer would have been; JSON where even that cannot be told."""
    try:
        return negotiate_encoding(
            head.headers.get("accept", ""), body_encoding(head.headers.get("content-type", ""))
        )
    except HttpRefusal:
        return Codec.JSON
