"""Goes through a flow: a generator that yields what it wants to know and is sent the answers, refusals thrown into it.
Written once, it is driven with an event loop or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from windlass.core.errors import WindlassError

A = TypeVar("A")
T = TypeVar("T")


async def run(flow: Generator[A, Any, T], perform: Callable[[A], Awaitable[Any]], asked: A | None = None) -> T:
    """`asked`: what a flow that has begun has asked first."""
    try:
        asked = next(flow) if asked is None else asked
        while True:
            try:
                answer = await perform(asked)
            except WindlassError as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


def run_sync(flow: Generator[A, Any, T], perform: Callable[[A], Any], asked: A | None = None) -> T:
    """The same without an event loop."""
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


# What a flow asks first may be sent before anybody waits for its answer: `send` gives what receives the reply, or None
# where it cannot be sent ahead. Where no reply comes it is asked again in the ordinary way.


def start(
    flow: Generator[A, Any, T],
    perform: Callable[[A], Awaitable[Any]],
    send: Callable[[A], Coroutine[Any, Any, Any] | None],
) -> Coroutine[Any, Any, T]:
    try:
        first = next(flow)
    except StopIteration as end:
        return _answered(cast(T, end.value))
    sent = send(first)
    if sent is None:
        return run(flow, perform, first)

    async def received(asked: A) -> Any:
        if asked is not first:
            return await perform(asked)
        try:
            reply = await sent
        except WindlassError:
            return await perform(asked)
        return cast(Any, asked).answer(reply)

    return run(flow, received, first)


async def _answered(value: T) -> T:
    return value


def start_sync(
    flow: Generator[A, Any, T], perform: Callable[[A], Any], send: Callable[[A], Callable[[], Any] | None]
) -> Callable[[], T]:
    try:
        first = next(flow)
    except StopIteration as end:
        answer = cast(T, end.value)
        return lambda: answer
    receive = send(first)

    def received(asked: A) -> Any:
        if asked is not first or receive is None:
            return perform(asked)
        try:
            reply = receive()
        except WindlassError:
            return perform(asked)
        return cast(Any, asked).answer(reply)

    return lambda: run_sync(flow, received, first)
