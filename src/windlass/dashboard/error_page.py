"""Error pages: the refused request, the reason, and what to do next."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app.app_state import AppState
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.listener.messages import Head, Response
from windlass.wire.problems import headers_of, status_for

from .page_context import PageContext, local_path
from .rendering import HEADERS, HTML, render_page

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

_HOST_ADVICE: dict[int, str] = {  # where people log in at the host
    401: "Log in to the application that this dashboard is a part of, then reload the page.",
    403: "Ask the operator of this server for the missing role.",
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
    if isinstance(error, errors.Unauthorized) and state.host_login is not None:
        answer = _host_login(page, error, head, state.host_login)
    elif isinstance(error, errors.Unauthorized):
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


def _host_login(page: PageContext[Any], error: WindlassError, head: Head, url: str) -> Response:
    """Send a person to the login page of the host. The script of an open page gets an error instead, and reloads."""
    if url and head.method == "GET" and not page.is_live:
        separator = "&" if "?" in url else "?"
        location = f"{url}{separator}{urlencode({'next': page.current_path})}"
        return Response(303, b"", (*HEADERS, ("Location", location)), HTML)
    return render_page("error.html", _error_view(error, 401, page), page, status=401)


def _error_view(error: WindlassError, status: int, page: PageContext[Any]) -> ErrorView:
    title = _TITLES.get(status, _TITLES[400] if status < 500 else _TITLES[500])
    if isinstance(error, errors.EngineFull | errors.QueueFull):
        title = "Full"
    detail = "This page does not exist." if isinstance(error, NotFound) else str(error)
    advice = _ADVICE if page.is_login_here else _ADVICE | _HOST_ADVICE
    return ErrorView(status, title, detail, advice.get(status, ""), error.code, page.link())
