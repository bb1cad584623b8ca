"""Middlewares: async functions called around each job's code, the first registered outermost.

They run on the worker's event loop, whatever the pool of the task.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from windlass.core.errors import BadInput
from windlass.sdk.context import Context

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
# Called with the job's context and the next layer. Its return value is the job's result; an exception is its failure.
Middleware: TypeAlias = Callable[[Context, CallNext], Awaitable[Any]]
M = TypeVar("M", bound=Middleware)


def require_async_function(function: Any) -> None:
    """Refuse a middleware that is not async when it is registered, not when jobs fail."""
    called = function if inspect.isroutine(function) else getattr(function, "func", None) or type(function).__call__
    if not callable(function) or not inspect.iscoroutinefunction(called):
        raise BadInput("A middleware is an async function: async def timed(ctx, call_next): return await call_next().")
