"""Random numbers for ids, read from the operating system in blocks. A forked child reads its own block."""

from __future__ import annotations

import os
import struct

_BLOCK = struct.Struct(">128Q")
_numbers: list[int] = []


def random_64() -> int:
    try:
        return _numbers.pop()
    except IndexError:
        _numbers.extend(_BLOCK.unpack(os.urandom(_BLOCK.size)))
        return _numbers.pop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_numbers.clear)
