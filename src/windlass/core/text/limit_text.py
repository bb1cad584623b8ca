"""Limits and their matchers in words."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher

from .durations import format_duration


def describe_cap(limit: Limit) -> str:
    if limit.running is not None:
        allowed = f"{limit.running:,} at once"
    else:
        burst = f", burst {limit.burst:,}" if limit.burst else ""
        allowed = f"{limit.rate:,} per {format_duration(limit.per_ms)}{burst}"
    return f"{allowed}, each {limit.key}" if limit.key else allowed


def describe_matcher(matches: Matcher) -> str:
    return " ".join(_describe_conditions(matches)) or "all jobs"


def _describe_conditions(matches: Matcher) -> Iterator[str]:
    for field in ("queue", "name", "lane"):
        wanted = getattr(matches, field)
        if isinstance(wanted, Condition):
            yield from _describe_condition(field, wanted)
        elif wanted:
            yield f"{field}={wanted}"
    for path, value in matches.payload.items():
        if isinstance(value, Condition):
            yield from _describe_condition(path, value)
        else:
            yield f"{path}={_as_json(value)}"
    if matches.not_ is not None:
        yield f"not ({' '.join(_describe_conditions(matches.not_))})"


def _describe_condition(what: str, condition: Condition) -> Iterator[str]:
    if condition.in_:
        yield f"{what} in {_as_json(condition.in_)}"
    for pattern in (condition.glob, f"{condition.prefix}*" if condition.prefix else ""):
        if pattern:
            yield f"{what}~{pattern}"
    for kind, sign in (("gt", ">"), ("gte", ">="), ("lt", "<"), ("lte", "<=")):
        if (bound := getattr(condition, kind)) is not None:
            yield f"{what}{sign}{_as_json(bound)}"
    if condition.exists is not None:
        yield f"{what} {'exists' if condition.exists else 'is absent'}"
    if isinstance(condition.not_, Condition):
        yield f"not ({' '.join(_describe_condition(what, condition.not_))})"
    elif condition.not_ is not UNSET:
        yield f"{what}!={_as_json(condition.not_)}"


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
