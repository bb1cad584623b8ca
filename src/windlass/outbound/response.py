"""A large answer on its way in: its head, then its body in parts, in constant memory."""

from __future__ import annotations

import ssl

import aiohttp

from .failures import AddressForbidden, RequestFailed, ResponseTooLarge, TlsFailed, TruncatedBody

REASON_MAX = 200  # characters of what went wrong
BUFFER = 256 * 1024  # of one answer; twice as much may be there before the sender is told to wait


class DialForbidden(OSError):
    """As the connector wants its trouble."""


class StreamedAnswer:
    """`while part := await incoming.read()`. Trouble on the way is Unanswered, or one of its kinds."""

    def __init__(self, response: aiohttp.ClientResponse, size_max: int) -> None:
        self._response = response
        self._size_max = size_max
        self.status = response.status
        self.reason = response.reason or ""
        self.url = str(response.url)
        # Of a body that says how long it is otherwise, or has none, a length says nothing.
        self.length = None if "Transfer-Encoding" in response.headers else response.content_length
        self._received = 0
        self._check(self.length or 0)

    async def read(self) -> bytes:
        """The next part, as much as is there; empty at the end."""
        try:
            part = await self._response.content.readany()
        except aiohttp.ClientPayloadError as error:
            raise TruncatedBody("unexpected EOF") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise request_failure(str(self._response.url.origin()), error) from error
        self._received += len(part)
        self._check(self._received)
        return part

    def _check(self, size: int) -> None:
        if size > self._size_max:
            raise ResponseTooLarge(f"The body has more than {self._size_max} bytes, which is all that is taken.")


def request_failure(whom: str, error: Exception) -> RequestFailed:
    """What went wrong on the line, in our words."""
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return TlsFailed(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, DialForbidden):
            return AddressForbidden(str(error.os_error))
        return RequestFailed(f"{whom} cannot be reached: {error.os_error}")
    return RequestFailed(f"{whom} gave no usable answer: {type(error).__name__}: {_describe_error(error)}")


def _describe_error(error: Exception) -> str:
    """The client's own words hold the whole request, its passwords included: only what is about the answer is told."""
    if isinstance(error, aiohttp.ClientResponseError):
        return " ".join(error.message.split())[:REASON_MAX]
    if isinstance(error, aiohttp.InvalidURL):
        return "its URL cannot be used."
    return " ".join(str(error).split())[:REASON_MAX]
