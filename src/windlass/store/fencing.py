"""Lease tokens only grow, even past an engine that comes back with less than it had given out: a replica that was
promoted, or a node that lost its last second in a crash. Whoever connects to a process that has not served a partition
before leaps the token counter over all that may have been lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .connection import Command, EngineReplyError

LEAP = 1 << 20  # more than are given out while a replica lags or an fsync is due; there are 2^48
FIELD = "served_by"  # of the root: the run id of the process
_RUN_ID = re.compile(rb"run_id:([0-9a-f]+)")


def questions(roots: Sequence[str]) -> list[Command]:
    return [("INFO", "server"), *(("HGET", root, FIELD) for root in roots)]


def leaps(roots: Sequence[str], replies: Sequence[Any]) -> list[Command]:
    """What must be done before the first call. Two who do it at once leap twice, which harms nobody."""
    for reply in replies:
        if isinstance(reply, EngineReplyError):
            raise reply
    info, *served_by = replies
    found = _RUN_ID.search(info)
    if found is None:  # a provider that hides it
        return []
    commands: list[Command] = []
    for root, known in zip(roots, served_by, strict=True):
        if known is not None and known != found[1]:
            commands.append(("INCRBY", f"{root}:token", LEAP))
        if known != found[1]:
            commands.append(("HSET", root, FIELD, found[1]))
    return commands
