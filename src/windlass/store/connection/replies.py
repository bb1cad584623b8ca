"""What the engine's replies to a call of a function mean beyond the answer itself."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import EngineFull
from windlass.store.commands.command import NotConfirmed

from .connection import CommandArgs, EngineReplyError


def check_library_missing(error: EngineReplyError) -> None:
    """Everything else is raised."""
    if error.kind == "OOM":
        raise EngineFull() from error
    if "Function not found" not in str(error):
        raise error


def load_without_memory_limit(load: CommandArgs, memory_max: int) -> list[CommandArgs]:
    """Load functions into an engine of ours that is full: without them it could not even be drained."""
    return [("CONFIG", "SET", "maxmemory", 0), load, ("CONFIG", "SET", "maxmemory", memory_max)]


def is_library_loaded(error: EngineReplyError) -> bool:
    """Somebody else was faster."""
    return "already exists" in str(error)


def mark_unconfirmed(replies: list[Any]) -> Any:
    """Marks each item's answer with whether the asked-for durability was reached (the last reply says how far)."""
    answers, confirmation = replies
    local_or_replicas = confirmation[0] if isinstance(confirmation, list) else confirmation
    return answers if local_or_replicas >= 1 else [NotConfirmed(one) for one in answers]
