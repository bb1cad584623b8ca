"""The client. Every socket it opens is to an address that the policy has just allowed, whatever a name stood for a
moment ago; it follows no redirects, keeps no cookies, uses no proxy, and reads no more than it was told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from .failures import AddressForbidden, AnswerTooLarge, Unanswered
from .policy import Policy
from .urls import checked_url

CONNECT_S = 5.0
CONNECTIONS_MAX = 1000
CONNECTIONS_PER_HOST = 100
BODY_S = 2.0  # for a body that is not needed: only a connection that has been read empty can be used again
READ_AT_ONCE = 64 * 1024


class Answered(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Forbidden(OSError):
    """As the connector wants its trouble."""


class _Kept:
    """Whether a request went over a connection that was open already."""

    is_used = False


async def _on_reuse(_session: object, context: Any, _: object) -> None:
    context.trace_request_ctx.is_used = True


class Outbound:
    """`async with Outbound(policy) as outbound`. `resolver`: instead of the system's."""

    def __init__(self, policy: Policy, resolver: AbstractResolver | None = None) -> None:
        self._policy = policy
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

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
    ) -> Answered:
        """One request, one answer. BadInput: the URL cannot be used; Unanswered: all other trouble. Without
        `needs_body` the status is an answer, whatever comes of the body. With `may_repeat` it is sent again when a kept
        connection turns out to be closed: nobody can tell whether it was read."""
        target = checked_url(url)
        try:
            async with asyncio.timeout(timeout_s):
                kept = _Kept()
                try:
                    return await self._post(target, body, headers, answer_max, kept, needs_body=needs_body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    if not (may_repeat and kept.is_used):
                        raise
                return await self._post(target, body, headers, answer_max, kept, needs_body=needs_body)
        except TimeoutError as error:
            raise Unanswered(f"{target.origin()} has not answered within {timeout_s:g} s.") from error
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, _Forbidden):
                raise AddressForbidden(str(error.os_error)) from error
            raise Unanswered(f"{target.origin()} cannot be reached: {error.os_error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unanswered(f"{target.origin()} gave no usable answer: {error!r}") from error

    async def _post(
        self, url: URL, body: bytes, headers: Mapping[str, str], answer_max: int, kept: _Kept, *, needs_body: bool
    ) -> Answered:
        asked = self._opened().post(url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=kept)
        async with asked as response:
            read = self._read if needs_body else self._read_some
            answer = await read(response, answer_max)
            return Answered(response.status, {name.lower(): value for name, value in response.headers.items()}, answer)

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        """What is left unread closes the connection with it."""
        parts = bytearray()
        async for part in response.content.iter_chunked(READ_AT_ONCE):
            parts += part
            if len(parts) > most:
                response.close()
                raise AnswerTooLarge(f"{response.url.origin()} answered with more than {most} bytes.")
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

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                use_dns_cache=False,
                socket_factory=self._new_socket,
                limit=CONNECTIONS_MAX,
                limit_per_host=CONNECTIONS_PER_HOST,
            )
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_on_reuse)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trace_configs=[tracing],
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                trust_env=False,
                auto_decompress=False,  # a small answer must not become a large one here
                skip_auto_headers=("User-Agent",),
                headers={"User-Agent": "windlass", "Accept-Encoding": "identity"},
            )
        return self._session

    def _new_socket(self, target: Any) -> socket.socket:
        """Called with the address that is dialled next, also for one written in the URL itself."""
        family, kind, protocol, _, address = target
        if not self._policy.may_dial(address[0]):
            raise _Forbidden(
                f"{address[0]} is not a public address, and must not be asked from here; its network can be allowed "
                "by WINDLASS_ALLOW_PRIVATE_ADDRESSES."
            )
        return socket.socket(family, kind, protocol)
