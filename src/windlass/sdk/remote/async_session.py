"""HTTP session for an event loop, with persistent connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
from yarl import URL

from windlass.core.errors import BadSetting, WindlassError

from .address import ServerAddress
from .request import (
    ApiRequest,
    ApiResponse,
    answer_lost,
    build_headers,
    response_max,
    response_too_large,
    server_unreachable,
)

CONNECT_S = 10.0
CONNECTIONS_MAX = 100  # further requests wait for a free connection


class AsyncHttpSession:
    """Session of the event loop in which it is first used."""

    def __init__(self, address: ServerAddress, token: str) -> None:
        self._address = address
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, ssl=self._address.ssl_context() or True, ttl_dns_cache=10
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, request: ApiRequest) -> ApiResponse:
        """Send a request once, without retries."""
        async with self.open_response(request) as response:
            return await self.read_response(response)

    async def read_response(self, response: aiohttp.ClientResponse) -> ApiResponse:
        """Read the whole body. Raise EngineUnsuitable if it is larger than any answer of a Windlass server."""
        most, parts = response_max(response.status), bytearray()
        async for part in response.content.iter_any():
            parts += part
            if len(parts) > most:
                response.close()
                raise response_too_large(self._address, most)
        return ApiResponse(response.status, response.content_type, bytes(parts))

    @contextlib.asynccontextmanager
    async def open_response(
        self, request: ApiRequest, more: dict[str, str] | None = None, read_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield its response; read the body within the block. `read_s`: how long an endless body may
        be silent."""
        content = request.content
        headers = {**build_headers(self._token, content_type=request.content_type), **(more or {})}
        timeout = aiohttp.ClientTimeout(
            total=request.timeout_s if read_s is None else None, sock_connect=CONNECT_S, sock_read=read_s
        )
        try:
            async with self._client().request(
                request.method,
                self._url(request),
                data=content,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),  # a request without a body has none
            ) as response:
                yield response
        except aiohttp.ClientConnectorCertificateError as error:
            raise untrusted_certificate(self._address, error.certificate_error) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise server_unreachable(self._address, _why(error)) from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise answer_lost(self._address, _why(error)) from error

    def _url(self, request: ApiRequest) -> URL:
        return URL(f"{self._address}{request.target}", encoded=True)  # the target is encoded already


def _why(error: BaseException) -> str:
    cause = getattr(error, "os_error", None) or error
    return str(getattr(cause, "strerror", None) or cause or "timeout")


def untrusted_certificate(address: ServerAddress, why: object) -> WindlassError:
    return BadSetting(
        f"The certificate of the server at {address} is not trusted: {why}. The option ssl_ca_certs names a file of "
        "authorities to trust."
    )
