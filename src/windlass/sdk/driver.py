"""Answers the questions of a flow that is written once: with an event loop, or without one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from windlass.store.driver import drive, drive_now
from windlass.store.operation import Asked

T = TypeVar("T")
Questions: TypeAlias = Generator[Asked[Any], Any, T]


def driven(flow: Questions[T]) -> T:
    return drive_now(flow, lambda asked: asked.wait())


async def adriven(flow: Questions[T]) -> T:
    return await drive(flow, lambda asked: asked)
