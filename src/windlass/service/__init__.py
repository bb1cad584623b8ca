"""What may be asked? Every operation, one short method each, by facet: the table of contents of the product. A method
checks what it is given and returns a question that is awaited, or answered by `.wait()` without an event loop."""

from __future__ import annotations

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
    """Everything, of one deployment."""
