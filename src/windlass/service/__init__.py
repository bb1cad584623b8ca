"""Service: every operation of Windlass as one short method, grouped by facet.

A method checks its arguments and returns an operation. Await the operation, or call its `.wait()` where there is no
event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .admin.audit import AuditOperations
from .admin.doctor import DoctorOperations
from .admin.export import ExportOperations
from .admin.filters import FilterOperations
from .admin.maintenance import MaintenanceOperations
from .admin.signal_links import SignalLinkOperations
from .admin.tokens import TokenOperations
from .aggregations import AggregationOperations
from .alerts.operations import AlertOperations
from .aliases.lookup import AliasOperations
from .aliases.numbers import NumberOperations
from .assignments import AssignmentOperations
from .bulk_actions import BulkActionOperations
from .callbacks import CallbackOperations
from .events import EventOperations
from .flows import FlowOperations
from .job_admin import JobAdminOperations
from .leases import LeaseOperations
from .limits import LimitOperations
from .push import PushOperations
from .schedules import ScheduleOperations
from .streams.operations import StreamOperations
from .tasks.operations import TaskOperations
from .workers import WorkerOperations

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
    BulkActionOperations,
    AliasOperations,
    FlowOperations,
    LeaseOperations,
    StreamOperations,
    JobAdminOperations,
    ExportOperations,
    LimitOperations,
    AggregationOperations,
    ScheduleOperations,
    TaskOperations,
    WorkerOperations,
    PushOperations,
    AssignmentOperations,
    CallbackOperations,
    AlertOperations,
    NumberOperations,
    EventOperations,
    MaintenanceOperations,
    DoctorOperations,
    SignalLinkOperations,
    TokenOperations,
    AuditOperations,
    FilterOperations,
):
    """All operations of one deployment."""

    if not TYPE_CHECKING:  # type checkers know the new names only

        def __getattr__(self, name: str) -> Any:
            """Resolve former names of operations: programs that call the service may still use them."""
            if name in _FORMER_NAMES:
                return getattr(self, _FORMER_NAMES[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
