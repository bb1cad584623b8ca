"""Checks of matchers and their conditions. Every producer loads all limits and tests jobs against them, so number,
depth and size are bounded."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec import UNSET

from windlass.core.errors import BadInput, TooLarge
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Matcher

from .bounds import LANE_MAX, NAME_MAX, QUEUE_MAX
from .values import check_boolean, check_free_text, check_glob, check_instance, check_integer, check_text

PATH_MAX = 255
FIELDS_PER_MATCHER = 16
VALUE_MAX = 1024  # bytes of a text that a field is compared with
IN_MAX = 100  # values of one `in`
NOT_MAX = 4  # levels of `not`
CONDITIONS_MAX = 32  # of a matcher with all that it contains
MATCHER_MAX = 32 * 1024  # bytes as stored
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_RANGE = ("gt", "gte", "lt", "lte")
_OF_PAYLOADS = ("exists", *_RANGE)  # a name, queue or lane always exists and is text


def check_matcher(matches: Any) -> None:
    count = _check_matcher(matches, 0)
    if count > CONDITIONS_MAX:
        raise BadInput(f"A matcher may have {CONDITIONS_MAX} conditions, not {count}.")
    size = len(msgspec.msgpack.encode(matches))
    if size > MATCHER_MAX:
        raise TooLarge(f"A matcher may have {MATCHER_MAX} bytes, not {size}; shorten its values.")


def _check_matcher(matches: Any, depth: int) -> int:
    """Check a matcher. Return how many conditions it has."""
    check_instance("matches", matches, Matcher)
    check_instance("payload", matches.payload, dict)
    if len(matches.payload) > FIELDS_PER_MATCHER:
        raise TooLarge(f"A matcher may name {FIELDS_PER_MATCHER} fields, not {len(matches.payload)}.")
    count = sum(
        _check_place(what, value, most, depth)
        for what, value, most in (
            ("queue", matches.queue, QUEUE_MAX),
            ("name", matches.name, NAME_MAX),
            ("lane", matches.lane, LANE_MAX),
        )
    )
    for path, value in matches.payload.items():
        check_text("the path of a field", path, PATH_MAX)
        count += _check_field(path, value, depth)
    if matches.not_ is not None:
        inner = _check_matcher(matches.not_, _deeper(depth))
        if not inner:
            raise BadInput("The matcher in not needs a condition: without one it matches every job.")
        count += inner
    return count


def _deeper(depth: int) -> int:
    if depth == NOT_MAX:
        raise BadInput(f"A matcher may have {NOT_MAX} levels of not, no more.")
    return depth + 1


def _check_place(what: str, value: Any, most: int, depth: int) -> int:
    """Check the condition on a queue, name or lane. Empty text is no condition."""
    if not isinstance(value, Condition):
        check_text(what, value, most, may_be_empty=True)
        return int(value != "")
    for kind in _OF_PAYLOADS:
        if getattr(value, kind) is not None:
            raise BadInput(f"{kind} is a condition on fields, not on the {what}.")
    _check_list(what, value.in_)
    for text in value.in_:
        check_text(f"a value of in for the {what}", text, most, may_be_empty=what == "lane")
    if value.not_ is UNSET or isinstance(value.not_, Condition):
        inner = 0 if value.not_ is UNSET else _check_place(what, value.not_, most, _deeper(depth))
    else:
        check_text(f"not of the {what}", value.not_, most)
        inner = 1
    return _check_condition(what, value) + inner


def _check_field(path: str, value: Any, depth: int) -> int:
    if not isinstance(value, Condition):
        _check_compared_value(path, value)
        return 1
    _check_list(path, value.in_)
    for scalar in value.in_:
        _check_compared_value(path, scalar)
    inner = 0 if value.not_ is UNSET else _check_field(path, value.not_, _deeper(depth))
    return _check_condition(path, value) + inner


def _check_list(what: str, values: Any) -> None:
    check_instance(f"in of {what}", values, tuple)
    if len(values) > IN_MAX:
        raise BadInput(f"in of {what} may have {IN_MAX} values, not {len(values)}.")


def _check_condition(what: str, value: Condition) -> int:
    """Check a condition without `in` and `not`. Return how many conditions it has, `not` aside."""
    check_glob(value.glob)
    check_free_text(f"prefix of {what}", value.prefix, VALUE_MAX)
    bounds = [(kind, bound) for kind in _RANGE if (bound := getattr(value, kind)) is not None]
    for kind, bound in bounds:
        _check_bound(f"{kind} of {what}", bound)
    if value.exists is not None:
        check_boolean(f"exists of {what}", value.exists)
    count = bool(value.in_) + bool(value.glob) + bool(value.prefix) + len(bounds) + (value.exists is not None)
    if not count and value.not_ is UNSET:
        raise BadInput(f"The condition on {what} is empty; give in, glob, prefix, gt, gte, lt, lte, exists or not.")
    return count


def _check_bound(what: str, value: Any) -> None:
    if type(value) is int:
        check_integer(what, value, INT64_MIN, INT64_MAX)
    elif type(value) is not float or not math.isfinite(value):
        raise BadInput(f"{what} must be a finite number, not {value!r}.")


def _check_compared_value(path: str, value: Any) -> None:
    if type(value) is str:
        check_free_text(f"the value of {path}", value, VALUE_MAX)
    elif type(value) is int:
        check_integer(f"the value of {path}", value, INT64_MIN, INT64_MAX)
    elif type(value) is float:
        if not math.isfinite(value):
            raise BadInput(f"{path} is compared with {value}, which JSON cannot represent; give a finite number.")
    elif value is not None and type(value) is not bool:
        raise BadInput(f"{path} must be compared with text, a number, a boolean or None, not {type(value).__name__}.")
