"""Which types can be stored: what msgspec knows, and a few more that are simplified on the way in and restored on the
way out. Anything else is refused when a task is declared, not when its first job fails.

The alternative, to hand over whatever was decoded, would give a dict to a function that was promised an object.
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
_UNAMBIGUOUS = frozenset({str, bytes, int, float, bool, NoneType})  # MessagePack tells them apart by itself


def _plain_datetime(value: datetime) -> datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


# msgspec takes these classes themselves, not their subclasses, which libraries like to hand out.
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
    """A value that msgspec does not know, as one that it knows."""
    if is_pydantic_model(type(value)):
        return value.model_dump(by_alias=True, round_trip=True)
    for known, plainer in _SIMPLIFIERS:
        if isinstance(value, known):
            return plainer(value)
    if type(value).__module__.startswith("pydantic") and not hasattr(value, "get_secret_value"):
        return str(value)  # its URLs and the like; a secret as text would be stars
    raise BadInput(
        f"a value of type {_name(type(value))} cannot be stored; convert it, or pass an id to load it by: {INSTEAD}"
    )


def restore(annotation: Any, value: Any) -> Any:
    """The other way: a value that was read, as the type that msgspec does not know."""
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
    """In one line; pydantic's own text has several, with addresses."""
    if not hasattr(error, "errors"):
        return str(error)
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(": ".join((*map(str, problem["loc"]), problem["msg"])) for problem in problems)


def is_pydantic_model(cls: Any) -> bool:
    """Nothing can be a model before somebody has imported pydantic, so it is never imported here."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def is_structured(cls: type) -> bool:
    """Has attributes that a dict would not have."""
    marks = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")
    return any(hasattr(cls, mark) for mark in marks) or is_pydantic_model(cls)


def normalize_annotation(annotation: Any) -> Any:
    """The annotation as msgspec can read it. `str | bytes` and their like it refuses, though MessagePack has no doubt
    about them; they are read as they come, unchecked."""
    if get_origin(annotation) in (Union, UnionType) and _UNAMBIGUOUS.issuperset(get_args(annotation)):
        try:
            inspect.type_info(annotation)
        except TypeError:
            return Any
    return annotation


def refuse_unstorable(annotation: Any) -> None:
    """A sentence about the first type within that can never be stored, or not told from another."""
    try:
        info = inspect.type_info(annotation)
    except Exception as error:  # resolving what a class says of its fields may raise anything
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
        seen.add(id(node))  # types may contain themselves
        for name in node.__struct_fields__:
            if name not in ("cls", "default", "default_factory"):
                yield from _custom_types(getattr(node, name), seen)


def _name(annotation: Any) -> str:
    if isinstance(annotation, type) and annotation.__module__ != "builtins":
        return f"{annotation.__module__}.{annotation.__qualname__}"
    return getattr(annotation, "__name__", None) or str(annotation)
