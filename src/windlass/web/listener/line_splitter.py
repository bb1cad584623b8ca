"""Lines out of chunks, with a bound on each: no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.errors import TooLarge


class LineSplitter:
    def __init__(self, line_max: int) -> None:
        self._line_max = line_max
        self._rest: list[bytes] = []  # of a line that has begun; joined once, however small its pieces are
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete. One that is too long ends it all: where the next begins, nobody knows."""
        first, *others = chunk.split(b"\n")
        self._add(first)
        lines: list[bytes] = []
        for piece in others:
            lines.append(self._taken())
            self._add(piece)
        return lines

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._line_max:
            raise TooLarge(f"A line has more than {self._line_max} bytes.")
        if piece:
            self._rest.append(piece)

    def _taken(self) -> bytes:
        line = b"".join(self._rest)
        self._rest, self._length = [], 0
        return line

    def end(self) -> list[bytes]:
        """The last line, if nothing ended it."""
        return [self._taken()] if self._rest else []


def batches(lines: list[bytes], most: int) -> Iterator[list[bytes]]:
    for start in range(0, len(lines), most):
        yield lines[start : start + most]
