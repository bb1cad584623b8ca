"""The client. Every socket it opens is to an address that the policy has just allowed, whatever a name stood for a
moment ago; it keeps no cookies, and reads no more than it was told to. `post` follows no redirects and uses no proxy;
`get` does, and each step of the way is looked at as the first one was (see fetch.py)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from .failures import RequestFailed, ResponseTooLarge
from .fetch import Fetch, FetchRequest
from .policy import Policy, PolicySource, forbidden_message
from .response import BUFFER, DialForbidden, StreamedAnswer, request_failure
from .urls import origin_of, parse_http_url

CONNECT_S = 5.0
CONNECTIONS_MAX = 1000
CONNECTIONS_PER_HOST = 100
BODY_S = 2.0  # for a body that is not needed: only a connection that has been read empty can be used again
READ_AT_ONCE = 64 * 1024


class OutboundResponse(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _ConnectionTrace:
    """Whether a request went over a connection that was open already."""

    is_used = False


async def _on_reuse(_session: object, context: Any, _: object) -> None:
    context.trace_request_ctx.is_used = True


class Outbound:
    """`async with Outbound(policy) as outbound`. `resolver`: instead of the system's."""

    def __init__(self, policies: PolicySource, resolver: AbstractResolver | None = None) -> None:
        self._policies = policies
        self._policy = Policy()  # as it was for the last request
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None
        self._fetching: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._retire()
        await self._retire()

    async def _apply_policy(self) -> None:
        """A connection that was opened under another policy is not used for a new request."""
        policy = await self._policies.current()
        if policy is not self._policy:
            self._policy = policy
            await self._retire()

    async def _retire(self) -> None:
        """Requests under way end as they began; those of the policy before are given up."""
        over, self._retired = self._retired, [session for session in (self._session, self._fetching) if session]
        self._session = self._fetching = None
        for session in over:
            await session.close()

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout_s: float = 5.0,
        answer_max: int = 64 * 1024,
        needs_body: bool = True,
        may_repeat: bool = False,
    ) -> OutboundResponse:
        """One request, one answer. BadInput: the URL cannot be used; Unanswered: all other trouble. Without
        `needs_body` the status is an answer, whatever comes of the body. With `may_repeat` it is sent again when a kept
        connection turns out to be closed: nobody can tell whether it was read."""
        target = parse_http_url(url)
        try:
            async with asyncio.timeout(timeout_s):
                kept = _ConnectionTrace()
                await self._apply_policy()
                try:
                    return await self._post(target, body, headers, answer_max, kept, needs_body=needs_body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    if not (may_repeat and kept.is_used):
                        raise
                return await self._post(target, body, headers, answer_max, kept, needs_body=needs_body)
        except TimeoutError as error:
            raise RequestFailed(f"{target.origin()} has not answered within {timeout_s:g} s.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise request_failure(str(target.origin()), error) from error

    async def _post(
        self,
        url: URL,
        body: bytes,
        headers: Mapping[str, str],
        answer_max: int,
        kept: _ConnectionTrace,
        *,
        needs_body: bool,
    ) -> OutboundResponse:
        asked = self._opened().post(url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=kept)
        async with asked as response:
            read = self._read if needs_body else self._read_some
            answer = await read(response, answer_max)
            return OutboundResponse(
                response.status, {name.lower(): value for name, value in response.headers.items()}, answer
            )

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        """What is left unread closes the connection with it."""
        parts = bytearray()
        async for part in response.content.iter_chunked(READ_AT_ONCE):
            parts += part
            if len(parts) > most:
                response.close()
                raise ResponseTooLarge(f"{response.url.origin()} answered with more than {most} bytes.")
        return bytes(parts)

    async def _read_some(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        """The beginning, as far as it comes. A connection whose answer was not read to its end is not used again."""
        parts = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for part in response.content.iter_chunked(READ_AT_ONCE):
                    parts += part
                    if len(parts) > most:
                        break
                else:
                    return bytes(parts)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            pass
        response.close()
        return bytes(parts[:most])

    @contextlib.asynccontextmanager
    async def get(self, wanted: FetchRequest) -> AsyncIterator[StreamedAnswer]:
        """A body of any size, to be read within the block. BadInput: an address cannot be used; Unanswered, or one of
        its kinds: all other trouble, also while the body is read."""
        timeout = asyncio.timeout(wanted.timeout_s)
        await self._apply_policy()
        try:
            async with timeout, Fetch(self._opened_for_fetching(), self._policy, self._resolver, wanted) as incoming:
                yield incoming
        except TimeoutError as error:
            if not timeout.expired():
                raise
            # Of a URL only where it leads to: the rest may hold a password or a signature, and this goes into logs.
            where = origin_of(wanted.url)
            raise RequestFailed(f"{where} has not been read within {wanted.timeout_s:g} s.") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_on_reuse)
            self._session = self._new_session(CONNECTIONS_MAX, CONNECTIONS_PER_HOST, tracing)
        return self._session

    def _opened_for_fetching(self) -> aiohttp.ClientSession:
        """How many there are at once is the caller's affair."""
        if self._fetching is None:
            self._fetching = self._new_session(0, 0)
        return self._fetching

    def _new_session(self, most: int, per_host: int, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            socket_factory=self._new_socket,
            limit=most,
            limit_per_host=per_host,
        )
        return aiohttp.ClientSession(
            connector=connector,
            trace_configs=list(traces),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trust_env=False,
            auto_decompress=False,  # a small answer must not become a large one here
            skip_auto_headers=("User-Agent",),
            headers={"User-Agent": "windlass", "Accept-Encoding": "identity"},
            read_bufsize=BUFFER,
        )

    def _new_socket(self, target: Any) -> socket.socket:
        """Called with the address that is dialled next, also for one written in the URL itself."""
        family, kind, protocol, _, address = target
        if not self._policy.is_allowed(address[0]):
            raise DialForbidden(forbidden_message(address[0]))
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a peer that has vanished is noticed some day
        return made
