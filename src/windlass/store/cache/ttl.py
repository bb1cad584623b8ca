"""Answers that are dear to find and may be some seconds old, as one process remembers them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from windlass.store.commands.command import EngineTime, Flow

T = TypeVar("T")
KEPT = 100


class TtlCache:
    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()

    def read(self, key: Hashable, for_ms: int, find: Callable[[int], Flow[T]]) -> Flow[T]:
        """What was found last, or it is found now; `find` is given the time."""
        now_ms: int = yield EngineTime()
        known = self._found.get(key)
        if known is not None and abs(now_ms - known[0]) < for_ms:
            return known[1]  # type: ignore[no-any-return]
        answer = yield from find(now_ms)
        self._found[key] = (now_ms, answer)
        self._found.move_to_end(key)
        while len(self._found) > KEPT:
            self._found.popitem(last=False)
        return answer
