"""Server-sent events out of bytes: no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.core.errors import TooLarge

FRAME_MAX = 4 * 1024 * 1024  # bytes of one event


class Frame(NamedTuple):
    position: str  # empty: as before
    data: bytes  # empty: it only tells the position, or that the server lives


class Frames:
    """Lines end with a line feed here: it is our own server that writes them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        *complete, self._rest = (self._rest + chunk).split(b"\n\n")
        if len(self._rest) > FRAME_MAX:
            raise TooLarge("The server sent an event that is too large.")
        for text in complete:
            yield _frame(text)


def _frame(text: bytes) -> Frame:
    position, data = "", []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            position = value.decode()
        elif field == b"data":
            data.append(value)
    return Frame(position, b"\n".join(data))
