"""Lines out of chunks, with a bound on each: no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.errors import TooLarge


class Lines:
    def __init__(self, line_max: int) -> None:
        self._line_max = line_max
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete. One that is too long ends it all: where the next begins, nobody knows."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > self._line_max or any(len(line) > self._line_max for line in lines):
            raise TooLarge(f"A line has more than {self._line_max} bytes.")
        return lines

    def end(self) -> list[bytes]:
        """The last line, if nothing ended it."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def batches(lines: list[bytes], most: int) -> Iterator[list[bytes]]:
    for start in range(0, len(lines), most):
        yield lines[start : start + most]
