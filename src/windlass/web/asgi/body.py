"""Body of a request over ASGI: buffered within the bounds, or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.web.listener.messages import IncompleteBody

from .scope import BadScope, Receive

_GONE = "The client has gone."


class ClientGone(Exception):
    """The client has disconnected before the end of its request."""


class BodyBudget:
    """Bytes of all buffered bodies of this process."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0

    def acquire(self, size: int) -> None:
        if self._used + size > self._bytes_max:
            raise BadScope(503, "The server has reached its limit of buffered request bodies; try again.")
        self._used += size

    def release(self, size: int) -> None:
        self._used -= size


class BufferedBody:
    """Body that is read as a whole. Release it when the request has ended."""

    def __init__(self, receive: Receive, budget: BodyBudget, bytes_max: int) -> None:
        self._receive = receive
        self._budget = budget
        self._bytes_max = bytes_max
        self._size = 0  # acquired from the budget

    def check_length(self, announced: str) -> None:
        """Raise BadScope if the announced length is too large, before a byte is read."""
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._bytes_max:
            raise self._too_large()

    async def read(self) -> bytes:
        """Read the body. Raise BadScope if it is too large, ClientGone if it does not come to its end."""
        pieces: list[bytes] = []
        has_more = True
        while has_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            pieces.append(message.get("body", b""))
            self._acquire(len(pieces[-1]))
            has_more = message.get("more_body", False)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _acquire(self, size: int) -> None:
        if self._size + size > self._bytes_max:
            raise self._too_large()
        self._budget.acquire(size)
        self._size += size

    def _too_large(self) -> BadScope:
        return BadScope(413, f"The body of this request may have {self._bytes_max} bytes.")

    def release(self) -> None:
        self._budget.release(self._size)
        self._size = 0


async def stream_body(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the pieces of a body while they arrive. Raise IncompleteBody if the client disconnects."""
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise IncompleteBody(_GONE)
        if message.get("body"):
            yield message["body"]
        has_more = message.get("more_body", False)
