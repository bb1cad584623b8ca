"""Checks of bulk actions."""

from __future__ import annotations

from typing import Any

from windlass.core.bulk_action import STATES, VERBS, Action
from windlass.core.errors import BadInput

from .bounds import REASON_MAX
from .listings import check_listing
from .values import check_instance, check_text

ASKED_BY_MAX = 255


def check_action(wanted: Any) -> None:
    check_instance("An action", wanted, Action)
    if wanted.verb not in VERBS:
        raise BadInput(f"verb must be one of {', '.join(VERBS)}, not {wanted.verb!r}.")
    check_listing(wanted.listing)
    if wanted.listing.cursor:
        raise BadInput("An action applies to the whole listing; leave the cursor out.")
    if wanted.listing.text:
        raise BadInput("An action cannot select jobs by a text in their payloads; leave text out.")
    states = STATES[wanted.verb]
    if not (wanted.listing.tag or wanted.listing.where) and wanted.listing.state not in states:
        raise BadInput(f"To {wanted.verb} jobs, the state of the listing must be one of {', '.join(states)}.")
    check_text("reason", wanted.reason, REASON_MAX)
    check_text("asked_by", wanted.asked_by, ASKED_BY_MAX, may_be_empty=True)
