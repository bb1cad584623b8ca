"""Words for settings: the values that a setting may have, and variables that look like settings and are none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from .core.text.durations import format_duration
from .core.text.similar_names import suggest_name

PREFIX = "WINDLASS_"
SHOWN_MAX = 60  # characters of a wrong value
UNBOUNDED = 2**53  # a bound that no person reaches
# Variables that are no settings: of workers' own processes, and of the tests and tools of the project.
OTHER_VARIABLES = frozenset({"WINDLASS_OVERRIDE", "WINDLASS_DEEP", "WINDLASS_MUTANT"})
# Kubernetes sets WINDLASS_SERVICE_HOST, WINDLASS_PORT_8080_TCP and others in the pods beside a service `windlass`.
_OTHER_PREFIXES = re.compile("WINDLASS_(?:TEST_.*|SERVICE_(?:HOST|PORT)(?:_.*)?|PORT_[0-9]+_.*)")
_BOOLEAN = "yes or no (also 1, true, on and 0, false, off)"
# For settings whose values need an explanation.
_EXPLAINED = {
    "durability": "memory, fsync or replica",
    "engine_durability": "auto, to read it from the engine's settings, or managed, if the service makes each write "
    "durable in a way that the engine cannot show",
}


def describe_values(name: str, kind: inspect.Type, *, may_be_off: bool, is_duration: bool) -> str:
    """Describe the values of a setting by its type; empty if the type does not say more than "text"."""
    if name in _EXPLAINED:
        return _EXPLAINED[name]
    kinds = list(kind.types) if isinstance(kind, inspect.UnionType) else [kind]
    off = " or off" if may_be_off else ""
    for one in kinds:
        if isinstance(one, inspect.LiteralType):
            return _list(tuple(map(str, one.values)))
        if isinstance(one, inspect.BoolType):
            return _BOOLEAN
        if isinstance(one, inspect.IntType):
            return (_describe_duration if is_duration else _describe_integer)(one) + off
    return ""


def _describe_integer(kind: inspect.IntType) -> str:
    if kind.ge is not None and kind.le is not None and kind.le < UNBOUNDED:
        return f"a whole number from {kind.ge} to {kind.le}"
    return "a whole number" if kind.ge is None else f"a whole number of at least {kind.ge}"


def _describe_duration(kind: inspect.IntType) -> str:
    return "a duration such as 200ms, 30s or 10m" + (f", at most {format_duration(kind.le)}" if kind.le else "")


def _list(values: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


def describe_wrong_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def setting_kinds(settings: type[msgspec.Struct]) -> Mapping[str, inspect.Type]:
    """Return the type of each field."""
    found = inspect.type_info(settings)
    assert isinstance(found, inspect.StructType)  # noqa: S101
    return {field.name: _without_metadata(field.type) for field in found.fields}


def _without_metadata(kind: inspect.Type) -> inspect.Type:
    return _without_metadata(kind.type) if isinstance(kind, inspect.Metadata) else kind


def find_unknown_variables(environment: Collection[str], settings: Collection[str]) -> Iterator[str]:
    """Yield a sentence about each variable that begins as a setting and is none."""
    known = {f"{PREFIX}{name.upper()}" for name in settings}
    for variable in sorted(environment):
        if (
            not variable.startswith(PREFIX)
            or variable in known | OTHER_VARIABLES
            or _OTHER_PREFIXES.fullmatch(variable)
        ):
            continue
        suggestion = suggest_name(variable.removeprefix(PREFIX).lower(), settings)
        hint = (
            f"; did you mean {PREFIX}{suggestion.upper()}?" if suggestion else ". `windlass config` shows the settings."
        )
        yield f"{variable} is not a setting{hint}"
