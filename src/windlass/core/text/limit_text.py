"""Limits and their matchers in words."""

from __future__ import annotations

import msgspec

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
    fields = [f"{field}={getattr(matches, field)}" for field in ("queue", "name", "lane") if getattr(matches, field)]
    values = [f"{path}={msgspec.json.encode(value).decode()}" for path, value in matches.payload.items()]
    return " ".join(fields + values) or "all jobs"
