"""Answers the questions of a flow that is written once: with an event loop, or without one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar, cast

from ..core.errors import WindlassError
from ..store.asked import Asked

T = TypeVar("T")
Questions: TypeAlias = Generator[Asked[Any], Any, T]


def driven(flow: Questions[T]) -> T:
    try:
        asked = next(flow)
        while True:
            try:
                answer = asked.wait()
            except WindlassError as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(answer)
    except StopIteration as done:
        return cast(T, done.value)


async def adriven(flow: Questions[T]) -> T:
    try:
        asked = next(flow)
        while True:
            try:
                answer = await asked
            except WindlassError as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(answer)
    except StopIteration as done:
        return cast(T, done.value)
