"""Ids of those who hold leases: workers, and holders that are nobody to the world."""

from __future__ import annotations

import os

NOBODY = bytes(16)
ANONYMOUS = bytes(6) + b"\xff\xff"  # how the ids of unnamed holders begin


def anonymous_holder() -> bytes:
    """A new id for the leases of one take. Jobs show no worker for it; the engine can be asked what it holds."""
    return ANONYMOUS + os.urandom(8)


def named(holder: bytes) -> bytes | None:
    """The worker, as jobs show it."""
    return None if holder == NOBODY or holder.startswith(ANONYMOUS) else holder
