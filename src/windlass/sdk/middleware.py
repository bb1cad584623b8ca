"""The onion: middlewares are called around each job's code, the first registered outermost, on the worker's event loop
whatever the pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from .context import Context

# Called with the job's context and the next layer; what it returns is the job's result, what it raises its failure.
Middleware: TypeAlias = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
