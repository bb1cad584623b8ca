"""Slips: calls that draw numbers say by them which call they are, so that one that is repeated draws the same again
(lua/lib/numbers.lua). A slip is used by one call at a time; the engine remembers the last one of each."""

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
        self._places = itertools.count()
        self._calls = itertools.count(1)

    def of(self, call: Command[Any] | BatchCommand[Any]) -> contextlib.AbstractContextManager[RequestId]:
        """What stands before the items of a call, as often as it is sent; nothing for one that draws none."""
        return self._one() if call.reserves_numbers else _NONE

    @contextlib.contextmanager
    def _one(self) -> Iterator[RequestId]:
        place = self._free.pop() if self._free else next(self._places)
        try:
            # The process is part of its name: one that was forked off has the same slips.
            yield f"N{next(self._calls)}", f"{self._owner}-{os.getpid()}-{place}"
        finally:
            self._free.append(place)
