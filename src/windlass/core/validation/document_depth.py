"""Nesting depth of a document, in time and memory proportional to its size, without recursion."""

from __future__ import annotations

import re
from itertools import accumulate

from windlass.core.job import Codec

# An unterminated string extends to the end of the data, and no character is scanned twice. Otherwise the quotes of
# hostile text would cost the square of their number.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = tuple(1 if byte in b"[{" else -1 for byte in range(256))
_QUOTES_MAX = 100_000  # each part between quotes becomes a temporary object
_INNERMOST = (b"{}", b"[]", b"{}", b"[]")
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])  # the first bytes of arrays and maps in MessagePack
STEPS_MAX = 2_000_000  # about a second; a document that needs more steps is treated as too deep


def is_too_deep(data: bytes, codec: Codec, most: int) -> bool:
    """Return whether a document has more than `most` levels, or consists of millions of tiny MessagePack values.

    The result for malformed data is undefined: the decoder reports its error.
    """
    if codec is Codec.JSON:
        return data.count(b"[") + data.count(b"{") > most and _is_json_too_deep(data, most)
    openings = len(data) - len(data.translate(None, _CONTAINERS))  # an upper bound: these bytes occur in values, too
    return codec is Codec.MSGPACK and openings > most and _is_msgpack_too_deep(data, most)


def _is_json_too_deep(data: bytes, most: int) -> bool:
    brackets = _without_strings(data).translate(None, _NO_BRACKETS)
    left = brackets
    for pair in _INNERMOST:  # fast path for long flat lists: removing innermost pairs lowers the depth by one level
        left = left.replace(pair, b"")
    if len(left) + len(_INNERMOST) <= most:
        return False
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > most


def _without_strings(data: bytes) -> bytes:
    if b"\\" in data or data.count(b'"') > _QUOTES_MAX:
        return _STRINGS.sub(b"", data)
    return b"".join(data.split(b'"')[::2])


# For each first byte of a MessagePack value: its minimum size; the width of its length field; and the number of inner
# values per unit of that length (0: the length counts bytes).
_SHAPES: list[tuple[int, int, int]] = [(1, 0, 0)] * 256
_SHAPES[0xA0:0xC0] = [(1 + length, 0, 0) for length in range(32)]
_SHAPES[0xC4:0xC7] = [(1 + width, width, 0) for width in (1, 2, 4)]  # bin
_SHAPES[0xC7:0xCA] = [(2 + width, width, 0) for width in (1, 2, 4)]  # ext
_SHAPES[0xCA:0xD4] = [(size, 0, 0) for size in (5, 9, 2, 3, 5, 9, 2, 3, 5, 9)]  # floats, integers
_SHAPES[0xD4:0xD9] = [(size, 0, 0) for size in (3, 4, 6, 10, 18)]  # fixext
_SHAPES[0xD9:0xDC] = [(1 + width, width, 0) for width in (1, 2, 4)]  # str
_SHAPES[0xDC:0xDE] = [(1 + width, width, 1) for width in (2, 4)]  # array
_SHAPES[0xDE:0xE0] = [(1 + width, width, 2) for width in (2, 4)]  # map
_small_values = re.compile(rb"[\x00-\x7f\xa0\xc0\xc2\xc3\xe0-\xff]*+").match


def _is_msgpack_too_deep(data: bytes, most: int) -> bool:
    """Scan the values without creating them: a document with few bytes per value needs a hundred times its size."""
    left = [1]  # remaining values of the document, and of every open container
    at = 0
    for _ in range(STEPS_MAX):
        while left and not left[-1]:
            left.pop()
        if not left or at >= len(data):
            return False
        run_end = _small_values(data, at, at + left[-1]).end()  # type: ignore[union-attr]
        left[-1] -= run_end - at
        at = run_end
        if left[-1] and at < len(data):
            left[-1] -= 1
            at, inside = _skip_value(data, at)
            if inside is not None:
                left.append(inside)
            if len(left) > most + 1:
                return True
    return True


def _skip_value(data: bytes, at: int) -> tuple[int, int | None]:
    """Return the end of the value at this offset, or the start of its first inner value, and the number of those.

    The number is None for a value that is not a container.
    """
    first = data[at]
    if 0x80 <= first < 0xA0:
        return at + 1, first - 0x90 if first >= 0x90 else 2 * (first - 0x80)
    size, width, each = _SHAPES[first]
    length = int.from_bytes(data[at + 1 : at + 1 + width]) if width else 0
    return (at + size, length * each) if each else (at + size + length, None)
