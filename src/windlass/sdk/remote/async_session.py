"""Requests in an event loop: one session, whose connections are kept."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
from yarl import URL

from windlass.core.errors import BadSetting, WindlassError

from .address import ServerAddress
from .request import Request, Response, headers, unanswered, unreachable

CONNECT_S = 10.0
CONNECTIONS_MAX = 100  # beyond them requests wait for one


class Session:
    """Belongs to the event loop in which it is first used."""

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

    async def send(self, request: Request) -> Response:
        """Once."""
        async with self.answering(request) as answer:
            return Response(answer.status, answer.content_type, await answer.read())

    @contextlib.asynccontextmanager
    async def answering(
        self, request: Request, more: dict[str, str] | None = None, read_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, whose body is read within the block. `read_s`: of an endless one, how long it may be silent."""
        content = request.content
        sent = {**headers(self._token, has_body=content is not None), **(more or {})}
        limits = aiohttp.ClientTimeout(
            total=request.timeout_s if read_s is None else None, sock_connect=CONNECT_S, sock_read=read_s
        )
        try:
            async with self._client().request(
                request.method,
                self._url(request),
                data=content,
                headers=sent,
                timeout=limits,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),  # without a body there is none
            ) as answer:
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            raise distrusted(self._address, error.certificate_error) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unreachable(self._address, _why(error)) from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise unanswered(self._address, _why(error)) from error

    def _url(self, request: Request) -> URL:
        return URL(f"{self._address}{request.target}", encoded=True)  # what is encoded stays as it is


def _why(error: BaseException) -> str:
    cause = getattr(error, "os_error", None) or error
    return str(getattr(cause, "strerror", None) or cause or "it took too long")


def distrusted(address: ServerAddress, why: object) -> WindlassError:
    return BadSetting(f"The certificate of the server at {address} is not trusted: {why}. See the option ssl_ca_certs.")
