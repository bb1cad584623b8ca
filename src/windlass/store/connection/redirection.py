"""Calls at a node that the engine names for one call (ASK): it imports the slot, and may lack the code of the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from windlass.store.topology.permissions import raise_explained

from .connection import CommandArgs, EngineReplyError

LoadCommand: TypeAlias = Callable[[CommandArgs], CommandArgs | None]  # for the code that a call needs


def no_code(_call: CommandArgs) -> None:
    """Return the load command of calls that need no code."""


def asking_commands(commands: Sequence[CommandArgs], load_command: LoadCommand) -> list[CommandArgs]:
    """Return the commands for the named node: it accepts calls for the slot after ASKING."""
    return [load_command(commands[0]) or ("PING",), ("ASKING",), *commands]


def asking_result(replies: list[Any], is_single: bool) -> Any:
    raise_first_error(replies[1:3])  # not of the first: a library is mostly loaded already
    return replies[2] if is_single else replies[2:]


def raise_first_error(replies: Sequence[Any]) -> None:
    for reply in replies:
        if reply.__class__ is EngineReplyError:
            raise_explained(reply)
