"""Access tokens and roles: creating, parsing and verifying tokens, and checking permissions.

The caller provides randomness. The routes define which roles an operation needs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from windlass.core.errors import Forbidden, Unauthorized

ID_RANDOM_BYTES, SECRET_RANDOM_BYTES = 9, 32  # 12 and 43 characters
_TEXT = re.compile(r"wl_([A-Za-z0-9_-]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


class Role(StrEnum):
    READ = "read"  # read everything
    PRODUCE = "produce"  # enqueue; read, follow and cancel a job by its id
    WORK = "work"  # take, report, register; read a job by its id
    ADMIN = "admin"  # everything


class Principal(msgspec.Struct, frozen=True):
    """Identity and permissions of a client."""

    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] = ()  # patterns with `*`; empty: all
    rate: int = 0  # requests per second; 0: unlimited

    def may(self, roles: frozenset[Role]) -> bool:
        """Return whether the principal has one of these roles. An admin has every role."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    def may_use(self, queue: str) -> bool:
        return is_queue_allowed(queue, self.queues)

    def check(self, roles: frozenset[Role], queue: str = "") -> None:
        """Raise Forbidden, with a sentence that names the missing role or queue. `queue` may be empty."""
        if not self.may(roles):
            wanted = " or ".join(sorted(roles | {Role.ADMIN}))
            has = ", ".join(sorted(self.roles))
            raise Forbidden(f"This needs the role {wanted}; the token {self.name!r} has {has}. Use another token.")
        if queue and not self.may_use(queue):
            allowed = ", ".join(self.queues)
            raise Forbidden(
                f"The token {self.name!r} is for the queues {allowed}, not for {queue!r}. Use another token."
            )

    def check_found(self, queue: str, what: str = "this job") -> None:
        """Raise Forbidden for an object that was found by its id or name and belongs to a queue outside the token's.

        The sentence does not name that queue: the caller must not learn it.
        """
        if not self.may_use(queue):
            allowed = ", ".join(self.queues)
            raise Forbidden(
                f"The token {self.name!r} is for the queues {allowed}; {what} belongs to another queue. "
                "Use another token."
            )


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to create."""

    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] = ()
    rate: int = 0
    expires_in_ms: int = 0  # 0: never
    note: str = ""  # for people


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token. Its secret is not stored."""

    id: str  # public: 12 characters that identify it
    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] = ()
    rate: int = 0
    digest: bytes  # SHA-256 of the secret
    created_at_ms: int
    expires_at_ms: int = 0  # 0: never
    note: str = ""

    @property
    def principal(self) -> Principal:
        return Principal(self.name, self.roles, self.queues, self.rate)

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_at_ms <= now_ms

    def verifies(self, secret: str) -> bool:
        """Return whether the secret is right, in constant time."""
        return hmac.compare_digest(self.digest, digest_of(secret))


class CreatedToken(msgspec.Struct, frozen=True):
    """A new token with its text. The text is returned only once and cannot be read again."""

    token: Token
    text: str


class Tokens(msgspec.Struct, frozen=True):
    """All tokens.

    `version` changes with every change of a token. Tokens expire by `now_ms`, the engine's time. `ended_sessions` has
    the names of sessions that were logged out, each with the time (in seconds) until which it must be remembered.
    """

    version: int
    now_ms: int
    tokens: list[Token]
    ended_sessions: dict[str, int] = {}


class TokenCredentials(NamedTuple):
    """Id and secret from a token's text. They are not verified yet."""

    id: str
    secret: str


def generate_secret(id_random: bytes, secret_random: bytes) -> TokenCredentials:
    """Return the id and the secret of a new token, made from random bytes."""
    return TokenCredentials(_encode(id_random, ID_RANDOM_BYTES), _encode(secret_random, SECRET_RANDOM_BYTES))


def _encode(random: bytes, size: int) -> str:
    if len(random) != size:
        raise ValueError(f"{size} random bytes are needed, not {len(random)}")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def format_token(credentials: TokenCredentials) -> str:
    return f"wl_{credentials.id}_{credentials.secret}"


def parse_token(text: str) -> TokenCredentials:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Unauthorized("This is not a token; tokens look like wl_<12 characters>_<43 characters>.")
    return TokenCredentials(found[1], found[2])


def digest_of(secret: str) -> bytes:
    # A secret has 256 random bits: it needs no salt and no slow hash against guessing.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def is_queue_allowed(queue: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns matches the queue. Without patterns every queue is allowed."""
    return not patterns or any(matches_pattern(pattern, queue) for pattern in patterns)


def matches_pattern(pattern: str, queue: str) -> bool:
    """Return whether a pattern matches the queue. `*` matches any characters; all other characters match themselves."""
    first, *parts = pattern.split("*")
    if not parts:
        return queue == first
    last = parts.pop()
    if len(queue) < len(first) + len(last) or not (queue.startswith(first) and queue.endswith(last)):
        return False
    at, end = len(first), len(queue) - len(last)
    for part in parts:
        found = queue.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
