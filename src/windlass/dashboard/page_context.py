"""One look at a page: who looks, what they may do, and how pages are linked. Templates know it as `page`."""

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

Q = TypeVar("Q")
CSRF_COOKIE = "windlass_visit"  # random; what forms show is made from it
LIVE_HEADER = "x-windlass-live"  # a script asks for what has changed; somebody looks at the page already
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-~]*", re.ASCII)


class PageContext(Generic[Q]):
    def __init__(
        self, state: AppState, head: Head, context: RequestContext[Any, Q] | None = None, section: str = ""
    ) -> None:
        self._state = state
        self._head = head
        self._context = context
        self.section = section  # which word of the navigation it is about
        self.now_ms = int(time.time() * 1000)  # a page that knows the engine's time says so
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
        assert self._context is not None  # noqa: S101 (only pages of refusals have none)
        return self._context

    @property
    def service(self) -> Service:
        return self._state.service

    @property
    def query(self) -> Q:
        return self.context.query

    @property
    def path_values(self) -> dict[str, str]:
        """The named parts of the path."""
        return dict(self.context.path)

    # What they may

    @property
    def is_known(self) -> bool:
        return self._context is not None and self.principal is not ANONYMOUS

    @property
    def can_log_out(self) -> bool:
        return self.is_known and self.principal is not LOCAL and COOKIE in self._cookies

    @property
    def is_read_only(self) -> bool:
        return self.settings.dashboard_read_only

    @property
    def hides_payloads(self) -> bool:
        return self.settings.dashboard_hide_payloads

    def may(self, *roles: Role | str) -> bool:
        """Whether to show what needs one of these roles. In read-only mode nobody may more than read."""
        wanted = frozenset(Role(role) for role in roles)
        if self.is_read_only and Role.READ not in wanted:
            return False
        return self.is_known and self.principal.may(wanted)

    def may_see(self, role: str) -> bool:
        """The same for what changes nothing: also in read-only mode."""
        return self.is_known and self.principal.may(frozenset({Role(role)}))

    def may_use(self, queue: str) -> bool:
        return self.principal.may_use(queue)

    # Where things are

    @property
    def base(self) -> str:
        return self.settings.base_path

    def link(self, *segments: str, **query: Any) -> str:
        """Where a page is: `link("queues", name, state="failed")`. What is None or empty is left out."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        given = {name: value for name, value in query.items() if value not in (None, "", ())}
        return f"{self.base}/{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def static(self, file: str) -> str:
        return f"{self.base}/static/{ASSETS.version}/{file}"

    def action_path(self, verb: str) -> str:
        return f"{self.base}/do/{verb}"

    @property
    def current_path(self) -> str:
        """This page, with its query."""
        query = f"?{self._head.query}" if self._head.query else ""
        return f"{self.base}{self._head.path}{query}"

    # Forms

    @property
    def csrf(self) -> str:
        """Only pages of ours can know it: the cookie that it is made from goes nowhere else and no script can read
        it."""
        session = session_of(self._head.headers)
        whose = session.token_id if session else ""
        return hashlib.blake2b(f"{self._csrf_seed}.{whose}".encode(), digest_size=16, person=b"windlass csrf").hexdigest()

    def is_own_form(self, csrf: str) -> bool:
        """Whoever shows a token in a header was not sent by a browser on its own. A password (Basic) may have been: the
        browser keeps it, and adds it to whatever a page of others makes it send."""
        if bearer_token(self._head):
            return True
        return not self._is_new and hmac.compare_digest(self.csrf.encode(), csrf.encode())

    # Cookies

    def cookies_to_set(self) -> list[tuple[str, str]]:
        made = []
        if self._is_new and not self._may_be_withheld:
            made.append(self.cookie(CSRF_COOKIE, self._csrf_seed, site="Lax"))
        if self.flash is not None:
            made.append(self.cookie(flash.COOKIE, "", 0))
        session_control = self._state.session_control
        renewed = session_control.renew_session(self._head) if session_control is not None and self.is_known else None
        if renewed is not None:
            made.append(self.cookie(COOKIE, renewed.text, LIFETIME_S))
        return made

    @property
    def _may_be_withheld(self) -> bool:
        """Browsers keep our mark back from what a page of another site sends, but for links (`Lax`). A new one would
        take the place of that which open pages were made with, and their forms would be refused."""
        return self._head.method == "POST" and self._head.headers.get("sec-fetch-site") == "cross-site"

    def cookie(self, name: str, value: str, lasts_s: int | None = None, site: str = "Strict") -> tuple[str, str]:
        age = "" if lasts_s is None else f"; Max-Age={lasts_s}"
        secure = "; Secure" if self._is_tls else ""
        return "Set-Cookie", f"{name}={value}; Path={self.base or '/'}{age}; HttpOnly; SameSite={site}{secure}"

    @property
    def _is_tls(self) -> bool:
        is_tls = self._context is not None and self._context.request.client.is_tls
        return is_tls or self._head.headers.get("x-forwarded-proto", "") == "https"


def local_path(page: PageContext[Any], path: str) -> str:
    """A page of ours, whatever the form says."""
    if _LOCAL_PATH.fullmatch(path) and path.startswith(f"{page.base}/"):
        return path
    return page.link()
