"""HTTP client. The policy checks the address of every socket right before it is opened, so a name that resolves to
another address later is no way around it. The client keeps no cookies and reads a bounded number of bytes. `post`
follows no redirects and uses no proxy. `get` does both, and checks every hop like the first (see fetch.py)."""

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
from .response import BUFFER, DialForbidden, IncomingResponse, request_failure
from .urls import origin_of, parse_http_url

CONNECT_S = 5.0
CONNECTIONS_MAX = 1000
CONNECTIONS_PER_HOST = 100
BODY_S = 2.0  # for a body that is not needed: only a connection that was read to its end can be reused
READ_AT_ONCE = 64 * 1024


class OutboundResponse(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _ConnectionTrace:
    """Trace of one request: did it use a connection that was already open?"""

    is_reused = False


async def _on_reuse(_session: object, context: Any, _: object) -> None:
    context.trace_request_ctx.is_reused = True


class Outbound:
    """Guarded HTTP client: `async with Outbound(policies) as outbound`. `resolver` replaces the system's resolver."""

    def __init__(self, policies: PolicySource, resolver: AbstractResolver | None = None) -> None:
        self._policies = policies
        self._policy = Policy()  # of the last request
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
        """Read the current policy. After a change, new requests do not use connections that were opened before it."""
        policy = await self._policies.current()
        if policy is not self._policy:
            self._policy = policy
            await self._retire()

    async def _retire(self) -> None:
        """Retire the sessions. Requests in flight complete; requests of sessions that were retired before are ended."""
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
        """Send one POST request. Raise BadInput if the URL is invalid, RequestFailed for all other errors.

        Without `needs_body`, the status is enough: errors while the body is read are ignored. With `may_repeat`, the
        request is sent again if a reused connection turns out to be closed; the receiver may then get it twice."""
        target = parse_http_url(url)
        try:
            async with asyncio.timeout(timeout_s):
                trace = _ConnectionTrace()
                await self._apply_policy()
                try:
                    return await self._post(target, body, headers, answer_max, trace, needs_body=needs_body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    if not (may_repeat and trace.is_reused):
                        raise
                return await self._post(target, body, headers, answer_max, trace, needs_body=needs_body)
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
        trace: _ConnectionTrace,
        *,
        needs_body: bool,
    ) -> OutboundResponse:
        sending = self._post_session().post(
            url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=trace
        )
        async with sending as response:
            read = self._read if needs_body else self._read_some
            answer = await read(response, answer_max)
            return OutboundResponse(
                response.status, {name.lower(): value for name, value in response.headers.items()}, answer
            )

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        """Read the body. If it is too large, close the connection."""
        parts = bytearray()
        async for part in response.content.iter_chunked(READ_AT_ONCE):
            parts += part
            if len(parts) > most:
                response.close()
                raise ResponseTooLarge(f"{response.url.origin()} answered with more than {most} bytes.")
        return bytes(parts)

    async def _read_some(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        """Read the beginning of the body, as far as it arrives in time. Close the connection if the body was not read
        to its end."""
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
    async def get(self, request: FetchRequest) -> AsyncIterator[IncomingResponse]:
        """Send a GET request whose body, of any size, is read within the block. Raise BadInput if a URL is invalid,
        RequestFailed or a subclass for all other errors, also while the body is read."""
        timeout = asyncio.timeout(request.timeout_s)
        await self._apply_policy()
        try:
            async with timeout, Fetch(self._get_session(), self._policy, self._resolver, request) as incoming:
                yield incoming
        except TimeoutError as error:
            if not timeout.expired():
                raise
            # Only the origin: the rest of the URL may contain a password or a signature, and this text goes into logs.
            where = origin_of(request.url)
            raise RequestFailed(f"{where} was not read within {request.timeout_s:g} s.") from error

    def _post_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_on_reuse)
            self._session = self._new_session(CONNECTIONS_MAX, CONNECTIONS_PER_HOST, tracing)
        return self._session

    def _get_session(self) -> aiohttp.ClientSession:
        """Return the session of `get`. The caller limits the number of connections."""
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
            auto_decompress=False,  # a small answer must not expand to a large one
            skip_auto_headers=("User-Agent",),
            headers={"User-Agent": "windlass", "Accept-Encoding": "identity"},
            read_bufsize=BUFFER,
        )

    def _new_socket(self, target: Any) -> socket.socket:
        """Create a socket if the policy allows its address. The connector calls this for every address, also for an
        address that is literal in the URL."""
        family, kind, protocol, _, address = target
        if not self._policy.is_allowed(address[0]):
            raise DialForbidden(forbidden_message(address[0]))
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # detects a peer that is gone
        return made
