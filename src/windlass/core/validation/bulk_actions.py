"""What an action on all that match may ask for."""

from __future__ import annotations

from typing import Any

from windlass.core.bulk_action import STATES, VERBS, Action
from windlass.core.errors import BadInput

from . import jobs as check

ASKED_BY_MAX = 255


def action(wanted: Any) -> None:
    check.instance("An action", wanted, Action)
    if wanted.verb not in VERBS:
        raise BadInput(f"verb must be one of {', '.join(VERBS)}, not {wanted.verb!r}.")
    check.listing(wanted.listing)
    if wanted.listing.cursor:
        raise BadInput("An action is about a list from its beginning; leave the cursor out.")
    states = STATES[wanted.verb]
    if not wanted.listing.tag and wanted.listing.state not in states:
        raise BadInput(f"To {wanted.verb} jobs, the list must be of one of {', '.join(states)}.")
    check.text("reason", wanted.reason, check.REASON_MAX)
    check.text("asked_by", wanted.asked_by, ASKED_BY_MAX, may_be_empty=True)
