"""A no as a page: what was refused, and what to do next."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app.app_state import AppState
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.listener.messages import Head, Response
from windlass.wire.problems import headers_of, status_for

from .page_context import PageContext, local_path
from .rendering import render_page

_TITLES: dict[int, str] = {
    400: "That does not work",
    401: "Log in",
    403: "Not allowed",
    404: "Not here",
    409: "Not as things are",
    413: "Too large",
    429: "Too fast",
    500: "Something broke",
    503: "The engine is away",
}
_ADVICE: dict[int, str] = {
    400: "Go back, change what was asked for, and try again.",
    403: "Ask whoever runs this server for a token with the role that is missing, and log in with it.",
    404: "It may have ended and been removed since the page was made.",
    409: "Go back and look again: the state of things has changed.",
    429: "Wait a moment, then reload the page.",
    500: "The server's log says why. Reload the page; if it happens again, report it.",
    503: "Jobs that were accepted are safe. This page comes back by itself as soon as the engine answers; "
    "windlass doctor says more.",
}


# Whoever follows a link from there comes without the cookie, session or not: the page, asked for by itself, has it.
OTHER_SITES = ("cross-site", "same-site")


class ErrorView(msgspec.Struct, frozen=True):
    status: int
    title: str
    detail: str
    advice: str
    code: str
    back: str


class LoginView(msgspec.Struct, frozen=True):
    next: str
    trouble: str = ""


def render_error_page(
    state: AppState, error: WindlassError, head: Head, context: RequestContext[Any, Any] | None
) -> Response:
    page: PageContext[Any] = PageContext(state, head, context)
    status = status_for(error)
    if isinstance(error, errors.Unauthorized):
        is_old = "session" in str(error)
        next_page = page.current_path if head.method == "GET" else page.link()
        answer = render_page("login.html", LoginView(next_page, str(error) if is_old else ""), page, status=status)
        if head.method == "GET" and head.headers.get("sec-fetch-site") in OTHER_SITES:
            answer.headers = (*answer.headers, ("Refresh", f"0; url={local_path(page, page.current_path)}"))
    else:
        answer = render_page("refusal.html", _error_view(error, status, page), page, status=status)
    return msgspec.structs.replace(answer, headers=(*answer.headers, *headers_of(error)))


def _error_view(error: WindlassError, status: int, page: PageContext[Any]) -> ErrorView:
    title = _TITLES.get(status, _TITLES[400] if status < 500 else _TITLES[500])
    if isinstance(error, errors.EngineFull | errors.QueueFull):
        title = "Full"
    detail = "There is no such page." if isinstance(error, NotFound) else str(error)
    return ErrorView(status, title, detail, _ADVICE.get(status, ""), error.code, page.link())
