"""Tasks shared by tests of flows."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from windlass import Outcome, Windlass


@dataclass
class Sum:
    total: int


def flow_tasks(app: Windlass) -> Any:
    @app.task
    async def double(number: int) -> int:
        return number * 2

    @app.task
    def add(number: int, other: int = 1) -> Sum:
        return Sum(number + other)

    @app.task
    async def show(found: Sum, *, mark: str = "") -> str:
        return f"{mark}{found.total}"

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task
    async def known(numbers: list[int | None]) -> list[int | None]:
        return numbers

    @app.task
    async def outcomes(found: list[Outcome[int]]) -> list[str]:
        return [f"{outcome.state} {outcome.value} {outcome.error.get('type')}" for outcome in found]

    @app.task(retry=1)
    async def fail(word: str) -> int:
        raise ValueError(word)

    @app.task
    async def nothing() -> None:
        pass

    @app.task
    async def look(value: Any) -> str:
        return repr(value)

    @app.task(queue="idle")  # no worker serves this queue
    async def idle() -> int:
        return 0

    return SimpleNamespace(**app.tasks)
