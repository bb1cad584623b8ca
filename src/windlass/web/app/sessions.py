"""Browser sessions: a cookie with the id of a token and an expiry, signed with the digest of the token. A session is
valid in every process and ends with its token. The engine stores only the names of sessions that ended early, by
logout."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from windlass.core.access.tokens import Principal

COOKIE = "windlass_session"
LIFETIME_S = 12 * 3600
RENEW_BELOW_S = LIFETIME_S // 2  # a session in use with less time left is renewed
STATIC_ID = "static"  # id of the token in the settings
ID_BYTES = 12  # random, so that no two sessions have the same name
_PURPOSE = b"windlass session 2"
_TEXT_MAX = 200


class Session(NamedTuple):
    """Content of a session cookie, not verified."""

    token_id: str
    expires_at_s: int
    id: str
    signature: str

    def is_signed_with(self, digest: bytes) -> bool:
        return hmac.compare_digest(_sign(self.token_id, self.expires_at_s, self.id, digest), self.signature)

    def is_expired(self, now_s: float) -> bool:
        return self.expires_at_s <= now_s

    @property
    def name(self) -> str:
        """Name of the session. It stays the same when the session is renewed with a new cookie."""
        return f"{self.token_id}.{self.id}"

    def is_ended(self, ended: Mapping[str, int]) -> bool:
        """Whether the session was ended, by its name or with all sessions of its token."""
        return self.name in ended or self.expires_at_s <= ended.get(self.token_id, 0)

    @property
    def text(self) -> str:
        return f"{self.token_id}.{self.expires_at_s}.{self.id}.{self.signature}"


class StartedSession(NamedTuple):
    """New session and the principal of its token."""

    session: Session
    principal: Principal


def issue_session(token_id: str, digest: bytes, now_s: float, session_id: str = "", after_s: int = 0) -> Session:
    """Create a session, or renew the session with `session_id`. `after_s`: sessions of this token that expire until
    then were ended, so a new session must expire later."""
    expires_at_s = max(int(now_s) + LIFETIME_S, after_s + 1)
    session_id = session_id or secrets.token_urlsafe(ID_BYTES)
    return Session(token_id, expires_at_s, session_id, _sign(token_id, expires_at_s, session_id, digest))


def parse_session(text: str) -> Session | None:
    token_id, _, rest = text.partition(".")
    expires, _, rest = rest.partition(".")
    session_id, _, signature = rest.partition(".")
    is_time = text.isascii() and expires.isdigit() and len(expires) < 12
    if len(text) > _TEXT_MAX or not (is_time and session_id and signature):
        return None
    return Session(token_id, int(expires), session_id, signature)


def _sign(token_id: str, expires_at_s: int, session_id: str, digest: bytes) -> str:
    key = hmac.digest(digest, _PURPOSE, "sha256")
    signature = hmac.digest(key, f"{token_id}.{expires_at_s}.{session_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def parse_cookies(headers: Mapping[str, str]) -> dict[str, str]:
    """Return cookies by name; the first of equal names wins. Repeated headers are joined by a comma."""
    found: dict[str, str] = {}
    for pair in headers.get("cookie", "").replace(", ", "; ").split(";"):
        name, is_pair, value = pair.strip().partition("=")
        if is_pair:
            found.setdefault(name, value.strip('"'))
    return found


def session_of(headers: Mapping[str, str]) -> Session | None:
    """Return the session in the cookies of a request, not verified."""
    text = parse_cookies(headers).get(COOKIE) if "cookie" in headers else None
    return parse_session(text) if text else None
