"""A session of a browser: a cookie that says whose token began it and until when, with a code that only those can make
who know the token's digest. It counts in every process, and ends when the token does. Only of a session that ended
before its time, by logout, something is kept: its name, in the engine."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from windlass.core.access.tokens import Principal

COOKIE = "windlass_session"
LIFETIME_S = 12 * 3600
RENEW_BELOW_S = LIFETIME_S // 2  # whoever comes back with less left gets a whole one again
STATIC_ID = "static"  # stands for the token that the settings name
ID_BYTES = 12  # random ones: no two sessions share a name
_PURPOSE = b"windlass session 2"
_TEXT_MAX = 200


class Session(NamedTuple):
    """What a cookie says: nothing is verified yet."""

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
        """The same for all cookies of one session: it is renewed while it is used."""
        return f"{self.token_id}.{self.id}"

    def is_ended(self, ended: Mapping[str, int]) -> bool:
        """Whether it was ended, by its name or with all that its token had begun so far."""
        return self.name in ended or self.expires_at_s <= ended.get(self.token_id, 0)

    @property
    def text(self) -> str:
        return f"{self.token_id}.{self.expires_at_s}.{self.id}.{self.signature}"


class StartedSession(NamedTuple):
    session: Session
    who: Principal


def issue_session(token_id: str, digest: bytes, now_s: float, session_id: str = "", after_s: int = 0) -> Session:
    """With the id of a session, that one goes on; else it is a new one. `after_s`: all sessions of this token that
    expire up to then were ended; a new one must not be among them."""
    expires_at_s, name = max(int(now_s) + LIFETIME_S, after_s + 1), session_id or secrets.token_urlsafe(ID_BYTES)
    return Session(token_id, expires_at_s, name, _sign(token_id, expires_at_s, name, digest))


def parse_session(text: str) -> Session | None:
    token_id, _, rest = text.partition(".")
    expires, _, rest = rest.partition(".")
    name, _, code = rest.partition(".")
    if len(text) > _TEXT_MAX or not (text.isascii() and expires.isdigit() and len(expires) < 12 and name and code):
        return None
    return Session(token_id, int(expires), name, code)


def _sign(token_id: str, expires_at_s: int, session_id: str, digest: bytes) -> str:
    key = hmac.digest(digest, _PURPOSE, "sha256")
    made = hmac.digest(key, f"{token_id}.{expires_at_s}.{session_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def parse_cookies(headers: Mapping[str, str]) -> dict[str, str]:
    """By name; of two with one name the first counts. Repeated headers were joined by a comma."""
    found: dict[str, str] = {}
    for pair in headers.get("cookie", "").replace(", ", "; ").split(";"):
        name, is_pair, value = pair.strip().partition("=")
        if is_pair:
            found.setdefault(name, value.strip('"'))
    return found


def session_of(headers: Mapping[str, str]) -> Session | None:
    text = parse_cookies(headers).get(COOKIE) if "cookie" in headers else None
    return parse_session(text) if text else None
