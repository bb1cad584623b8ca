"""Splits the bytes of a pipe into lines. A line that is too long is skipped in constant memory."""

from __future__ import annotations

from typing import NamedTuple

LINE_MAX = 4 * 1024 * 1024  # room for a payload of a megabyte in the longest JSON escapes


class TooLong(NamedTuple):
    """Stands for a line that was skipped."""

    most: int = LINE_MAX

    def __str__(self) -> str:
        return f"A line has more than {self.most} bytes; it was skipped."


class LineBuffer:
    """`feed` returns the complete lines except blank ones, `close` a last line without a line end."""

    def __init__(self, most: int = LINE_MAX) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        first, *rest = data.split(b"\n")
        if not rest:
            self._append(first)
            return []
        self._append(first)
        lines = [self._take_line(), *(self._check_length(line) for line in rest[:-1])]
        self._append(rest[-1])
        return [line for line in lines if line]

    def close(self) -> list[bytes | TooLong]:
        line = self._take_line()
        return [line] if line else []

    def _append(self, part: bytes) -> None:
        if self._is_skipping or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            self._parts.clear()
            self._is_skipping = True

    def _take_line(self) -> bytes | TooLong | None:
        line = TooLong(self._most) if self._is_skipping else b"".join(self._parts).strip()
        self._parts, self._size, self._is_skipping = [], 0, False
        return line

    def _check_length(self, line: bytes) -> bytes | TooLong:
        return TooLong(self._most) if len(line) > self._most else line.strip()
