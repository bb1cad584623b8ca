"""Checks of limits, pauses and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Cap
from windlass.core.limits.limit import Limit, Matcher

from .bounds import DURATION_MAX, LANE_MAX, NAME_MAX, QUEUE_MAX, UINT32_MAX
from .values import check_boolean, check_free_text, check_instance, check_integer, check_new_name, check_text

LIMIT_NAME_MAX = 128
PATH_MAX = 255
FIELDS_PER_MATCHER = 16
VALUE_MAX = 1024  # bytes of a text that a field is compared with; every producer loads all limits
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WEIGHT_MAX = 100
PAUSE_REASON_MAX = 500
CAP_NOTE_MAX = 4096


def check_pause(queue: Any, lane: Any, name: Any) -> None:
    check_new_name("queue", queue, QUEUE_MAX)
    check_new_name("lane", lane, LANE_MAX, may_be_empty=True)
    check_new_name("name", name, NAME_MAX, may_be_empty=True)
    check_resume(queue, lane, name)


def check_resume(queue: Any, lane: Any, name: Any) -> None:
    check_text("queue", queue, QUEUE_MAX)
    check_text("lane", lane, LANE_MAX, may_be_empty=True)
    check_text("name", name, NAME_MAX, may_be_empty=True)
    if lane and name:
        raise BadInput("Pause a lane or a name, not both at once.")


def check_weights(queue: Any, given: Any) -> None:
    check_instance("weights", given, Mapping)
    (check_new_name if given else check_text)("queue", queue, QUEUE_MAX)
    for lane, weight in given.items():
        check_new_name("lane", lane, LANE_MAX, may_be_empty=True)
        check_integer("a weight", weight, 1, WEIGHT_MAX)


def check_limit(value: Any) -> None:
    check_instance("A limit", value, Limit)
    check_new_name("name", value.name, LIMIT_NAME_MAX)
    check_text("key", value.key, PATH_MAX, may_be_empty=True)
    _check_matcher(value.matches)
    if (value.running is None) == (value.rate is None):
        raise BadInput("A limit has either running (jobs at once) or rate (starts per time).")
    check_boolean("own_caps", value.own_caps)
    if value.own_caps and not (value.key and value.running is not None):
        raise BadInput("own_caps needs running and a key: each key may have its own cap.")
    if value.running is not None:
        check_integer("running", value.running, 0, UINT32_MAX)
        return
    check_integer("rate", value.rate, 1, UINT32_MAX)
    check_integer("per_ms", value.per_ms, 1, DURATION_MAX)
    check_integer("burst", value.burst, 0, UINT32_MAX)


def check_cap(value: Any) -> None:
    check_instance("cap", value, Cap)
    check_text("the limit of a cap", value.limit, LIMIT_NAME_MAX)
    check_integer("running of a cap", value.running, 1, UINT32_MAX)
    check_free_text("note of a cap", value.note, CAP_NOTE_MAX)


def _check_matcher(matches: Any) -> None:
    check_instance("matches", matches, Matcher)
    check_text("queue", matches.queue, QUEUE_MAX, may_be_empty=True)
    check_text("name", matches.name, NAME_MAX, may_be_empty=True)
    check_text("lane", matches.lane, LANE_MAX, may_be_empty=True)
    check_instance("payload", matches.payload, dict)
    if len(matches.payload) > FIELDS_PER_MATCHER:
        raise TooLarge(f"A matcher may name {FIELDS_PER_MATCHER} fields, not {len(matches.payload)}.")
    for path, value in matches.payload.items():
        check_text("the path of a field", path, PATH_MAX)
        _check_compared_value(path, value)


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
