"""Token table: the tokens of the engine, cached in one server process. The cache is read again on demand and is at most
a second old when a request is admitted by it. The authenticator checks roles."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping

from windlass.core.access.tokens import Principal, Role, Token, Tokens, digest_of, parse_token
from windlass.core.errors import EngineUnavailable, Unauthorized, WindlassError
from windlass.service import Service

from . import sessions
from .sessions import Session, StartedSession

log = logging.getLogger("windlass.web")

REFRESH_AFTER_S = 0.5  # a lookup in an older table starts a read in the background
STALE_AFTER_S = 1.0  # a lookup in an older table waits for the read, so that revoked tokens are refused
UNKNOWN_ID_PAUSE_S = 0.2  # between two reads because of unknown ids
WAIT_LIMIT_S = 2.0  # for an engine that does not answer; then the cached tokens are used
ENDED_PER_TOKEN_MAX = 100  # ended sessions of a token stored by name; one more logout ends all its sessions
CLOCK_SLACK_S = 60  # a process that has not read a logout yet, or has another clock, may renew the session after it
STATIC = Principal("static", frozenset({Role.ADMIN}))


class TokenTable:
    """Cached tokens and their sessions, for one event loop. Close it at the end."""

    def __init__(
        self, service: Service, static: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`static`: text of an admin token that is not stored in the engine."""
        self._service = service
        self._static = digest_of(static) if static else None
        self._clock = clock
        self._known: Tokens | None = None  # None: never read
        self._by_id: dict[str, Token] = {}
        self._is_away = False
        self._known_at_s = self._known_since_s = float("-inf")  # end and start of the last successful read
        self._tried_at_s = self._began_at_s = float("-inf")  # end and start of the last attempt
        self._reading: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # waits until the next read may start

    async def principal(self, text: str) -> Principal | None:
        """Return the principal of a token, or None if it is invalid. Raise EngineUnavailable if the tokens were never
        read."""
        started_at_s = self._clock()
        found = self.cached_principal(text)
        if found is STATIC or not _is_token_text(text):
            return found
        await self._refresh()
        if parse_token(text).id not in self._by_id and self._known_since_s < started_at_s:
            await self._read_after_now()
        self._check_known()
        return self.cached_principal(text)

    def cached_principal(self, text: str) -> Principal | None:
        """Return the principal of a token by the cached table, or None if it is invalid or not cached. Without
        `is_fresh` the answer may be outdated."""
        if self._static is not None and hmac.compare_digest(self._static, digest_of(text)):
            return STATIC
        try:
            parsed = parse_token(text)
        except Unauthorized:
            return None
        token = self._by_id.get(parsed.id)
        if token is None or not token.verifies(parsed.secret) or token.is_expired(self._now_ms()):
            return None
        return token.principal

    async def start_session(self, text: str) -> StartedSession | None:
        """Start a session for a token, or return None if the token is invalid."""
        principal = await self.principal(text)
        if principal is None:
            return None
        now_s = time.time()
        if principal is STATIC and self._static is not None:
            token_id, digest = sessions.STATIC_ID, self._static
        else:
            token = self._by_id[parse_token(text).id]
            token_id, digest = token.id, token.digest
        return StartedSession(
            sessions.issue_session(token_id, digest, now_s, after_s=self._ended.get(token_id, 0)), principal
        )

    def renew_session(self, session: Session) -> Session | None:
        """Return the session with its full lifetime if less than half is left. The session is verified here, because
        its request may have been admitted by a token."""
        digest = self._digest_of(session.token_id)
        now_s = time.time()
        if digest is None or session.expires_at_s - now_s > sessions.RENEW_BELOW_S:
            return None
        if self.cached_session_principal(session) is None:
            return None
        return sessions.issue_session(session.token_id, digest, now_s, session.id)

    async def end_session(self, session: Session) -> None:
        """End a session: this process refuses its cookies at once, others within a second. Raise EngineUnavailable if
        the engine does not answer."""
        if await self.session_principal(session) is None:
            return
        count = sum(1 for name in self._ended if name.startswith(f"{session.token_id}."))
        ended = session.name if count < ENDED_PER_TOKEN_MAX else session.token_id
        until_s = max(int(time.time()) + sessions.LIFETIME_S, session.expires_at_s)
        await self._service.end_session(ended, until_s if ended == session.token_id else until_s + CLOCK_SLACK_S)
        await self._read_after_now()

    @property
    def _ended(self) -> Mapping[str, int]:
        return self._known.ended_sessions if self._known else {}

    async def session_principal(self, session: Session) -> Principal | None:
        """Return the principal of a session, or None if the session or its token has ended."""
        started_at_s = self._clock()
        await self._refresh()
        if self._digest_of(session.token_id) is None and self._known_since_s < started_at_s:
            await self._read_after_now()
        return self.cached_session_principal(session)

    def cached_session_principal(self, session: Session) -> Principal | None:
        """Return the principal of a session by the cached table, as `cached_principal` does."""
        digest = self._digest_of(session.token_id)
        if digest is None or not session.is_signed_with(digest) or session.is_expired(time.time()):
            return None
        if session.is_ended(self._ended):
            return None
        if session.token_id == sessions.STATIC_ID:
            return STATIC
        token = self._by_id[session.token_id]
        return None if token.is_expired(self._now_ms()) else token.principal

    def _digest_of(self, token_id: str) -> bytes | None:
        if token_id == sessions.STATIC_ID:
            return self._static
        token = self._by_id.get(token_id)
        return None if token is None else token.digest

    @property
    def is_fresh(self) -> bool:
        """Whether the table was read within the last half second, so that the engine need not be asked."""
        return self._clock() - self._tried_at_s < REFRESH_AFTER_S

    @property
    def has_tokens(self) -> bool:
        """Whether any token exists, including the static token; await `refresh` first. True if the tokens were never
        read, so that an unavailable engine does not open the server."""
        return self._static is not None or self._known is None or bool(self._by_id)

    async def refresh(self) -> None:
        """Make the table at most a second old, if the engine answers; otherwise keep the last one. Raise
        EngineUnavailable if the tokens were never read and there is no static token."""
        await self._refresh()
        if self._static is None:
            self._check_known()

    async def close(self) -> None:
        tasks = [task for task in (self._next, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_known(self) -> None:
        if self._known is None:
            raise EngineUnavailable("The tokens could not be read from the engine yet; try again in a moment.")

    async def _refresh(self) -> None:
        age_s = self._clock() - self._tried_at_s
        if age_s >= REFRESH_AFTER_S:
            self._read()
        if age_s >= STALE_AFTER_S:
            await self._wait()

    async def _read_after_now(self) -> None:
        """Wait for a read that starts from now on, because an unknown id may belong to a new token. Waiting requests
        share the next read, so that a flood of unknown ids costs a few calls a second."""
        if self._reading is not None and self._left_s() <= 0:
            return  # the engine does not answer
        if self._next is None:
            self._next = asyncio.create_task(self._read_next())
        await asyncio.wait({self._next}, timeout=WAIT_LIMIT_S)
        await self._wait()

    async def _read_next(self) -> None:
        while (pause_s := self._tried_at_s + UNKNOWN_ID_PAUSE_S - self._clock()) > 0 or self._reading is not None:
            if self._reading is not None:
                await asyncio.wait({self._reading})
            else:
                await asyncio.sleep(pause_s)
        self._next = None  # later requests need another read
        self._read()

    def _read(self) -> None:
        if self._reading is None:
            self._began_at_s = self._clock()
            self._reading = asyncio.create_task(self._fetch())

    async def _wait(self) -> None:
        if self._reading is not None and (left_s := self._left_s()) > 0:
            await asyncio.wait({self._reading}, timeout=left_s)

    def _left_s(self) -> float:
        """Return the time left to wait for the current read, counted from its start."""
        return self._began_at_s + WAIT_LIMIT_S - self._clock()

    async def _fetch(self) -> None:
        try:
            self._update(await self._service.tokens(self._known))
        except WindlassError as error:
            if not self._is_away:
                log.warning(
                    "Could not read the tokens; the last known tokens stay valid until the engine answers: %s", error
                )
            self._is_away = True
        finally:
            self._tried_at_s = self._clock()
            self._reading = None

    def _update(self, found: Tokens) -> None:
        if self._known is None or found.tokens is not self._known.tokens:
            self._by_id = {token.id: token for token in found.tokens}
        self._known, self._is_away = found, False
        self._known_at_s, self._known_since_s = self._clock(), self._began_at_s

    def _now_ms(self) -> int:
        """Return the time of the engine: its last known time plus the time since then."""
        read_ms = self._known.now_ms if self._known else 0
        return read_ms + int((self._clock() - self._known_at_s) * 1000)


def _is_token_text(text: str) -> bool:
    try:
        parse_token(text)
    except Unauthorized:
        return False
    return True
