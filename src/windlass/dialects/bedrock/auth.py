"""Who may give a command: the guard of the HTTP side, asked about a Bedrock request."""

from __future__ import annotations

from windlass.core.access.tokens import Principal
from windlass.core.errors import (
    DataDirectoryLost,
    DiskFull,
    EngineNotPermitted,
    EngineUnavailable,
    Forbidden,
    TooManyRequests,
    Unauthorized,
    WindlassError,
)
from windlass.web.app.auth import Guard
from windlass.web.listener.messages import Head

from .verbs import QUEUE, Verb
from .wire import BedrockRequest, Reply

_STATUS_LINES = {
    Unauthorized: (401, "Unauthorized"),
    Forbidden: (403, "Forbidden"),
    TooManyRequests: (429, "Too many requests"),
    EngineUnavailable: (502, "Engine unavailable"),
    EngineNotPermitted: (502, "Engine unavailable"),
    DiskFull: (502, "Engine unavailable: its disk is full"),
    DataDirectoryLost: (502, "Engine unavailable: its data directory was deleted or replaced"),
}

# What the guard looks at; most commands say nothing of it.
_AUTH_HEADERS = frozenset(
    {"authorization", "cookie", "host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"}
)
_ANONYMOUS_HEAD = Head("", "", "", {"host": "localhost"}, "")


class CommandAuth:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def at_once(self, request: BedrockRequest, verb: Verb, shown: str, peer: str) -> Principal | None:
        """None: only the engine can tell. `shown`: the token of an earlier request of the connection. Raises."""
        says_nothing = not shown and _AUTH_HEADERS.isdisjoint(request.headers)
        who = self._guard.admit(_ANONYMOUS_HEAD if says_nothing else _head(request, shown, peer), verb.roles)
        return who if who is None or verb.roles is None else _check_queue(who)

    async def slowly(self, request: BedrockRequest, verb: Verb, shown: str, peer: str) -> Principal:
        return _check_queue(await self._guard.admit_slowly(_head(request, shown, peer), verb.roles))


def _check_queue(who: Principal) -> Principal:
    if who.queues:
        who.check(who.roles, QUEUE)
    return who


def _head(request: BedrockRequest, shown: str, peer: str) -> Head:
    """No client of Bedrock sends a Host; what does is a browser, and is treated as one."""
    headers = {"host": "localhost"} | request.headers
    if shown:
        headers.setdefault("authorization", shown)
    return Head(request.verb, "", "", headers, peer)


def reply_to_error(error: WindlassError) -> Reply:
    status, reason = _STATUS_LINES.get(type(error), (502, "Internal failure"))
    return Reply(status, reason, headers=(("error", str(error)),))
