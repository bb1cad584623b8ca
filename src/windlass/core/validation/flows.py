"""Checks of requests about flows."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput
from windlass.core.flow import FLOW_STATES
from windlass.core.ids import id_part

from .bounds import CURSOR_MAX, PAGE_MAX
from .tokens import check_queue_patterns
from .values import check_glob, check_integer, check_text

ALIAS_MAX = 64  # an id with hyphens and marks


def check_flow_listing(state: Any, name: Any, alias: Any, most: Any, cursor: Any, queues: Any) -> None:
    if state != "" and state not in FLOW_STATES:
        raise BadInput(f"state must be one of {', '.join(FLOW_STATES)}, not {state!r}.")
    check_glob(name)
    check_text("alias", alias, ALIAS_MAX, may_be_empty=True)
    if alias and id_part(alias) is None:
        raise BadInput("alias must be the beginning or the end of a flow's id, at least 4 hex digits.")
    check_integer("most", most, 1, PAGE_MAX)
    check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
    check_queue_patterns(queues)
