"""Replies to function calls: missing library, full memory, unconfirmed durability."""

from __future__ import annotations

from typing import Any

from windlass.store.commands.command import NotConfirmed

from .connection import CommandArgs, EngineReplyError


def is_command_unknown(error: EngineReplyError, command: str) -> bool:
    """Tell whether the engine refused a command because it does not offer it."""
    text = str(error).lower()
    return "unknown" in text and "command" in text and command.lower() in text


def load_without_memory_limit(load: CommandArgs, memory_max: int) -> list[CommandArgs]:
    """Return commands that load the functions into a full embedded engine. Without them it could not be drained."""
    return [("CONFIG", "SET", "maxmemory", 0), load, ("CONFIG", "SET", "maxmemory", memory_max)]


def is_library_loaded(error: EngineReplyError) -> bool:
    """Tell whether the load failed because another process has loaded the library already."""
    return "already exists" in str(error)


def mark_unconfirmed(replies: list[Any]) -> Any:
    """Return the answers, each wrapped in `NotConfirmed` if the last reply shows that durability was not reached."""
    answers, confirmation = replies
    local_or_replicas = confirmation[0] if isinstance(confirmation, list) else confirmation
    return answers if local_or_replicas >= 1 else [NotConfirmed(answer) for answer in answers]
