"""Random halves of job ids, read from the operating system in blocks. A forked child reads its own block."""

from __future__ import annotations

import os

from windlass.core.ids import make_tails

_BLOCK = 128
_tails: list[bytes] = []


def random_tail() -> bytes:
    """Return the second half of a new id."""
    try:
        return _tails.pop()
    except IndexError:
        _tails.extend(make_tails(_BLOCK, os.urandom))
        return _tails.pop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tails.clear)
