"""Login with a token, and logout."""

from __future__ import annotations

from windlass.core.access.tokens import Role
from windlass.core.errors import EngineUnavailable
from windlass.web.app.request_context import RequestContext
from windlass.web.app.sessions import COOKIE, LIFETIME_S
from windlass.web.listener.messages import Response

from .error_page import LoginView
from .page_context import PageContext, local_path
from .rendering import HEADERS, HTML, render_page
from .routes import FORM, DashboardRoutes, Form, engine_timeout, read_form

routes = DashboardRoutes()

_UNKNOWN = "This token is unknown, revoked or expired."
_CANNOT_READ = "This token may not read: it needs the role read or admin."


class LoginForm(Form, frozen=True, kw_only=True):
    token: str = ""
    next: str = ""


@routes.page("/login", "login.html", section="login", roles=None)
async def login(page: PageContext[None]) -> LoginView | Response:
    """Show the login form, or redirect to the overview if no token is needed."""
    session_control = page.context.state.session_control
    if session_control is not None and not await session_control.needs_login():
        return _redirect(page.link())
    return LoginView(page.link())


async def _log_in(context: RequestContext[None, None]) -> Response:
    """Start a session with a token."""
    page: PageContext[None] = PageContext(context.state, context.request.head, context, "login")
    form = read_form(page, LoginForm, allow_read_only=True)
    session_control = context.state.session_control
    if session_control is None:
        raise EngineUnavailable("The server is not ready yet.")
    token = form.token.strip()
    if not token:
        return render_page("login.html", LoginView(form.next, "Enter a token."), page, status=400)
    async with engine_timeout():
        started = await session_control.start_session(token)
    if started is None:
        return render_page("login.html", LoginView(form.next, _UNKNOWN), page, status=401)
    if not started.principal.may(frozenset({Role.READ})):
        return render_page("login.html", LoginView(form.next, _CANNOT_READ), page, status=403)
    return _redirect(local_path(page, form.next), page.cookie(COOKIE, started.session.text, LIFETIME_S))


async def _log_out(context: RequestContext[None, None]) -> Response:
    """End the session of this browser, on the server too: copies of its cookie become invalid."""
    page: PageContext[None] = PageContext(context.state, context.request.head, context, "login")
    read_form(page, Form, allow_read_only=True)
    if context.state.session_control is not None:
        async with engine_timeout():
            await context.state.session_control.end_session(context.request.head)
    return _redirect(page.link("login"), page.cookie(COOKIE, "", 0))


def _redirect(path: str, *cookies: tuple[str, str]) -> Response:
    return Response(303, b"", (*HEADERS, ("Location", path), *cookies), HTML)


for _path, _handler, _operation in (("/login", _log_in, "log_in"), ("/logout", _log_out, "log_out")):
    routes.post(
        _path, operation=_operation, roles=None, body_media=FORM, response_media=HTML, is_listed=False, is_page=True,
        body_max=64 * 1024,
    )(_handler)  # fmt: skip
