"""TTL cache for expensive reads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from windlass.store.commands.command import EngineTime, Flow

T = TypeVar("T")
ANSWERS_MAX = 100


class TtlCache:
    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()

    def read(
        self,
        key: Hashable,
        for_ms: int,
        find: Callable[[int], Flow[T]],
        is_expensive: Callable[[T], bool] = lambda _: True,
    ) -> Flow[T]:
        """Return the cached answer, if it is younger than `for_ms`; else call `find` with the engine time and cache its
        answer, if it was expensive."""
        now_ms: int = yield EngineTime()
        cached = self._answers.get(key)
        if cached is not None and abs(now_ms - cached[0]) < for_ms:
            return cached[1]  # type: ignore[no-any-return]
        answer = yield from find(now_ms)
        now_ms = yield EngineTime()  # an answer that took longer than `for_ms` is kept too
        if not is_expensive(answer):
            self._answers.pop(key, None)
            return answer
        self._answers[key] = (now_ms, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)
        return answer

    def forget(self, key: Hashable) -> None:
        """Drop the answer after a change that must be visible at once."""
        self._answers.pop(key, None)
