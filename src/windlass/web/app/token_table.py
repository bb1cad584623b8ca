"""The tokens of the engine as one server process knows them: in memory, read anew only while somebody asks, and never
older than a second when somebody is let in by them. Which role a route needs is the guard's to say."""

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

REFRESH_AFTER_S = 0.5  # from then on a look-up has the tokens read anew, beside its work
STALE_AFTER_S = 1.0  # from then on it waits for that: what was revoked opens nothing any more
UNKNOWN_ID_PAUSE_S = 0.2  # between two readings because of ids that nobody knows
WAIT_LIMIT_S = 2.0  # for an engine that is away; then what was known last counts
ENDED_PER_TOKEN_MAX = 100  # sessions of one token that are known by name; one more logout ends all that it has begun
CLOCK_SLACK_S = 60  # a process that does not know of a logout yet, or has another clock, may renew a session after it
STATIC = Principal("static", frozenset({Role.ADMIN}))


class TokenTable:
    """For one event loop; close it."""

    def __init__(
        self, service: Service, static: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`static`: the text of one more token, of an admin, that is not kept in the engine."""
        self._service = service
        self._static = digest_of(static) if static else None
        self._clock = clock
        self._known: Tokens | None = None  # None: never read
        self._by_id: dict[str, Token] = {}
        self._is_away = False
        self._known_at_s = self._known_since_s = float("-inf")  # when the last reading ended, and began
        self._tried_at_s = self._began_at_s = float("-inf")  # the same of the last try
        self._reading: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # waits until the tokens may be read again

    async def principal(self, text: str) -> Principal | None:
        """Whose token this is; None: nobody's. Raises EngineUnavailable when the tokens could never be read."""
        asked_at_s = self._clock()
        found = self.cached_principal(text)
        if found is STATIC or not _is_token_text(text):
            return found
        await self._renew()
        if parse_token(text).id not in self._by_id and self._known_since_s < asked_at_s:
            await self._read_from_now_on()
        self._check_known()
        return self.cached_principal(text)

    def cached_principal(self, text: str) -> Principal | None:
        """The same from what is known, without asking; None also when only the engine can tell. Of a table that is not
        `is_fresh`, take it for a guess."""
        if self._static is not None and hmac.compare_digest(self._static, digest_of(text)):
            return STATIC
        try:
            shown = parse_token(text)
        except Unauthorized:
            return None
        token = self._by_id.get(shown.id)
        if token is None or not token.verifies(shown.secret) or token.is_expired(self._now_ms()):
            return None
        return token.principal

    async def start_session(self, text: str) -> StartedSession | None:
        """For whoever shows a token, so that it need not be shown again; None: it is nobody's."""
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
        """The same with its whole time, when less than half of it is left. It is verified here: the request that shows
        it may have been admitted by a token of its own."""
        digest = self._digest_of(session.token_id)
        now_s = time.time()
        if digest is None or session.expires_at_s - now_s > sessions.RENEW_BELOW_S:
            return None
        if self.cached_session_principal(session) is None:
            return None
        return sessions.issue_session(session.token_id, digest, now_s, session.id)

    async def end_session(self, session: Session) -> None:
        """Have its cookies refused: by this process from now on, by others within a second. Raises EngineUnavailable
        when the engine does not answer."""
        if await self.session_principal(session) is None:
            return
        count = sum(1 for name in self._ended if name.startswith(f"{session.token_id}."))
        ended = session.name if count < ENDED_PER_TOKEN_MAX else session.token_id
        until_s = max(int(time.time()) + sessions.LIFETIME_S, session.expires_at_s)
        await self._service.end_session(ended, until_s if ended == session.token_id else until_s + CLOCK_SLACK_S)
        await self._read_from_now_on()

    @property
    def _ended(self) -> Mapping[str, int]:
        return self._known.ended_sessions if self._known else {}

    async def session_principal(self, session: Session) -> Principal | None:
        """Whose session this is; None: it is over, or its token is."""
        asked_at_s = self._clock()
        await self._renew()
        if self._digest_of(session.token_id) is None and self._known_since_s < asked_at_s:
            await self._read_from_now_on()
        return self.cached_session_principal(session)

    def cached_session_principal(self, session: Session) -> Principal | None:
        """The same from what is known, as `known`."""
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
        """Nothing needs to be asked: it was read within the last half second."""
        return self._clock() - self._tried_at_s < REFRESH_AFTER_S

    @property
    def has_tokens(self) -> bool:
        """Whether there is any, the static one included; await `fresh` before something is decided by it. What was
        never read is taken for a yes: nobody is let in because the engine is away."""
        return self._static is not None or self._known is None or bool(self._by_id)

    async def refresh(self) -> None:
        """The table is no older than a second then, if the engine answers; otherwise it is as it was known last.
        Raises EngineUnavailable when it never was, and nothing else is known of tokens."""
        await self._renew()
        if self._static is None:
            self._check_known()

    async def close(self) -> None:
        tasks = [task for task in (self._next, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_known(self) -> None:
        if self._known is None:
            raise EngineUnavailable("The engine could not be asked for its tokens yet; try again in a moment.")

    async def _renew(self) -> None:
        age_s = self._clock() - self._tried_at_s
        if age_s >= REFRESH_AFTER_S:
            self._read()
        if age_s >= STALE_AFTER_S:
            await self._wait()

    async def _read_from_now_on(self) -> None:
        """An id that is not known may be a new one: only a reading that begins after it was shown says so. All who
        come before the next one share it, so that a flood of them is a few calls a second."""
        if self._reading is not None and self._left_s() <= 0:
            return  # the engine is away
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
        self._next = None  # who comes from now on is too late for this one
        self._read()

    def _read(self) -> None:
        if self._reading is None:
            self._began_at_s = self._clock()
            self._reading = asyncio.create_task(self._ask())

    async def _wait(self) -> None:
        if self._reading is not None and (left_s := self._left_s()) > 0:
            await asyncio.wait({self._reading}, timeout=left_s)

    def _left_s(self) -> float:
        """How long the reading is still waited for: counted from its begin, not from each caller's."""
        return self._began_at_s + WAIT_LIMIT_S - self._clock()

    async def _ask(self) -> None:
        try:
            self._learn(await self._service.tokens(self._known))
        except WindlassError as error:
            if not self._is_away:
                log.warning("The tokens could not be read (%s); those known last count.", error)
            self._is_away = True
        finally:
            self._tried_at_s = self._clock()
            self._reading = None

    def _learn(self, found: Tokens) -> None:
        if self._known is None or found.tokens is not self._known.tokens:
            self._by_id = {token.id: token for token in found.tokens}
        self._known, self._is_away = found, False
        self._known_at_s, self._known_since_s = self._clock(), self._began_at_s

    def _now_ms(self) -> int:
        """The engine's time: what it told last, and ours since."""
        told_ms = self._known.now_ms if self._known else 0
        return told_ms + int((self._clock() - self._known_at_s) * 1000)


def _is_token_text(text: str) -> bool:
    try:
        parse_token(text)
    except Unauthorized:
        return False
    return True
