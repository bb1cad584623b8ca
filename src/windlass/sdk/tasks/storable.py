"""Types that can be stored: those of msgspec, and a few more that are converted to them and back.

Other types are refused when a task is declared, not when its first job fails. Passing on whatever was decoded would
give a dict to a function that expects an object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from windlass.core.errors import BadInput

INSTEAD = (
    "JSON-like values, bytes, dates and times, UUID, Decimal, Enum, Path, dataclasses, msgspec structs and pydantic "
    "models can be stored"
)
_UNAMBIGUOUS = frozenset({str, bytes, int, float, bool, NoneType})  # MessagePack distinguishes them


def _plain_datetime(value: datetime) -> datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


# msgspec encodes these classes, but not their subclasses, which some libraries return.
_SIMPLIFIERS: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, bytes.__bytes__),
    (datetime, _plain_datetime),
    (date, lambda value: date(value.year, value.month, value.day)),
    (timedelta, lambda value: timedelta(value.days, value.seconds, value.microseconds)),
    (Decimal, Decimal),
    (PurePath, str),
)


def simplify(value: Any) -> object:
    """Convert a value that msgspec does not know to a value that it knows."""
    if is_pydantic_model(type(value)):
        return value.model_dump(by_alias=True, round_trip=True)
    for known, plainer in _SIMPLIFIERS:
        if isinstance(value, known):
            return plainer(value)
    if type(value).__module__.startswith("pydantic") and not hasattr(value, "get_secret_value"):
        return str(value)  # URLs and similar types; a secret as a string would be stars
    raise BadInput(
        f"a value of type {_name(type(value))} cannot be stored; convert it, or pass an id to load it by: {INSTEAD}"
    )


def restore(annotation: Any, value: Any) -> Any:
    """Convert a decoded value to a type that msgspec does not know."""
    origin = get_origin(annotation) or annotation
    if is_pydantic_model(origin):
        return _validate(annotation, value)
    if origin is Iterable:
        return msgspec.convert(value, list[get_args(annotation) or (Any,)], dec_hook=restore)  # type: ignore[misc]
    if origin is not object and issubclass(origin, PurePath):
        return origin(value)
    return value


def _validate(model: Any, value: Any) -> Any:
    try:
        return model.model_validate(value)
    except ValueError as error:
        raise ValueError(_describe_pydantic_error(error)) from error


def _describe_pydantic_error(error: Any) -> str:
    """Format a pydantic error in one line, without URLs."""
    if not hasattr(error, "errors"):
        return str(error)
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(": ".join((*map(str, problem["loc"]), problem["msg"])) for problem in problems)


def is_pydantic_model(cls: Any) -> bool:
    """Report whether the class is a pydantic model.

    Never imports pydantic: as long as it is not loaded, there are no models.
    """
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def is_structured(cls: type) -> bool:
    """Report whether instances have attributes, unlike the dict they would be decoded to."""
    marks = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")
    return any(hasattr(cls, mark) for mark in marks) or is_pydantic_model(cls)


def normalize_annotation(annotation: Any) -> Any:
    """Return the annotation in a form that msgspec accepts.

    msgspec refuses `str | bytes` and similar unions, although MessagePack distinguishes their types. Such values are
    decoded as they are, unchecked.
    """
    if get_origin(annotation) in (Union, UnionType) and _UNAMBIGUOUS.issuperset(get_args(annotation)):
        try:
            inspect.type_info(annotation)
        except TypeError:
            return Any
    return annotation


def refuse_unstorable(annotation: Any) -> None:
    """Raise BadInput for the first type in the annotation that cannot be stored or is ambiguous."""
    try:
        info = inspect.type_info(annotation)
    except Exception as error:  # resolving the annotations of a class can raise anything
        raise BadInput(f"{_name(annotation)} cannot be stored: {error}") from error
    for found in _custom_types(info, set()):
        if not _is_restorable(found):
            raise BadInput(f"{_name(found)} cannot be stored; {INSTEAD}")


def _is_restorable(cls: type) -> bool:
    return cls is object or cls is Iterable or issubclass(cls, PurePath) or is_pydantic_model(cls)


def _custom_types(node: Any, seen: set[int]) -> Iterator[type]:
    if isinstance(node, tuple):
        for part in node:
            yield from _custom_types(part, seen)
    elif isinstance(node, inspect.CustomType):
        yield get_origin(node.cls) or node.cls
    elif isinstance(node, inspect.Type | inspect.Field) and id(node) not in seen:
        seen.add(id(node))  # types can contain themselves
        for name in node.__struct_fields__:
            if name not in ("cls", "default", "default_factory"):
                yield from _custom_types(getattr(node, name), seen)


def _name(annotation: Any) -> str:
    if isinstance(annotation, type) and annotation.__module__ != "builtins":
        return f"{annotation.__module__}.{annotation.__qualname__}"
    return getattr(annotation, "__name__", None) or str(annotation)
