"""Context of one page request: the principal, its permissions, links and cookies. Templates know it as `page`."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from windlass.core.access.tokens import Principal, Role
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app.app_state import AppState
from windlass.web.app.auth import ANONYMOUS, LOCAL, bearer_token
from windlass.web.app.request_context import RequestContext
from windlass.web.app.sessions import COOKIE, LIFETIME_S, parse_cookies, session_of
from windlass.web.listener.messages import Head

from . import flash
from .assets import ASSETS
from .navigation import used_sections
from .views.icons import NavigationItem

Q = TypeVar("Q")
CSRF_COOKIE = "windlass_visit"  # holds a random value; the CSRF tokens of forms are derived from it
LIVE_HEADER = "x-windlass-live"  # sent by the script that refreshes an open page
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)


class PageContext(Generic[Q]):
    def __init__(
        self, state: AppState, head: Head, context: RequestContext[Any, Q] | None = None, section: str = ""
    ) -> None:
        self._state = state
        self._head = head
        self._context = context
        self.section = section  # entry of the navigation that it belongs to
        self.shown_path = ""  # of the page that an action shows again; empty: the path of the request
        self.now_ms = int(time.time() * 1000)  # pages that know the engine's time overwrite it
        self.settings: Settings = state.settings
        self.principal: Principal = ANONYMOUS if context is None else context.principal
        self.is_live = LIVE_HEADER in head.headers
        self._cookies = parse_cookies(head.headers)
        self._csrf_seed = self._cookies.get(CSRF_COOKIE, "")
        self._is_new = not self._csrf_seed
        if self._is_new:
            self._csrf_seed = secrets.token_urlsafe(16)
        self.flash = None if self.is_live else flash.read(self._cookies)

    @property
    def context(self) -> RequestContext[Any, Q]:
        assert self._context is not None  # noqa: S101 (only error pages have none)
        return self._context

    @property
    def service(self) -> Service:
        return self._state.service

    @property
    def query(self) -> Q:
        return self.context.query

    @property
    def path_values(self) -> dict[str, str]:
        """Values of the placeholders in the route's path."""
        return dict(self.context.path)

    # Permissions

    @property
    def is_known(self) -> bool:
        return self._context is not None and self.principal is not ANONYMOUS

    @property
    def is_login_here(self) -> bool:
        """Whether people log in on a page of the dashboard, and not at the program that mounts it."""
        return self._state.host_login is None

    @property
    def can_log_out(self) -> bool:
        return self.is_login_here and self.is_known and self.principal is not LOCAL and COOKIE in self._cookies

    @property
    def is_read_only(self) -> bool:
        return self.settings.dashboard_read_only

    @property
    def hides_payloads(self) -> bool:
        return self.settings.dashboard_hide_payloads

    def may(self, *roles: Role | str) -> bool:
        """Tell whether the principal has one of these roles. In read-only mode only `read` counts."""
        wanted = frozenset(Role(role) for role in roles)
        if self.is_read_only and Role.READ not in wanted:
            return False
        return self.is_known and self.principal.may(wanted)

    def may_see(self, role: str) -> bool:
        """Tell whether the principal has this role, regardless of read-only mode. For pages that change nothing."""
        return self.is_known and self.principal.may(frozenset({Role(role)}))

    def shows(self, item: NavigationItem) -> bool:
        """Tell whether the navigation has this entry. An optional one appears once it is used, and on its own page."""
        return self.may_see(item.role) and (not item.is_optional or self.shows_section(item.section))

    def shows_section(self, section: str) -> bool:
        """Tell whether an optional section is in use, or open."""
        return section == self.section or section in used_sections(self._state)

    def may_use(self, queue: str) -> bool:
        return self.principal.may_use(queue)

    # Links

    @property
    def base(self) -> str:
        return self._head.base

    def link(self, *segments: str, **query: Any) -> str:
        """Build the path of a page: `link("queues", name, state="failed")`. Query values that are None or empty are
        left out."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        given = {name: value for name, value in query.items() if value not in (None, "", ())}
        return f"{self.base}/{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def static(self, file: str) -> str:
        return f"{self.base}/static/{ASSETS.version}/{file}"

    def action_path(self, verb: str) -> str:
        return f"{self.base}/do/{verb}"

    @property
    def current_path(self) -> str:
        """Path of this page, with its query."""
        if self.shown_path:
            return self.shown_path
        query = f"?{self._head.query}" if self._head.query else ""
        return f"{self.base}{self._head.path}{query}"

    # Forms

    @property
    def csrf(self) -> str:
        """CSRF token for forms. Other sites cannot compute it: they never see the cookie that it is derived from, and
        scripts cannot read that cookie."""
        session = session_of(self._head.headers)
        token_id = session.token_id if session else ""
        return hashlib.blake2b(
            f"{self._csrf_seed}.{token_id}".encode(), digest_size=16, person=b"windlass csrf"
        ).hexdigest()

    def is_own_form(self, csrf: str) -> bool:
        """Check the CSRF token of a form. A request with a bearer token needs none: browsers do not add that header by
        themselves. They do add a stored password (Basic), even to requests that other sites cause."""
        if bearer_token(self._head):
            return True
        return not self._is_new and hmac.compare_digest(self.csrf.encode(), csrf.encode())

    # Cookies

    def cookies_to_set(self) -> list[tuple[str, str]]:
        cookies = []
        if self._is_new and not self._may_be_withheld:
            cookies.append(self.cookie(CSRF_COOKIE, self._csrf_seed, site="Lax"))
        if self.flash is not None:
            cookies.append(self.cookie(flash.COOKIE, "", 0))
        session_control = self._state.session_control
        renewed = session_control.renew_session(self._head) if session_control is not None and self.is_known else None
        if renewed is not None:
            cookies.append(self.cookie(COOKIE, renewed.text, LIFETIME_S))
        return cookies

    @property
    def _may_be_withheld(self) -> bool:
        """Whether the browser may have withheld the CSRF cookie: it does so when another site sends a form (`Lax`
        allows links only). A new cookie would replace the existing one, and the forms of open pages would be
        refused."""
        return self._head.method == "POST" and self._head.headers.get("sec-fetch-site") == "cross-site"

    def cookie(self, name: str, value: str, lifetime_s: int | None = None, site: str = "Strict") -> tuple[str, str]:
        age = "" if lifetime_s is None else f"; Max-Age={lifetime_s}"
        secure = "; Secure" if self._is_tls else ""
        return "Set-Cookie", f"{name}={value}; Path={self.base or '/'}{age}; HttpOnly; SameSite={site}{secure}"

    @property
    def _is_tls(self) -> bool:
        is_tls = self._context is not None and self._context.request.client.is_tls
        return is_tls or self._head.headers.get("x-forwarded-proto", "") == "https"


def local_path(page: PageContext[Any], path: str) -> str:
    """Return the path if it is a page of this server, else the overview. Forms could name any address."""
    if _LOCAL_PATH.fullmatch(path) and path.startswith(f"{page.base}/"):
        return path
    return page.link()
