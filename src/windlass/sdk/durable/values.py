"""Values of durable calls: encoded for storage, and decoded as the type that the code declares."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CodeType
from typing import Any, get_args, get_origin
from weakref import WeakKeyDictionary

from windlass.core.job import Blob
from windlass.sdk.tasks.annotations import Untyped, resolve_annotation
from windlass.sdk.tasks.codec import Unreadable, decode, encode

_AWAITABLES = (Awaitable, Coroutine, Generator, asyncio.Future, asyncio.Task)
_known: WeakKeyDictionary[CodeType, Any] = WeakKeyDictionary()


class UnreadableStep(Unreadable):
    """A stored value that is not of the type that the code declares. A further attempt reads the same value."""


def encode_value(value: object) -> Blob | None:
    return None if value is None else encode(value)


def decode_value(name: str, blob: Blob | None, kind: Any) -> Any:
    """Decode a stored value. The error names the call, because its annotation may be the reason."""
    if blob is None:
        return None
    try:
        return decode(blob, kind)
    except Unreadable as error:
        raise UnreadableStep(f"The stored value of {name!r} is not a {_describe(kind)}: {error}") from error


def _describe(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def result_type(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return the type that a function declares for its result, or Any."""
    while isinstance(function, functools.partial):
        function = function.func
    if function is asyncio.to_thread and args and callable(args[0]):
        return result_type(args[0], args[1:])
    if not inspect.isroutine(function):
        function = type(function).__call__
    returns = getattr(function, "__annotations__", {}).get("return", Any)
    code = getattr(function, "__code__", None)
    if returns is Any or code is None:
        return Any
    if code not in _known:
        _known[code] = _awaited(resolve_annotation(function, returns, _closure(function)))
    return _known[code]


def _awaited(kind: Any) -> Any:
    """Return the result type of an awaitable, for plain functions that return one."""
    if isinstance(kind, Untyped):
        return Any
    return get_args(kind)[-1] if get_origin(kind) in _AWAITABLES and get_args(kind) else kind


def _closure(function: Any) -> dict[str, Any]:
    """Return the local names that a function uses, which its annotation may use, too."""
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}
