"""Authentication and authorization of commands, by the same rules as HTTP requests."""

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

from .verbs import Verb
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

# The headers that the authenticator reads. Most commands have none of them.
_AUTH_HEADERS = frozenset(
    {"authorization", "cookie", "host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"}
)
_ANONYMOUS_HEAD = Head("", "", "", {"host": "localhost"}, "")


class CommandAuth:
    """Checks of tokens and roles. The commands check the queues of a token: they know the queues they are about."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def authorize_now(self, request: BedrockRequest, verb: Verb, authorization: str, peer: str) -> Principal | None:
        """Return the principal, or None if the engine must be asked: then call `authorize`. Raise if it is refused.

        `authorization` is the last Authorization header of the connection."""
        is_anonymous = not authorization and _AUTH_HEADERS.isdisjoint(request.headers)
        head = _ANONYMOUS_HEAD if is_anonymous else _head(request, authorization, peer)
        return self._authenticator.admit_cached(head, verb.roles)

    async def authorize(self, request: BedrockRequest, verb: Verb, authorization: str, peer: str) -> Principal:
        return await self._authenticator.admit(_head(request, authorization, peer), verb.roles)


def _head(request: BedrockRequest, authorization: str, peer: str) -> Head:
    """Make the head of an HTTP request. Bedrock clients send no Host header; a client that sends it is a browser."""
    headers = {"host": "localhost"} | request.headers
    if authorization:
        headers.setdefault("authorization", authorization)
    return Head(request.verb, "", "", headers, peer)


def reply_to_error(error: WindlassError) -> Reply:
    status, reason = _STATUS_LINES.get(type(error), (502, "Internal failure"))
    return Reply(status, reason, headers=(("error", str(error)),))
