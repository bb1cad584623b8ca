"""Clients that follow events in this process: how many there may be, in all and of each token, and how often each is
written to."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager

from windlass.core.access.tokens import Principal
from windlass.core.errors import TooManyRequests
from windlass.store.events.shared_follow import SharedFollowing

# A stream is written to at most so often: what happens in between goes out together. The more streams there are, the
# longer it takes, so that writing to all of them (some 40 µs each) leaves four fifths of the event loop to others.
PAUSE_S = 0.02
PAUSE_PER_FOLLOWER_S = 0.0002


class Followers:
    def __init__(self, most: int, most_per_token: int) -> None:
        self._most = most
        self._most_per_token = most_per_token
        self._by_token: Counter[str] = Counter()
        self.count = 0

    @property
    def pause_s(self) -> float:
        return max(PAUSE_S, self.count * PAUSE_PER_FOLLOWER_S)

    async def follow(self, principal: Principal, following: SharedFollowing) -> CountedFollowing:
        """Begin to follow; leave it with `__aexit__`. Raises TooManyRequests when there are too many."""
        self._enter(principal.name)
        counted = CountedFollowing(self, principal.name, following)
        try:
            await following.__aenter__()
        except BaseException:
            counted.release()
            raise
        return counted

    def _enter(self, token: str) -> None:
        if self._by_token[token] >= self._most_per_token:
            raise TooManyRequests(
                f"The token {token!r} follows events {self._most_per_token} times already, as often as it may in one "
                "server process. Close a stream and try again, share one stream, or raise WINDLASS_TOKEN_FOLLOWERS_MAX."
            )
        if self.count >= self._most:
            raise TooManyRequests(
                f"This server process has {self._most} followers of events, as many as it may. Try again later, "
                "or raise WINDLASS_FOLLOWERS_MAX."
            )
        self._by_token[token] += 1
        self.count += 1

    def leave(self, token: str) -> None:
        self.count -= 1
        self._by_token[token] -= 1
        if not self._by_token[token]:
            del self._by_token[token]


class CountedFollowing(AbstractAsyncContextManager["CountedFollowing"]):
    """A following that counts until it ends, however often it is ended."""

    def __init__(self, followers: Followers, token: str, following: SharedFollowing) -> None:
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
