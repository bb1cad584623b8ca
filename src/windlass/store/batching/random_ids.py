"""Random numbers for ids, drawn from the system in blocks. A forked child draws its own."""

from __future__ import annotations

import os
import struct

_BLOCK = struct.Struct(">128Q")
_drawn: list[int] = []


def random_64() -> int:
    try:
        return _drawn.pop()
    except IndexError:
        _drawn.extend(_BLOCK.unpack(os.urandom(_BLOCK.size)))
        return _drawn.pop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)
