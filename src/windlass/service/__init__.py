"""What may be asked? Every operation, one short method each, by facet: the table of contents of the product. A method
checks what it is given and returns a question that is awaited, or answered by `.wait()` without an event loop."""

from __future__ import annotations

from .acting import Acting
from .aggregating import Aggregating
from .assigning import Assigning
from .auditing import Auditing
from .dispatching import Dispatching
from .doctoring import Doctoring
from .following import FollowingEvents
from .intervening import Intervening
from .limiting import Limiting
from .notifying import Notifying
from .numbering import Numbering
from .scheduling import Scheduling
from .staffing import Staffing
from .transferring import Transferring
from .trusting import Trusting
from .upkeep import Upkeep
from .working import Working

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
