"""From a request's head to its route, past the guard, to the handler and back: the same way for all dialects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from ..core.access import Principal
from ..core.audit import DONE
from ..core.errors import BadInput, WindlassError
from ..core.job import Codec
from ..settings import BODY_MAX
from .auditing import write_down
from .encoding import (
    Encoding,
    answer,
    decode,
    encoding_named,
    encoding_of_answer,
    encoding_of_body,
    refusal_answer,
)
from .guard import Guard
from .messages import Head, Plan, Request, Response, Streamed
from .problems import HttpRefusal, said
from .querying import parse_query
from .routing import Answer, Ask, Office, Route, Router

STRANGERS_BODY_MAX = 64 * 1024  # of those who may still be let in, but are not known yet
Reply: TypeAlias = Response | Streamed
_REPLIES = (Response, Streamed)


class WebApplication:
    """Answers requests by its routes."""

    def __init__(self, router: Router, office: Office, guard: Guard, body_max: int = BODY_MAX) -> None:
        self._router = router
        self._office = office
        office.routes = router.routes
        office.still_admits = guard.still_admits
        office.entrance = guard
        self._base = office.settings.base_path
        self._guard = guard
        self._body_max = body_max

    def plan(self, head: Head) -> Plan | Response:
        try:
            if self._base and (head.path == self._base or head.path.startswith(f"{self._base}/")):
                head.path = head.path[len(self._base) :] or "/"
            route, names = self._router.find(head.method, head.path)
            head.operation, head.is_page = route.operation, route.is_page
            who = self._guard.admit(head, route.roles)
        except WindlassError as error:
            return self._refused(error, head)
        is_trusted = who is not None or self._guard.is_probable(head)
        body_max = (route.body_max or self._body_max) if is_trusted else STRANGERS_BODY_MAX
        return Plan(partial(self._handle, route, names, who), body_max, route.streams_body, route.waits)

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        """What the protocol has to say itself."""
        error = said(status, detail)
        return refusal_answer(error, Codec.JSON) if head is None else self._refused(error, head)

    def _refused(
        self, error: WindlassError, head: Head, encoding: Encoding | None = None, ask: Ask[Any, Any] | None = None
    ) -> Response:
        page = self._office.refusal_page
        if page is not None and (head.is_page or _is_lost(head)):
            return page(self._office, error, head, ask)
        words = self._router.words_at(head.path) or refusal_answer
        return words(error, _encoding_for_trouble(head) if encoding is None else encoding)

    async def _handle(self, route: Route, names: Mapping[str, str], who: Principal | None, request: Request) -> Reply:
        head = request.head
        encoding: Encoding = Codec.JSON
        ask: Ask[Any, Any] | None = None
        try:
            of_body = _encoding_of_body(route, head)
            encoding = of_body  # for what goes wrong before the next line
            encoding = _encoding_of_answer(route, head, of_body)
            if who is None:
                who = await self._guard.admit_slowly(head, route.roles)
            head.who = who.name
            query = None if route.query is None else parse_query(head.query, route.query)
            body = None if route.takes is None or route.streams_body else _body(request, route, of_body)
            ask = Ask(self._office, request, who, names, query, body, of_body, encoding)
            given = await (self._audited(route, ask) if route.is_audited else route.handler(ask))
            return _reply(route, given, encoding)
        except WindlassError as error:
            return self._refused(error, head, encoding, ask)

    async def _audited(self, route: Route, ask: Ask[Any, Any]) -> Any:
        outcome = "unknown"
        try:
            given = await route.handler(ask)
            outcome = DONE
            return given
        except WindlassError as error:
            outcome = error.code
            raise
        finally:
            await write_down(ask, route.operation, outcome)


def _encoding_of_body(route: Route, head: Head) -> Encoding:
    if route.takes_media:
        return encoding_named(route.takes_media)
    return encoding_of_body(head.headers.get("content-type", ""))


def _encoding_of_answer(route: Route, head: Head, of_body: Encoding) -> Encoding:
    if route.media:
        return encoding_named(route.media)
    return encoding_of_answer(head.headers.get("accept", ""), of_body)


def _body(request: Request, route: Route, encoding: Encoding) -> Any:
    if not request.body and route.may_be_empty:
        return route.takes()
    if not request.body:
        raise BadInput("The body is empty; this path wants one, see /docs.")
    return decode(request.body, route.takes, encoding)


def _reply(route: Route, given: Any, encoding: Encoding) -> Reply:
    if isinstance(given, Answer):
        return answer(given.status or route.status, given.value, encoding, given.headers)
    if isinstance(given, _REPLIES):
        return given
    return Response(204) if given is None else answer(route.status, given, encoding)


def _is_lost(head: Head) -> bool:
    """Somebody with a browser, at a path where nothing is."""
    return not head.operation and head.method == "GET" and "text/html" in head.headers.get("accept", "")


def _encoding_for_trouble(head: Head) -> Encoding:
    """As the answer would have been; JSON where even that cannot be told."""
    try:
        return encoding_of_answer(
            head.headers.get("accept", ""), encoding_of_body(head.headers.get("content-type", ""))
        )
    except HttpRefusal:
        return Codec.JSON
