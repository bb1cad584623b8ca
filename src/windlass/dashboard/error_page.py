"""Error pages: the refused request, the reason, and what to do next."""

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
    400: "Invalid request",
    401: "Log in",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    429: "Too many requests",
    500: "Internal error",
    503: "Engine unavailable",
}
_ADVICE: dict[int, str] = {
    400: "Go back, correct the request, and try again.",
    403: "Ask the operator of this server for a token with the missing role, and log in with it.",
    404: "It may have been removed since the previous page was loaded.",
    409: "Go back and reload the page: its data has changed.",
    429: "Wait a moment, then reload the page.",
    500: "The server's log has the reason. Reload the page; if the error happens again, report it.",
    503: "Accepted jobs are safe. This page reloads by itself as soon as the engine answers. For details run "
    "windlass doctor.",
}


# A link from another site is followed without the session cookie (SameSite=Strict), even if a session exists. A reload
# by our own page sends the cookie.
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
    error: str = ""


def render_error_page(
    state: AppState, error: WindlassError, head: Head, context: RequestContext[Any, Any] | None
) -> Response:
    page: PageContext[Any] = PageContext(state, head, context)
    status = status_for(error)
    if isinstance(error, errors.Unauthorized):
        is_session_over = "session" in str(error)
        next_page = page.current_path if head.method == "GET" else page.link()
        answer = render_page(
            "login.html", LoginView(next_page, str(error) if is_session_over else ""), page, status=status
        )
        if head.method == "GET" and head.headers.get("sec-fetch-site") in OTHER_SITES:
            answer.headers = (*answer.headers, ("Refresh", f"0; url={local_path(page, page.current_path)}"))
    else:
        answer = render_page("error.html", _error_view(error, status, page), page, status=status)
    return msgspec.structs.replace(answer, headers=(*answer.headers, *headers_of(error)))


def _error_view(error: WindlassError, status: int, page: PageContext[Any]) -> ErrorView:
    title = _TITLES.get(status, _TITLES[400] if status < 500 else _TITLES[500])
    if isinstance(error, errors.EngineFull | errors.QueueFull):
        title = "Full"
    detail = "This page does not exist." if isinstance(error, NotFound) else str(error)
    return ErrorView(status, title, detail, _ADVICE.get(status, ""), error.code, page.link())
