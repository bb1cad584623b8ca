"""Checks of limits, pauses and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.errors import BadInput
from windlass.core.job import Cap
from windlass.core.limits.limit import Limit

from .bounds import DURATION_MAX, LANE_MAX, NAME_MAX, QUEUE_MAX, UINT32_MAX
from .matchers import PATH_MAX, check_matcher
from .values import check_boolean, check_free_text, check_instance, check_integer, check_new_name, check_text

LIMIT_NAME_MAX = 128
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
    check_matcher(value.matches)
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


def check_cap_change(running: Any, note: Any) -> None:
    if running is None and note is None:
        raise BadInput("Give running (jobs at once) or note, or both.")
    if running is not None:
        check_integer("running of a cap", running, 1, UINT32_MAX)
    if note is not None:
        check_free_text("note of a cap", note, CAP_NOTE_MAX)
