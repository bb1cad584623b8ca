"""Deferred answers, as handlers of any protocol return them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class DeferredAnswer(msgspec.Struct, Generic[T, A_co], frozen=True):
    """Answer that waits for a single future, so that it needs no task."""

    future: asyncio.Future[T]
    to_answer: Callable[[asyncio.Future[T]], A_co]  # called with the future when it is done
