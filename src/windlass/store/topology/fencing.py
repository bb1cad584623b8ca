"""Fencing of lease tokens: they only grow, even if the engine lost its last writes.

A promoted replica, or a node that lost its last second in a crash, may have a lower token counter than before. So the
first client that connects to an engine process that is new to a partition advances the counter past all tokens that
may have been lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from windlass.store import keys
from windlass.store.connection.connection import CommandArgs, EngineReplyError

from .namespace_format import FIELDS, check_format

TOKEN_LEAP = 1 << 20  # more than are issued while a replica lags or an fsync is due; there are 2^48
FIELD = "served_by"  # of the root: the run id of the process
# It must be possible to drain a full engine, also after a restart; it would refuse plain commands.
_SCRIPT = """#!lua flags=allow-oom
if tonumber(ARGV[3]) > 0 then redis.call('INCRBY', KEYS[2], ARGV[3]) end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"""
_RUN_ID = re.compile(rb"run_id:([0-9a-f]+)")


def queries(roots: Sequence[str]) -> list[CommandArgs]:
    return [("INFO", "server"), *(("HMGET", root, FIELD, *FIELDS) for root in roots)]


def fence_commands(roots: Sequence[str], replies: Sequence[Any]) -> list[CommandArgs]:
    """Return the commands to run before the first call. Two clients at once advance the counter twice, without harm.

    Raise if the format of the namespace was raised beyond this version since the store was opened."""
    for reply in replies:
        if isinstance(reply, EngineReplyError):
            raise reply
    info, *marks = replies
    for root, (_, *fields) in zip(roots, marks, strict=True):
        check_format(keys.namespace_of(root), fields)
    found = _RUN_ID.search(info)
    if found is None:  # the provider hides it
        return []
    commands: list[CommandArgs] = []
    for root, (known, *_) in zip(roots, marks, strict=True):
        if known != found[1]:
            leap = 0 if known is None else TOKEN_LEAP
            commands.append(("EVAL", _SCRIPT, 2, root, keys.token(root), FIELD, found[1], leap))
    return commands
