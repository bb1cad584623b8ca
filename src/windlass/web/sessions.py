"""A session of a browser: a cookie that says whose token began it and until when, with a code that only those can make
who know the token's digest. Nothing is kept: it counts in every process, and ends when the token does."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import NamedTuple

from ..core.access import Principal

COOKIE = "windlass_session"
LASTS_S = 12 * 3600
RENEWED_BELOW_S = LASTS_S // 2  # whoever comes back with less left gets a whole one again
STATIC_ID = "static"  # stands for the token that the settings name
_PURPOSE = b"windlass session 1"
_TEXT_MAX = 200


class Session(NamedTuple):
    """What a cookie says: nothing is verified yet."""

    token_id: str
    expires_at_s: int
    code: str

    def is_made_with(self, digest: bytes) -> bool:
        return hmac.compare_digest(_code(self.token_id, self.expires_at_s, digest), self.code)

    def is_over(self, now_s: float) -> bool:
        return self.expires_at_s <= now_s

    @property
    def text(self) -> str:
        return f"{self.token_id}.{self.expires_at_s}.{self.code}"


class Begun(NamedTuple):
    session: Session
    who: Principal


def begin(token_id: str, digest: bytes, now_s: float) -> Session:
    expires_at_s = int(now_s) + LASTS_S
    return Session(token_id, expires_at_s, _code(token_id, expires_at_s, digest))


def parse(text: str) -> Session | None:
    token_id, _, rest = text.partition(".")
    expires, _, code = rest.partition(".")
    if len(text) > _TEXT_MAX or not (text.isascii() and expires.isdigit() and len(expires) < 12 and code):
        return None
    return Session(token_id, int(expires), code)


def _code(token_id: str, expires_at_s: int, digest: bytes) -> str:
    key = hmac.digest(digest, _PURPOSE, "sha256")
    made = hmac.digest(key, f"{token_id}.{expires_at_s}".encode(), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def cookies(headers: Mapping[str, str]) -> dict[str, str]:
    """By name; of two with one name the first counts. Repeated headers were joined by a comma."""
    found: dict[str, str] = {}
    for pair in headers.get("cookie", "").replace(", ", "; ").split(";"):
        name, is_pair, value = pair.strip().partition("=")
        if is_pair:
            found.setdefault(name, value.strip('"'))
    return found


def shown(headers: Mapping[str, str]) -> Session | None:
    text = cookies(headers).get(COOKIE) if "cookie" in headers else None
    return parse(text) if text else None
