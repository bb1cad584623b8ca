"""Event followers of this process: their number in all and per token, and the pause between two writes to each."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from windlass.core.access.tokens import Principal
from windlass.core.errors import TooManyRequests

# Events of one pause are written together. The pause grows with the number of streams, so that writing to all of them
# (some 40 µs each) leaves four fifths of the event loop to other work.
PAUSE_S = 0.02
PAUSE_PER_FOLLOWER_S = 0.0002


class Following(Protocol):
    """Follower of events, or of the stream of a job."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *exc: object) -> None: ...


F = TypeVar("F", bound=Following)


class Followers:
    """Counter of event followers with limits."""

    def __init__(self, total_max: int, token_max: int) -> None:
        self._total_max = total_max
        self._token_max = token_max
        self._by_token: Counter[str] = Counter()
        self.count = 0

    @property
    def pause_s(self) -> float:
        return max(PAUSE_S, self.count * PAUSE_PER_FOLLOWER_S)

    async def follow(self, principal: Principal, following: F) -> CountedFollowing[F]:
        """Start to follow; end it with `__aexit__`. Raise TooManyRequests if a limit is reached."""
        self._enter(principal.name)
        counted = CountedFollowing(self, principal.name, following)
        try:
            await following.__aenter__()
        except BaseException:
            counted.release()
            raise
        return counted

    def _enter(self, token: str) -> None:
        if self._by_token[token] >= self._token_max:
            raise TooManyRequests(
                f"The token {token!r} has {self._token_max} event streams in this server process, its limit. Close a "
                "stream and try again, share one stream, or raise WINDLASS_TOKEN_FOLLOWERS_MAX."
            )
        if self.count >= self._total_max:
            raise TooManyRequests(
                f"This server process has {self._total_max} event streams, its limit. Try again later, or raise "
                "WINDLASS_FOLLOWERS_MAX."
            )
        self._by_token[token] += 1
        self.count += 1

    def leave(self, token: str) -> None:
        self.count -= 1
        self._by_token[token] -= 1
        if not self._by_token[token]:
            del self._by_token[token]


class CountedFollowing(AbstractAsyncContextManager["CountedFollowing[F]"], Generic[F]):
    """Following that is counted until it ends. It can be ended more than once."""

    def __init__(self, followers: Followers, token: str, following: F) -> None:
        self.following = following
        self._followers: Followers | None = followers
        self._token = token

    async def __aexit__(self, *exc: object) -> None:
        self.release()
        await self.following.__aexit__(*exc)

    def release(self) -> None:
        followers, self._followers = self._followers, None
        if followers is not None:
            followers.leave(self._token)
