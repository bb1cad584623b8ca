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
from windlass.web.app.auth import Authenticator
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
    def __init__(self, guard: Authenticator) -> None:
        self._authenticator = guard

    def authorize_now(self, request: BedrockRequest, verb: Verb, authorization: str, peer: str) -> Principal | None:
        """None: only the engine can tell. `shown`: the token of an earlier request of the connection. Raises."""
        says_nothing = not authorization and _AUTH_HEADERS.isdisjoint(request.headers)
        principal = self._authenticator.admit_cached(
            _ANONYMOUS_HEAD if says_nothing else _head(request, authorization, peer), verb.roles
        )
        return principal if principal is None or verb.roles is None else _check_queue(principal)

    async def authorize(self, request: BedrockRequest, verb: Verb, authorization: str, peer: str) -> Principal:
        return _check_queue(await self._authenticator.admit(_head(request, authorization, peer), verb.roles))


def _check_queue(principal: Principal) -> Principal:
    if principal.queues:
        principal.check(principal.roles, QUEUE)
    return principal


def _head(request: BedrockRequest, authorization: str, peer: str) -> Head:
    """No client of Bedrock sends a Host; what does is a browser, and is treated as one."""
    headers = {"host": "localhost"} | request.headers
    if authorization:
        headers.setdefault("authorization", authorization)
    return Head(request.verb, "", "", headers, peer)


def reply_to_error(error: WindlassError) -> Reply:
    status, reason = _STATUS_LINES.get(type(error), (502, "Internal failure"))
    return Reply(status, reason, headers=(("error", str(error)),))
