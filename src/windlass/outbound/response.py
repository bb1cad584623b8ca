"""Streamed answer: its head, then its body in parts, in constant memory."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import aiohttp

from .failures import AddressForbidden, RequestFailed, ResponseTooLarge, TlsFailed, TruncatedBody

REASON_MAX = 200  # characters of an error text
BUFFER = 256 * 1024  # bytes of one answer; up to twice as much is buffered before the sender must wait


class DialForbidden(OSError):
    """Refusal of the policy to connect. It is an OSError because the connector handles only these."""


class IncomingResponse:
    """Answer that is read in parts: `while part := await answer.read()`. Errors are RequestFailed or a subclass."""

    def __init__(self, response: aiohttp.ClientResponse, size_max: int) -> None:
        self._response = response
        self._size_max = size_max
        self.status = response.status
        self.reason = response.reason or ""
        self.url = str(response.url)
        self.headers: Mapping[str, str] = response.headers  # names in any case
        # With a transfer encoding the header Content-Length has no meaning.
        self.length = None if "Transfer-Encoding" in response.headers else response.content_length
        self._received = 0
        self._failure: RequestFailed | None = None
        self._check(self.length or 0)

    async def read(self) -> bytes:
        """Return the next part, as much as has arrived; empty at the end. Bytes that arrived before an error are
        returned first."""
        part = b""
        if self._failure is None:
            try:
                part = await self._response.content.readany()
            except aiohttp.ClientPayloadError as error:
                part = self._fail(TruncatedBody("unexpected EOF"), error)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                part = self._fail(request_failure(str(self._response.url.origin()), error), error)
        if self._failure is not None and not part:
            raise self._failure
        self._received += len(part)
        self._check(self._received)
        return part

    def _fail(self, failure: RequestFailed, cause: Exception) -> bytes:
        """Note a failure. Return the bytes that are still buffered: the library has no public way to read them."""
        failure.__cause__ = cause
        self._failure = failure
        read = getattr(self._response.content, "_read_nowait", None)
        return bytes(read(-1)) if read else b""

    def _check(self, size: int) -> None:
        if size > self._size_max:
            raise ResponseTooLarge(f"The body has more than {self._size_max} bytes, the maximum.")


def request_failure(origin: str, error: Exception) -> RequestFailed:
    """Return the failure for an error of the HTTP library."""
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return TlsFailed(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, DialForbidden):
            return AddressForbidden(str(error.os_error))
        return RequestFailed(f"{origin} cannot be reached: {error.os_error}")
    return RequestFailed(f"{origin} gave no valid answer: {type(error).__name__}: {_describe_error(error)}")


def _describe_error(error: Exception) -> str:
    """Describe an error without the request. The library's own text contains the whole request, with passwords."""
    if isinstance(error, aiohttp.ClientResponseError):
        return " ".join(error.message.split())[:REASON_MAX]
    if isinstance(error, aiohttp.InvalidURL):
        return "its URL is invalid."
    return " ".join(str(error).split())[:REASON_MAX]
