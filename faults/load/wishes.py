"""What producers ask for: jobs drawn by a seed, each with a key of its own that its payload carries everywhere."""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec

from ..history import Seen
from .life import Life


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    queue: str
    name: str = "work"
    lane: str = ""
    priority: int = 0
    delay_ms: int = 0
    tries: int = 0
    callback: str = ""  # URL
    group: str = ""  # of queues that are limited by it

    @property
    def limit_keys(self) -> tuple[str, ...]:
        return (limit_key(self.queue, self.group),) if self.group else ()

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = {"key": self.key}
        return found | ({"group": self.group, "limit_keys": list(self.limit_keys)} if self.group else {})

    def seen(self) -> Seen:
        return Seen(
            key=self.key, queue=self.queue, name=self.name, lane=self.lane, priority=self.priority, tries=self.tries,
            is_delayed=self.delay_ms > 0, is_callback_owed=bool(self.callback), limit_keys=self.limit_keys,
        )  # fmt: skip


def limit_key(queue: str, group: str) -> str:
    return f"{queue}/{group}"


class Menu(msgspec.Struct, frozen=True, kw_only=True):
    """What may be wished for. Queues whose name begins with `limited` have groups, those with `ordered` nothing that
    would change a place in line."""

    queues: tuple[str, ...] = ("plain",)
    groups: int = 2
    callback: str = ""  # URL of the receiver; empty: none
    most: int = 5  # jobs at once
    is_bare: bool = False  # nothing but keys: for front ends that know no more


class Wishes:
    """By the seed, but for the keys: those of a client that starts again are new ones."""

    def __init__(self, life: Life, menu: Menu) -> None:
        self._random = life.random
        self._menu = menu
        self._prefix = f"{life.client}-{time.monotonic_ns():x}"
        self._numbers = itertools.count(1)

    def some(self) -> list[Wish]:
        queue = self._random.choice(self._menu.queues)
        return [self.one(queue) for _ in range(self._random.randint(1, self._menu.most))]

    def one(self, queue: str) -> Wish:
        draw, key = self._random, f"{self._prefix}-{next(self._numbers)}"
        if self._menu.is_bare or queue.startswith("ordered"):
            return Wish(key=key, queue=queue)
        return Wish(
            key=key,
            queue=queue,
            priority=draw.choice((0, 0, 0, 1, -1)),
            delay_ms=draw.choice((0, 0, 0, 0, 50, 200)),
            tries=draw.choice((0, 0, 3)),
            callback=self._menu.callback if draw.random() < 0.3 else "",
            group=f"g{draw.randrange(self._menu.groups)}" if queue.startswith("limited") else "",
        )
