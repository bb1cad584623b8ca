"""Who may ask for what: roles, the tokens that give them, and how a token's text is made, read and verified. Randomness
is the caller's; which role an operation needs is said by the routes."""

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
    READ = "read"  # look at everything
    PRODUCE = "produce"  # enqueue; look at, follow and cancel a job whose id one has
    WORK = "work"  # take, report, register; look at a job whose id one has
    ADMIN = "admin"  # everything


class Principal(msgspec.Struct, frozen=True):
    """Who asks, as far as a front end needs to know."""

    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] = ()  # patterns with `*`; empty: all
    rate: int = 0  # requests per second; 0: as many as they like

    def may(self, roles: frozenset[Role]) -> bool:
        """Whether one of these roles is theirs. An admin may everything."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    def may_use(self, queue: str) -> bool:
        return is_queue_allowed(queue, self.queues)

    def check(self, roles: frozenset[Role], queue: str = "") -> None:
        """Raises Forbidden, with a sentence that says what is missing. An empty queue: it is about none."""
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
        """Raise Forbidden for something that was found by its id or name and belongs to a queue outside the token's.
        The sentence does not name that queue: the caller did not, and must not learn it here."""
        if not self.may_use(queue):
            allowed = ", ".join(self.queues)
            raise Forbidden(
                f"The token {self.name!r} is for the queues {allowed}; {what} belongs to another queue. "
                "Use another token."
            )


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to be created."""

    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] = ()
    rate: int = 0
    expires_in_ms: int = 0  # 0: never
    note: str = ""  # for people


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept: its secret is not."""

    id: str  # public: 12 characters that find it
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
        """In a time that says nothing about how much of the secret is right."""
        return hmac.compare_digest(self.digest, digest_of(secret))


class CreatedToken(msgspec.Struct, frozen=True):
    """`text` is what its bearer shows; it is told this once, and cannot be read again."""

    token: Token
    text: str


class Tokens(msgspec.Struct, frozen=True):
    """All tokens. The version is another after every change; `now_ms` is the engine's time, by which they expire.
    `ended_sessions`: names of sessions that logout has ended, and until when (in seconds) they must be known."""

    version: int
    now_ms: int
    tokens: list[Token]
    ended_sessions: dict[str, int] = {}


class TokenCredentials(NamedTuple):
    """What somebody shows: nothing is verified yet."""

    id: str
    secret: str


def generate_secret(id_random: bytes, secret_random: bytes) -> TokenCredentials:
    """The id and the secret of a new token, from random bytes."""
    return TokenCredentials(_written(id_random, ID_RANDOM_BYTES), _written(secret_random, SECRET_RANDOM_BYTES))


def _written(random: bytes, wanted: int) -> str:
    if len(random) != wanted:
        raise ValueError(f"{wanted} random bytes are needed, not {len(random)}")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def format_token(shown: TokenCredentials) -> str:
    return f"wl_{shown.id}_{shown.secret}"


def parse_token(text: str) -> TokenCredentials:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Unauthorized("This is not a token; tokens look like wl_<12 characters>_<43 characters>.")
    return TokenCredentials(found[1], found[2])


def digest_of(secret: str) -> bytes:
    # A secret has 256 random bits: it needs no salt, and no slow hash to hold against guessing.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def is_queue_allowed(queue: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns means this queue; no patterns mean every queue."""
    return not patterns or any(matches_pattern(pattern, queue) for pattern in patterns)


def matches_pattern(pattern: str, queue: str) -> bool:
    """Whether a pattern means this queue: `*` is any run of characters, all else is itself."""
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
