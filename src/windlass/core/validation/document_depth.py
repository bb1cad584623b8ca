"""How deeply is a document nested? Told in time and memory proportional to its size, without recursion."""

from __future__ import annotations

import re
from itertools import accumulate

from windlass.core.job import Codec

# A string that nothing ends goes to the end of the data, and no character is looked at twice: the quotes of hostile
# text would otherwise cost the square of their number.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = tuple(1 if byte in b"[{" else -1 for byte in range(256))
_QUOTES_MAX = 100_000  # what stands between them becomes an object each, for a moment
_INNERMOST = (b"{}", b"[]", b"{}", b"[]")
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])  # the first bytes of arrays and maps in MessagePack
STEPS_MAX = 2_000_000  # about a second; a document that takes more of them is no better than a deep one


def is_too_deep(data: bytes, codec: Codec, most: int) -> bool:
    """Nested in more than `most` levels, or made of millions of tiny values in MessagePack. What is malformed may be
    either: its decoder says what is wrong with it."""
    if codec is Codec.JSON:
        return data.count(b"[") + data.count(b"{") > most and _is_json_too_deep(data, most)
    openings = len(data) - len(data.translate(None, _CONTAINERS))  # an upper bound: they occur inside values too
    return codec is Codec.MSGPACK and openings > most and _is_msgpack_too_deep(data, most)


def _is_json_too_deep(data: bytes, most: int) -> bool:
    brackets = _without_strings(data).translate(None, _NO_BRACKETS)
    left = brackets
    for pair in _INNERMOST:  # a long list of flat things: leaving out a pair everywhere makes it one level flatter
        left = left.replace(pair, b"")
    if len(left) + len(_INNERMOST) <= most:
        return False
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > most


def _without_strings(data: bytes) -> bytes:
    if b"\\" in data or data.count(b'"') > _QUOTES_MAX:
        return _STRINGS.sub(b"", data)
    return b"".join(data.split(b'"')[::2])


# Of the first byte of a value in MessagePack: how many bytes it has at least; how many bytes after the first tell what
# else there is; and how many values are inside for each that is told: none, then it tells bytes.
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
    """Walks over the values without making them: a document of a few bytes per value would be a hundred times as large
    in memory."""
    left = [1]  # values still to come: of the document, and of every container that is open
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
            at, inside = _after(data, at)
            if inside is not None:
                left.append(inside)
            if len(left) > most + 1:
                return True
    return True


def _after(data: bytes, at: int) -> tuple[int, int | None]:
    """Where the value that begins here is over, or the first value inside of it begins; how many of these there are,
    None where there cannot be any."""
    first = data[at]
    if 0x80 <= first < 0xA0:
        return at + 1, first - 0x90 if first >= 0x90 else 2 * (first - 0x80)
    size, width, each = _SHAPES[first]
    told = int.from_bytes(data[at + 1 : at + 1 + width]) if width else 0
    return (at + size, told * each) if each else (at + size + told, None)
