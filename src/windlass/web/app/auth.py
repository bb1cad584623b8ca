"""Authentication: by token or by session cookie. While no token exists, clients on this machine are admins, but web
pages of other origins are refused."""

from __future__ import annotations

import ipaddress
import re
import time
from functools import lru_cache

from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import Forbidden, TooManyRequests, Unauthorized
from windlass.web.listener.messages import Head

from . import sessions
from .rate_limit import RateLimiter
from .sessions import Session, StartedSession
from .token_table import TokenTable

ANONYMOUS = Principal("anybody", frozenset())
LOCAL = Principal("local", frozenset({Role.ADMIN}))
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(?::[0-9]*)?", re.ASCII)


class Authenticator:
    """Authentication, roles and rates of requests. `is_open`: while no token exists, every client is admin.
    `is_local`: only this machine can reach the server."""

    def __init__(self, table: TokenTable, *, is_open: bool, is_local: bool) -> None:
        self._table = table
        self._is_open = is_open
        self._is_local = is_local
        self._rate_limiter = RateLimiter()

    def admit_cached(self, head: Head, roles: frozenset[Role] | None) -> Principal | None:
        """Return the principal from cached tokens, or None if the engine must be asked: then call `admit`. Raise
        Unauthorized, Forbidden or TooManyRequests."""
        if roles is None:
            return ANONYMOUS
        if not self._table.is_fresh:
            return None
        if "authorization" not in head.headers and not self._table.has_tokens:
            return self._admit_local(head)
        token = bearer_token(head)
        session = None if token else self._session(head)
        if session is not None:
            _check_session_use(head)
            principal = self._table.cached_session_principal(session)
        elif not token:
            return self._admit_without_token(head)
        else:
            principal = self._table.cached_principal(token)
        return None if principal is None else self._check_access(principal, roles)

    def is_probably_admitted(self, head: Head) -> bool:
        """Whether `admit` will probably succeed, by cached tokens. Other clients may send only a small body."""
        token = bearer_token(head)
        if token:
            return self._table.cached_principal(token) is not None
        session = self._session(head)
        if session is not None:
            return self._table.cached_session_principal(session) is not None
        return self._is_open and not self._table.has_tokens

    async def admit(self, head: Head, roles: frozenset[Role] | None) -> Principal:
        """Return the principal, asking the engine if necessary. Raise as `admit_cached` does."""
        token = bearer_token(head)
        if not token:
            await self._table.refresh()
            session = self._session(head)
            return (
                self._admit_without_token(head) if session is None else await self._admit_session(head, session, roles)
            )
        principal = await self._table.principal(token)
        if principal is None:
            raise Unauthorized("This token is unknown, revoked or expired; ask for another one.")
        return self._check_access(principal, roles or frozenset())

    async def _admit_session(self, head: Head, session: Session, roles: frozenset[Role] | None) -> Principal:
        _check_session_use(head)
        principal = await self._table.session_principal(session)
        if principal is None:
            raise Unauthorized("This session has ended; log in again.")
        return self._check_access(principal, roles or frozenset())

    def _session(self, head: Head) -> Session | None:
        """Return the session of the request, if tokens exist. Without tokens an old cookie must not refuse access."""
        return sessions.session_of(head.headers) if self._table.has_tokens else None

    async def start_session(self, text: str) -> StartedSession | None:
        return await self._table.start_session(text)

    async def end_session(self, head: Head) -> None:
        session = sessions.session_of(head.headers)
        if session is not None:
            await self._table.end_session(session)

    def renew_session(self, head: Head) -> Session | None:
        session = self._session(head)
        return None if session is None else self._table.renew_session(session)

    async def needs_login(self) -> bool:
        await self._table.refresh()
        return self._table.has_tokens or not self._is_open

    async def still_admits(self, head: Head, roles: frozenset[Role], queue: str = "") -> bool:
        """Whether the client of a long-running stream would still be admitted. It does not count towards the rate.
        `queue`: also whether its token is for this queue."""
        try:
            token = bearer_token(head)
            if not token:
                await self._table.refresh()
                session = self._session(head)
                if session is None:
                    self._admit_without_token(head)
                    return True
                principal = await self._table.session_principal(session)
            else:
                principal = await self._table.principal(token)
            return principal is not None and principal.may(roles) and (not queue or principal.may_use(queue))
        except (Unauthorized, Forbidden):
            return False

    def _check_access(self, principal: Principal, roles: frozenset[Role]) -> Principal:
        principal.check(roles)
        if principal.rate:
            pause_s = self._rate_limiter.acquire(principal.name, principal.rate, time.monotonic())
            if pause_s > 0:
                raise TooManyRequests(
                    f"The token {principal.name!r} may send {principal.rate} requests a second; wait {pause_s:.1f} s."
                )
        return principal

    def _admit_without_token(self, head: Head) -> Principal:
        if self._table.has_tokens:
            raise Unauthorized
        return self._admit_local(head)

    def _admit_local(self, head: Head) -> Principal:
        if not self._is_open:
            raise Unauthorized
        headers = head.headers
        if self._is_local and not _is_loopback_host(headers.get("host", "")):
            raise _wrong_host(headers.get("host", ""))
        if "origin" in headers or "sec-fetch-site" in headers:
            _check_origin(head)
        return LOCAL


def bearer_token(head: Head) -> str:
    """Return the bearer token of the request, or an empty text."""
    header = head.headers.get("authorization")
    if header is None:
        return ""
    kind, _, text = header.partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


# A web page open on this machine must not control the queue: neither from another origin, nor under a host name that
# resolves to this machine (DNS rebinding).


def _wrong_host(host: str) -> Forbidden:
    return Forbidden(
        f"Without tokens this server answers requests to localhost only, not to {host!r}; "
        "create a token (windlass tokens create) and send it as Authorization: Bearer."
    )


def _check_session_use(head: Head) -> None:
    """Refuse a session cookie outside the dashboard. Browsers attach cookies to requests of any page, so changes are
    accepted only from forms of the dashboard, which carry a secret of their own."""
    if head.method not in ("GET", "HEAD") and not head.is_page:
        raise Unauthorized("A session is valid for the dashboard only; this path needs a token: Authorization: Bearer.")
    if not is_page_navigation(head) and not is_same_origin(head):
        raise Forbidden("A session is valid for pages of this server only, not for pages of other servers.")


def is_page_navigation(head: Head) -> bool:
    """Whether the browser follows a link to a page: that changes nothing, and the page with the link sees nothing."""
    headers = head.headers
    return (
        head.is_page
        and head.method in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def is_same_origin(head: Head) -> bool:
    """Whether the request comes from a page of this server. Older browsers, and browsers without TLS, send only
    Origin."""
    site = head.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("none", "same-origin")
    origin = head.headers.get("origin")
    return origin is None or origin.lower().partition("://")[2] == head.headers.get("host", "").lower()


def _check_origin(head: Head) -> None:
    if is_page_navigation(head):
        return
    origin = head.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != head.headers.get("host", "").lower():
        raise Forbidden(f"Without tokens this server does not answer web pages of another origin ({origin!r}).")
    # Browsers send Sec-Fetch-Site also without Origin. Another port of this machine is the same site, not our origin.
    if head.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Forbidden("Without tokens this server does not answer web pages of another site.")


@lru_cache(256)
def _is_loopback_host(host: str) -> bool:
    return is_loopback(_hostname(host))


def _hostname(host: str) -> str:
    """Return the host without its port, or an empty text if it is invalid."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found["six"] or found["name"]


@lru_cache(256)
def is_loopback(host: str) -> bool:
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
