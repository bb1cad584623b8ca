"""What may be asked? Every operation, one short method each, by facet: the table of contents of the product. A method
checks what it is given and returns a question that is awaited, or answered by `.wait()` without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .admin.audit import Auditing
from .admin.doctor import Doctoring
from .admin.export import Transferring
from .admin.maintenance import Upkeep
from .admin.tokens import Trusting
from .aggregations import Aggregating
from .assignments import Assigning
from .bulk_actions import Acting
from .callbacks import Notifying
from .events import FollowingEvents
from .job_admin import Intervening
from .leases import Working
from .limits import Limiting
from .numbers import Numbering
from .push import Dispatching
from .schedules import Scheduling
from .workers import Staffing

__all__ = ["Service"]

_FORMER_NAMES = {
    "conclude": "complete_with_children",
    "draw": "reserve_numbers",
    "exchange": "finish_and_take",
    "hear": "report_worker",
    "members": "list_members",
    "weigh": "set_weights",
}


class Service(
    Acting,
    Working,
    Intervening,
    Transferring,
    Limiting,
    Aggregating,
    Scheduling,
    Staffing,
    Dispatching,
    Assigning,
    Notifying,
    Numbering,
    FollowingEvents,
    Upkeep,
    Doctoring,
    Trusting,
    Auditing,
):
    """All operations of one deployment."""

    if not TYPE_CHECKING:  # type checkers know the new names only

        def __getattr__(self, name: str) -> Any:
            """Resolve former names of operations: programs that call the service may still use them."""
            if name in _FORMER_NAMES:
                return getattr(self, _FORMER_NAMES[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
