"""Ids of lease holders: workers and anonymous holders."""

from __future__ import annotations

import os

NO_ID = bytes(16)
ANONYMOUS = bytes(6) + b"\xff\xff"  # prefix of the ids of anonymous holders


def anonymous_holder() -> bytes:
    """Return a new id for a holder that is no worker. Jobs show no worker for it, but the engine can list the jobs that
    it holds."""
    return ANONYMOUS + os.urandom(8)


def visible_worker(holder: bytes) -> bytes | None:
    """Return the worker as jobs show it; None for an anonymous holder."""
    return None if holder == NO_ID or holder.startswith(ANONYMOUS) else holder
