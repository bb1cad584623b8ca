"""Effects of durable calls and their drivers. A call is written once as a generator and runs with or without an event
loop; an effect can be awaited, or waited for in a thread."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from windlass.core.errors import BadInput
from windlass.service import Service

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

T = TypeVar("T")

current_step: ContextVar[str] = ContextVar("windlass_step", default="")  # name of the step whose function runs


class Effect(Protocol):
    def __await__(self) -> Generator[Any, None, Any]: ...

    def wait(self) -> Any: ...


Effects: TypeAlias = Generator[Effect, Any, T]


async def run(flow: Effects[T]) -> T:
    """Run a durable call on the event loop. Exceptions of effects are raised inside the call."""
    try:
        effect = next(flow)
        while True:
            try:
                answer = await effect
            except BaseException as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


def run_sync(flow: Effects[T]) -> T:
    """Run a durable call in a thread."""
    try:
        effect = next(flow)
        while True:
            try:
                answer = effect.wait()
            except BaseException as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as end:
        return cast(T, end.value)


class GetService:
    """Service for the running event loop, or for this thread."""

    def __init__(self, app: Windlass) -> None:
        self._app = app

    def __await__(self) -> Generator[Any, None, Service]:
        return self._app.aservice().__await__()

    def wait(self) -> Service:
        return self._app.service


class Pause:
    """Pause in place: the slot stays occupied."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = max(0.0, pause_s)

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.sleep(self._pause_s).__await__()

    def wait(self) -> None:
        time.sleep(self._pause_s)


class UnfitFunction(BadInput):
    """A function that cannot be a step of this task. A further try does not help."""


class FunctionCall:
    """Call of the function of a step."""

    def __init__(self, step: str, function: Callable[..., Any], args: tuple[Any, ...], timeout_ms: int) -> None:
        self._step = step
        self._function = function
        self._args = args
        self._timeout_ms = timeout_ms  # 0: none

    def __await__(self) -> Generator[Any, None, Any]:
        return self._call().__await__()

    async def _call(self) -> Any:
        token = current_step.set(self._step)
        try:
            awaited = self._function(*self._args)
            if not inspect.isawaitable(awaited):
                raise UnfitFunction(
                    f"The function of step {self._step!r} is not async, and its task is. Write "
                    f"`await ctx.step({self._step!r}, asyncio.to_thread, function, …)`."
                )
            return await (self._limited(awaited) if self._timeout_ms else awaited)
        finally:
            current_step.reset(token)

    async def _limited(self, awaited: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as limit:
                return await awaited
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"Step {self._step!r} took longer than its timeout.") from None
            raise

    def wait(self) -> Any:
        if self._timeout_ms:
            raise UnfitFunction(
                f"Step {self._step!r}: timeout needs an async task, because a thread cannot be stopped safely. Use "
                "the timeout of the library that the function calls."
            )
        token = current_step.set(self._step)
        try:
            value = self._function(*self._args)
            if inspect.iscoroutine(value):
                value.close()
                raise UnfitFunction(f"The function of step {self._step!r} is async, and its task is not.")
            return value
        finally:
            current_step.reset(token)
