"""What callers may give of limits, pauses and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Cap
from windlass.core.limits.limit import Limit, Matcher

from . import jobs as check

LIMIT_NAME_MAX = 128
PATH_MAX = 255
FIELDS_PER_MATCHER = 16
VALUE_MAX = 1024  # bytes of a text that a field is compared with; every producer knows all limits
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WEIGHT_MAX = 100
PAUSE_REASON_MAX = 500
CAP_NOTE_MAX = 4096


def pausing(queue: Any, lane: Any, name: Any) -> None:
    check.new_name("queue", queue, check.QUEUE_MAX)
    check.new_name("lane", lane, check.LANE_MAX, may_be_empty=True)
    check.new_name("name", name, check.NAME_MAX, may_be_empty=True)
    resuming(queue, lane, name)


def resuming(queue: Any, lane: Any, name: Any) -> None:
    check.text("queue", queue, check.QUEUE_MAX)
    check.text("lane", lane, check.LANE_MAX, may_be_empty=True)
    check.text("name", name, check.NAME_MAX, may_be_empty=True)
    if lane and name:
        raise BadInput("Pause a lane or a name, not both at once.")


def weights(queue: Any, given: Any) -> None:
    check.instance("weights", given, Mapping)
    (check.new_name if given else check.text)("queue", queue, check.QUEUE_MAX)
    for lane, weight in given.items():
        check.new_name("lane", lane, check.LANE_MAX, may_be_empty=True)
        check.whole("a weight", weight, 1, WEIGHT_MAX)


def limit(value: Any) -> None:
    check.instance("A limit", value, Limit)
    check.new_name("name", value.name, LIMIT_NAME_MAX)
    check.text("key", value.key, PATH_MAX, may_be_empty=True)
    _matcher(value.matches)
    if (value.running is None) == (value.rate is None):
        raise BadInput("A limit has either running (jobs at once) or rate (starts per time).")
    check.claim("own_caps", value.own_caps)
    if value.own_caps and not (value.key and value.running is not None):
        raise BadInput("own_caps goes with running and a key: it is a key that has a cap of its own.")
    if value.running is not None:
        check.whole("running", value.running, 0, check.UINT32_MAX)
        return
    check.whole("rate", value.rate, 1, check.UINT32_MAX)
    check.whole("per_ms", value.per_ms, 1, check.DURATION_MAX)
    check.whole("burst", value.burst, 0, check.UINT32_MAX)


def cap(value: Any) -> None:
    check.instance("cap", value, Cap)
    check.text("the limit of a cap", value.limit, LIMIT_NAME_MAX)
    check.whole("running of a cap", value.running, 1, check.UINT32_MAX)
    check.opaque("note of a cap", value.note, CAP_NOTE_MAX)


def _matcher(matches: Any) -> None:
    check.instance("matches", matches, Matcher)
    check.text("queue", matches.queue, check.QUEUE_MAX, may_be_empty=True)
    check.text("name", matches.name, check.NAME_MAX, may_be_empty=True)
    check.text("lane", matches.lane, check.LANE_MAX, may_be_empty=True)
    check.instance("payload", matches.payload, dict)
    if len(matches.payload) > FIELDS_PER_MATCHER:
        raise TooLarge(f"A matcher may name {FIELDS_PER_MATCHER} fields, not {len(matches.payload)}.")
    for path, value in matches.payload.items():
        check.text("the path of a field", path, PATH_MAX)
        _plain_value(path, value)


def _plain_value(path: str, value: Any) -> None:
    if type(value) is str:
        check.opaque(f"the value of {path}", value, VALUE_MAX)
    elif type(value) is int:
        check.whole(f"the value of {path}", value, INT64_MIN, INT64_MAX)
    elif type(value) is float:
        if not math.isfinite(value):
            raise BadInput(f"{path} is compared with {value}, which nothing is equal to in JSON; give a number.")
    elif value is not None and type(value) is not bool:
        raise BadInput(f"{path} is compared with a plain value, not with a {type(value).__name__}.")
