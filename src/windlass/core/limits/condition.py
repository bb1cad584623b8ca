"""Conditions on values of a job: equality, lists, patterns, ranges, existence, negation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from windlass.core.text.glob import compile_glob

Scalar = str | int | float | bool | None
ValueTest: TypeAlias = Callable[[Any], bool]
MISSING = object()  # the value of a field that does not exist


class Condition(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,  # an ignored condition would match more jobs
    rename={"in_": "in", "not_": "not"},
):
    """Conditions on one value. All given conditions must hold."""

    in_: tuple[Scalar, ...] = ()
    glob: str = ""
    prefix: str = ""
    gt: int | float | None = None
    gte: int | float | None = None
    lt: int | float | None = None
    lte: int | float | None = None
    exists: bool | None = None
    not_: Scalar | Condition | UnsetType = UNSET


def compile_condition(wanted: Scalar | Condition) -> ValueTest:
    """Return the test of a condition. A plain value is compared for equality."""
    if not isinstance(wanted, Condition):
        return lambda value: is_equal(value, wanted)
    tests = tuple(_tests_of(wanted))
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _tests_of(wanted: Condition) -> Iterator[ValueTest]:
    if wanted.in_:
        yield _in_test(wanted.in_)
    if wanted.glob:
        fits = compile_glob(wanted.glob)
        yield lambda value: isinstance(value, str) and fits(value)
    if wanted.prefix:
        yield lambda value: isinstance(value, str) and value.startswith(wanted.prefix)
    yield from _range_tests(wanted)
    if wanted.exists is not None:
        yield lambda value: (value is not MISSING) == wanted.exists
    if wanted.not_ is not UNSET:
        inner = compile_condition(wanted.not_)
        yield lambda value: not inner(value)


def _in_test(values: Sequence[Scalar]) -> ValueTest:
    known = {(isinstance(value, bool), value) for value in values}
    return lambda value: isinstance(value, Scalar) and (isinstance(value, bool), value) in known


def _range_tests(wanted: Condition) -> Iterator[ValueTest]:
    gt, gte, lt, lte = wanted.gt, wanted.gte, wanted.lt, wanted.lte
    if gt is not None:
        yield lambda value: _is_number(value) and value > gt
    if gte is not None:
        yield lambda value: _is_number(value) and value >= gte
    if lt is not None:
        yield lambda value: _is_number(value) and value < lt
    if lte is not None:
        yield lambda value: _is_number(value) and value <= lte


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_equal(value: Any, wanted: Scalar) -> bool:
    """Return whether two values are equal. True and 1 are different."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def get_field(content: Any, path: str) -> Any:
    """Return the value at a dotted path, or `MISSING`."""
    return follow_path(content, path.split("."))


def follow_path(content: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif isinstance(content, Sequence) and not isinstance(content, str | bytes) and part.isdecimal():
            if int(part) >= len(content):
                return MISSING
            content = content[int(part)]
        else:
            return MISSING
    return content
