"""Fetch of one large answer. It follows redirects, and checks every address on the way, whether the client or a proxy
connects to it."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from types import TracebackType

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from .failures import AddressForbidden, InvalidRedirect, RequestFailed
from .policy import Policy, forbidden_message
from .proxies import Proxy, environment_proxy, parse_proxy
from .redirects import REDIRECTS, headers_after_redirect, redirect_target
from .response import IncomingResponse, request_failure
from .urls import FETCHED_MAX, basic_auth, parse_http_url, split_credentials

DIAL_S = 5.0
HANDSHAKE_S = 4.0
TUNNEL_S = 20.0  # until a proxy has made its own connection
REDIRECTS_MAX = 10
_NEEDS_NO_QUOTING = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
# These headers belong to the connection, so a caller cannot set them.
_CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    url: str  # http or https; may contain a user and a password
    headers: Mapping[str, str] = {}
    proxy: str = ""  # empty: from the environment
    timeout_s: float | None = None  # for the whole request
    size_max: int = 2**63


class Fetch:
    """One GET request with its redirects. `async with` returns the final answer."""

    def __init__(
        self, session: aiohttp.ClientSession, policy: Policy, resolver: AbstractResolver | None, request: FetchRequest
    ) -> None:
        self._session = session
        self._policy = policy
        self._resolver = resolver
        self._request = request
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> IncomingResponse:
        url, headers = _first_request(self._request)
        for _ in range(REDIRECTS_MAX + 1):
            response = await self._send(url, headers)
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or not location:
                self._response = response
                return IncomingResponse(response, self._request.size_max)
            response.close()
            target = redirect_target(url, location)
            url, headers = target, headers_after_redirect(target, url, headers)
        raise InvalidRedirect(f"Stopped after {REDIRECTS_MAX} redirects, the last one to {url.origin()}.")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Keep the connection for reuse if the body was read to its end, and close it otherwise."""
        if self._response is not None:
            self._response.release() if self._response.content.at_eof() else self._response.close()

    async def _send(self, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        proxy = self._proxy_for(url)
        to_proxy: dict[str, str] = {}
        if proxy is not None:
            await self._check_target(url)
            to_proxy = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
        is_tunnel = url.scheme == "https"
        try:
            return await self._session.get(
                url,
                headers=headers if is_tunnel else {**headers, **to_proxy},
                allow_redirects=False,
                proxy=proxy.url if proxy else None,
                proxy_headers=to_proxy if is_tunnel else None,
                timeout=aiohttp.ClientTimeout(total=None, connect=_connect_s(url, proxy)),
            )
        except TimeoutError as error:  # of the connection; the caller's own timeout is measured outside
            raise RequestFailed(f"{url.origin()} could not be reached in time.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise request_failure(str(url.origin()), error) from error

    def _proxy_for(self, url: URL) -> Proxy | None:
        text = self._request.proxy or environment_proxy(url)
        return parse_proxy(text) if text else None

    async def _check_target(self, url: URL) -> None:
        """Check the addresses that a proxy will connect to, as far as this host can resolve them. If a name does not
        resolve here, only the proxy knows it."""
        for address in await self._addresses_of(url):
            if not self._policy.is_allowed(address):
                raise AddressForbidden(forbidden_message(address))

    async def _addresses_of(self, url: URL) -> list[str]:
        host = url.raw_host or ""
        resolver = self._resolver or aiohttp.ThreadedResolver()
        try:
            return [resolved["host"] for resolved in await resolver.resolve(host, url.port or 0, socket.AF_UNSPEC)]
        except OSError:
            return []


def _first_request(request: FetchRequest) -> tuple[URL, dict[str, str]]:
    text, credentials = split_credentials(request.url.partition("#")[0].replace(" ", "%20"))
    checked = parse_http_url(text, FETCHED_MAX)
    # Some servers sign the exact characters of a URL, so a URL that needs no quoting is sent unchanged.
    url = URL(text, encoded=True) if _NEEDS_NO_QUOTING.fullmatch(text) else checked
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _CONNECTION_HEADERS}
    if credentials and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = basic_auth(*credentials)
    return url, headers


def _connect_s(url: URL, proxy: Proxy | None) -> float:
    """Return the connect timeout. The client measures lookup, connect, tunnel and handshakes together."""
    if url.scheme != "https" and (proxy is None or proxy.url.scheme != "https"):
        return DIAL_S
    return DIAL_S + HANDSHAKE_S + (TUNNEL_S if proxy else 0.0)
