"""Preparation of an engine for users that may not load functions: an admin loads them on every primary."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.errors import EngineUnsuitable
from windlass.store.connection.connection import CommandArgs, EngineReplyError
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.replies import is_library_loaded
from windlass.store.scripts import library

from .permissions import raise_explained
from .primaries import PrimaryReplies, query_primaries
from .topology import Topology


class PreparedNode(NamedTuple):
    node: Endpoint
    is_new: bool  # the functions were loaded now; else they were present


def prepare(topology: Topology, patience_s: float) -> list[PreparedNode]:
    """Load the functions of this version on every primary, which copies them to its replicas."""
    load: CommandArgs = ("FUNCTION", "LOAD", library().source)
    return [_read_node(found) for found in query_primaries(topology, [load], patience_s)]


def _read_node(found: PrimaryReplies) -> PreparedNode:
    (reply,) = found.replies
    if not isinstance(reply, EngineReplyError):
        return PreparedNode(found.node, is_new=True)
    if "unknown command" in str(reply):
        raise EngineUnsuitable(
            f"{found.node} offers no functions, so there is nothing to prepare: Windlass calls scripts there."
        )
    if not is_library_loaded(reply):
        raise_explained(reply)
    return PreparedNode(found.node, is_new=False)
