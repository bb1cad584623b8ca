"""Drivers of sans-I/O flows, with and without an event loop.

A flow is a generator. It yields effects and is sent their answers; errors are thrown into it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from windlass.core.errors import WindlassError

A = TypeVar("A")
T = TypeVar("T")


async def run(flow: Generator[A, Any, T], perform: Callable[[A], Awaitable[Any]], effect: A | None = None) -> T:
    """Run a flow. `effect` is the first effect of a flow that has started already."""
    try:
        effect = next(flow) if effect is None else effect
        while True:
            try:
                answer = await perform(effect)
            except WindlassError as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


def run_sync(flow: Generator[A, Any, T], perform: Callable[[A], Any], effect: A | None = None) -> T:
    """Run a flow without an event loop."""
    try:
        effect = next(flow) if effect is None else effect
        while True:
            try:
                answer = perform(effect)
            except WindlassError as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


# The first effect of a flow can be sent before the caller waits for its answer. `send` returns a receiver for the
# reply, or None if the effect cannot be sent ahead. If receiving fails, the effect is performed again as usual.


def start(
    flow: Generator[A, Any, T],
    perform: Callable[[A], Awaitable[Any]],
    send: Callable[[A], Coroutine[Any, Any, Any] | None],
) -> Coroutine[Any, Any, T]:
    """Send the first effect of a flow now and return a coroutine for the result."""
    try:
        first = next(flow)
    except StopIteration as end:
        return _result(cast(T, end.value))
    sent = send(first)
    if sent is None:
        return run(flow, perform, first)

    async def perform_received(effect: A) -> Any:
        if effect is not first:
            return await perform(effect)
        try:
            reply = await sent
        except WindlassError:
            return await perform(effect)
        return cast(Any, effect).parse(reply)

    return run(flow, perform_received, first)


async def _result(value: T) -> T:
    return value


def start_sync(
    flow: Generator[A, Any, T], perform: Callable[[A], Any], send: Callable[[A], Callable[[], Any] | None]
) -> Callable[[], T]:
    """Send the first effect of a flow now and return a function that waits for the result."""
    try:
        first = next(flow)
    except StopIteration as end:
        answer = cast(T, end.value)
        return lambda: answer
    receive = send(first)

    def perform_received(effect: A) -> Any:
        if effect is not first or receive is None:
            return perform(effect)
        try:
            reply = receive()
        except WindlassError:
            return perform(effect)
        return cast(Any, effect).parse(reply)

    return lambda: run_sync(flow, perform_received, first)
