"""Stubs of steps, for tests: functions or values in the place of a step's function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass


def find_function(app: Windlass, name: str, function: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """Return the function that a test has put in the place of a step, or the function itself."""
    stub = app.step_stubs.get(name) if app.step_stubs else None
    if stub is None:
        return function
    return _as_async(stub) if is_async else stub


def _as_async(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stub for an async task. It may be a plain function."""

    async def call(*args: Any) -> Any:
        value = stub(*args)
        return await value if inspect.isawaitable(value) else value

    return call
