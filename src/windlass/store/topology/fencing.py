"""Lease tokens only grow, even past an engine that comes back with less than it had given out: a replica that was
promoted, or a node that lost its last second in a crash. Whoever connects to a process that has not served a partition
before leaps the token counter over all that may have been lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from windlass.store.connection.connection import CommandArgs, EngineReplyError

LEAP = 1 << 20  # more than are given out while a replica lags or an fsync is due; there are 2^48
FIELD = "served_by"  # of the root: the run id of the process
# A full engine must let itself be drained, also after a restart: plain commands would be refused.
_SCRIPT = """#!lua flags=allow-oom
if tonumber(ARGV[3]) > 0 then redis.call('INCRBY', KEYS[2], ARGV[3]) end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"""
_RUN_ID = re.compile(rb"run_id:([0-9a-f]+)")


def questions(roots: Sequence[str]) -> list[CommandArgs]:
    return [("INFO", "server"), *(("HGET", root, FIELD) for root in roots)]


def leaps(roots: Sequence[str], replies: Sequence[Any]) -> list[CommandArgs]:
    """What must be done before the first call. Two who do it at once leap twice, which harms nobody."""
    for reply in replies:
        if isinstance(reply, EngineReplyError):
            raise reply
    info, *served_by = replies
    found = _RUN_ID.search(info)
    if found is None:  # a provider that hides it
        return []
    commands: list[CommandArgs] = []
    for root, known in zip(roots, served_by, strict=True):
        if known != found[1]:
            leap = 0 if known is None else LEAP
            commands.append(("EVAL", _SCRIPT, 2, root, f"{root}:token", FIELD, found[1], leap))
    return commands
