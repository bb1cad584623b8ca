"""Request ids of commands that reserve job numbers, so that a repeated command reserves the same numbers again.

The engine remembers the last request of each name (lua/lib/numbers.lua); one command at a time uses a name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

from windlass.store.commands.command import Argument, BatchCommand, Command

RequestId: TypeAlias = tuple[Argument, ...]
_NONE: contextlib.nullcontext[RequestId] = contextlib.nullcontext(())


class RequestIds:
    def __init__(self) -> None:
        self._owner = os.urandom(12).hex()
        self._free: list[int] = []
        self._names = itertools.count()
        self._requests = itertools.count(1)

    def assign(self, command: Command[Any] | BatchCommand[Any]) -> contextlib.AbstractContextManager[RequestId]:
        """Return the request id that precedes the items each time the command is sent; empty if it needs none."""
        return self._assign_new() if command.reserves_numbers else _NONE

    @contextlib.contextmanager
    def _assign_new(self) -> Iterator[RequestId]:
        name = self._free.pop() if self._free else next(self._names)
        try:
            # The process id is part of the name, because a forked process has the same owner.
            yield f"N{next(self._requests)}", f"{self._owner}-{os.getpid()}-{name}"
        finally:
            self._free.append(name)
