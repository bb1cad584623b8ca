"""What a function's annotations mean at run time. Each is resolved by itself: one that names what only a type checker
imports must not cost the others their types."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec


class Untyped(msgspec.Struct, frozen=True):
    """A parameter that nothing is known about, and why."""

    why: str


def resolve_annotation(function: Callable[..., Any], annotation: Any, scope: Mapping[str, Any]) -> Any:
    """The annotation's type, or Untyped. `scope`: names beyond the function's module, such as where it was declared."""
    if annotation is inspect.Parameter.empty:
        return Untyped("it has no annotation")
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, _globals_of(function), dict(scope), include_extras=True)["it"]
    except Exception as error:  # an annotation is any expression
        return Untyped(f"its annotation {annotation!r} cannot be resolved ({error})")


def _globals_of(function: Any) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__"):
        function = type(function).__call__  # an object that is called
    names: dict[str, Any] = getattr(function, "__globals__", {})
    return names
