"""Checks of requests about flows."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput
from windlass.core.flow import FLOW_STATES

from .bounds import CURSOR_MAX, PAGE_MAX
from .tokens import check_queue_patterns
from .values import check_glob, check_integer, check_text


def check_flow_listing(state: Any, name: Any, most: Any, cursor: Any, queues: Any) -> None:
    if state != "" and state not in FLOW_STATES:
        raise BadInput(f"state must be one of {', '.join(FLOW_STATES)}, not {state!r}.")
    check_glob(name)
    check_integer("most", most, 1, PAGE_MAX)
    check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
    check_queue_patterns(queues)
