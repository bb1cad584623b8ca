"""How deeply is a document nested? Told in time proportional to its size, without recursion."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .job import Codec

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])  # the first bytes of arrays and maps in MessagePack


def is_too_deep(data: bytes, codec: Codec, most: int) -> bool:
    """Nested in more than `most` levels. What is malformed may be either: its decoder says what is wrong with it."""
    if codec is Codec.JSON:
        return data.count(b"[") + data.count(b"{") > most and _is_json_too_deep(data, most)
    openings = len(data) - len(data.translate(None, _CONTAINERS))  # an upper bound: they occur inside values too
    return codec is Codec.MSGPACK and openings > most and _is_msgpack_too_deep(data, most)


def _is_json_too_deep(data: bytes, most: int) -> bool:
    """Each round takes the innermost pairs away."""
    brackets = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    for _ in range(most):
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return bool(brackets)


def _is_msgpack_too_deep(data: bytes, most: int) -> bool:
    try:
        level: list[Any] = [msgspec.msgpack.decode(data)]
    except RecursionError:
        return True
    except msgspec.MsgspecError:
        return False
    for _ in range(most + 1):
        containers = [one for one in level if isinstance(one, list | dict)]
        if not containers:
            return False
        level = [child for one in containers for child in (one if isinstance(one, list) else [*one, *one.values()])]
    return True
