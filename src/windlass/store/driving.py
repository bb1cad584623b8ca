"""Goes through a flow: a generator that yields what it wants to know and is sent the answers, refusals thrown into it.
Written once, it is driven with an event loop or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar, cast

from ..core.errors import WindlassError

A = TypeVar("A")
T = TypeVar("T")


async def drive(flow: Generator[A, Any, T], perform: Callable[[A], Awaitable[Any]]) -> T:
    try:
        asked = next(flow)
        while True:
            try:
                answer = await perform(asked)
            except WindlassError as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


def drive_now(flow: Generator[A, Any, T], perform: Callable[[A], Any], asked: A | None = None) -> T:
    """`asked`: what a flow that has begun has asked first."""
    try:
        asked = next(flow) if asked is None else asked
        while True:
            try:
                answer = perform(asked)
            except WindlassError as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)
