"""Checks of requests for pages of jobs."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.limits.payload_index import CONDITIONS_MAX, WHERE_MAX, parse_condition
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.text.error_text import SHAPE_MAX

from .bounds import CURSOR_MAX, PAGE_MAX, QUEUE_MAX, SOUGHT_MAX, TAG_MAX
from .values import check_boolean, check_free_text, check_glob, check_instance, check_integer, check_text

STATES = ("queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled")
LISTS = (*STATES, "history")
ALL = "all"  # state of a listing that covers all STATES


def check_listing(request: Listing) -> None:
    check_instance("A request", request, Listing)
    check_text("queue", request.queue, QUEUE_MAX, may_be_empty=True)
    check_text("tag", request.tag, TAG_MAX, may_be_empty=True)
    check_where(request.where)
    is_by_label = bool(request.tag or request.where)
    if not is_by_label and not request.state:
        raise BadInput("A listing needs a state or a tag, or a payload field (where).")
    allowed = tuple(state.label for state in State) if is_by_label else (*LISTS, ALL)
    if request.state != "" and request.state not in allowed:
        raise BadInput(f"state must be one of {', '.join(allowed)}, not {request.state!r}.")
    check_glob(request.name)
    check_text("cursor", request.cursor, CURSOR_MAX, may_be_empty=True)
    check_boolean("newest_first", request.newest_first)
    check_integer("most", request.most, 1, PAGE_MAX)
    check_integer("created_from_ms", request.created_from_ms, 0, INSTANT_MAX)
    check_integer("created_before_ms", request.created_before_ms, 0, INSTANT_MAX)
    check_integer("ended_from_ms", request.ended_from_ms, 0, INSTANT_MAX)
    check_integer("ended_before_ms", request.ended_before_ms, 0, INSTANT_MAX)
    check_text("error", request.error, SOUGHT_MAX, may_be_empty=True)
    if type(request.error_shape) is not str or len(request.error_shape) > SHAPE_MAX:
        raise BadInput(f"error_shape must be text of at most {SHAPE_MAX} characters, as `failures` returns it.")
    check_boolean("with_errors", request.with_errors)
    check_text("text", request.text, SOUGHT_MAX, may_be_empty=True)


def check_where(where: Any) -> None:
    if type(where) is not tuple:
        raise BadInput('where must be a tuple of conditions, as ("order_id=4711",).')
    if len(where) > CONDITIONS_MAX:
        raise TooLarge(f"where may have {CONDITIONS_MAX} conditions, not {len(where)}.")
    for condition in where:
        check_free_text("where", condition, WHERE_MAX)
        parse_condition(condition)


def check_member_listing(states: Any, most: Any, cursor: Any) -> None:
    if type(states) is not tuple or any(not isinstance(state, State) for state in states):
        raise BadInput("states must be a tuple of State.")
    check_integer("most", most, 1, PAGE_MAX)
    check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
