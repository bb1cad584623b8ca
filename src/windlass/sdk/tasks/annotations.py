"""Resolution of a function's annotations at run time.

Each annotation is resolved on its own, so that a name imported only for type checkers does not cost other parameters
their types.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec


class Untyped(msgspec.Struct, frozen=True):
    """Parameter without a known type, and the reason."""

    why: str


def resolve_annotation(function: Callable[..., Any], annotation: Any, scope: Mapping[str, Any]) -> Any:
    """Return the annotation's type, or Untyped.

    `scope` has names beyond the function's module, such as those of the function in which it was declared.
    """
    if annotation is inspect.Parameter.empty:
        return Untyped("the parameter has no annotation")
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, _globals_of(function), dict(scope), include_extras=True)["it"]
    except Exception as error:  # an annotation can be any expression and raise anything
        return Untyped(f"the annotation {annotation!r} cannot be resolved ({error})")


def _globals_of(function: Any) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__"):
        function = type(function).__call__  # a callable object
    names: dict[str, Any] = getattr(function, "__globals__", {})
    return names
