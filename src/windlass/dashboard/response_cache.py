"""What several people look at is asked for once: an answer that is a moment old is good enough for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from windlass.web.app.app_state import AppState

T = TypeVar("T")
KEPT_S = 0.5


class _Answer:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.at_s = float("-inf")
        self.value: Any = None


_answers: WeakKeyDictionary[AppState, dict[str, _Answer]] = WeakKeyDictionary()


async def shared(state: AppState, what: str, ask: Callable[[], Awaitable[T]], kept_s: float = KEPT_S) -> T:
    """`what`: one of a few names, the same for everybody: what it answers must not depend on who asks."""
    answer = _answers.setdefault(state, {}).setdefault(what, _Answer())
    async with answer.turn:
        if time.monotonic() - answer.at_s > kept_s:
            answer.value = await ask()
            answer.at_s = time.monotonic()
        return answer.value  # type: ignore[no-any-return]


def forget(state: AppState) -> None:
    """Something was done here: whoever did it looks at once, and must see it."""
    _answers.pop(state, None)
