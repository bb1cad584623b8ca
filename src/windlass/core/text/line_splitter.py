"""Line splitter: lines from chunks of bytes, each with a maximum length. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.errors import TooLarge


class LineSplitter:
    """Incremental splitter of one byte stream."""

    def __init__(self, line_max: int) -> None:
        self._line_max = line_max
        self._rest: list[bytes] = []  # pieces of an incomplete line, joined once when it ends
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete. Raise TooLarge for a line that is too long; feed nothing afterwards."""
        first, *others = chunk.split(b"\n")
        self._add(first)
        lines: list[bytes] = []
        for piece in others:
            lines.append(self._pop_line())
            self._add(piece)
        return lines

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._line_max:
            raise TooLarge(f"A line has more than {self._line_max} bytes.")
        if piece:
            self._rest.append(piece)

    def _pop_line(self) -> bytes:
        line = b"".join(self._rest)
        self._rest, self._length = [], 0
        return line

    def end(self) -> list[bytes]:
        """Return the last line if it has no line feed."""
        return [self._pop_line()] if self._rest else []


def batches(lines: list[bytes], most: int) -> Iterator[list[bytes]]:
    for start in range(0, len(lines), most):
        yield lines[start : start + most]
